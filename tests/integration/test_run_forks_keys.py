"""A call that another task of the family has in doubt: by the key of a tool that honours keys, and the time that counts of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_forks import at_of, forked
from test_run_recovery import READS

from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.testing import virtual_time

ONCE: dict[str, Any] = {
    "effect": "once",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
PAYS = plan(step("a", "pay", parameters={"to": "ann"}), step("z", "ship", "a", parameters={"to": "ann"}))


class World:
    """What was paid and shipped; the answer of the first payment is never heard."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.shipped: list[str] = []

    def _pay(self, parameters: Any) -> str:
        return f"paid {parameters['to']}"

    def tools(self) -> dict[str, Any]:
        return {
            "pay": FakeTool(output=self._pay, delay_secs=60, **ONCE),
            "ship": FakeTool(output=lambda one: self.shipped.append(one["to"]) or "gone", **ONCE),
            "seen": FakeTool(output=lambda _: [{"key": key} for key in self.paid], **READS),
        }


async def cut_off(made: Bench) -> str:
    """The task, whose payment is under way as its process ends."""
    task_id = await made.submit(PAYS)
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(4)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    return task_id


async def fork_of(made: Bench, task_id: str, *, at: str = "", **wanted: Any) -> Ran:
    if at:
        wanted["at"] = at_of(await made.ran(task_id), at)
    return await made.drive(await forked(made, task_id, **wanted))


@pytest.mark.parametrize("at", ["", "plan_generated"])
@pytest.mark.parametrize("honours_key", [True, False])
def test_a_fork_makes_a_call_in_doubt_again_with_its_key_where_the_tool_honours_it(
    *, at: str, honours_key: bool
) -> None:
    async def main() -> tuple[World, Bench, Ran, Ran]:
        world = World()
        rules = ToolRules(rules=(("pay", ToolRule(honours_key=honours_key)),))
        made = await bench(world.tools(), rules=rules)
        task_id = await cut_off(made)
        fork = await fork_of(made, task_id, at=at)
        return world, made, fork, await made.drive(task_id)

    world, made, fork, first = virtual_time(main())
    tried = [one.key for one in made.source.calls if one.tool_id == "pay"]
    assert len(set(tried)) == 1, "another key would be another payment"
    if honours_key:
        assert fork.result.is_success, fork.result.reason
        assert first.result.is_success, first.result.reason
        assert len(tried) == 2, "the first task has what the fork's call gave"
        assert world.shipped == ["ann"]
    else:
        assert (fork.result.failure and fork.result.failure.kind) == "outcome_unknown"
        assert len(tried) == 1
        assert not world.shipped


def test_a_call_counts_from_when_it_was_made_not_from_when_that_was_found_out() -> None:
    """The first task finds out about its payment after a fork has, and has shipped: a second fork has both."""

    async def main() -> tuple[World, list[Ran]]:
        world = World()
        looks = Verifier(tool="seen", happened="output[?key == call.key]", after_secs=1)
        made = await bench(world.tools(), rules=ToolRules(rules=(("pay", ToolRule(verify=looks)),)))
        task_id = await cut_off(made)
        world.paid = [one.key for one in made.source.calls if one.tool_id == "pay"]
        fork = await fork_of(made, task_id, at="plan_generated")
        first = await made.drive(task_id)
        return world, [fork, first, await fork_of(made, task_id, at="plan_generated")]

    world, ran = virtual_time(main())
    for one in ran:
        assert one.result.is_success, one.result.reason
    assert world.shipped == ["ann"]
    assert len(world.paid) == 1


@pytest.mark.parametrize("at", ["call_started", "call_completed", "step_completed"])
@pytest.mark.parametrize("effect", ["once", "repeatable"])
@pytest.mark.parametrize("waits", [False, True], ids=["beside", "before"])
def test_what_had_ended_beside_a_call_that_was_under_way_does_not_stand_before_it(
    effect: str, at: str, *, waits: bool
) -> None:
    """The very plan over again: it goes on. One that lets the call wait for what had ended after it was begun does not."""

    async def main() -> tuple[Ran, Ran]:
        made = await bench(
            {"pay": FakeTool(delay_secs=60, **ONCE), "note": FakeTool(effect=effect, delay_secs=1)},
            rules=ToolRules(rules=(("pay", ToolRule(honours_key=True)),)),
        )
        both = [step("a", "pay", parameters={"to": "ann"}), step("n", "note")]
        ran = (await made.run(plan(*both))).check()
        if waits:
            both[0]["dependencies"] = ["n"]
        place = at_of(ran, at, step_id="n")
        return ran, (
            await made.drive(await forked(made, ran.result.task_id, at=place, plan=plan(*both)))
        ).check()

    ran, fork = virtual_time(main())
    assert ran.result.is_success
    assert fork.source.counts["pay"] == 1
    if waits:
        assert "which this step waits for" in fork.result.reason
    else:
        assert fork.result.is_success, fork.result.reason
