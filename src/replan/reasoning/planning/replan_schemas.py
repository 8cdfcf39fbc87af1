"""The JSON Schemas of a step written anew and of the new steps of a plan: typed for the small model, as in `schemas.py`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from replan.core.types import JsonObject, Step, ToolSpec
from replan.reasoning.prompting.schemas import FOR_EACH, TEXTS, closed, reference_to, small_parameters

_TEXT: JsonObject = {"type": "string"}

# ── a step written anew ───────────────────────────────────────────────────────


def step_repair_schema(
    style: str, step: Step, tools: Sequence[ToolSpec], heads: Sequence[str], filled: Collection[str]
) -> JsonObject:
    """The schema of `step_repair`: the one step. `heads`: steps that it may refer to."""
    if style == "small":
        return _small_repair(step, tools, heads, filled)
    tool: JsonObject = {"type": "string", "enum": [spec.id for spec in tools]} if tools else _TEXT
    parameters: JsonObject = {"type": "object", "description": "all of them; texts may hold references"}
    action: JsonObject = {
        "type": "object",
        "properties": {"action_id": _TEXT, "name": _TEXT, "tool": tool, "parameters": parameters},
        "required": ["action_id", "tool", "parameters"],
    }
    return {
        "type": "object",
        "properties": {
            "step_id": {"type": "string", "enum": [step.step_id]},
            "name": _TEXT,
            "tool": tool,
            "parameters": parameters,
            "dependencies": TEXTS,
            "expected_output": _TEXT,
            "actions": {"type": "array", "items": action},
            "when": _TEXT,
            "for_each": FOR_EACH,
            "timeout_secs": {"type": "number"},
            "requires_approval": {"type": "boolean"},
            "allow_failed_items": {"type": "boolean"},
            "cannot": {
                "type": "string",
                "description": "in place of a step: why none could do it; left out otherwise",
            },
            "ask_first": {
                "type": "string",
                "description": "in place of a step: the one question that a person has to answer first; left out otherwise",
            },
        },
        "required": ["step_id"],
    }


def _small_repair(
    step: Step, tools: Sequence[ToolSpec], heads: Sequence[str], filled: Collection[str]
) -> JsonObject:
    ids: JsonObject = (
        {"type": "array", "items": {"enum": list(heads)}} if heads else {"type": "array", "maxItems": 0}
    )
    step_id: JsonObject = {"const": step.step_id}
    if step.actions:
        action = {
            "anyOf": [
                closed({
                    "action_id": {"enum": [action.action_id for action in step.actions]},
                    "tool": {"const": tool.id},
                    "parameters": small_parameters(tool.parameters, filled, reference_to(heads)),
                })
                for tool in tools
            ]
        }  # fmt: skip
        actions = {"type": "array", "items": action, "maxItems": len(step.actions)}
        return closed({"step": closed({"step_id": step_id, "actions": actions, "dependencies": ids})})
    branches = [small_call(step_id, tool, heads, ids, filled) for tool in tools]
    if heads:
        branches += [
            small_call(step_id, tool, heads, ids, filled, each=True)
            for tool in tools
            if tool.parameters.get("properties")
        ]
    return (
        closed({"step": {"anyOf": branches} if len(branches) > 1 else branches[0]})
        if branches
        else closed({})
    )


def small_call(
    step_id: JsonObject,
    tool: ToolSpec,
    heads: Sequence[str],
    dependencies: JsonObject,
    filled: Collection[str],
    *,
    each: bool = False,
) -> JsonObject:
    """One call of a tool that may refer to these steps, or with `each` one for every item of a list."""
    fields: dict[str, Any] = {"step_id": step_id, "tool": {"const": tool.id}}
    if each:
        fields["for_each"] = {"type": "string", "pattern": reference_to(heads, metadata=False)}
    fields["parameters"] = small_parameters(tool.parameters, filled, reference_to(heads, item=each))
    return closed({**fields, "dependencies": dependencies})


# ── steps of a plan made anew ─────────────────────────────────────────────────

_MOST_NEW = 12


def small_replan_schema(
    tools: Sequence[ToolSpec],
    filled: Collection[str],
    *,
    new_ids: Sequence[str],
    usable: Sequence[str],
) -> JsonObject:
    """The schema of new steps for the small model. `new_ids`: what they may be called; `usable`: done steps."""
    heads = [*usable, *new_ids]
    ids: JsonObject = {"type": "array", "items": {"enum": heads}}
    step_id: JsonObject = {"enum": list(new_ids)}
    branches = [small_call(step_id, tool, heads, ids, filled) for tool in tools]
    branches += [
        small_call(step_id, tool, heads, ids, filled, each=True)
        for tool in tools
        if tool.parameters.get("properties")
    ]
    steps: JsonObject = {"type": "array", "maxItems": _MOST_NEW if branches else 0}
    if branches:
        steps["items"] = {"anyOf": branches} if len(branches) > 1 else branches[0]
    return closed({"steps": steps})
