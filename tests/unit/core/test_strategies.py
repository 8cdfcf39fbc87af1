from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.diff import diff_of
from replan.core.plan.graph import Graph
from replan.core.recovery.strategies import (
    Standing,
    StrategyRefused,
    adjust_dependencies,
    due_again,
    kept_before,
    refers_to,
    skip_steps,
    to_be_helped,
    with_remediation,
    with_suffix,
)
from replan.core.reflection import Adjustment, Strategy
from replan.core.types import Plan, Step


def step(step_id: str, *needs: str, **parameters: Any) -> Step:
    return Step(step_id=step_id, tool="t", parameters=parameters, dependencies=needs)


def plan(*steps: Step) -> Plan:
    return Plan(plan_id="p", steps=steps)


def standing(succeeded: str = "", failed: str = "", left_out: str = "") -> Standing:
    return Standing(frozenset(succeeded), frozenset(failed), frozenset(left_out))


# a ─▶ b ─▶ c ─▶ d   and e beside them; d refers to c
PLAN = plan(step("a"), step("b", "a"), step("c", "b"), step("d", "c", v="${c.output}"), step("e"))
BROKEN = standing("ae", "b", "cd")


def test_the_rest_waits_for_what_a_skipped_step_waited_for() -> None:
    made = skip_steps(PLAN, BROKEN, ["b"])
    assert [(one.step_id, one.dependencies) for one in made.steps] == [
        ("a", ()),
        ("c", ("a",)),
        ("d", ("c",)),
        ("e", ()),
    ]


def test_a_chain_of_skipped_steps_is_bypassed() -> None:
    loose = plan(step("a"), step("b", "a"), step("c", "b"), step("d", "c"))
    made = skip_steps(loose, standing("a", "b", "cd"), ["b", "c"])
    assert made.steps[-1].dependencies == ("a",)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["c"], "needs the output of 'c'"),
        (["x"], "'x', which the plan does not have"),
        ([], "names no step"),
        (["a"], "succeeded already"),
        (["a", "b", "c", "d", "e"], "nothing would be left"),
    ],
)
def test_skipping_is_refused_where_it_would_hurt(names: list[str], why: str) -> None:
    with pytest.raises(StrategyRefused, match=why):
        skip_steps(PLAN, BROKEN, names)


def test_a_condition_counts_as_a_need() -> None:
    conditional = plan(step("a"), Step(step_id="b", tool="t", when="a.output.ok", dependencies=("a",)))
    with pytest.raises(StrategyRefused, match="needs the output"):
        skip_steps(conditional, standing("", "a", "b"), ["a"])


def test_edges_are_added_and_taken_away() -> None:
    made = adjust_dependencies(PLAN, BROKEN, [Adjustment(step_id="b", add=("e",), remove=("a",))])
    assert made.steps[1].dependencies == ("e",)


@pytest.mark.parametrize(
    ("adjustment", "why"),
    [
        (Adjustment(step_id="b", add=("d",)), "cycle: "),
        (Adjustment(step_id="d", remove=("c",)), "refers to 'c'"),
        (Adjustment(step_id="x", add=("a",)), "'x'"),
        (Adjustment(step_id="b", add=("x",)), "'x'"),
        (Adjustment(step_id="a", add=("e",)), "succeeded already"),
        (Adjustment(step_id="b", add=("a",)), "change nothing"),
        (Adjustment(step_id="b", add=("b",)), "cycle"),
    ],
)
def test_adjusting_is_refused_where_it_would_hurt(adjustment: Adjustment, why: str) -> None:
    with pytest.raises(StrategyRefused, match=why):
        adjust_dependencies(PLAN, BROKEN, [adjustment])


def test_what_is_kept_is_all_that_does_not_depend_on_what_is_written_anew() -> None:
    assert kept_before(PLAN, BROKEN, "b") == ("a", "e")
    assert kept_before(PLAN, standing("abcde"), "c") == ("a", "b", "e")
    assert kept_before(PLAN, standing("abcde"), None) == ("a", "b", "c", "d", "e")
    with pytest.raises(StrategyRefused, match="'x'"):
        kept_before(PLAN, BROKEN, "x")


def test_the_new_steps_come_after_the_kept_ones() -> None:
    made = with_suffix(PLAN, ("a", "e"), [step("n", "a")])
    assert [one.step_id for one in made.steps] == ["a", "e", "n"]
    assert diff_of(PLAN, made).words() == "+ n; - b, c, d; 2 kept"


def test_remediation_goes_before_what_failed() -> None:
    made = with_remediation(PLAN, ("b",), [step("x"), step("y", "x")])
    assert [one.step_id for one in made.steps] == ["a", "x", "y", "b", "c", "d", "e"]
    assert made.steps[3].dependencies == ("a", "y")


def test_the_failed_step_may_be_restated_with_what_the_new_ones_give() -> None:
    made = with_remediation(PLAN, ("b",), [step("x"), step("b", v="${x.output}")])
    restated = made.steps[2]
    assert restated.parameters == {"v": "${x.output}"}
    assert set(restated.dependencies) == {"a", "x"}


