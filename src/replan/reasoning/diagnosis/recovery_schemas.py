"""The JSON Schemas of diagnoses: one generic shape for strong models, typed ones for the small.

As in `schemas.py`, what the small model writes under is a grammar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from replan.core.recovery.check_proposal import FITTING
from replan.core.reflection import NATURES, STRATEGY_TYPES, ActionType, ProblemNature, StrategyType
from replan.core.secrets import with_secret_fields
from replan.core.types import Category, JsonObject, ToolSpec
from replan.reasoning.diagnosis.listed import narrowed
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.schemas import TEXTS, closed, grammatical

_TEXT: JsonObject = {"type": "string"}
_FEW_TEXTS: JsonObject = {"type": "array", "items": _TEXT, "maxItems": 3}
_CATEGORIES: tuple[Category, ...] = get_args(Category)
_OUTSIDE: tuple[ProblemNature, ...] = ("external", "server")
_WORDS: dict[ActionType, str] = {
    "repair_step": "hint",
    "replan": "advice",
    "trigger_overall_reflection": "summary",
}


# ── a step's diagnosis ────────────────────────────────────────────────────────


def step_reflection_schema(
    style: str,
    allowed: Sequence[ActionType],
    failed: ToolSpec | None,
    tools: Sequence[ToolSpec],
    known: Mapping[str, list[str]] | None = None,
) -> JsonObject:
    """The schema of `step_reflection`. `tools`: what `retry_with_tool` and `verify_outcome` may name.

    `known`: values that the error lists for a parameter; a small model has to choose among them.
    """
    if style == "small":
        return _small_step_reflection(allowed, failed, tools, known or {})
    return {
        "type": "object",
        "properties": {
            "analysis": _TEXT,
            "root_cause": _TEXT,
            "root_cause_category": {"type": "string", "enum": list(_CATEGORIES)},
            "is_recoverable": {"type": "boolean"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "suggested_action": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": list(allowed)},
                    "data": {"type": "object", "description": "as the type of the action wants it"},
                },
                "required": ["type", "data"],
            },
            "alternative_solutions": TEXTS,
            "improvement_suggestions": TEXTS,
        },
        "required": ["root_cause_category", "suggested_action"],
    }


def _small_step_reflection(
    allowed: Sequence[ActionType],
    failed: ToolSpec | None,
    tools: Sequence[ToolSpec],
    known: Mapping[str, list[str]],
) -> JsonObject:
    branches = [
        closed(
            {
                "root_cause": _TEXT,
                "suggested_action": closed({"type": {"const": kind}, "data": data}),
                # said last, among those that go with the remedy: the small model would not match them
                "root_cause_category": {"enum": _causes(kind)},
            }
        )
        for kind in allowed
        for data in _small_data(kind, failed, tools, known)
    ]
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _causes(kind: ActionType) -> list[Category]:
    found = [category for category in _CATEGORIES if kind in FITTING[category]]
    return found or list(_CATEGORIES)


def _small_data(
    kind: ActionType, failed: ToolSpec | None, tools: Sequence[ToolSpec], known: Mapping[str, list[str]]
) -> list[JsonObject]:
    """The shapes that the data of an action may have; none if there is nothing that it could name."""
    match kind:
        case "retry_with_params":
            changed = concrete_parameters(failed, all_of_them=False) if failed is not None else None
            return [narrowed(changed, known)] if changed is not None and changed["properties"] else []
        case "retry_with_tool" | "verify_outcome":
            return [
                closed(
                    {"tool_id": {"const": tool.id}, "parameters": concrete_parameters(tool, all_of_them=True)}
                )
                for tool in tools
            ]
        case "settle_outcome":
            return [_settlement(failed)]
        case _:
            return [closed({_WORDS[kind]: _TEXT})]


def _settlement(failed: ToolSpec | None) -> JsonObject:
    """Whether it happened; what it gave, where the tool declares it and the reading shows it."""
    declared = failed.output_schema if failed is not None else None
    output: JsonObject = {"output": grammatical(inline(declared))} if declared is not None else {}
    # the evidence first: what has been copied is the better ground to decide on
    shape = closed({"evidence": _TEXT, "happened": {"type": "boolean"}, **output})
    return {**shape, "required": ["evidence", "happened"]}


def concrete_parameters(tool: ToolSpec, *, all_of_them: bool) -> JsonObject:
    """A tool's parameters as final values, without references; with `all_of_them` those that it requires are."""
    whole = inline(tool.parameters)
    found = whole.get("properties")
    secret = with_secret_fields(tool).secrets
    properties = {
        name: child
        for name, child in (found.items() if isinstance(found, dict) else ())
        if name not in secret
    }
    required = [name for name in whole.get("required", ()) if name in properties]
    ordered = [*required, *(name for name in properties if name not in required)]
    return {
        "type": "object",
        "properties": {name: grammatical(properties[name]) for name in ordered},
        "required": required if all_of_them else [],
        "additionalProperties": False,
    }


