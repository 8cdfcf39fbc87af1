"""What a plan says beside its steps is read, or refused: only what speaks to readers alone is left out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.fields import STEP_FIELDS
from replan.core.plan.read import read_plan
from replan.core.texts_as_json import read_text
from replan.core.types import Plan
from replan.errors import PlanInvalid

STEP: dict[str, Any] = {"step_id": "a", "tool": "pay", "parameters": {"amount": 5}}


def read(answer: Any) -> Plan:
    return read_plan(answer, plan_id="p")


def faults(answer: Any) -> tuple[str, ...]:
    with pytest.raises(PlanInvalid) as caught:
        read(answer)
    return tuple(caught.value.violations)


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"requires_approval": True}, "the plan has no field 'requires_approval', which steps have: write 'requires_approval' on each step"),
        ({"when": "`false`"}, "write 'when' on each step"),
        ({"if": "`false`"}, "write 'when' on each step"),
        ({"for_each": [1]}, "write 'for_each' on each step"),
        ({"dependencies": {"a": ["b"]}}, "write 'dependencies' on each step"),
        ({"dry_run": True}, "the plan has no field 'dry_run': leave it out, or put into `reasoning`"),
        ({"approved": False}, "no field 'approved'"),
        ({"valid": False}, "no field 'valid'"),
        ({"refusal": "it is an attack"}, "says why in `cannot`"),
        ({"error": "I must not do this"}, "no field 'error'"),
        ({"status": "draft"}, "the plan has 'status': 'draft', which is not read"),
        ({"status": ["rejected"]}, "which is not read"),
        ({"stepz": [STEP]}, "did you mean 'steps'?"),
        ({"alternative": {"steps": []}}, "no field 'alternative'"),
        ({"risk": "forbidden"}, "no field 'risk'"),
        ({"constraints": ["rejected"]}, "no field 'constraints'"),
        ({"metadata": {"approved": False}}, "no field 'metadata'"),
        ({"context": "I refuse to do this"}, "no field 'context'"),
        ({"_cannot": "x"}, "what begins with _ or x- is left out"),
        ({"_steps": []}, "the plan has '_steps', and what begins with _ or x- is left out"),
        ({"Cannot": "it is an attack"}, "`cannot` says 'it is an attack' beside steps"),
        ({"cannot_reason": "it is an attack"}, "`cannot` says 'it is an attack' beside steps"),
        ({"cannot": None, "impossible": ["it is an attack"]}, "`cannot` says 'it is an attack' beside steps"),
    ],
)  # fmt: skip
def test_what_a_plan_says_beside_its_steps_is_a_violation(beside: dict[str, Any], says: str) -> None:
    for answer in ({"steps": [STEP], **beside}, {**beside, "plan": {"steps": [STEP]}}):
        (told,) = faults(answer)
        assert says in told


@pytest.mark.parametrize(
    "beside",
    [
        {"reasoning": "r", "title": "t", "summary": "s", "notes": ["n"], "confidence": 0.9, "id": "x", "description": "d"},
        {"thought": "first read, then pay", "explanation": "e", "comment": "c", "goal": "g", "total_steps": 1},
        {"status": "pending", "type": "execution_plan", "version": 2, "name": "n"},
        {"_note": "x", "x-mine": True, "_disabled": True},
        {"cannot": None, "ask_first": "", "error": None, "warnings": [], "dry_run": ""},
        {"cannot": "none", "ask_first": "N/A", "question": False},
        {"plan_name": "Cancel", "strategy": "sequential", "risks": ["none"], "tools_used": ["pay"], "metadata": {"x": 1}, "task_id": "t1"},
        {"approved": True, "valid": True, "dry_run": False, "fallback": "none", "language": "en", "priority": "high", "output": "p"},
        {"task_type": "t", "workflow_id": None, "estimated_time": 3, "Task-Description": "d"},
    ],
)  # fmt: skip
def test_what_speaks_to_readers_or_holds_nothing_is_left_out(beside: dict[str, Any]) -> None:
    assert read({**beside, "steps": [STEP]}).steps == read({"steps": [STEP]}).steps


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ({"enabled": False}, "has no field 'enabled'"),
        ({"approved": False}, "has no field 'approved'"),
        ({"disabled": True}, "has no field 'disabled'"),
        ({"skip": True}, "has no field 'skip'"),
        ({"status": "skipped"}, "has 'status': 'skipped', which is not read: leave it out, and leave out what is not to be done"),
        ({"type": "disabled"}, "has 'type': 'disabled'"),
        ({"parallel": False}, "has 'parallel': 'False'"),
        ({"retries": 0}, "has no field 'retries'"),
        ({"assignee": "Bob"}, "has no field 'assignee'"),
    ],
)  # fmt: skip
def test_what_a_step_an_action_or_a_call_says_beside_is_a_violation(field: dict[str, Any], says: str) -> None:
    call = {"name": "pay", "arguments": {"amount": 5}, **field}
    action = {"action_id": "b", "tool": "pay", "parameters": {}, **field}
    for step in ({**STEP, **field}, call, {"step_id": "a", "actions": [action]}):
        assert any(says in told for told in faults({"steps": [step]}))


@pytest.mark.parametrize(
    "field",
    [
        {"enabled": True, "skip": False, "optional": False, "async": False, "disabled": False},
        {"on_error": "stop", "on_failure": "abort", "fallback": None, "retry_policy": None, "skipped": "none"},
        {"output_variable": "res", "side_effects": ["money moves"], "reversible": False, "estimated_cost": 0, "estimated_time": "2s"},
        {"title": "Cancel", "purpose": "reject", "risk": "low", "effect": "once", "result": "failed"},
    ],
)  # fmt: skip
def test_what_holds_without_it_says_nothing_on_a_step(field: dict[str, Any]) -> None:
    (step,) = read({"steps": [{**STEP, **field}]}).steps
    assert (step.tool, step.parameters) == ("pay", {"amount": 5})


@pytest.mark.parametrize(
    "field", [{"on_error": "continue"}, {"skip": True}, {"optional": True}, {"risk": "forbidden"}]
)
def test_the_same_field_with_another_value_is_a_violation(field: dict[str, Any]) -> None:
    assert faults({"steps": [{**STEP, **field}]})


@pytest.mark.parametrize(
    "name",
    [
        "_when",
        "_requires_approval",
        "__when",
        "_dependsOn",
        "_for-each",
        "x-when",
        "x-requires-approval",
        "x-dependsOn",
    ],
)
def test_a_field_behind_an_underscore_is_neither_read_nor_dropped_in_silence(name: str) -> None:
    answer = {"steps": [{**STEP, name: "`false`"}]}
    (told,) = faults(answer)
    assert f"step 'a' has {name!r}, and what begins with _ or x- is left out" in told


@given(st.text(max_size=12), st.booleans() | st.integers(1) | st.text(min_size=1, max_size=5))
def test_what_an_unknown_field_says_never_gets_lost(name: str, value: Any) -> None:
    assert faults({"steps": [STEP], f"zq{name}": value})
    assert faults({"steps": [{**STEP, f"zq{name}": value}]})


@pytest.mark.parametrize(
    "name", sorted(set(STEP_FIELDS) - {"step_id", "name", "expected_output", "estimated_secs"})
)
def test_a_field_of_steps_is_no_field_of_a_plan(name: str) -> None:
    (told,) = faults({"steps": [STEP], name: "said"})
    assert "of" in told or "write" in told
    assert name in told


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"to": "bob", "to": "mallory"}', None),
        ('[{"a": {"to": 1, "to": true}}]', None),
        ('{"to": "bob", "to": "bob"}', {"to": "bob"}),
        ("[1, 2]", [1, 2]),
        ("no JSON", None),
    ],
)
def test_json_in_a_text_that_gives_a_key_twice_says_nothing(text: str, found: object) -> None:
    assert read_text(text) == found


@pytest.mark.parametrize("field", ["requires_approval", "when", "only_if", "for_each", "allow_failed_items"])
def test_a_field_of_steps_on_an_action_is_told_where_it_belongs(field: str) -> None:
    one = {"step_id": "a", "actions": [{"action_id": "b", "tool": "pay", "parameters": {}, field: "x"}]}
    (told,) = faults({"steps": [one]})
    assert "which steps have: write" in told
