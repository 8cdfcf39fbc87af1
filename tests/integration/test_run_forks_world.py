"""What another task of a family has made stands for a call only as long as it holds: an outside journal says what was really done."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_forks import at_of, forked

from replan.core.events import PlanGenerated, Record
from replan.core.limits.policy import Policy
from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}


class World:
    """A draft, where it is published, and what was paid."""

    def __init__(self) -> None:
        self.journal: list[tuple[str, str]] = []
        self.draft = ""
        self.sites: dict[str, str] = {}
        self.balance: Counter[str] = Counter()

    def tools(self) -> dict[str, FakeTool]:
        def tool(name: str, of: str, do: Any, effect: str = "once") -> FakeTool:
            def call(parameters: dict[str, Any]) -> str:
                self.journal.append((name, parameters[of]))
                return f"{name} {parameters[of]}: {do(parameters[of])}"

            schema = {"type": "object", "properties": {of: {"type": "string"}}, "required": [of]}
            return FakeTool(output=call, delay_secs=1, effect=effect, parameters=schema)  # type: ignore[arg-type]

        return {
            "write": tool("write", "text", self._write),
            "set_draft": tool("set_draft", "text", self._write, "repeatable"),
            "publish": tool("publish", "to", self._publish),
            "pay": tool("pay", "to", lambda to: self._paid(to, 1)),
            "refund": tool("refund", "to", lambda to: self._paid(to, -1)),
        }

    def _write(self, text: str) -> str:
        self.draft = text
        return text

    def _publish(self, to: str) -> str:
        self.sites[to] = self.draft
        return self.draft

    def _paid(self, to: str, amount: int) -> int:
        self.balance[to] += amount
        return self.balance[to]


def chain(*calls: tuple[str, str], **marks: Any) -> dict[str, Any]:
    """Each step waits for the one before it; `marks` are those of the last."""
    names = {"write": "text", "set_draft": "text"}
    last = len(calls) - 1
    return plan(
        *(
            step(
                f"s{n}",
                tool,
                *([f"s{n - 1}"] if n else []),
                parameters={names.get(tool, "to"): of},
                **(marks if n == last else {}),
            )
            for n, (tool, of) in enumerate(calls)
        )
    )


def before_all(ran: Ran) -> int:
    """The event before the plan."""
    return at_of(ran, "plan_generated") - 1


def reused(ran: Ran) -> list[str]:
    return [one.tool for each in ran.result.steps for one in each.calls if one.reused]


async def both(first: dict[str, Any], then: dict[str, Any], **more: Any) -> tuple[World, Bench, Ran, Ran]:
    """A task that has run, and a fork from before all that it did, with another plan."""
    world = World()
    made = await bench(world.tools())
    one = await made.run(first)
    fork = await made.drive(await forked(made, one.result.task_id, at=before_all(one), plan=then, **more))
    return world, made, one, fork


ONE, TWO, SITE, PAY, BACK = (
    ("write", "one"), ("write", "two"), ("publish", "site"), ("pay", "x"), ("refund", "x"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        ((ONE, SITE), (TWO, SITE), "before step 's0' (write), which this step waits for"),
        (
            (PAY, BACK),
            (PAY,),
            "step 's1' (refund) of that task was about the same after that and is no part of this task",
        ),
        ((ONE, TWO), (ONE, SITE), "step 's1' (write) of that task was about the same after that"),
        ((SITE, TWO), (TWO, SITE), "before step 's0' (write), which this step waits for"),
        ((("set_draft", "one"), SITE), (("set_draft", "two"), SITE), "step 's0' (set_draft)"),
    ],
    ids=["changed first", "refunded since", "written over since", "in another order", "set otherwise"],
)
def test_what_another_task_has_made_is_not_taken_for_what_a_fork_means_after_a_change(
    first: tuple[tuple[str, str], ...], then: tuple[tuple[str, str], ...], told: str
) -> None:
    world, _, one, fork = virtual_time(both(chain(*first), chain(*then)))
    assert one.result.is_success
    assert fork.result.status == "failed"
    assert told in fork.result.reason
    assert "repeat: true" in fork.result.reason
    assert max(Counter(world.journal).values()) == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((ONE, SITE), (ONE, SITE)),
        ((ONE, SITE, TWO), (ONE, SITE, TWO, ("publish", "mirror"))),
        ((PAY, ("pay", "y")), (PAY, ("pay", "z"))),
        ((PAY, BACK), (PAY, BACK, ("pay", "y"))),
        ((("set_draft", "one"), SITE), (("set_draft", "one"), SITE)),
    ],
    ids=["the same", "with more", "another beside it", "undone in both", "set the same"],
)
def test_what_still_holds_stands_for_the_call_of_a_fork(
    first: tuple[tuple[str, str], ...], then: tuple[tuple[str, str], ...]
) -> None:
    world, _, _, fork = virtual_time(both(chain(*first), chain(*then)))
    assert fork.result.is_success
    once = [one for one in world.journal if one[0] != "set_draft"]
    assert max(Counter(once).values()) == 1
    assert reused(fork) == [tool for tool, of in then if (tool, of) in first and tool != "set_draft"]


def test_a_list_of_a_fork_is_held_to_that_item_by_item() -> None:
    listed = plan(
        step("w", "write", parameters={"text": "two"}),
        step("p", "publish", "w", parameters={"to": "${item}"}, for_each=["site", "mirror"]),
    )
    world, _, _, fork = virtual_time(both(chain(ONE, SITE), listed))
    assert fork.result.status == "failed"
    assert world.sites == {"site": "one", "mirror": "two"}


MEANT: dict[str, Any] = {"repeat": True, "repeat_reason": "it shows the other text"}


def test_a_fork_that_says_repeat_has_the_effect_beyond_what_others_made() -> None:
    async def main() -> tuple[World, Ran, Ran]:
        world, made, _, fork = await both(chain(ONE, SITE), chain(TWO, SITE, **MEANT))
        start = at_of(fork, "task_forked")
        return world, fork.check(), await made.drive(await forked(made, fork.result.task_id, at=start))

    world, fork, again = virtual_time(main())
    assert fork.result.is_success
    assert world.sites == {"site": "two"}
    assert fork.result.usage.tool_calls == 2, "the one that was not made counts as none"
    assert again.result.is_success
    assert Counter(world.journal)[SITE] == 2, "a fork of it means the same"
    assert reused(again) == ["write", "publish"]


def test_a_person_is_asked_about_an_effect_beyond_what_others_made_as_about_any_that_is_done() -> None:
    async def main() -> tuple[World, Ran, Ran]:
        world, made, _, fork = await both(
            chain(ONE, SITE),
            chain(TWO, SITE, **MEANT),
            policy=Policy(interactive=True, evaluation="steps"),
        )
        assert Counter(world.journal)[SITE] == 1
        await made.service.resolve_approval(fork.result.task_id, approved=True)
        return world, fork, (await made.drive(fork.result.task_id)).check()

    world, asked, done = virtual_time(main())
    assert asked.result.status == "waiting"
    (question,) = asked.events("approval_requested")
    assert "meant once more: it shows the other text" in question.why
    assert done.result.is_success
    assert world.sites == {"site": "two"}


@pytest.mark.parametrize("woken", ["a yes to another call", "a hint", "a new drive", "a no"])
def test_what_waits_for_a_yes_is_not_made_without_it_whatever_wakes_the_task(woken: str) -> None:
    """Why it needs one, that another task has made it, is found out by the process that asks, and stands in no log."""

    async def main() -> tuple[World, Ran]:
        then = plan(
            step("w", "write", parameters={"text": "two"}),
            step("p", "publish", "w", parameters={"to": "site"}, **MEANT),
            step("y", "pay", parameters={"to": "y"}, requires_approval=True),
        )
        world, made, _, fork = await both(
            chain(ONE, SITE), then, policy=Policy(interactive=True, evaluation="steps")
        )
        name = fork.result.task_id
        open_ = {one.tool_id: one.approval_id for one in fork.events("approval_requested")}
        assert open_.keys() == {"publish", "pay"}
        if woken == "a yes to another call":
            await made.service.resolve_approval(name, open_["pay"], approved=True)
        elif woken == "a no":
            await made.service.resolve_approval(name, open_["publish"], approved=False)
        elif woken == "a hint":
            await made.service.hint(name, "mind the weather", by="Ann")
        return world, await made.drive(name)

    world, after = virtual_time(main())
    assert Counter(world.journal)[SITE] == 1
    assert after.result.status == "waiting"
    assert len(after.events("approval_requested")) == 2, "nobody is asked twice"


def test_a_doubt_that_another_task_has_settled_does_not_stand_for_a_step_where_that_was_undone() -> None:
    async def main() -> tuple[World, Ran]:
        world = World()
        made = await bench(world.tools())
        task_id = await made.submit(chain(PAY, BACK))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(0.5)  # `pay` is under way
        fork = await forked(made, task_id, plan=chain(PAY))
        await driving
        return world, await made.drive(fork)

    world, fork = virtual_time(main())
    assert not fork.result.is_success
    assert fork.result.failure is not None
    assert fork.result.failure.kind == "step", "everybody knows whether it took effect"
    assert "(refund) of task" in fork.result.reason
    assert world.balance["x"] == 0


def test_a_call_of_another_task_is_told_as_such_everywhere() -> None:
    async def main() -> tuple[Ran, Ran, list[Record]]:
        _, made, one, _ = await both(chain(ONE, SITE), chain(ONE))
        fork = await made.drive(await forked(made, one.result.task_id, at=before_all(one)))
        return one, fork, fork.records

    one, fork, records = virtual_time(main())
    assert any(isinstance(each.event, PlanGenerated) for each in records)
    assert [each.reused for each in fork.result.steps] == [True, True]
    assert reused(fork) == ["write", "publish"]
    assert fork.result.usage.tool_calls == 0
    assert one.result.usage.tool_calls == 2


def chains(*writes: tuple[str, str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    calls = st.sampled_from([*writes, SITE, ("publish", "mirror"), PAY, BACK, ("pay", "y")])
    return st.lists(calls, min_size=1, max_size=4, unique=True)


def families(*writes: tuple[str, str]) -> st.SearchStrategy[Any]:
    """A chain, and forks: with another chain, from which event, and of the first task or the latest."""
    fork = st.tuples(chains(*writes), st.integers(0, 30), st.booleans())
    return st.tuples(chains(*writes), st.lists(fork, min_size=1, max_size=2))


@settings(max_examples=60)
@given(families(ONE, TWO) | families(("set_draft", "one"), ("set_draft", "two")))
def test_no_effect_comes_twice_and_none_is_missing_in_a_success(
    family: tuple[list[tuple[str, str]], list[tuple[list[tuple[str, str]], int, bool]]],
) -> None:
    first, forks = family

    async def main() -> None:
        world = World()
        made = await bench(world.tools())
        known = [await made.run(chain(*first))]
        for then, at, of_first in forks:
            origin = known[0] if of_first else known[-1]
            start = before_all(known[0]) if at % 2 else 1 + at % (origin.records[-1].seq - 1)
            fork = await made.drive(await forked(made, origin.result.task_id, at=start, plan=chain(*then)))
            known.append(fork)
            once = Counter(one for one in world.journal if one[0] != "set_draft")
            assert max(once.values(), default=1) == 1
            if fork.result.is_success and at % 2:
                _holds(world, then)

    virtual_time(main())


def _holds(world: World, then: list[tuple[str, str]]) -> None:
    """The world is as the chain leaves it, in what it says of it."""
    draft = ""
    for tool, of in then:
        if tool in ("write", "set_draft"):
            draft = of
        elif tool == "publish" and draft:
            assert world.sites[of] == draft
    if PAY in then and BACK not in then[then.index(PAY) :]:
        assert [one for one in world.journal if one[1] == "x"][-1] == PAY
