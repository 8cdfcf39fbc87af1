"""What a drive, a watch and a preview do at their edges: cut off while a log is folded, taken up late, without a log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from run_tasks import FakeTool, bench, plan, step, verdict

from replan import Replan, tool
from replan.core.data.pieces import MANY
from replan.core.events import CancelRequested, PlanRejected, Record, TaskStarted, TaskSubmitted
from replan.core.limits.policy import Policy
from replan.testing import MemoryStore, ScriptedModel, virtual_time

pytestmark = pytest.mark.anyio


class Breaking(MemoryStore):
    """A store whose logs cannot be read at times."""

    error: BaseException | None = None

    async def read(self, *args: Any, **more: Any) -> list[Record]:
        if self.error is not None:
            raise self.error
        return await super().read(*args, **more)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("cannot be folded")])
def test_a_task_is_given_back_whatever_happens_as_its_log_is_read(error: BaseException) -> None:
    async def main() -> None:
        store = Breaking()
        b = await bench({"look": FakeTool()}, store=store)
        task_id = await b.submit(plan(step("a", "look")))
        store.error = error
        with pytest.raises(type(error)):
            await b.service.drive(task_id)
        store.error = None
        assert not (await store.summary(task_id)).held
        assert (await b.drive(task_id)).result.is_success

    virtual_time(main())


async def test_a_drive_that_is_cut_off_as_a_large_log_is_folded_gives_the_task_back(tmp_path: Path) -> None:
    @tool(effect="reads")
    def look() -> str:
        """Look."""
        return "seen"

    async with Replan(tools=[look], db=tmp_path / "log.db", evaluation="steps") as replan:
        store = replan.service.parts.store
        await store.create("t", _submitted(), 0.0)
        for at in range(2 * MANY):
            await store.signal("t", CancelRequested(reason=f"{at}", until_resumed=True), float(at))
        for turns in range(12):
            driving = asyncio.ensure_future(replan.service.drive("t"))
            for _ in range(turns):
                await asyncio.sleep(0)
            driving.cancel()
            await asyncio.wait([driving])
            assert not (await replan.summary("t")).held


def _submitted(**more: Any) -> TaskSubmitted:
    return TaskSubmitted(
        description="d", policy=Policy(evaluation="steps"), plan=plan(step("a", "look")), **more
    )


@pytest.mark.parametrize("after", [0, 1, 2])
async def test_what_an_old_log_has_in_clear_is_masked_wherever_a_watch_begins(
    tmp_path: Path, after: int
) -> None:
    async with Replan(db=tmp_path / "log.db", evaluation="steps") as replan:
        store = replan.service.parts.store
        await store.create("t", _submitted(metadata={"api_key": "hunter2-secret"}), 0.0)
        claim = await store.claim("t")
        said = PlanRejected(violations=("the key hunter2-secret is no number",))
        await store.append(claim, [TaskStarted(driver="old"), said], ts=1.0, round=1)
        await store.release(claim)
        await replan.cancel("t")
        seen = [one.event.violations async for one in replan.watch("t", after) if one.type == "plan_rejected"]
    assert seen == [("the key *** is no number",)]


async def test_a_preview_takes_metadata_for_secret_where_its_plan_does(tmp_path: Path) -> None:
    @tool(effect="once")
    def login(token: SecretStr) -> str:
        """Log in."""
        return "in"

    wanted = plan(step("a", "login", parameters={"token": "${metadata.ticket}"}))
    model = ScriptedModel({"execution_plan": wanted, "evaluation": verdict()})
    async with Replan(model, [login], db=tmp_path / "log.db") as replan:
        found = await replan.plan("log in", metadata={"ticket": "T-9876543210"})
    assert found.steps[0].parameters == {"token": "${metadata.ticket}"}


def test_steps_that_fail_above_one_chain_are_each_gone_through_once() -> None:
    many = 400
    above = [step(f"f{at}", "fail", parameters={"n": at}) for at in range(many)]
    chain = [
        step(f"c{at}", "look", f"f{at}", *([f"c{at - 1}"] if at else []), parameters={"n": at})
        for at in range(many)
    ]

    async def main() -> None:
        tools = {"fail": FakeTool(fail=["no"] * many), "look": FakeTool()}
        b = await bench(tools)
        ran = await b.run(plan(*above, *chain), parallel_max_concurrent=1)
        skipped = ran.events("step_skipped")
        assert sorted(one.step_id for one in skipped) == sorted(one["step_id"] for one in chain)
        assert {one.because for one in skipped} == {"f0"}

    virtual_time(main())