# ── a round's diagnosis ───────────────────────────────────────────────────────


def overall_reflection_schema(
    style: str, step_ids: Sequence[str], offered: Sequence[StrategyType] = STRATEGY_TYPES
) -> JsonObject:
    """The schema of `overall_reflection`. `offered`: what the small model may choose from."""
    ids: JsonObject = {"enum": list(step_ids)} if step_ids else _TEXT
    list_of_ids: JsonObject = {"type": "array", "items": ids}
    adjustments: JsonObject = {
        "type": "array",
        "items": closed({"step_id": ids, "add": list_of_ids, "remove": list_of_ids}),
    }
    if style == "small":
        return _small_overall_reflection(ids, list_of_ids, adjustments, offered)
    strategy = {
        "type": ["object", "null"],
        "properties": {
            "type": {"type": "string", "enum": list(STRATEGY_TYPES)},
            "step_id": _TEXT,
            "step_ids": TEXTS,
            "reason": _TEXT,
            "suggestions": TEXTS,
            "adjustments": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"step_id": _TEXT, "add": TEXTS, "remove": TEXTS},
                    "required": ["step_id"],
                },
            },
        },
        "required": ["type"],
    }
    return {
        "type": "object",
        "properties": {
            "reflection_text": _TEXT,
            "root_causes": TEXTS,
            "incorrect_assumptions": TEXTS,
            "problem_nature": {"type": "string", "enum": list(NATURES)},
            "done_in_substance": {"type": "boolean"},
            "should_replan": {"type": "boolean"},
            "replanning_strategy": strategy,
            "ask": _TEXT,
            "alternative_approaches": TEXTS,
            "optimization_suggestions": TEXTS,
            "improvement_suggestions": TEXTS,
            "lessons_learned": TEXTS,
            "final_output": _TEXT,
        },
        "required": ["problem_nature", "should_replan", "replanning_strategy"],
    }


def _small_overall_reflection(
    ids: JsonObject, list_of_ids: JsonObject, adjustments: JsonObject, offered: Sequence[StrategyType]
) -> JsonObject:
    """Either another round and how, or none and what a person has to do: the small model would mix them."""
    fields: dict[StrategyType, JsonObject] = {
        "replan_from_step": {"step_id": ids, "reason": _TEXT},
        "add_remediation_steps": {"step_id": ids, "suggestions": _FEW_TEXTS},
        "full_replan": {"reason": _TEXT},
        "skip_steps": {"step_ids": list_of_ids, "reason": _TEXT},
        "adjust_dependencies": {"adjustments": adjustments},
    }
    strategies = [closed({"type": {"const": kind}, **fields[kind]}) for kind in offered]
    on: JsonObject = {
        "root_causes": _FEW_TEXTS,
        "done_in_substance": {"const": False},
        "problem_nature": {"enum": [nature for nature in NATURES if nature not in _OUTSIDE]},
        "should_replan": {"const": True},
        "replanning_strategy": {"anyOf": strategies},
        "alternative_approaches": _FEW_TEXTS,
    }
    over: JsonObject = {
        "root_causes": _FEW_TEXTS,
        "done_in_substance": {"type": "boolean"},
        "problem_nature": {"enum": list(NATURES)},
        "should_replan": {"const": False},
        "ask": _TEXT,
    }
    return {"anyOf": [closed(on), closed(over)]}
