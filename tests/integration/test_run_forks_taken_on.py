"""A fork with a plan of its own over a call that was cut off: the step that states it goes on with it, as after a restart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step
from test_run_forks import at_of, forked
from test_run_recovery import READS

from replan.core.limits.policy import Policy
from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.testing import virtual_time

ONCE: dict[str, Any] = {
    "effect": "once",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
ANN = {"to": "ann"}
PAYS = plan(step("a", "pay", parameters=ANN), step("z", "ship", "a", parameters=ANN))


class World:
    """What was paid and shipped. The first payment takes its time, and its process ends in it: before, or after it has taken effect."""

    def __init__(self, *, before: bool = False) -> None:
        self.paid: list[str] = []
        self.shipped: list[str] = []
        self.before = before
        self.keys: list[str] = []

    def rules(self, **more: Any) -> ToolRules:
        looks = Verifier(tool="seen", happened="output[?key == call.key]", after_secs=5)
        return ToolRules(rules=(("pay", ToolRule(**({"verify": looks} | more))),))

    def tools(self) -> dict[str, Any]:
        return {
            "pay": FakeTool(output=lambda one: self.paid.append(one["to"]) or "paid", delay_secs=60, **ONCE),
            "ship": FakeTool(output=lambda one: self.shipped.append(one["to"]) or "gone", **ONCE),
            "seen": FakeTool(output=lambda _: [{"key": key} for key in self.keys], **READS),
        }


async def cut_off(made: Bench, world: World, wanted: Any = PAYS) -> str:
    """The task, whose payment is under way as its process ends."""
    task_id = await made.submit(wanted)
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(4)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    if not world.before:
        made_ = [one for one in made.source.calls if one.tool_id == "pay"]
        world.paid += [one.parameters["to"] for one in made_]
        world.keys += [one.key for one in made_]
    return task_id


WORDED = {
    "the very plan": PAYS,
    "another step": plan(step("a2", "pay", parameters=ANN), step("z", "ship", "a2", parameters=ANN)),
    "a step more": plan(*PAYS["steps"], step("n", "ship", parameters={"to": "eva"})),
    "a list": plan(
        step("a", "pay", for_each=["ann"], parameters={"to": "${item}"}),
        step("z", "ship", "a", parameters=ANN),
    ),
    "actions": plan(step("a", actions=[action("x", "pay", **ANN), action("y", "ship", to="eva")])),
}


@pytest.mark.parametrize("before", [True, False], ids=["not paid", "paid"])
@pytest.mark.parametrize("worded", WORDED)
def test_the_declared_verifier_is_asked_whatever_step_states_the_call(worded: str, *, before: bool) -> None:
    async def main() -> tuple[World, Bench, Ran, Ran]:
        world = World(before=before)
        made = await bench(world.tools(), rules=world.rules())
        task_id = await cut_off(made, world)
        fork = (await made.drive(await forked(made, task_id, plan=WORDED[worded]))).check()
        return world, made, fork, (await made.drive(task_id)).check()

    world, made, fork, first = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert first.result.is_success, first.result.reason
    assert world.paid == ["ann"]
    assert world.shipped.count("ann") == 1
    (settled,) = fork.events("outcome_settled")
    assert (settled.by, settled.happened) == ("the verifier of 'pay'", not before)
    assert len({one.key for one in made.source.calls if one.tool_id == "pay"}) == 1


def test_what_does_not_wait_for_it_is_made_at_once() -> None:
    async def main() -> Ran:
        world = World(before=True)
        made = await bench(world.tools(), rules=world.rules())
        task_id = await cut_off(made, world)
        return (await made.drive(await forked(made, task_id, plan=WORDED["a step more"]))).check()

    fork = virtual_time(main())
    assert fork.times("step_completed")["n"] < fork.times("outcome_settled")["a"]


@pytest.mark.parametrize("before", [True, False], ids=["not paid", "paid"])
def test_the_verifier_is_asked_of_a_call_that_no_step_states(*, before: bool) -> None:
    async def main() -> tuple[World, Ran]:
        world = World(before=before)
        made = await bench(world.tools(), rules=world.rules())
        task_id = await cut_off(made, world)
        other = plan(step("n", "ship", parameters={"to": "eva"}))
        return world, (await made.drive(await forked(made, task_id, plan=other))).check()

    world, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert [one.happened for one in fork.events("outcome_settled")] == [not before]
    assert world.paid == ["ann"][before:]
    assert world.shipped == ["eva"]


@pytest.mark.parametrize("worded", ["the very plan", "another step"])
def test_nobody_can_tell_without_a_verifier(worded: str) -> None:
    async def main() -> tuple[World, Ran]:
        world = World()
        made = await bench(world.tools())
        task_id = await cut_off(made, world)
        return world, (await made.drive(await forked(made, task_id, plan=WORDED[worded]))).check()

    world, fork = virtual_time(main())
    assert fork.result.failure is not None
    assert fork.result.failure.kind == "outcome_unknown"
    assert len(fork.result.failure.in_doubt) == 1
    assert world.paid == ["ann"]
    assert not world.shipped


@pytest.mark.parametrize("said", ["yes", "no"])
@pytest.mark.parametrize("worded", ["the very plan", "another step", "a list", "actions"])
def test_a_person_is_asked_of_the_step_that_states_it(worded: str, said: str) -> None:
    async def main() -> tuple[World, Ran, Ran]:
        world = World(before=said == "no")
        made = await bench(world.tools())
        task_id = await cut_off(made, world)
        fork = await forked(
            made, task_id, plan=WORDED[worded], policy=Policy(evaluation="steps", interactive=True)
        )
        asked = await made.drive(fork)
        await made.service.answer(fork, said)
        return world, asked, (await made.drive(fork)).check()

    world, asked, fork = virtual_time(main())
    assert asked.result.status == "waiting"
    (question,) = asked.events("question_asked")
    assert question.step_id == WORDED[worded]["steps"][0]["step_id"]
    assert fork.result.is_success, fork.result.reason
    assert world.paid == ["ann"]


@pytest.mark.parametrize("worded", WORDED)
def test_a_tool_that_honours_keys_is_called_again_with_its_key_whatever_step_states_the_call(
    worded: str,
) -> None:
    async def main() -> tuple[Bench, Ran]:
        world = World(before=True)
        made = await bench(world.tools(), rules=world.rules(verify=None, honours_key=True))
        task_id = await cut_off(made, world)
        return made, (await made.drive(await forked(made, task_id, plan=WORDED[worded]))).check()

    made, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    keys = [one.key for one in made.source.calls if one.tool_id == "pay"]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_fork_that_was_killed_as_it_looked_goes_on_looking() -> None:
    async def main() -> tuple[World, Ran]:
        world = World(before=True)
        made = await bench(world.tools(), rules=world.rules())
        task_id = await cut_off(made, world)
        fork = await forked(made, task_id, plan=WORDED["another step"])
        driving = asyncio.create_task(made.service.drive(fork))
        await asyncio.sleep(2)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        return world, (await made.drive(fork)).check()

    world, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert world.paid == ["ann"]
    assert world.shipped == ["ann"]
    assert len([one for one in fork.events("outcome_unknown") if one.taken_on]) == 1


@pytest.mark.parametrize("before", [True, False], ids=["not paid", "paid"])
def test_a_step_that_says_repeat_is_not_answered_with_what_was_cut_off(*, before: bool) -> None:
    async def main() -> tuple[World, Ran]:
        world = World(before=before)
        made = await bench(world.tools(), rules=world.rules())
        task_id = await cut_off(made, world)
        again = plan(step("a", "pay", parameters=ANN, repeat=True))
        return world, (await made.drive(await forked(made, task_id, plan=again))).check()

    world, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert world.paid == ["ann"] * (1 if before else 2), "once more, beyond what was had"


def test_what_was_under_way_at_an_earlier_event_is_the_other_tasks() -> None:
    """The payment was made after all, and is found in the other log: nothing is looked for."""

    async def main() -> tuple[World, Ran]:
        world = World(before=True)
        made = await bench(world.tools(), rules=world.rules())
        ran = (await made.run(PAYS)).check()
        at = at_of(ran, "call_started", tool_id="pay")
        fork = await forked(made, ran.result.task_id, at=at, plan=WORDED["another step"])
        return world, (await made.drive(fork)).check()

    world, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert fork.source.counts.get("seen", 0) == 0
    assert world.paid == ["ann"]
    assert world.shipped == ["ann"]
