from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.graph import Graph
from replan.core.types import Plan, Step

Needs = Mapping[str, tuple[str, ...]]


@st.composite
def any_needs(draw: st.DrawFn) -> Needs:
    names = [f"s{n}" for n in range(draw(st.integers(0, 8)))]
    order = draw(st.permutations(names))
    return {name: tuple(draw(st.lists(st.sampled_from(names), max_size=4))) for name in order}


@st.composite
def acyclic_needs(draw: st.DrawFn) -> Needs:
    names = [f"s{n}" for n in range(draw(st.integers(0, 9)))]
    needs = {
        name: tuple(draw(st.sets(st.sampled_from(names[:at]), max_size=4))) if at else ()
        for at, name in enumerate(names)
    }
    return {name: needs[name] for name in draw(st.permutations(names))}


def reaches(needs: Needs) -> dict[str, set[str]]:
    """Everything that each step needs, however far: by repeating until nothing is new."""
    far = {name: set(wanted) for name, wanted in needs.items()}
    while True:
        wider = {name: wanted.union(*(far[one] for one in wanted)) for name, wanted in far.items()}
        if wider == far:
            return far
        far = wider


@given(any_needs())
def test_a_cycle_is_found_exactly_when_a_step_needs_itself(needs: Needs) -> None:
    circle = Graph.from_needs(needs).cycle()
    assert bool(circle) is any(name in far for name, far in reaches(needs).items())
    if circle:
        assert circle[0] == circle[-1]
        assert len(set(circle)) == len(circle) - 1
        assert all(before in needs[after] for before, after in pairwise(circle))


@given(acyclic_needs())
def test_layers_put_each_step_right_after_the_last_that_it_needs(needs: Needs) -> None:
    graph = Graph.from_needs(needs)
    layers = graph.layers()
    place = {name: at for at, layer in enumerate(layers) for name in layer}
    assert sorted(place) == sorted(needs)
    assert sum(map(len, layers)) == len(needs)
    for name, wanted in needs.items():
        assert place[name] == max((place[one] + 1 for one in wanted), default=0)
    order = graph.topological()
    assert all(order.index(one) < order.index(name) for name, wanted in needs.items() for one in wanted)
    assert graph.is_chain() is all(len(layer) == 1 for layer in layers)


@given(acyclic_needs(), st.lists(st.sampled_from([f"s{n}" for n in range(9)]), max_size=3))
def test_downstream_is_all_that_needs_a_start_and_nothing_else(needs: Needs, starts: list[str]) -> None:
    far = reaches(needs)
    starts = [name for name in starts if name in needs]
    found = Graph.from_needs(needs).downstream(starts)
    assert len(found) == len(set(found))
    assert set(found) == {name for name in needs if far[name] & set(starts)}


@given(acyclic_needs(), st.dictionaries(st.sampled_from([f"s{n}" for n in range(9)]), st.integers(0, 9)))
def test_the_distance_to_the_end_is_the_heaviest_way_there(needs: Needs, weights: dict[str, int]) -> None:
    graph = Graph.from_needs(needs)
    after = {name: [one for one, wanted in needs.items() if name in wanted] for name in needs}

    def heaviest(name: str) -> float:
        return weights.get(name, 1) + max((heaviest(one) for one in after[name]), default=0)

    assert graph.distance_to_end({name: float(weight) for name, weight in weights.items()}) == {
        name: heaviest(name) for name in needs
    }
    assert graph.final() == [name for name in needs if not after[name]]


def test_plan_order_is_kept_among_equals_and_unknown_dependencies_are_left_out() -> None:
    steps = (Step(step_id="z"), Step(step_id="a"), Step(step_id="m", dependencies=("a", "gone")))
    graph = Graph.of(Plan(plan_id="p", steps=steps))
    assert graph.layers() == [["z", "a"], ["m"]]
    assert graph.needs["m"] == ("a",)


@pytest.mark.parametrize("shape", ["chain", "fan"])
def test_fifty_thousand_steps_need_no_deep_stack(shape: str) -> None:
    count = 50_000
    needs = {str(n): ((str(n - 1),) if shape == "chain" else ("0",)) if n else () for n in range(count)}
    graph = Graph.from_needs(needs)
    assert graph.cycle() == []
    assert len(graph.layers()) == (count if shape == "chain" else 2)
    assert len(graph.downstream(["0"])) == count - 1
    assert graph.distance_to_end()["0"] == (count if shape == "chain" else 2)
    needs["0"] = (str(count - 1),)
    assert len(Graph.from_needs(needs).cycle()) == (count + 1 if shape == "chain" else 3)
