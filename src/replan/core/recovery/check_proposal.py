"""What a proposal about a failed step has to be (specification §6, the four rules): the model proposes, code disposes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replan.core.calls.names import bases
from replan.core.data import schemas
from replan.core.failures.faults import DONE_ALREADY
from replan.core.own_tools.called import called_as
from replan.core.own_tools.model import schema_fault
from replan.core.recovery.check_doubt import of_doubt
from replan.core.recovery.failed import Failed, not_values
from replan.core.recovery.substitutes import EFFECT_WORDS
from replan.core.references.paths import static_steps
from replan.core.reflection import ActionType, StepReflection, SuggestedAction
from replan.core.types import Category, JsonObject, ToolSpec

FITTING: Mapping[Category, frozenset[ActionType]] = {
    "parameter_error": frozenset({"retry_with_params", "repair_step"}),
    "tool_error": frozenset({"retry_with_tool", "repair_step"}),
    "decomposition_error": frozenset({"retry_with_tool", "repair_step"}),
    "dependency_error": frozenset({"retry_with_tool", "repair_step"}),
    "server_error": frozenset({"retry_with_tool"}),
    "external_error": frozenset({"retry_with_tool"}),
    "unknown": frozenset({"retry_with_params", "retry_with_tool", "repair_step"}),
}
"""Which remedies fit a cause; `replan` and `trigger_overall_reflection` fit every one."""
UNRECOVERABLE: frozenset[Category] = frozenset({"server_error", "external_error"})


def violations(proposal: StepReflection, failed: Failed) -> list[str]:
    """Everything that is wrong with the proposal, in words that help to mend it."""
    action = proposal.suggested_action
    if action.type not in failed.allowed:
        return [f"{action.type} is not open any more; open are: {', '.join(failed.allowed)}"]
    if failed.in_doubt:
        return list(of_doubt(action, failed))
    return [*_fit(proposal, failed), *_complete(action, failed)]


def _fit(proposal: StepReflection, failed: Failed) -> Iterator[str]:
    """Rule 1: the remedy goes with the cause. (Rule 2, `is_recoverable`, is derived from the cause where it is read.)"""
    category, action = proposal.root_cause_category, proposal.suggested_action
    everywhere = ("replan", "trigger_overall_reflection")
    if action.type not in FITTING[category] and action.type not in everywhere:
        fitting = [name for name in failed.allowed if name in FITTING[category] or name in everywhere]
        yield f"{action.type} does not go with {category}; with it go: {', '.join(fitting)}"
    elif category in UNRECOVERABLE and action.type == "retry_with_tool":
        other = failed.available.get(str(action.data.get("tool_id")))
        if (
            other is not None
            and not other.in_process
            and failed.tool is not None
            and other.source == failed.tool.source
            and failed.tool.source
        ):
            yield (
                f"{other.id!r} comes from the same source as {failed.tool.id!r}, which is out of reach; "
                "trigger_overall_reflection, or take a tool from another source"
            )


def _complete(action: SuggestedAction, failed: Failed) -> Iterator[str]:
    """Rules 3 and 4: the data can be used as they are, and are new."""
    if action.type == "retry_with_params":
        yield from _of_parameters(action.data, failed)
    elif action.type == "retry_with_tool":
        yield from _of_tool(action.data, failed)


def _of_parameters(data: JsonObject, failed: Failed) -> Iterator[str]:
    tool = failed.tool
    if not data:
        yield "data is empty: give at least one parameter with a concrete value"
        return
    if tool is None:
        yield "the tool does not exist, so other parameters do not help; take another tool"
        return
    yield from not_values(data, tool, failed)
    known = tool.parameters.get("properties")
    if isinstance(known, dict) and known and not tool.parameters.get("additionalProperties"):
        strange = [name for name in data if name not in known]
        if strange:
            yield f"{tool.id!r} has no parameter {', '.join(map(repr, strange))}; it has: {', '.join(known)}"
            return
    merged = {**failed.parameters, **data}
    yield from _of_call(tool, merged, failed)
    if tool.asks_model and isinstance(schema := data.get("schema"), dict):
        if problem := schema_fault(schema):
            yield f"schema: {problem}"
        else:
            yield from _of_references(called_as(tool, merged), failed)


def _of_tool(data: JsonObject, failed: Failed) -> Iterator[str]:
    name = str(data.get("tool_id") or "")
    other = failed.available.get(name)
    if other is None:
        near = ", ".join(list(failed.available)[:20]) or "none"
        yield f"the tool {name!r} does not exist or may not be used; there are: {near}"
        return
    limit = failed.may or (failed.tool.effect if failed.tool is not None else "reads")
    if other.is_stronger_than(limit):
        yield (
            f"{other.id!r} {EFFECT_WORDS[other.effect]}, and what it would stand in for {EFFECT_WORDS[limit]}: a stand-in "
            "may not do more; name a tool that does no more, or propose another remedy"
        )
        return
    given = data.get("parameters")
    if given is not None and not isinstance(given, dict):
        yield "parameters has to be an object"
        return
    if isinstance(given, dict):
        yield from not_values(given, other, failed)
    merged = given if isinstance(given, dict) else mapped(failed.planned or failed.parameters, other)
    if failed.tool is not None and other.id == failed.tool.id and given is None:
        yield f"{other.id!r} is the tool that failed; name another one"
        return
    if other.id in failed.healing.tools_tried(failed.slot) and not (
        failed.tool and other.id == failed.tool.id
    ):
        yield f"{other.id!r} was tried for this step already and failed; name one that was not"
        return
    yield from _of_call(other, merged, failed)
    yield from _of_references(other, failed)


def _of_call(tool: ToolSpec, parameters: JsonObject, failed: Failed) -> Iterator[str]:
    """The call as it would be made: it fits the schema, and was not tried before."""
    required = tool.parameters.get("required", ())
    filled = {
        name: failed.metadata[name] for name in required if name in failed.metadata and name not in parameters
    }
    parameters = {**parameters, **filled}
    for problem in schemas.parameter_problems(tool, parameters)[:10]:
        yield f"tool {tool.id!r}: {problem}"
    latest = failed.healing.latest(failed.slot)
    if latest is not None and latest.error.kind in DONE_ALREADY and tool.effect != "reads":
        if not failed.is_done(tool, parameters):
            yield (
                "the call was not made since its effect is had already, and here are other words for it: propose just the call that is "
                "done, whose output the step then has, or hand it on (another effect, or the same once more, is for a new plan to say)"
            )
        return  # what is done is no further try
    if not failed.healing.tried().isdisjoint(bases(failed.seal_key, failed.task_id, tool, parameters)):
        yield f"this very call of {tool.id!r} was tried for this step already and failed; propose something new"
    if place := failed.made_elsewhere(tool, parameters):
        yield (
            f"{place} makes this very call of {tool.id!r} already, or is to make it, and its effect does not stand for two: "
            "propose something else"
        )


def _of_references(other: ToolSpec, failed: Failed) -> Iterator[str]:
    """What later steps take from the output has to be in the other tool's, where that is declared."""
    if other.output_schema is None:
        return
    for path in failed.references:
        try:
            schemas.schema_at(other.output_schema, _steps_of(path))
        except schemas.PathUnknown as error:
            if error.is_open:
                continue
            yield f"later steps refer to {path!r} in the output, which {other.id!r} does not give; repair_step, or another tool"


def _steps_of(path: str) -> list[str | int]:
    return (static_steps(path) or []) if path else []


def mapped(parameters: JsonObject, tool: ToolSpec) -> JsonObject:
    """The parameters that the other tool has too, by name."""
    known = tool.parameters.get("properties")
    if not isinstance(known, dict) or not known or tool.parameters.get("additionalProperties"):
        return dict(parameters)  # it takes what it is given
    return {name: value for name, value in parameters.items() if name in known}
