"""Later plans, steps that write metadata, effects that were lost, and plans that are misread take time that grows with them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from histories import REFUSED, state_of, submitted
from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core import events as e
from replan.core.again.consent import asked_of
from replan.core.calls.site import Slot
from replan.core.evaluation.left_out import left_out
from replan.core.events import AnyEvent
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.graph import Graph
from replan.core.plan.read import PlanMisread, read_plan
from replan.core.plan.repeats import Deed, meant_by_order
from replan.core.references.metadata import Metadata
from replan.core.state.fold import apply
from replan.core.types import Action, Plan, Step, ToolSpec

MANY = 3_000
TOOL = ToolSpec(id="t", effect="once")


def key(number: int) -> str:
    return f"{number:032x}.1"


def begun(*steps: Step) -> list[AnyEvent]:
    plan = Plan(plan_id="p", steps=steps)
    return [submitted(), e.TaskStarted(), e.RoundStarted(round=1), e.PlanGenerated(plan=plan)]


def items(
    step_id: str, count: int, *, fault: bool, first: int = 0, action_id: str | None = None
) -> list[AnyEvent]:
    events: list[AnyEvent] = [e.StepStarted(step_id=step_id, items=count)]
    for n in range(count):
        of: dict[str, Any] = {
            "call_key": key(first + n), "step_id": step_id, "action_id": action_id, "index": n, "tool_id": "t",
        }  # fmt: skip
        events.append(e.CallStarted(**of, effect="once", parameters={"n": f"{first + n}", "currency": "EUR"}))
        events.append(e.CallFailed(**of, error=REFUSED) if fault else e.CallCompleted(**of, output=1))
    return events


def test_a_plan_that_writes_every_step_anew_is_taken_at_once() -> None:
    def steps(note: str) -> tuple[Step, ...]:
        return tuple(
            [Step(step_id=f"s{n}", tool="t", parameters={"n": n, "note": note}) for n in range(MANY)]
        )

    failed: list[AnyEvent] = []
    for n in range(MANY):
        of: dict[str, Any] = {"call_key": key(n), "step_id": f"s{n}", "tool_id": "t"}
        failed += [
            e.StepStarted(step_id=f"s{n}"),
            e.CallStarted(**of, effect="once", parameters={"n": n}),
            e.CallFailed(**of, error=REFUSED),
        ]
    state = state_of([*begun(*steps("one")), *failed])
    with cpu(2):
        apply(state, e.PlanUpdated(plan=Plan(plan_id="p", version=2, steps=steps("two"))), 9.0)
    assert all(step.former and not step.calls for step in state.steps.values())
    assert "s7" in state.ids_used()


def test_the_items_of_a_list_are_put_away_at_once() -> None:
    each = Step(step_id="s", tool="t", for_each="[]")
    state = state_of([*begun(each), *items("s", 10_000, fault=True)])
    with cpu(2):
        state.steps["s"].begin_again()
    assert len(state.steps["s"].every_call()) == 10_000


def test_new_effects_are_held_against_those_that_are_done() -> None:
    one = Step(step_id="one", tool="t", for_each="[]")
    later = Plan(plan_id="q", version=2, steps=(one, Step(step_id="two", tool="t", for_each="[]")))
    state = state_of(
        [
            *begun(one),
            *items("one", MANY, fault=False),
            e.StepCompleted(step_id="one"),
            e.PlanUpdated(plan=later),
        ]
    )
    with cpu(3):
        for n in range(MANY):
            assert asked_of(state, state.steps["two"], Slot(None, n), TOOL, key(10**6 + n)) is None
    assert state.ledger.is_done(key(0)[:-2])
    assert not state.ledger.is_done(key(10**6)[:-2])


@pytest.mark.parametrize("made", [MANY, MANY - 7])
def test_each_effect_of_a_later_plan_makes_one_good(made: int) -> None:
    one = Step(step_id="one", tool="t", for_each="[]")
    two = Step(
        step_id="two",
        for_each="[]",
        actions=(Action(action_id="a", tool="t"), Action(action_id="b", tool="other")),
    )
    state = state_of(
        [
            *begun(one),
            *items("one", MANY, fault=True),
            e.StepFailed(step_id="one", error=REFUSED),
            e.ReplanningStarted(strategy={"type": "full_replan"}),
            e.PlanUpdated(plan=Plan(plan_id="q", version=2, steps=(Step(step_id="x", tool="u"), two))),
            *items("two", made, fault=False, first=10**6, action_id="a"),
        ]
    )
    with cpu(3):
        found = left_out(state, lambda name: ToolSpec(id=name, effect="reads" if name == "u" else "once"))
    assert sum(len(each.lost) for each in found.undone if each.step.step.step_id == "one") == MANY - made


ADDED = st.dictionaries(st.sampled_from("abc"), st.integers(), min_size=1, max_size=2)


@given(st.lists(st.tuples(st.integers(0, 7), ADDED), max_size=12), st.data())
def test_metadata_that_come_one_by_one_are_those_that_come_at_once(
    added: list[tuple[int, dict[str, Any]]], data: st.DataObject
) -> None:
    names = [f"s{n}" for n in range(8)]
    grown = Metadata({"a": 0}, [{"b": 0}], [(name, None) for name in names])
    known: dict[str, Any] = dict.fromkeys(names)
    for at, one in added:
        known[names[at]] = one
        grown.add(names[at], one)
        whole = Metadata({"a": 0}, [{"b": 0}], known.items())
        for name in data.draw(st.lists(st.sampled_from(names), max_size=3)):
            assert grown.before(name) == whole.before(name)
    whole = Metadata({"a": 0}, [{"b": 0}], known.items())
    assert (grown.all, [grown.before(name) for name in names]) == (
        whole.all,
        [whole.before(name) for name in names],
    )


WRITES = ToolSpec(
    id="w",
    effect="reads",
    parameters={"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    output_params=("x",),
)
SETS = ToolSpec(id="sets", effect="reads", output_params=("x",))
TOOLS = Toolbox({"w": WRITES, "sets": SETS, "on": TOOL, "t": TOOL}.get, lambda name: [])


def checked(*steps: Step, depth: int = 100_000) -> Any:
    plan = Plan(plan_id="p", steps=steps)
    return check_plan(plan, TOOLS, metadata={"x": "1"}, limits=PlanLimits(max_depth=depth))


def test_steps_that_read_and_write_one_metadata_wait_for_the_one_before() -> None:
    with cpu(4):
        found = checked(*[Step(step_id=f"s{n}", tool="w") for n in range(MANY)])
    assert sum(len(step.dependencies) for step in found.plan.steps) == MANY - 1


@given(st.lists(st.sampled_from(["w", "sets"]), min_size=1, max_size=8))
def test_every_step_comes_after_all_that_write_what_it_needs(tools: list[str]) -> None:
    found = checked(*[Step(step_id=f"s{n}", tool=tool) for n, tool in enumerate(tools)])
    graph = Graph.of(found.plan)
    for (n, tool), other in itertools.product(enumerate(tools), range(len(tools))):
        if tool == "w" and other < n:
            assert f"s{n}" in graph.downstream([f"s{other}"])


def test_dependencies_on_steps_that_are_not_there_are_told_in_few_words() -> None:
    steps = [Step(step_id=f"s{n}", tool="t", dependencies=tuple(f"no{n}_{k}" for k in range(10))) for n in range(MANY)]  # fmt: skip
    with cpu(4):
        found = checked(*steps)
    assert len(found.violations) <= 101


def test_a_chain_of_effects_that_take_turns_is_checked() -> None:
    ons = ToolSpec(id="on", source="s", effect="once")
    offs = ToolSpec(id="off", source="s", effect="once")
    steps = [
        Step(step_id=f"s{n}", tool=("on", "off")[n % 2], dependencies=(f"s{n - 1}",) if n else ())
        for n in range(MANY)
    ]
    with cpu(4):
        found = check_plan(
            Plan(plan_id="p", steps=tuple(steps)),
            Toolbox({"on": ons, "off": offs}.get, lambda name: []),
            metadata={},
            limits=PlanLimits(max_depth=100_000),
        )
    assert found.violations == ()


@given(st.data())
def test_what_stands_between_two_calls_is_on_a_way_from_one_to_the_other(data: st.DataObject) -> None:
    names = [f"s{n}" for n in range(7)]
    needs = {
        name: tuple(data.draw(st.lists(st.sampled_from(names[:n]), unique=True))) if n else ()
        for n, name in enumerate(names)
    }
    switch = ToolSpec(id="on", source="s", effect="once")
    others = {name: [Deed(ToolSpec(id="off", source="s", effect="once"), "off")] for name in names if data.draw(st.booleans())}  # fmt: skip
    first, second = data.draw(st.lists(st.sampled_from(names), min_size=2, max_size=2, unique=True))
    graph = Graph.from_needs({name: needs[name] for name in data.draw(st.permutations(names))})

    def reaches(one: str, other: str) -> bool:
        return other in graph.downstream([one])

    wanted = any(
        (reaches(first, name) and reaches(name, second)) or (reaches(second, name) and reaches(name, first))
        for name in others
    )
    assert (
        meant_by_order(first, second, Deed(switch, "on"), graph, lambda name: others.get(name, ())) is wanted
    )


@pytest.mark.parametrize(
    "answer",
    [
        {"steps": [{"step_id": f"s{n}", "tool": "t", "wibble": 1} for n in range(MANY)]},
        {"steps": [{"step_id": "s", "tool": "t", **{f"wibble{n}": 1 for n in range(20_000)}}]},
        {"steps": [{"step_id": "s", "tool": "t", "wibble" * 50_000: 1}]},
    ],
)
def test_a_plan_that_is_misread_a_thousand_times_is_told_in_few_words(answer: Any) -> None:
    with cpu(4), pytest.raises(PlanMisread) as found:
        read_plan(answer, plan_id="p")
    assert len(found.value.violations) <= 101
    assert sum(map(len, found.value.violations)) < 40_000


def test_like_effects_far_apart_in_a_long_chain_are_asked_to_say_that_they_are_meant() -> None:
    switch = ToolSpec(
        id="on", source="s", effect="once", parameters={"type": "object", "properties": {"x": {}}}
    )

    def chain(count: int) -> tuple[str, ...]:
        steps = [
            Step(
                step_id=f"s{n}",
                tool="on",
                parameters={"x": n % (count // 2)},
                dependencies=(f"s{n - 1}",) if n else (),
            )
            for n in range(count)
        ]
        plan = Plan(plan_id="p", steps=tuple(steps))
        return check_plan(
            plan, Toolbox(lambda name: switch, lambda name: []), metadata={}, limits=PlanLimits()
        ).violations

    assert chain(200) == ()
    with cpu(6):
        told = chain(MANY)
    assert "make the same call of 'on'" in told[0]
    assert len(told) <= 101
