"""The JSON Schemas of the answers: one generic shape for strong models, typed shapes for the small one.

The small model writes under a grammar made from the schema, so its schemas keep to what llama.cpp turns into
grammar: `type`, `properties`, `required`, `items`, `enum`, `const`, `anyOf`, `pattern`, no `$ref`, no conditions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from replan.core.data.schemas import problems
from replan.core.types import JsonObject, StepId, ToolSpec
from replan.reasoning.prompting.inlined import inline

_PATH = r"(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9][0-9]?\]|\[\*\]){0,6}"
REFERENCE = rf"^\$\{{(step_[1-9][0-9]?\.output|metadata){_PATH}\}}$"
"""A whole reference, as the small model writes it."""
_FOR_EACH = rf"^\$\{{step_[1-9][0-9]?\.output{_PATH}\}}$"
_IN_FOR_EACH = rf"^\$\{{(step_[1-9][0-9]?\.output|metadata|item){_PATH}\}}$"
_MOST_FOLLOWED = 40

MAX_SMALL_STEPS = 12
_MAX_DEPTH = 12
_SCORE = {"type": "number", "minimum": 0, "maximum": 100}
TEXTS = {"type": "array", "items": {"type": "string"}}
FOR_EACH = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {}}],
    "description": "a reference to a list, or the list itself",
}


_INSTEAD = "the failed steps of an earlier plan that this one is in place of"


# ── plans ─────────────────────────────────────────────────────────────────────


def plan_schema(
    style: str,
    tools: Sequence[ToolSpec],
    filled: Collection[str] = (),
    *,
    again: bool = False,
    followed: Sequence[str] = (),
) -> JsonObject:
    """The schema of `execution_plan`. `filled`: parameters that metadata fills in where the plan leaves them out. `again`: there is
    an earlier plan. `followed`: what there is of earlier tasks, as references write it."""
    return (
        _small_plan(tools, filled, _Patterns.of(followed)) if style == "small" else _plan(tools, again=again)
    )


def _plan(tools: Sequence[ToolSpec], *, again: bool) -> JsonObject:
    tool: JsonObject = {"type": "string"}
    if tools:
        tool["enum"] = [spec.id for spec in tools]
    parameters = {
        "type": "object",
        "description": "as the tool's schema wants them; texts may hold references",
    }
    action = {
        "type": "object",
        "properties": {
            "action_id": {"type": "string"},
            "name": {"type": "string"},
            "tool": tool,
            "parameters": parameters,
        },
        "required": ["action_id", "tool", "parameters"],
    }
    step = {
        "type": "object",
        "properties": {
            "step_id": {"type": "string", "description": "step_1, step_2, …"},
            "name": {"type": "string", "description": "what the step does, in a few words"},
            "tool": tool,
            "parameters": parameters,
            "dependencies": {**TEXTS, "description": "step ids that have to be done first"},
            "expected_output": {"type": "string"},
            "actions": {"type": "array", "items": action},
            "when": {"type": "string"},
            "for_each": FOR_EACH,
            "until": {"type": "string"},
            "every_secs": {"type": "number"},
            "limit_secs": {"type": "number"},
            "timeout_secs": {"type": "number"},
            "requires_approval": {
                "type": "boolean",
                "description": "only where the task wants a person's yes before this step",
            },
            "repeat": {"type": "boolean"},
            "repeat_reason": {"type": "string", "description": "with `repeat`: why the task wants it again"},
            "allow_failed_items": {"type": "boolean"},
            **({"instead_of": {**TEXTS, "description": _INSTEAD}} if again else {}),
        },
        "required": ["step_id", "name"],
    }
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "description": "why this plan, in one or two sentences"},
            "task_type": {"type": "string"},
            "workflow_id": {"type": ["string", "null"]},
            "steps": {"type": "array", "items": step},
            "more": {
                "type": "string",
                "description": "what is still to be planned once these steps have run; left out if nothing is",
            },
            "estimated_duration": {"type": "number", "description": "seconds"},
            "cannot": {"type": "string", "description": "why it cannot be done; then there are no steps"},
            "ask_first": {
                "type": "string",
                "description": "what a person has to say first; then there are no steps",
            },
        },
        "required": ["steps"],
    }


class _Patterns(NamedTuple):
    """What references look like as the small model writes them: in parameters, for a list, and in parameters of its items."""

    reference: str = REFERENCE
    for_each: str = _FOR_EACH
    in_for_each: str = _IN_FOR_EACH

    @classmethod
    def of(cls, followed: Sequence[str]) -> _Patterns:
        if not followed:
            return cls()
        heads = "|".join([r"step_[1-9][0-9]?\.output", *map(re.escape, followed[:_MOST_FOLLOWED])])
        made = (rf"^\$\{{({heads}{more}){_PATH}\}}$" for more in ("|metadata", "", "|metadata|item"))
        return cls(*made)


def _small_plan(tools: Sequence[ToolSpec], filled: Collection[str], written: _Patterns) -> JsonObject:
    branches = [_small_step(tool, filled, written) for tool in tools]
    if any(_may_hold_a_list(tool.output_schema) for tool in tools):
        branches += [
            _small_step(tool, filled, written, each=True)
            for tool in tools
            if tool.parameters.get("properties")
        ]
    steps: JsonObject = {"type": "array", "maxItems": MAX_SMALL_STEPS if branches else 0}
    if branches:
        steps["items"] = {"anyOf": branches} if len(branches) > 1 else branches[0]
    return closed({"steps": steps})


def _small_step(
    tool: ToolSpec, filled: Collection[str], written: _Patterns, *, each: bool = False
) -> JsonObject:
    """One call of a tool, or with `each` one for every item of a list."""
    step_id = {"type": "string", "pattern": "^step_[1-9][0-9]?$"}
    return closed(
        {
            "step_id": step_id,
            "tool": {"const": tool.id},
            **({"for_each": {"type": "string", "pattern": written.for_each}} if each else {}),
            "parameters": small_parameters(
                tool.parameters, filled, written.in_for_each if each else written.reference
            ),
            "dependencies": {"type": "array", "items": step_id},
        }
    )


def _may_hold_a_list(schema: Any) -> bool:
    """Whether an output of this schema may be, or may have inside, a list to go through."""
    if schema is None:
        return True
    if isinstance(schema, list):
        return any(_may_hold_a_list(part) for part in schema)
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    return (
        kind == "array"
        or (isinstance(kind, list) and "array" in kind)
        or any(
            _may_hold_a_list(part)
            for key, part in schema.items()
            if isinstance(part, dict | list) and key != "enum"
        )
    )


def reference_to(heads: Sequence[str], *, item: bool = False, metadata: bool = True) -> str:
    """The pattern of a whole reference to one of these steps, to metadata, or to the item of a list."""
    named = [rf"{re.escape(head)}\.output" for head in heads]
    named += ["metadata"] * metadata + ["item"] * item
    return rf"^\$\{{({'|'.join(named)}){_PATH}\}}$"


def closed(properties: JsonObject) -> JsonObject:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def small_parameters(
    schema: JsonObject, filled: Collection[str] = (), reference: str = REFERENCE
) -> JsonObject:
    """A tool's parameters as a grammar can hold them, each its own type or a reference."""
    whole = inline(schema)
    properties = whole.get("properties")
    if not isinstance(properties, dict) or not properties:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    required = [name for name in whole.get("required", ()) if name in properties and name not in filled]
    ordered = [*required, *(name for name in properties if name not in required)]
    return {
        "type": "object",
        "properties": {name: or_reference(grammatical(properties[name]), reference) for name in ordered},
        "required": required,
        "additionalProperties": False,
    }


