"""What a fork reads of the other tasks of its family is folded once and in order, however many of its calls ask at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.data.pieces import MANY
from replan.core.events import AnyEvent, Record
from replan.core.limits.policy import Policy
from replan.core.plan.diff import PlanDiff
from replan.core.state.fold import fold
from replan.core.state.task import State
from replan.core.types import Plan, Step
from replan.run.family.logs import FamilyLogs
from replan.testing import virtual_time

Log = list[Record]


@dataclass
class Late:
    """A store of one growing log whose answers come late, each as it was when it was asked."""

    log: Log
    upto: int
    delays: list[float]

    async def read(self, task_id: str, after: int = 0, limit: int = 5_000, **more: Any) -> Log:
        found = [one for one in self.log[: self.upto] if one.seq > after][:limit]
        await asyncio.sleep(self.delays.pop() if self.delays else 0.0)
        return found


def a_log(calls: int) -> Log:
    steps = tuple(Step(step_id=f"p{n}", tool="pay", parameters={"to": f"c{n}"}) for n in range(calls))
    events: list[AnyEvent] = [
        e.TaskSubmitted(description="pay", policy=Policy()),
        e.TaskStarted(driver="d"),
        e.PlanGenerated(plan=Plan(plan_id="p", version=1, steps=steps)),
    ]
    for n in range(calls):
        of = {"call_key": f"k{n}.1", "step_id": f"p{n}", "tool_id": "pay", "attempt": 1}
        events += [
            e.StepStarted(step_id=f"p{n}"),
            e.CallStarted(**of, effect="once", parameters={"to": f"c{n}"}),
            e.CallCompleted(**of, output="paid"),
            e.StepCompleted(step_id=f"p{n}"),
        ]
    return [Record(n, "o", float(n), 1, event) for n, event in enumerate(events, 1)]


def logs_on(store: Late) -> FamilyLogs:
    """The logs of a fork's family: of all that a drive has only the store is asked."""
    run: Any = type("Run", (), {})()
    run.parts = type("Parts", (), {"store": store})()
    run.task_id, run.state = "f", State()
    return FamilyLogs(run)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0, 3), min_size=4, max_size=20),
    st.lists(st.tuples(st.floats(0, 2), st.integers(0, 12), st.booleans()), min_size=1, max_size=12),
)
def test_calls_that_look_at_once_find_what_the_log_comes_to(
    delays: list[float], looks: list[tuple[float, int, bool]]
) -> None:
    async def main() -> None:
        log = a_log(12)
        store = Late(log, 3, list(delays))
        logs = logs_on(store)

        async def look(seen_at_least: int) -> None:
            state = await logs.state("o", 1.0)
            assert state.last_seq >= seen_at_least
            expected = fold(log[: state.last_seq])
            assert (state.tool_calls, state.plans, state.open_steps) == (
                expected.tool_calls, expected.plans, expected.open_steps,
            )  # fmt: skip
            assert [one.key for one in state.made.get("pay", [])] == [
                one.key for one in expected.made.get("pay", [])
            ]
            assert state.took_effect.keys() == expected.took_effect.keys()

        at_work = []
        for wait, more, gives_up in looks:
            task = asyncio.create_task(look(store.upto))
            at_work.append(task)
            await asyncio.sleep(wait)
            if gives_up:
                task.cancel()
            store.upto = min(len(log), store.upto + more)
        for found in await asyncio.gather(*at_work, return_exceptions=True):
            assert found is None or isinstance(found, asyncio.CancelledError), found
        await look(store.upto)

    virtual_time(main())


def test_as_many_as_ask_at_once_are_told_by_one_more_read() -> None:
    async def main() -> int:
        asked = 0

        class Counted(Late):
            async def read(self, *args: Any, **more: Any) -> Log:
                nonlocal asked
                asked += 1
                return await super().read(*args, **more)

        logs = logs_on(Counted(a_log(5), 23, [1.0, 1.0, 1.0]))
        first = asyncio.create_task(logs.state("o", 1.0))
        await asyncio.sleep(0.5)
        await asyncio.gather(first, *(logs.state("o", 1.0) for _ in range(20)))
        return asked

    assert virtual_time(main()) == 2  # what had been asked before they came may be too old for them


def test_a_log_that_has_grown_by_much_is_gone_on_with_in_pieces_that_others_run_between() -> None:
    async def main() -> tuple[State, int]:
        log = a_log(400)
        store = Late(log, 3, [])
        logs, turns = logs_on(store), 0
        await logs.state("o", 1.0)
        store.upto = len(log)
        reading = asyncio.create_task(logs.state("o", 1.0))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        return reading.result(), turns

    state, turns = virtual_time(main())
    assert state.tool_calls == 400
    assert turns > 400 * 4 / MANY


# ── when a version of the plan was meant ──


def a_step(name: str, **parameters: Any) -> Step:
    return Step(step_id=name, tool="pay", parameters=parameters)


def a_plan(version: int, *steps: Step) -> Plan:
    return Plan(plan_id="p", version=version, steps=steps)


def state_at(*events: tuple[float, AnyEvent]) -> State:
    return fold([Record(n, "t", ts, 1, event) for n, (ts, event) in enumerate(events, 1)])


NOTHING = PlanDiff()
SUBMITTED = e.TaskSubmitted(description="pay", policy=Policy())


def test_a_step_that_was_written_anew_is_a_version_of_the_plan_with_a_time_of_its_own() -> None:
    state = state_at(
        (1.0, SUBMITTED),
        (100.0, e.PlanGenerated(plan=a_plan(1, a_step("a", x=1)))),
        (200.0, e.StepRepaired(plan_version=2, step=a_step("a", x=9))),
        (300.0, e.PlanUpdated(plan=a_plan(3, a_step("b"), a_step("x", to="Ann")), diff=NOTHING, strategy="full_replan")),
        (400.0, e.PlanUpdated(plan=a_plan(4, a_step("c"), a_step("x", to="Ann")), diff=NOTHING, strategy="full_replan")),
    )  # fmt: skip
    assert [state.meant_at(version) for version in (1, 2, 3, 4)] == [100.0, 200.0, 300.0, 400.0]
    assert state.meant_at(state.steps["x"].meant) == 300.0


def test_a_plan_that_was_given_was_meant_when_it_was_given_with_the_task_or_with_a_fork() -> None:
    given_ = a_plan(1, a_step("a", x=1))
    submitted = e.TaskSubmitted(description="pay", policy=Policy(), plan={"steps": []})
    forked = e.TaskForked(origin="o", at=3, root="o", plan={"steps": []})
    later = (70.0, e.PlanUpdated(plan=a_plan(3, a_step("c")), diff=NOTHING, strategy="full_replan"))
    state = state_at((10.0, submitted), (20.0, e.PlanGenerated(plan=given_)), (50.0, forked), (60.0, e.PlanGenerated(plan=given_)), later)  # fmt: skip
    assert [state.meant_at(version) for version in range(1, state.plans + 1)] == [10.0, 50.0, 70.0]
