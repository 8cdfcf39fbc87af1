"""What a fork takes from another task of its family, read from the logs of each store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, TaskResult, tool


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_forks_of_forks_never_take_an_older_effect_for_a_newer_one(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    world = {"draft": "", "site": ""}
    published = []

    @tool
    def write(text: str) -> str:
        """Write the draft."""
        world["draft"] = text
        return text

    @tool
    def publish(to: str) -> str:
        """Publish the draft."""
        published.append(world["draft"])
        world[to] = world["draft"]
        return world[to]

    def chain(text: str, **marks: Any) -> dict[str, Any]:
        last = {"step_id": "p", "tool": "publish", "parameters": {"to": "site"}, "dependencies": ["w"]}
        return {"steps": [{"step_id": "w", "tool": "write", "parameters": {"text": text}}, {**last, **marks}]}

    db: Any = tmp_path / "replan.db" if kind == "sqlite" else str(request.getfixturevalue("postgres_schema"))

    async def main() -> None:
        async with Replan(db=db, tools=[write, publish], evaluation="steps") as replan:

            async def fork(of: str, **wanted: Any) -> TaskResult:
                return await replan.wait(await replan.fork(of, **wanted))

            first = await replan.run("publish", plan=chain("one"))
            start = next(
                one.seq for one in await replan.history(first.task_id) if one.type == "plan_generated"
            )
            assert (await fork(first.task_id, at=start)).output == "one"
            stale = await fork(first.task_id, at=start - 1, plan=chain("two"))
            assert stale.status == "failed"
            assert "before step 'w' (write), which this step waits for" in (stale.reason or "")
            meant = chain("two", repeat=True, repeat_reason="the site shows the older one")
            third = await fork(stale.task_id, at=start - 1, plan=meant)
            assert third.output == world["site"] == "two"
            again = await fork(third.task_id, at=start - 1)
            assert again.status == "failed", "the first plan's text is not there any more"

    asyncio.run(main())
    assert published == ["one", "two"]