def or_reference(schema: JsonObject, reference: str = REFERENCE) -> JsonObject:
    """The schema, or one whole reference, at any depth; a free text holds references anyway."""
    branches = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    if any(branch == {} or branch == {"type": "string"} for branch in branches):
        return schema
    inside = [_with_references_inside(branch, reference) for branch in branches]
    return {"anyOf": [*inside, {"type": "string", "pattern": reference}]}


def _with_references_inside(schema: JsonObject, reference: str) -> JsonObject:
    if schema.get("type") == "array":
        return {**schema, "items": or_reference(schema["items"], reference)}
    if "properties" in schema:
        children = schema["properties"].items()
        return {**schema, "properties": {name: or_reference(child, reference) for name, child in children}}
    return schema


def grammatical(schema: Any, depth: int = 0) -> JsonObject:
    """Of a schema without `$ref`, what llama.cpp turns into grammar; the rest is checked in code afterwards."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    if "const" in schema:
        return {"const": schema["const"]}
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return {"enum": schema["enum"]}
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list) and branches:
        made = [grammatical(branch, depth + 1) for branch in branches]
        return {} if {} in made else made[0] if len(made) == 1 else {"anyOf": made}
    kind = schema.get("type")
    if isinstance(kind, list):
        return grammatical({"anyOf": [{**schema, "type": one} for one in kind]}, depth) if kind else {}
    if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
        return _grammatical_object(schema, depth)
    if kind == "array":
        return {"type": "array", "items": grammatical(schema.get("items", {}), depth + 1)}
    return {"type": kind} if kind in ("string", "integer", "number", "boolean", "null") else {}


def _grammatical_object(schema: JsonObject, depth: int) -> JsonObject:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return {"type": "object"}
    return {
        "type": "object",
        "properties": {name: grammatical(child, depth + 1) for name, child in properties.items()},
        "required": [name for name in schema.get("required", ()) if name in properties],
        "additionalProperties": False,
    }


# ── selection ─────────────────────────────────────────────────────────────────


def selection_schema(style: str, ids: Sequence[str], *, again: bool = False) -> JsonObject:
    """The schema of `tool_selection`; `again`: the answer also says what is swapped, and why."""
    tool = {
        "type": "object",
        "properties": {
            "tool_id": {"type": "string", "enum": list(ids)} if ids else {"type": "string"},
            "reason": {"type": "string"},
            "score": {"type": "integer"} if style == "small" else _SCORE,
        },
        "required": ["tool_id", "score"],
    }
    changes: JsonObject = {"changes_summary": {"type": "string"}} if again else {}
    if style == "small":
        del tool["properties"]["reason"]  # type: ignore[attr-defined]
        tools = {"type": "array", "items": {**tool, "additionalProperties": False}, "maxItems": 12}
        return closed({**changes, "tools": tools})
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            **changes,
            "task_type": {"type": "string"},
            "workflow_id": {"type": ["string", "null"]},
            "tools": {"type": "array", "items": tool},
        },
        "required": [*changes, "tools"],
    }


# ── evaluation ────────────────────────────────────────────────────────────────


def allows_null(schema: Mapping[str, Any] | None) -> bool:
    """True if null is a value of the schema."""
    return schema is not None and not problems(dict(schema), None)


def evaluation_schema(
    style: str, output_schema: Mapping[str, Any] | None, left_out: Sequence[StepId] = ()
) -> JsonObject:
    """The schema of `evaluation`; `output_schema` is what `final_output` has to match, `left_out` names the effects to
    account for."""
    shape = inline(dict(output_schema)) if output_schema is not None else None
    if style == "small":
        return _small_evaluation(shape)
    score_names = ("completeness", "correctness", "efficiency", "reliability")
    return {
        "type": "object",
        "properties": {
            "successes": TEXTS,
            "failures": TEXTS,
            "wrong_results": TEXTS,
            "improvement_suggestions": TEXTS,
            "dimensions": {
                "type": "object",
                "properties": dict.fromkeys(score_names, _SCORE),
                "required": list(score_names),
            },
            "overall_score": _SCORE,
            **({"left_out_effects": _accounts(left_out)} if left_out else {}),
            "is_successful": {"type": "boolean"},
            "final_output": {"anyOf": [shape, {"type": "null"}]}
            if shape is not None
            else {"type": ["string", "null"]},
        },
        "required": [
            "overall_score",
            "is_successful",
            "dimensions",
            *(["left_out_effects"] if left_out else []),
            # where null is an answer, none at all is said by leaving it out
            *([] if allows_null(output_schema) else ["final_output"]),
        ],
    }


def _accounts(left_out: Sequence[StepId]) -> JsonObject:
    maybe: JsonObject = {"type": ["string", "null"]}
    names = list(dict.fromkeys(left_out))
    by: JsonObject = {"anyOf": [{"type": "string"}, TEXTS, {"type": "null"}]}
    account = {"step": {"enum": names}, "made_good_by": by, "not_needed": maybe}
    one = {"type": "object", "properties": {**account, "in_one": maybe}, "required": list(account)}
    return {"type": "array", "items": one}


def _small_evaluation(shape: JsonObject | None) -> JsonObject:
    score = {"enum": [0, 20, 40, 60, 80, 90, 100]}
    answer = grammatical(shape) if shape is not None else {"type": "string"}
    names = ("completeness", "correctness", "efficiency", "reliability")
    return closed(
        {
            "failures": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "is_successful": {"type": "boolean"},
            "dimensions": closed(dict.fromkeys(names, score)),
            "overall_score": score,
            "final_output": answer if shape is None else {"anyOf": [answer, {"type": "null"}]},
        }
    )
