"""Which step of a new plan takes the place of which, and what it inherits from it."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.site import ONLY, Slot
from replan.core.events import StepReflected
from replan.core.plan.lineage import replacements
from replan.core.reflection import SuggestedAction
from replan.core.state.step_recovery import Healing
from replan.core.types import Action, Fault, Step


def step(name: str, tool: str = "t", **parameters: object) -> Step:
    return Step(step_id=name, tool=tool, parameters=parameters)


def test_a_step_of_the_same_tool_takes_the_place_whatever_it_is_called() -> None:
    assert replacements([step("b", x=2)], [step("a", x=1)]) == {"b": "a"}
    assert replacements([step("b", "u", x=1)], [step("a", "t", x=1)]) == {}


def test_of_several_the_likeliest_is_replaced_first() -> None:
    gone = [step("rome", city="Rome", unit="C"), step("oslo", city="Oslo", unit="C")]
    new = [step("x", city="Oslo", unit="F"), step("y", city="Rome", unit="F")]
    assert replacements(new, gone) == {"x": "oslo", "y": "rome"}


def test_a_name_says_more_than_a_parameter() -> None:
    gone = [
        Step(step_id="a", tool="t", name="pay Ann", parameters={"n": 1, "to": "Bo"}),
        Step(step_id="b", tool="t", name="pay Bo", parameters={"n": 1}),
    ]
    new = [Step(step_id="c", tool="t", name="pay  Bo", parameters={"n": 2})]
    assert replacements(new, gone) == {"c": "b"}


def test_steps_of_several_calls_are_told_by_all_their_tools() -> None:
    def of(name: str, *tools: str) -> Step:
        return Step(
            step_id=name, actions=tuple(Action(action_id=f"{name}{n}", tool=t) for n, t in enumerate(tools))
        )

    assert replacements([of("n", "u", "t")], [of("o", "t"), of("p", "t", "u")]) == {"n": "p"}


STEPS = st.lists(
    st.builds(
        lambda tool, x, name: Step(step_id="", tool=tool, parameters={"x": x}, name=name),
        st.sampled_from("ab"),
        st.integers(0, 3),
        st.sampled_from(["", "one", "two"]),
    ),
    max_size=6,
)


def named(steps: list[Step], prefix: str) -> list[Step]:
    return [one.model_copy(update={"step_id": f"{prefix}{n}"}) for n, one in enumerate(steps)]


@given(STEPS, STEPS)
def test_each_step_is_replaced_once_by_one_of_its_tool_and_none_is_left_that_could_be(
    new: list[Step], gone: list[Step]
) -> None:
    new, gone = named(new, "n"), named(gone, "o")
    found = replacements(new, gone)
    tools = {one.step_id: one.tool for one in (*new, *gone)}
    assert len(set(found.values())) == len(found)
    assert all(tools[one] == tools[old] for one, old in found.items())
    pairs = Counter(tools[one] for one in found)
    for tool in "ab":
        both = (sum(one.tool == tool for one in steps) for steps in (new, gone))
        assert pairs[tool] == min(both)
    assert replacements(new, gone) == found


# ── what it inherits ──────────────────────────────────────────────────────────


def failure(
    sign: str, base: str = "", kind: str = "trigger_overall_reflection", **more: object
) -> StepReflected:
    return StepReflected(
        step_id="a",
        tool_id="t",
        base=base or sign,
        signature=sign,
        error=Fault(category="tool_error", kind="http", message=sign),
        action=SuggestedAction(type=kind),  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


def test_the_heir_knows_what_was_tried_and_has_nothing_decided() -> None:
    old = Healing()
    old.take(failure("s1", "x=1", "retry_with_params"))
    old.take(failure("s1", "x=2"))
    heir = old.heir()
    assert heir.tried() == {"x=1", "x=2"}
    assert heir.retries(ONLY) == 1
    assert not heir.pending
    assert not heir.repeated(ONLY), "nothing has failed yet in the new plan"
    heir.take(failure("other"))
    assert not heir.repeated(ONLY), "another error is no repeat, though the old ones were"
    heir.take(failure("s1", "x=3"))
    assert heir.repeated(ONLY)


def test_an_item_follows_the_item_at_its_place_alone() -> None:
    old = Healing()
    old.take(failure("s", index=0))
    heir = old.heir()
    heir.take(failure("s", index=1))
    assert not heir.repeated(Slot(None, 1))
    heir.take(failure("s", index=0))
    assert heir.repeated(Slot(None, 0))


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=4), min_size=1, max_size=5))
def test_over_any_number_of_plans_an_error_is_new_once(lives: list[list[str]]) -> None:
    """However the failures of a step are cut into plans, a repeat of the latest error is seen as one."""
    mine, seen = Healing(), set[str]()
    for life in lives:
        for sign in life:
            mine.take(failure(sign))
            if sign in seen:
                assert mine.repeated(ONLY)
            seen.add(sign)
            assert mine.tried() == seen
        mine = mine.heir()
