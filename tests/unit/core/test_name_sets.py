"""Sets of names that share what they have say the same as plain sets."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.name_sets import NO_NAMES, Names, NameSet
from replan.core.calls.site import ONLY
from replan.core.state.written import Form, Written
from replan.core.types import Step

SOME = st.frozensets(st.integers(0, 40).map(str))
PLANS = st.lists(
    st.tuples(
        st.sampled_from(["read", "pay", "again"]), st.integers(0, 2), st.lists(st.integers(0, 30), max_size=3)
    ),
    min_size=1,
    max_size=12,
)
"""Of each step: what it does, what it is given, and how many steps back those stand that it refers to."""


@given(st.lists(SOME, min_size=1, max_size=8))
def test_they_are_as_plain_sets_whoever_gives_the_places(plain: list[frozenset[str]]) -> None:
    first, second = Names(), Names()
    second.those(map(str, range(40, 0, -3)))
    one, other = ([names.those(each) for each in plain] for names in (first, second))
    assert [frozenset(each) for each in one] == plain
    for (a, plain_a), (b, plain_b) in pairwise(zip(one, plain, strict=True)):
        assert (a == b) == (plain_a == plain_b)
        assert a.isdisjoint(b) == plain_a.isdisjoint(plain_b)
    assert one == other, "equal by what is in them"
    whole = NO_NAMES.union(*one)
    assert frozenset(whole) == frozenset[str]().union(*plain)
    assert whole == NO_NAMES.union(*other)
    assert bool(whole) == any(plain)


def test_one_that_stands_alone_is_told_by_its_name() -> None:
    assert NameSet.alone("a") == Names().those(["a"]) != NameSet.alone("b")


def planned(drawn: list[tuple[str, int, list[int]]], prefix: str = "s") -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for at, (kind, value, back) in enumerate(drawn):
        needs = sorted({at - 1 - n for n in back if n < at})
        parameters = {f"p{n}": f"${{{prefix}{n}.output}}" for n in needs}
        steps[f"{prefix}{at}"] = Step(
            step_id=f"{prefix}{at}", tool="read" if kind == "read" else "pay", repeat=kind == "again",
            parameters={"given": value, **parameters} if value else parameters,
        )  # fmt: skip
    steps["last"] = Step(
        step_id="last", tool="pay", parameters={"to": f"${{{prefix}{len(drawn) - 1}.output}}"}
    )
    return steps


def form(steps: dict[str, Step], written: Written) -> Form:
    return written.forms(steps["last"], 1, ONLY, ("to",))["to"]


def upstream(steps: dict[str, Step], name: str) -> set[str]:
    found = {name}
    for text in steps[name].parameters.values():
        if isinstance(text, str):
            found |= upstream(steps, text[2:].partition(".")[0])
    return found


@given(PLANS)
def test_a_parameter_goes_by_every_step_before_it(drawn: list[tuple[str, int, list[int]]]) -> None:
    steps = planned(drawn)
    written = Written(steps_of(steps), lambda step: step.tool == "read")
    cone, before = form(steps, written).cone, upstream(steps, "last") - {"last"}
    assert set(cone.readings) == {name for name in before if steps[name].tool == "read"}
    assert set(cone.effects) == {
        name for name in before if steps[name].tool == "pay" and not steps[name].repeat
    }
    assert cone.again == any(steps[name].repeat for name in before)
    for name in before:
        assert not cone.readings.union(cone.effects).isdisjoint(written.those([name])) or steps[name].repeat
    assert cone.readings.isdisjoint(written.those(steps.keys() - before))
    other = planned(drawn, "t")
    assert form(other, Written(steps_of(other), lambda step: step.tool == "read")).may_be(
        form(steps, written)
    ) == (not cone.again)


def steps_of(steps: dict[str, Step]) -> Callable[[str, int], Step | None]:
    return lambda name, version: steps.get(name)


def test_a_long_chain_takes_room_by_its_length() -> None:
    steps = planned([("pay" if n % 2 else "read", n, [0]) for n in range(1_000)])
    written = Written(steps_of(steps), lambda step: step.tool == "read")
    tracemalloc.start()
    try:
        for step in steps.values():
            written.forms(step, 1, ONLY, tuple(step.parameters))
        assert tracemalloc.get_traced_memory()[0] < 5_000_000, "plain sets took 50"
    finally:
        tracemalloc.stop()
