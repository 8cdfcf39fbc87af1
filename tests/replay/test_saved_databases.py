"""Databases of earlier releases open, fold, and their tasks go on from where they were cut off to the same outcome.

`old_tasks.py` wrote them with the release whose number stands in the name: before repairs, before tools from elsewhere, and
before events lay together in rows.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from old_tasks import TASKS, World

from replan.core.events import CallCompleted, TaskCompleted
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.store import schema
from replan.store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

RELEASES = (1, 2, 3)
SAVED = [(release, name) for release in RELEASES for name in TASKS if TASKS[name].since <= release]
SENT = {"c": "send T1", "d": "send T2"}
ADA = "Ada Byron has ticket T7"
OUTCOMES: dict[str, tuple[str, Any, str | None]] = {
    "done": ("succeeded", SENT, None),
    "cut": ("succeeded", SENT, None),
    "doubt": ("failed", None, "outcome_unknown"),
    "items": ("failed", None, "outcome_unknown"),
    "report": ("succeeded", 2400, None),
    "report-cut": ("succeeded", 2400, None),
    "failed": ("failed", None, "step"),
    "asked": ("succeeded", {"seat": 3, "ticket": "T3"}, None),
    "mended": ("succeeded", ADA, None),
    "mended-cut": ("succeeded", ADA, None),
    "reflecting": ("succeeded", ADA, None),
}
"""Status, final output, and the kind of failure: of a task that was cut off, once it has gone on."""
EFFECTS = {
    "cut": {"send T1", "send T2"},
    "asked": {"book 3"},
    "mended-cut": {"send T7"},
    "reflecting": {"send T7"},
}
"""What going on may do to the world: what may be repeated, or was not begun. Of the others: nothing."""


def saved(release: int, folder: Path) -> Path:
    path = folder / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(Path(__file__).with_name(f"part{release}.sql").read_text("utf-8"))
    return path


@pytest.mark.parametrize(("release", "name"), SAVED)
async def test_a_saved_task_comes_to_its_outcome_and_repeats_no_effect(
    release: int, name: str, tmp_path: Path
) -> None:
    task, world, db = TASKS[name], World(), saved(release, tmp_path)
    async with task.replan(world, db) as replan:
        before = await replan.history(name)
        if task.asks:
            asked = next(one.event for one in before if one.event.type == "approval_requested")
            await replan.approve(name, asked.approval_id)
        result = await (replan.resume(name) if task.deadly or task.asks else replan.wait(name))
        after = await replan.history(name)

    failure = result.failure.kind if result.failure else None
    assert (result.status, result.final_output, failure) == OUTCOMES[name]
    assert after[: len(before)] == before
    assert {what for what in world.done if what.startswith(("book", "send"))} == EFFECTS.get(name, set())
    assert len(world.done) == len(set(world.done)), "nothing is done twice on the way"


def _effects(state: State) -> list[tuple[str, str]]:
    return sorted(
        (call.step_id, call.output.value["ticket"]) for call in state.took_effect.values() if call.output
    )


@pytest.mark.parametrize("release", RELEASES)
async def test_what_a_cut_off_task_has_done_stays_as_it_was_recorded(release: int, tmp_path: Path) -> None:
    async with contextlib.aclosing(SqliteStore(saved(release, tmp_path))) as store:
        done, cut = fold(await store.read("done")), fold(await store.read("cut"))
    assert done.status == "succeeded"
    assert cut.status == "executing"
    assert [step.step for step in cut.steps.values()] == [step.step for step in done.steps.values()]
    assert _effects(cut) == _effects(done) == [("a", "T1"), ("b", "T2")]


@pytest.mark.parametrize("release", RELEASES)
async def test_a_saved_log_reads_as_it_was_and_goes_on_without_a_gap(release: int, tmp_path: Path) -> None:
    database = saved(release, tmp_path)
    with contextlib.closing(sqlite3.connect(database)) as db:
        first = "SELECT seq, type FROM event WHERE task = (SELECT id FROM task WHERE task_id = 'done') ORDER BY seq"
        before = db.execute(first).fetchall()
    async with contextlib.aclosing(SqliteStore(database)) as store:
        done, cut = await store.read("done"), await store.read("cut")
        assert [(one.seq, one.type) for one in done] == before
        summary = await store.summary("done")
        assert (summary.status, summary.last_seq, summary.updated) == ("succeeded", len(done), done[-1].ts)
        claim = await store.claim("cut")
        more = (CallCompleted(call_key="k.1", step_id="d", tool_id="send", output=1), TaskCompleted())
        assert await store.append(claim, more, ts=9.0, round=1) == (len(cut) + 1, len(cut) + 2)
        assert [one.seq for one in await store.read("cut")] == list(range(1, len(cut) + 3))
        assert (await store.summary("cut")).status == "succeeded"


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_database_and_a_new_one_have_the_same_tables(release: int, tmp_path: Path) -> None:
    def tables(path: Path) -> list[Any]:
        with contextlib.closing(schema.connect(path)) as db:
            schema.prepare(db, path)
            kinds = db.execute(
                "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"
            ).fetchall()
            columns = [
                (name, [row[1:4] for row in db.execute(f"PRAGMA table_info({name})")]) for _, name in kinds
            ]
            return sorted([*kinds, *columns])

    assert tables(saved(release, tmp_path)) == tables(tmp_path / "new.db")
