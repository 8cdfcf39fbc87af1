"""A log of an older release has secrets in clear that are known by now: whoever reads it is shown none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.core.events import read
from replan.core.secrets import MASK
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

KEY = "Zq7-Kx9_pLm3Rt8v"


@tool(effect="reads")
def look(word: str, size: int = 0) -> dict[str, Any]:
    """Look something up."""
    return {"echo": f"with {word}", "large": f"{'x' * size}{word}"}


async def older_log(path: Path, name: str, size: int) -> str:
    """A task whose log has everything in clear: as it was made under a harmless name, with the name put in."""
    async with Replan(tools=[look], db=path / "new.db", evaluation="steps") as replan:
        step = {"step_id": "a", "tool": "look", "parameters": {"word": "${metadata.harmless}", "size": size}}
        made = await replan.run("Look.", plan={"steps": [step]}, metadata={"harmless": "K-E-Y"})
        records = await replan.history(made.task_id)
    store = SqliteStore(path / "old.db")
    events = [
        read(
            record.type,
            json.loads(json.dumps(record.wire()["data"]).replace("harmless", name).replace("K-E-Y", KEY)),
        )
        for record in records
    ]
    await store.create("t", events[0], 1.0)
    claim = await store.claim("t")
    await store.append(claim, events[1:], ts=2.0, round=1)
    await store.release(claim)
    await store.aclose()
    return "t"


@pytest.mark.parametrize(("name", "size"), [("api_key", 0), ("githubToken", 0), ("db_password", 20)])
async def test_what_an_older_log_has_in_clear_is_masked_where_it_is_shown(
    tmp_path: Path, name: str, size: int
) -> None:
    task = await older_log(tmp_path, name, size)
    async with Replan(db=tmp_path / "old.db", evaluation="steps") as replan:
        result = await replan.result(task)
        history = await replan.history(task)
        output = await replan.output(task, "a")
        watched = [record async for record in replan.watch(task)]
    shown = [result.model_dump_json(), json.dumps([one.wire() for one in history]), json.dumps(output)]
    shown.append(json.dumps([one.wire() for one in watched]))
    assert len(watched) == len(history)
    for text in shown:
        assert KEY not in text
        assert MASK in text
    assert result.is_success


async def test_what_only_sounds_like_a_secret_is_shown_as_it_is(tmp_path: Path) -> None:
    task = await older_log(tmp_path, "page_token", 0)
    async with Replan(db=tmp_path / "old.db", evaluation="steps") as replan:
        assert KEY in json.dumps([one.wire() for one in await replan.history(task)])
        assert await replan.output(task, "a") == {"echo": f"with {KEY}", "large": KEY}
