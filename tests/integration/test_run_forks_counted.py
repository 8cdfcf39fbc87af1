"""How many of a call a family of forks has had is what counts, never which of the like calls it was in the one task and in the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_forks_alike import BOB, STEPS, Bank, SlowStore, fork_of, pays
from test_run_recovery import READS, overall, reflection

from replan.core.limits.policy import Policy
from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.testing import virtual_time


def sends(*steps: str, **marks: Any) -> dict[str, Any]:
    """One login, and after it Ann once for each of these, one after the other."""
    found, after = [step("l", "login")], "l"
    for name in steps:
        found.append(step(name, "send", after, parameters={"to": "ann"}, **marks))
        after = name
    return plan(*found)


def keys(*ran: Ran) -> list[str]:
    """Of the payments that were made."""
    ended = (one for of in ran for one in of.events("call_completed", tool_id="send"))
    return [one.call_key for one in ended if not (one.reused or one.of_task)]


LIST = plan(
    step("l", "login"),
    step("each", "send", "l", for_each=["ann", "ann"], parameters={"to": "${item}"}),
)


async def second_alone(made: Bench, wanted: dict[str, Any]) -> Ran:
    """The first of two payments was refused, the second was made."""
    ran = (await made.run(wanted)).check()
    assert [key[-2:] for key in keys(ran)] == [".2"]
    return ran


def test_a_call_that_was_made_as_the_second_like_one_stands_for_the_first() -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank(refuses=["ann"])
        made = await bench(bank.tools())
        ran = await second_alone(made, LIST)
        return bank, await fork_of(made, ran, "plan_generated", plan=sends("s"))

    bank, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert bank.paid == ["ann"]
    assert fork.outputs()["s"] == {"id": 1}


@pytest.mark.parametrize("own", [False, True], ids=["its plan", "a plan of its own"])
def test_what_stands_for_one_call_stands_for_no_other_and_a_further_one_has_a_key_of_its_own(
    *, own: bool
) -> None:
    """Two are owed and one was had: one more is made, with a key that nobody has used; and a fork of both has both."""

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank(refuses=["ann"])
        made = await bench(bank.tools())
        ran = await second_alone(made, LIST)
        fork = await fork_of(made, ran, "plan_generated", plan=LIST if own else None)
        return bank, [ran, fork, await fork_of(made, fork, "plan_generated", plan=LIST)]

    bank, (ran, fork, last) = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert last.result.is_success, last.result.reason
    assert bank.paid == ["ann", "ann"]
    made = keys(ran, fork, last)
    assert len({*made}) == 2, "no key twice"
    for one in (fork, last):
        assert sorted(item["id"] for item in one.outputs()["each"]) == [1, 2]


@pytest.mark.parametrize("ahead", [-0.5, 0.0, 0.5, 2.0, 4.0, 6.0])
@pytest.mark.parametrize("count", [2, 3])
def test_forks_that_have_their_like_calls_at_once_have_as_many_as_one_of_them_is_owed(
    ahead: float, count: int
) -> None:
    """Side by side in each of them, and the first that is made is refused."""
    wanted = plan(
        step("l", "login"),
        step("each", "send", "l", for_each=["ann"] * count, parameters={"to": "${item}"}),
    )

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank(refuses=["ann"])
        made = await bench(bank.tools(), store=SlowStore())
        task_id = await made.submit(plan(step("l", "login")))
        await made.drive(task_id)
        at = at_of(await made.ran(task_id), "plan_generated") - 1
        forks = [await forked(made, task_id, at=at, plan=wanted) for _ in range(3)]

        async def drive(name: str, after: float) -> None:
            await asyncio.sleep(1 + after)
            await made.drive(name)

        await asyncio.gather(*(drive(one, ahead * n / 2) for n, one in enumerate(forks)))
        return bank, [(await made.ran(one)).check() for one in forks]

    bank, ran = virtual_time(main())
    assert len(bank.paid) in (count - 1, count)
    assert len({*keys(*ran)}) == len(keys(*ran)) == len(bank.paid)


@pytest.mark.parametrize("ahead", [-1.0, -0.05, 0.0, 0.05, 1.0, 6.0])
@pytest.mark.parametrize("third", [False, True])
def test_tasks_that_run_at_once_have_one_effect_by_two_tools_that_do_the_same(
    ahead: float, *, third: bool
) -> None:
    one = plan(step("l", "login"), step("s", "send", "l", parameters={"to": "bob"}))
    other = plan(step("l", "login"), step("w", "wire", "l", parameters={"recipient": "bob"}))
    cyd = plan(step("l", "login"), step("w", "wire", "l", parameters={"recipient": "cyd"}))

    async def main() -> Bank:
        bank = Bank()
        made = await bench(bank.tools(), store=SlowStore())
        task_id = await made.submit(plan(step("l", "login")))
        await made.drive(task_id)
        at = at_of(await made.ran(task_id), "plan_generated") - 1
        plans = [one, cyd, other] if third else [one, other]
        forks = [await forked(made, task_id, at=at, plan=wanted) for wanted in plans]

        async def drive(name: str, after: float) -> None:
            await asyncio.sleep(1 + after)
            await made.drive(name)

        await asyncio.gather(*(drive(name, ahead * n / 2) for n, name in enumerate(forks)))
        return bank

    bank = virtual_time(main())
    assert sorted(bank.paid) == ["bob", "cyd"][: 1 + third]


def test_three_forks_of_a_list_by_tools_that_do_the_same_wait_for_nobody_in_a_circle() -> None:
    people = ["ann", "bob", "cyd", "dan"]

    def of(tool: str, name: str, turn: int) -> dict[str, Any]:
        turned = people[turn:] + people[:turn]
        return plan(
            step("l", "login"), step("each", tool, "l", for_each=turned, parameters={name: "${item}"})
        )

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank()
        made = await bench(bank.tools(), store=SlowStore())
        task_id = await made.submit(plan(step("l", "login")))
        await made.drive(task_id)
        at = at_of(await made.ran(task_id), "plan_generated") - 1
        plans = [
            of("send", "to", 0),
            of("wire", "recipient", 1),
            of("send", "to", 2),
            of("wire", "recipient", 3),
        ]
        forks = [await forked(made, task_id, at=at, plan=wanted) for wanted in plans]
        await asyncio.gather(*(made.drive(name) for name in forks))
        return bank, [(await made.ran(one)).check() for one in forks]

    bank, ran = virtual_time(main())
    assert sorted(bank.paid) == people
    assert {one.result.status for one in ran} <= {"succeeded", "failed"}
    assert any(one.result.is_success for one in ran)


LATER = [
    plan(step("n", "send", parameters={"to": "bob2"})),
    plan(step("n", "wire", parameters={"recipient": "bob"})),
    plan(step("n", "wire", parameters={"recipient": "bob2"})),
]


@pytest.mark.parametrize("later", LATER, ids=["other parameters", "the other tool", "both"])
@pytest.mark.parametrize("wanted", [BOB, LATER[1]], ids=["as planned", "by the other tool"])
@pytest.mark.parametrize("cut", [True, False], ids=["killed meanwhile", "at work"])
def test_what_a_later_plan_has_begun_in_place_of_a_failed_call_is_not_made_by_a_fork(
    later: dict[str, Any], wanted: dict[str, Any], *, cut: bool
) -> None:
    async def main() -> tuple[Bank, Ran]:
        bank = Bank(refuses=["bob"])
        replies = {
            "execution_plan": [BOB, later],
            "evaluation": verdict(),
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": overall(
                should=True, replanning_strategy={"type": "full_replan", "reason": "the rest"}
            ),
        }
        made = await bench(bank.tools(), replies)
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(8)  # in the midst of what the later plan makes
        if cut:
            driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)
        ran = await made.ran(task_id)
        assert len(ran.events("call_started")) == 2
        fork = await fork_of(made, ran, "plan_generated", plan=wanted, policy=Policy(**STEPS))
        await asyncio.gather(driving, return_exceptions=True)
        return bank, fork

    bank, fork = virtual_time(main())
    assert len(bank.paid) == (not cut)
    if wanted is later:
        assert fork.result.is_success != cut
    else:
        assert not fork.result.is_success


def test_a_verifier_that_looks_by_the_key_is_asked_for_the_call_of_the_other_task() -> None:
    """In doubt there, and over another session here: by the key of the call here nothing is ever found."""

    async def main() -> tuple[Bank, Ran]:
        bank = Bank(loses=["ann"])
        tools = bank.tools()
        tools["seen"] = FakeTool(output=lambda _: [{"key": one.key} for one in made.source.calls], **READS)
        looks = Verifier(tool="seen", happened="output[?key == call.key]", after_secs=1)
        made = await bench(tools, rules=ToolRules(rules=(("pay", ToolRule(verify=looks)),)))
        task_id = await made.submit(pays("ann"))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(4)
        driving.cancel()  # in the midst of the payment
        await asyncio.gather(driving, return_exceptions=True)
        bank.paid.append("ann")  # it has gone through
        bank.loses.clear()
        return bank, await fork_of(made, await made.ran(task_id), "plan_generated", plan=pays("ann"))

    bank, fork = virtual_time(main())
    assert bank.paid == ["ann"]
    assert fork.result.is_success, fork.result.reason


@pytest.mark.parametrize("happened", [True, False])
def test_a_doubt_about_the_call_of_another_task_that_is_settled_counts_once_in_the_family(
    *, happened: bool
) -> None:
    """A third task that is owed two has the one that was settled, under whatever key, and makes the other."""
    twice = plan(
        step("l", "login"),
        step(
            "each",
            "pay",
            "l",
            for_each=["ann", "ann"],
            parameters={"to": "${item}", "session": "${l.output.session}", "cents": 100},
        ),
    )

    async def main() -> tuple[Bank, list[Ran]]:
        bank = Bank()
        tools = bank.tools()
        tools["seen"] = FakeTool(
            output=lambda _: [
                {"key": one.key} for one in made.source.calls if happened or one.task_id != task_id
            ],
            **READS,
        )
        looks = Verifier(tool="seen", happened="output[?key == call.key]", after_secs=1)
        made = await bench(tools, rules=ToolRules(rules=(("pay", ToolRule(verify=looks)),)))
        task_id = await made.submit(pays("ann"))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(4)
        driving.cancel()  # in the midst of the payment
        await asyncio.gather(driving, return_exceptions=True)
        bank.paid += ["ann"] * happened  # it has gone through
        ran = await made.ran(task_id)
        fork = await fork_of(made, ran, "plan_generated", plan=pays("ann"))
        return bank, [fork, await fork_of(made, fork, "plan_generated", plan=twice)]

    bank, (fork, last) = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert last.result.is_success, last.result.reason
    assert bank.paid == ["ann", "ann"]
