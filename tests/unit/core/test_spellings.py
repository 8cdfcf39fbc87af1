"""One field under two names says one thing, or nothing is taken from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.spellings import Spellings, one_spelling
from replan.core.plan.read import read_plan
from replan.core.types import Step
from replan.errors import PlanInvalid

EMPTY: tuple[Any, ...] = (None, "", [])


def step(**fields: Any) -> Step:
    first = {"step_id": "a", "tool": "look", "parameters": {}}
    return read_plan({"steps": [first, {"step_id": "b", "tool": "pay", **fields}]}, plan_id="p").steps[1]


TWO_MEANINGS: list[dict[str, Any]] = [
    {"needs_approval": True, "requires_approval": False},
    {"requiresApproval": True, "requires_approval": False},
    {"Requires-Approval": True, "approval": False},
    {"condition": "${a.output} == 1", "when": "${a.output} == 2"},
    {"When": "${a.output} == 1", "when": "`false`"},
    {"depends_on": ["a"], "dependencies": ["c"]},
    {"depends_on": ["a"], "needs": ["c"]},
    {"timeout": 3, "timeout_secs": 300},
    {"arguments": {"to": "eve"}, "parameters": {"to": "ann"}},
    {"tool_name": "look", "tool_id": "mail"},
    {"forEach": [1], "for_each": [1, 2]},
]


@pytest.mark.parametrize("fields", TWO_MEANINGS)
def test_two_values_of_one_field_are_a_violation_whichever_stands_first(fields: dict[str, Any]) -> None:
    for said in (fields, dict(reversed(fields.items()))):
        with pytest.raises(PlanInvalid, match="which is the same field: write"):
            step(**said)


@pytest.mark.parametrize("empty", EMPTY)
def test_an_empty_field_never_wins_over_a_filled_one(empty: Any) -> None:
    for names, value in (
        (("when", "condition"), "${a.output} == 1"),
        (("dependencies", "depends_on"), ["a"]),
        (("requires_approval", "needs_approval"), True),
        (("timeout_secs", "timeout"), 3.0),
    ):
        own, other = names
        for said in ({own: empty, other: value}, {other: value, own: empty}, {own: value, other: empty}):
            taken = getattr(step(**said), own)
            assert taken == (tuple(value) if isinstance(value, list) else value), said


def test_steps_and_no_steps_are_two_plans() -> None:
    steps = [{"step_id": "a", "tool": "pay", "parameters": {}}]
    for said in ({"steps": steps, "Steps": []}, {"Steps": [], "steps": steps}):
        with pytest.raises(PlanInvalid, match="which is the same field: write 'steps' alone"):
            read_plan(said, plan_id="p")


def test_the_same_said_twice_is_said_once() -> None:
    assert step(depends_on=["a"], dependencies=["a"]).dependencies == ("a",)
    assert step(name="Pay", title="pay Ann").name == "Pay"
    assert step(title="pay Ann", name="Pay").name == "Pay", "what only readers see may be said in two ways"


@given(st.permutations([("isDone", True), ("is_done", None), ("IS-DONE", ""), ("is done", True)]))
def test_the_order_of_spellings_decides_nothing(pairs: list[tuple[str, Any]]) -> None:
    assert one_spelling(dict(pairs), ["is_done"]) == ({"is_done": True}, [])
    _, faults = one_spelling({**dict(pairs), "Is_Done": 1}, ["is_done"])
    assert len(faults) == 1, "1 is not true"


@given(
    st.lists(st.tuples(st.sampled_from(["own", "a", "b"]), st.sampled_from([None, "", [], 1, 2])), max_size=6)
)
def test_a_field_told_once_holds_what_all_its_filled_spellings_say(pairs: list[tuple[str, Any]]) -> None:
    found = Spellings({"own"})
    faults = [fault for key, value in pairs if (fault := found.take("own", key, value))]
    filled = [value for _, value in pairs if value not in EMPTY]
    assert bool(faults) == (len(set(filled)) > 1)
    if filled:
        assert found.fields["own"] == filled[0]
