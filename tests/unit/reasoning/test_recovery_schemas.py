"""The schemas of diagnoses and repairs, and that a grammar can hold those of the small model."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from replan.core.recovery.check_proposal import FITTING
from replan.core.reflection import ACTION_TYPES
from replan.core.types import Action, JsonObject, Step, ToolSpec
from replan.reasoning.diagnosis.recovery_schemas import overall_reflection_schema, step_reflection_schema
from replan.reasoning.planning.replan_schemas import small_replan_schema, step_repair_schema
from replan.reasoning.prompting.schemas import reference_to

TEXT = {"type": "string"}
TYPED = ToolSpec(
    id="print_label",
    parameters={
        "$defs": {"Size": {"enum": ["A4", "A6"]}},
        "type": "object",
        "properties": {
            "copies": {"type": "integer", "minimum": 1},
            "size": {"$ref": "#/$defs/Size"},
            "pin": {"type": "string", "format": "password"},
            "key": TEXT,
        },
        "required": ["size", "pin"],
    },
    secrets=("key",),
)
LOOKUP = ToolSpec(id="lookup", effect="reads", parameters={"type": "object", "properties": {"name": TEXT}})
BARE = ToolSpec(id="bare", effect="reads")
STEP = Step(step_id="step_2", tool="print_label")
TWO = Step(
    step_id="step_2", actions=(Action(action_id="a", tool="lookup"), Action(action_id="b", tool="lookup"))
)

SMALL = {
    "step": step_reflection_schema("small", ACTION_TYPES, TYPED, [LOOKUP, BARE]),
    "round": overall_reflection_schema("small", ["step_1", "step_2"]),
    "round without steps": overall_reflection_schema("small", []),
    "repair": step_repair_schema("small", STEP, [TYPED, LOOKUP, BARE], ["step_1"], {}),
    "repair of actions": step_repair_schema("small", TWO, [LOOKUP], ["step_1"], {}),
    "repair without tools": step_repair_schema("small", STEP, [], [], {}),
    "replan": small_replan_schema(
        [TYPED, LOOKUP], {}, new_ids=["step_3", "step_4"], usable=["step_1", "fetch"]
    ),
    "replan without tools": small_replan_schema([], {}, new_ids=["step_3"], usable=[]),
}
STANDARD = {
    "step": step_reflection_schema("standard", ACTION_TYPES[:5], TYPED, [LOOKUP]),
    "round": overall_reflection_schema("standard", ["step_1"]),
    "repair": step_repair_schema("standard", STEP, [TYPED], [], {}),
}


@pytest.mark.parametrize("schema", [*SMALL.values(), *STANDARD.values()], ids=[*SMALL, *STANDARD])
def test_they_are_schemas(schema: JsonObject) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("schema", SMALL.values(), ids=list(SMALL))
def test_those_for_the_small_model_hold_only_what_a_grammar_can(schema: JsonObject) -> None:
    words = {
        "type",
        "properties",
        "required",
        "items",
        "enum",
        "const",
        "anyOf",
        "pattern",
        "additionalProperties",
    }
    assert set(keywords(schema)) <= words | {"maxItems"}


def keywords(schema: Any) -> list[str]:
    """Every keyword in use; names of properties are none."""
    found: list[str] = []
    for key, value in schema.items() if isinstance(schema, dict) else ():
        found.append(key)
        match key:
            case "properties":
                for child in value.values():
                    found += keywords(child)
            case "anyOf":
                for child in value:
                    found += keywords(child)
            case "items":
                found += keywords(value)
    return found


def small(kind: str, data: Any, category: str = "unknown") -> JsonObject:
    return {
        "root_cause": "x",
        "suggested_action": {"type": kind, "data": data},
        "root_cause_category": category,
    }


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        pytest.param(small("retry_with_params", {"size": "A6"}), True, id="one parameter"),
        pytest.param(small("retry_with_params", {"size": "A9"}), False, id="not in the enum"),
        pytest.param(small("retry_with_params", {"copies": "two"}), False, id="of the wrong type"),
        pytest.param(small("retry_with_params", {"pin": "x"}), False, id="a password is not the model's to give"),
        pytest.param(small("retry_with_params", {"key": "x"}), False, id="nor a secret"),
        pytest.param(small("retry_with_params", {"size": "${step_1.output}"}), False, id="a reference"),
        pytest.param(small("retry_with_tool", {"tool_id": "lookup", "parameters": {"name": "a"}}), True, id="a tool"),
        pytest.param(small("retry_with_tool", {"tool_id": "other", "parameters": {}}), False, id="no such tool"),
        pytest.param(small("retry_with_tool", {"tool_id": "bare", "parameters": {}}), True, id="without parameters"),
        pytest.param(small("repair_step", {"hint": "x"}), True, id="a hint"),
        pytest.param(small("repair_step", {"advice": "x"}), False, id="advice for a repair"),
        pytest.param(small("settle_outcome", {"happened": True, "evidence": "x"}), True, id="a settlement"),
        pytest.param(small("retry_with_params", {"size": "A6"}, "server_error"), False, id="a cause that does not go with it"),
    ],
)  # fmt: skip
def test_the_small_model_can_only_propose_what_has_the_right_shape(answer: JsonObject, fits: bool) -> None:
    assert jsonschema.Draft202012Validator(SMALL["step"]).is_valid(answer) is fits


@pytest.mark.parametrize("kind", ACTION_TYPES[:3])
def test_the_causes_offered_with_a_remedy_are_those_that_code_accepts(kind: Any) -> None:
    branch = step_reflection_schema("small", [kind], TYPED, [LOOKUP])
    causes = branch["properties"]["root_cause_category"]["enum"]
    assert sorted(causes) == sorted(name for name, fitting in FITTING.items() if kind in fitting)


def test_a_remedy_that_has_nothing_to_name_is_not_offered() -> None:
    offered = step_reflection_schema("small", ACTION_TYPES[:5], BARE, [])
    text = json.dumps(offered)
    assert "retry_with" not in text
    assert "repair_step" in text


@pytest.mark.parametrize(
    ("strategy", "fits"),
    [
        pytest.param({"type": "replan_from_step", "step_id": "step_2", "reason": "x"}, True, id="from a step"),
        pytest.param({"type": "replan_from_step", "step_id": "step_9", "reason": "x"}, False, id="no such step"),
        pytest.param({"type": "skip_steps", "step_ids": ["step_1"], "reason": "x"}, True, id="skip"),
        pytest.param({"type": "add_remediation_steps", "step_id": "step_2", "suggestions": ["x"]}, True, id="remediation"),
        pytest.param({"type": "adjust_dependencies", "adjustments": [{"step_id": "step_2", "add": ["step_1"], "remove": []}]}, True, id="adjust"),
        pytest.param({"type": "full_replan", "reason": "x"}, True, id="full"),
        pytest.param(None, False, id="none"),
        pytest.param({"type": "give_up"}, False, id="unknown"),
    ],
)  # fmt: skip
def test_the_small_model_names_steps_that_exist(strategy: Any, fits: bool) -> None:
    answer = {
        "root_causes": ["x"],
        "done_in_substance": False,
        "problem_nature": "tools",
        "should_replan": True,
        "replanning_strategy": strategy,
        "alternative_approaches": [],
    }
    assert jsonschema.Draft202012Validator(SMALL["round"]).is_valid(answer) is fits


@pytest.mark.parametrize(
    ("nature", "should_replan", "fits"),
    [
        pytest.param("tools", False, True, id="nothing new to try"),
        pytest.param("external", False, True, id="out of reach"),
        pytest.param("external", True, False, id="out of reach, and yet another round"),
    ],
)
def test_the_small_model_ends_what_is_out_of_reach(nature: str, should_replan: bool, fits: bool) -> None:
    answer: JsonObject = {"root_causes": [], "done_in_substance": False, "problem_nature": nature}
    answer |= {"should_replan": should_replan}
    answer |= (
        {"replanning_strategy": {"type": "full_replan", "reason": "x"}, "alternative_approaches": []}
        if should_replan
        else {"ask": "x"}
    )
    assert jsonschema.Draft202012Validator(SMALL["round"]).is_valid(answer) is fits


def call(step_id: str, name: str, **more: Any) -> JsonObject:
    return {"step_id": step_id, "tool": "lookup", **more, "parameters": {"name": name}, "dependencies": []}


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        pytest.param({"step": call("step_2", "${step_1.output}")}, True, id="a step"),
        pytest.param({"step": call("step_9", "x")}, False, id="another id"),
        pytest.param(
            {"step": call("step_2", "${item}", for_each="${step_1.output.rows}")}, True, id="for each"
        ),
        pytest.param(
            {"step": call("step_2", "x", for_each="${step_7.output.rows}")}, False, id="a step it cannot see"
        ),
    ],
)
def test_a_repair_by_the_small_model_keeps_the_id(answer: JsonObject, fits: bool) -> None:
    assert jsonschema.Draft202012Validator(SMALL["repair"]).is_valid(answer) is fits


@pytest.mark.parametrize(
    ("step", "fits"),
    [
        pytest.param(call("step_3", "x"), True, id="a free id"),
        pytest.param(call("step_2", "x"), False, id="a used id"),
        pytest.param(
            {**call("step_3", "x"), "dependencies": ["fetch", "step_4"]}, True, id="steps that are there"
        ),
        pytest.param(
            {**call("step_3", "x"), "dependencies": ["step_2"]}, False, id="a step without a result"
        ),
    ],
)
def test_new_steps_of_the_small_model_take_free_ids(step: JsonObject, fits: bool) -> None:
    assert jsonschema.Draft202012Validator(SMALL["replan"]).is_valid({"steps": [step]}) is fits


@pytest.mark.parametrize(
    ("reference", "fits"),
    [
        pytest.param("${fetch.output.rows[0].id}", True, id="an id of any form"),
        pytest.param("${a.b.output}", False, id="an id that is not there"),
        pytest.param("${metadata.team}", True, id="metadata"),
        pytest.param("${item.id}", False, id="an item outside a loop"),
        pytest.param("see ${fetch.output}", False, id="inside a text"),
    ],
)
def test_references_to_steps_that_are_there(reference: str, fits: bool) -> None:
    schema = {"type": "string", "pattern": reference_to(["fetch"])}
    assert jsonschema.Draft202012Validator(schema).is_valid(reference) is fits


def test_the_strong_model_gets_one_generic_shape() -> None:
    answer = {
        "root_cause_category": "unknown",
        "suggested_action": {"type": "replan", "data": {"advice": "x"}},
    }
    jsonschema.validate(answer, STANDARD["step"])
    jsonschema.validate(
        {"problem_nature": "tools", "should_replan": False, "replanning_strategy": None}, STANDARD["round"]
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {**answer, "suggested_action": {"type": "settle_outcome", "data": {}}}, STANDARD["step"]
        )


def test_the_small_model_chooses_among_the_strategies_offered() -> None:
    text = json.dumps(overall_reflection_schema("small", ["step_1"], ["full_replan"]))
    assert "full_replan" in text
    assert "skip_steps" not in text


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        pytest.param({"happened": True, "output": {"id": 7}, "evidence": "x"}, True, id="with its output"),
        pytest.param(
            {"happened": True, "output": {"id": "seven"}, "evidence": "x"}, False, id="of another type"
        ),
        pytest.param({"happened": False, "evidence": "x"}, True, id="without"),
        pytest.param({"happened": True}, False, id="without evidence"),
    ],
)
def test_a_settlement_by_the_small_model_has_the_output_that_the_tool_declares(data: Any, fits: bool) -> None:
    declared = TYPED.model_copy(
        update={
            "output_schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
        }
    )
    schema = step_reflection_schema("small", ["settle_outcome"], declared, [])
    assert jsonschema.Draft202012Validator(schema).is_valid(small("settle_outcome", data)) is fits
