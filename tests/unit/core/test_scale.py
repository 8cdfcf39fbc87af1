"""Work grows with the number of steps and no faster. Counted in calls of functions, not in seconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from histories import judged

from counting import MORE, calls_in
from replan.core import events as e
from replan.core.again.like_calls import occurrence
from replan.core.decide import decide
from replan.core.events import Record
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.graph import Graph
from replan.core.plan.read import read_plan
from replan.core.state.fold import apply, fold
from replan.core.state.schedule import mode_of
from replan.core.state.task import Slot, State
from replan.core.types import Fault, Plan, Step, ToolSpec

FEW, MANY = 250, 1_000

TOOL = ToolSpec(id="look", parameters={"type": "object", "properties": {"q": {}}, "required": ["q"]})
TOOLS = Toolbox(lambda name: TOOL if name == "look" else None, lambda name: ["look"])

Needs = Callable[[int], list[int]]


def flat(n: int) -> list[int]:
    return []


def chain(n: int) -> list[int]:
    return [n - 1] if n else []


def layered(n: int) -> list[int]:
    layer = n // 50
    return (
        sorted({(layer - 1) * 50 + random.Random(n * 3 + k).randrange(50) for k in range(3)}) if layer else []
    )


SHAPES = [flat, chain, layered]
shapes = pytest.mark.parametrize("needs", SHAPES)


def answer(count: int, needs: Needs) -> dict[str, Any]:
    return {
        "steps": [
            {
                "step_id": f"s{n}",
                "tool": "look",
                "parameters": {"q": [n, f"${{s{needs(n)[0]}.output}}" if needs(n) else n]},
                "dependencies": [f"s{one}" for one in needs(n)],
            }
            for n in range(count)
        ]
    }


def plan(count: int, needs: Needs) -> Plan:
    steps = (
        Step(step_id=f"s{n}", tool="look", parameters={"q": n}, dependencies=tuple(f"s{m}" for m in needs(n)))
        for n in range(count)
    )
    return Plan(plan_id="plan_1", steps=tuple(steps))


def log(count: int, needs: Needs) -> list[Record]:
    """A task in which every step succeeds, to its end."""
    events: list[e.AnyEvent] = [
        e.TaskSubmitted(description="look"),
        e.TaskStarted(),
        e.RoundStarted(round=1),
        e.PlanGenerated(plan=plan(count, needs)),
        e.ExecutionMode(mode="parallel", reason="they can overlap"),
    ]
    for n in range(count):
        call: dict[str, Any] = {"call_key": f"k{n}.1", "step_id": f"s{n}", "tool_id": "look"}
        events += [
            e.StepReady(step_id=f"s{n}"),
            e.StepStarted(step_id=f"s{n}"),
            e.CallStarted(**call, effect="once", parameters={"q": n}),
            e.CallCompleted(**call, output=n),
            e.StepCompleted(step_id=f"s{n}"),
        ]
    events += [judged(), e.TaskCompleted(final_output=1, score=90.0)]
    return [Record(n, "task_1", float(n), 1, event) for n, event in enumerate(events, 1)]


def assert_linear(few: Callable[[], object], many: Callable[[], object]) -> None:
    few()  # what is made once and kept
    assert calls_in(many) <= MORE * MANY / FEW * calls_in(few)


def test_the_measure_tells_linear_from_quadratic() -> None:
    def quadratic(count: int) -> None:
        for n in range(count):
            for m in range(0, n, 50):
                abs(m)

    with pytest.raises(AssertionError):
        assert_linear(lambda: quadratic(FEW), lambda: quadratic(MANY))
    assert_linear(lambda: [abs(n) for n in range(FEW)], lambda: [abs(n) for n in range(MANY)])


@shapes
def test_reading_and_checking_a_plan(needs: Needs) -> None:
    few, many = answer(FEW, needs), answer(MANY, needs)

    def read_and_check(given: dict[str, Any]) -> None:
        read = read_plan(given, plan_id="plan_1", version=1, task="look")
        checked = check_plan(read, TOOLS, metadata={}, limits=PlanLimits())
        assert not checked.violations

    assert_linear(lambda: read_and_check(few), lambda: read_and_check(many))


@shapes
def test_everything_that_a_graph_is_asked(needs: Needs) -> None:
    few, many = plan(FEW, needs), plan(MANY, needs)

    def ask(of: Plan) -> None:
        graph = Graph.of(of)
        assert graph.cycle() == []
        assert len(graph.topological()) == len(graph.distance_to_end()) == len(of.steps)
        graph.final()
        graph.downstream(["s0"])
        graph.is_chain()

    assert_linear(lambda: ask(few), lambda: ask(many))


@shapes
def test_folding_a_log(needs: Needs) -> None:
    few, many = log(FEW, needs), log(MANY, needs)

    def folded(records: list[Record]) -> None:
        assert fold(records).status == "succeeded"

    assert_linear(lambda: folded(few), lambda: folded(many))


@shapes
def test_deciding_after_every_event(needs: Needs) -> None:
    few, many = log(FEW, needs), log(MANY, needs)

    def step_by_step(records: list[Record]) -> None:
        state = State()
        for record in records:
            apply(state, record.event, record.ts, record.round, record.seq)
            if state.evaluation is None:  # the verdict looks at every step, once
                decide(state)

    assert_linear(lambda: step_by_step(few), lambda: step_by_step(many))


def test_a_decision_in_the_middle_of_a_plan_costs_the_same_for_any_plan() -> None:
    few, many = (fold(log(count, flat)[: count * 3]) for count in (FEW, MANY))
    assert few.open_steps
    assert many.open_steps
    assert calls_in(lambda: decide(few)) == calls_in(lambda: decide(many))


@shapes
def test_choosing_the_mode(needs: Needs) -> None:
    few, many = (log(count, needs)[:4] for count in (FEW, MANY))
    assert_linear(lambda: mode_of(fold(few)), lambda: mode_of(fold(many)))


def test_a_plan_whose_every_step_fails() -> None:
    def failing(count: int) -> list[Record]:
        records = log(count, flat)[:5]
        fault = Fault(category="tool_error", kind="tool", message="no")
        for n in range(count):
            records.append(
                Record(len(records) + 1, "task_1", 9.0, 1, e.StepFailed(step_id=f"s{n}", error=fault))
            )
        records.append(Record(len(records) + 1, "task_1", 9.0, 1, judged(0, ok=False)))
        return records

    few, many = failing(FEW), failing(MANY)
    assert_linear(lambda: decide(fold(few)), lambda: decide(fold(many)))


def test_a_call_that_the_plan_means_many_times() -> None:
    """Like calls of a plan are numbered: a plan with a thousand of them is not searched for each."""

    def ask_and_take(count: int) -> None:
        state = State()
        for n in range(count):
            place = (f"s{n}", Slot())
            assert occurrence(state, "base", place) == n + 1
            assert occurrence(state, "base", place) == n + 1

    assert_linear(lambda: ask_and_take(FEW), lambda: ask_and_take(MANY))
