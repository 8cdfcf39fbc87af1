"""One effect makes good one, however steps are named for what was not had."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from replan.core.evaluation.accounts import Claim, accounted
from replan.core.evaluation.effects_had import Lost
from replan.core.evaluation.undone import LeftOut, Undone
from replan.core.state.progress import StepState
from replan.core.types import Step

STEPS = "xyz"


def state(name: str) -> StepState:
    return StepState(Step(step_id=name, tool="pay"))


def left(lost: dict[str, int], had: dict[str, list[int]], since: int = 2) -> LeftOut:
    undone = [
        Undone(state(name), [Lost("pay", frozenset())] * n, since, f"{name} failed")
        for name, n in lost.items()
    ]
    return LeftOut(undone, had, {name: state(name) for name in (*lost, *had)}, had)


def can_be(claims: dict[str, tuple[str, ...]], lost: dict[str, int], had: dict[str, int]) -> bool:
    """True if there is any way to give each what it lacks, and each step that is named something to make good."""
    ways = [
        [
            way
            for way in product(*(range(1, had[name] + 1) for name in claims[one]))
            if sum(way) == max(n, len(way))
        ]
        for one, n in lost.items()
    ]
    for each in product(*ways):
        used = dict.fromkeys(had, 0)
        for one, way in zip(lost, each, strict=True):
            for name, count in zip(claims[one], way, strict=True):
                used[name] += count
        if all(used[name] <= had[name] for name in had):
            return True
    return False


named = st.lists(st.sampled_from(STEPS), min_size=1, max_size=3, unique=True).map(tuple)
owed = st.dictionaries(st.sampled_from("pqr"), st.integers(1, 3), min_size=1)


@given(st.data(), owed, st.fixed_dictionaries({name: st.integers(1, 3) for name in STEPS}))
def test_no_account_uses_an_effect_twice(
    data: st.DataObject, lost: dict[str, int], had: dict[str, int]
) -> None:
    claims = {one: data.draw(named) for one in lost}
    found = accounted(
        left(lost, {name: [2] * n for name, n in had.items()}),
        {one: Claim(names) for one, names in claims.items()},
    )
    if not any(one.missing for one in found):
        assert can_be(claims, lost, had)
    elif set(had.values()) == {1} or len(lost) == 1 or all(len(names) == 1 for names in claims.values()):
        assert not can_be(claims, lost, had)
    assert all(bool(one.refused) == one.missing for one in found)


@given(st.integers(1, 4), st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_only_effects_that_came_late_enough_count(lost: int, came: list[int]) -> None:
    one = left({"p": lost}, {"x": sorted(came)})
    [found] = accounted(one, {"p": Claim(("x",))})
    assert found.missing == (sum(version >= 2 for version in came) < lost)


def test_some_may_be_made_good_and_the_rest_not_needed() -> None:
    two = left({"p": 2}, {"x": [2], "y": [2]})
    [found] = accounted(two, {"p": Claim(("x",), "Cid has it already")})
    assert found.told == "p failed; made good by x; the rest is not needed: Cid has it already"
    [found] = accounted(two, {"p": Claim(("x", "y"), "it is all there")})
    assert found.told == "p failed; made good by x and y"
    [found] = accounted(two, {"p": Claim(("x", "l"), "it is all there")})
    assert found.missing
    assert found.refused == "there is no step 'l'"
    [found] = accounted(two, {"p": Claim(("x",))})
    assert found.missing
    assert "has had 1 effects, and 2 are missing here" in found.refused
