"""What tells two parameters apart is what plans have written, in them and in the readings that they go by."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.site import ONLY, Slot
from replan.core.state.written import Form, Written
from replan.core.types import Step

VALUES = st.lists(st.sampled_from(["", "a", "b", "7"]), min_size=1, max_size=5)
"""What each reading of a chain is given; nothing for an empty text."""


def chain(prefix: str, given: list[str], shape: str) -> dict[str, Step]:
    """Readings that go by one another, and a call that goes by the last of them."""
    steps: dict[str, Step] = {}
    last = ""
    for at, value in enumerate(given):
        parameters: dict[str, Any] = {"of": f"${{{last}.output}}"} if last else {}
        if value:
            parameters["n"] = value
        last = f"{prefix}{at}"
        steps[last] = Step(step_id=last, tool=f"read{at}", parameters=parameters)
    reference = f"${{{last}.output.session}}"
    more = {"for_each": f'["{reference}"]'} if shape == "item" else {}
    name = f"{prefix}call"
    steps[name] = Step(step_id=name, tool="pay", parameters={"to": "${item}" if more else reference}, **more)
    return steps


def form(steps: dict[str, Step], name: str) -> Form:
    written = Written(lambda step, version: steps.get(step), lambda step: step.tool.startswith("read"))
    slot = Slot(None, 0) if steps[name].for_each else ONLY
    return written.forms(steps[name], 1, slot, ("to",))["to"]


@given(VALUES, st.sampled_from(["step", "item"]), st.sampled_from(["step", "item"]))
def test_the_same_values_under_other_ids_tell_nothing_apart(values: list[str], one: str, other: str) -> None:
    first, second = chain("a", values, one), chain("b", values, other)
    assert form(first, "acall").may_be(form(second, "bcall"))


@given(VALUES, st.data())
def test_another_value_anywhere_on_the_way_is_another_call(values: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    changed = [*values[:at], values[at] + "x", *values[at + 1 :]]
    first, second = chain("a", values, "step"), chain("b", changed, "step")
    assert not form(first, "acall").may_be(form(second, "bcall"))


@given(VALUES, st.integers(1, 3))
def test_readings_that_choose_nothing_may_stand_between(values: list[str], more: int) -> None:
    first, second = chain("a", values, "step"), chain("b", [*values, *[""] * more], "step")
    assert form(second, "bcall").may_be(form(first, "acall"))
    assert form(first, "acall").may_be(form(second, "bcall"))