@pytest.mark.parametrize(
    ("named", "where", "why"),
    [("a", BROKEN, "has not failed"), (None, standing("a"), "no step has failed"), ("x", BROKEN, "'x'")],
)
def test_only_failed_steps_are_helped(named: str | None, where: Standing, why: str) -> None:
    with pytest.raises(StrategyRefused, match=why):
        to_be_helped(PLAN, where, Strategy(type="add_remediation_steps", step_id=named))


# ── invariants ────────────────────────────────────────────────────────────────

IDS = "abcdefgh"


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, Standing]:
    steps = []
    for at, name in enumerate(IDS[: draw(st.integers(2, 8))]):
        needs = tuple(sorted(draw(st.sets(st.sampled_from(IDS[:at]), max_size=3)))) if at else ()
        used = [need for need in needs if draw(st.booleans())]
        steps.append(step(name, *needs, **{need: f"${{{need}.output}}" for need in used}))
    names = [one.step_id for one in steps]
    graph = Graph.of(plan(*steps))
    failed = set(draw(st.sets(st.sampled_from(names), max_size=2)))
    left = set(graph.downstream(failed)) - failed
    rest = [name for name in names if name not in failed | left]
    done = {name for name in rest if all(need not in failed | left for need in graph.needs[name])}
    return plan(*steps), Standing(frozenset(done), frozenset(failed - left), frozenset(left))


@given(plans(), st.sets(st.sampled_from(IDS), max_size=3))
def test_skipping_never_leaves_a_reference_or_an_edge_into_nothing(
    made: tuple[Plan, Standing], names: set[str]
) -> None:
    before, where = made
    try:
        after = skip_steps(before, where, sorted(names))
    except StrategyRefused:
        return
    ids = {one.step_id for one in after.steps}
    assert not ids & names
    for one in after.steps:
        assert set(one.dependencies) <= ids
        if one.step_id not in where.succeeded:
            assert refers_to(one, {}) <= ids
    assert not Graph.of(after).cycle()


@given(
    plans(),
    st.sampled_from(IDS),
    st.sets(st.sampled_from(IDS), max_size=2),
    st.sets(st.sampled_from(IDS), max_size=2),
)
def test_adjusting_never_makes_a_circle_nor_cuts_a_reference(
    made: tuple[Plan, Standing], name: str, add: set[str], remove: set[str]
) -> None:
    before, where = made
    try:
        after = adjust_dependencies(
            before, where, [Adjustment(step_id=name, add=tuple(add), remove=tuple(remove))]
        )
    except StrategyRefused:
        return
    assert not Graph.of(after).cycle()
    for one in after.steps:
        assert refers_to(one, {}) <= set(one.dependencies) | {one.step_id}
    assert after != before


@given(plans(), st.none() | st.sampled_from(IDS))
def test_what_is_kept_needs_nothing_that_is_not(made: tuple[Plan, Standing], start: str | None) -> None:
    before, where = made
    try:
        kept = set(kept_before(before, where, start))
    except StrategyRefused:
        assert start not in {one.step_id for one in before.steps}
        return
    assert start not in kept
    assert not kept & (where.failed | where.left_out)
    for one in before.steps:
        if one.step_id in kept:
            assert set(one.dependencies) <= kept


# ── what begins again ─────────────────────────────────────────────────────────

# b and x have failed; c waits for b, y for x, z for both
TWO = plan(step("a"), step("b", "a"), step("x", "a"), step("c", "b"), step("y", "x"), step("z", "c", "y"))
BOTH = standing("a", "bx", "cyz")


@pytest.mark.parametrize(
    ("strategy", "due"),
    [
        pytest.param(Strategy(type="add_remediation_steps", step_id="b"), "bc", id="only the helped one"),
        pytest.param(Strategy(type="add_remediation_steps"), "bxcyz", id="all that are helped"),
        pytest.param(
            Strategy(type="adjust_dependencies", adjustments=(Adjustment(step_id="x", add=("c",)),)),
            "xy",
            id="what now waits for another",
        ),
        pytest.param(Strategy(type="skip_steps", step_ids=("q",)), "", id="no failed one where others go"),
        pytest.param(
            Strategy(type="replan_from_step", step_id="b"), "bxcyz", id="whatever stays of a suffix"
        ),
    ],
)
def test_a_failed_step_begins_again_only_where_the_change_was_for_it(strategy: Strategy, due: str) -> None:
    assert due_again(TWO, BOTH, strategy) == tuple(due)


@given(st.sets(st.sampled_from("bx")), st.sampled_from([None, "b", "x"]))
def test_nothing_begins_again_behind_a_step_that_stays_failed(failed: set[str], helped: str | None) -> None:
    left = "".join(sorted(set(Graph.of(TWO).downstream(failed)) - failed))
    now = Standing(frozenset("abcxyz") - failed - set(left), frozenset(failed), frozenset(left))
    due = set(due_again(TWO, now, Strategy(type="add_remediation_steps", step_id=helped)))
    stays = failed - due
    assert not due & set(Graph.of(TWO).downstream(stays))
