"""What a model may propose: of a small one's choices, those that could not help at all are taken away beforehand."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.failures.classes import names_parameter
from replan.core.plan.index import references_of
from replan.core.recovery.check_proposal import UNRECOVERABLE
from replan.core.reflection import ActionType, StrategyType
from replan.core.types import JsonObject, Plan, ToolSpec
from replan.reasoning.prompting.describe import shape
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.recovery_text import shown_tools
from replan.reasoning.prompting.recovery_view import FailureView
from replan.reasoning.prompting.view import StepReport

_TELLING = 3
"""Characters from which on a value in a message is no chance."""
_LAST_RESORT: ActionType = "trigger_overall_reflection"


def open_actions(view: FailureView, style: str) -> tuple[ActionType, ...]:
    """What may be proposed: what is open; to a small model only what could help at all."""
    if view.in_doubt:
        first = style == "small" and not view.readings and "verify_outcome" in view.allowed and _readers(view)
        return ("verify_outcome",) if first else tuple(view.allowed)
    useless: set[ActionType] = set()
    if style == "small":
        untried = set(stand_ins(view)) - {one.tool for one in view.tries}
        if not stand_ins(view):
            useless.add("retry_with_tool")
        if view.fault.category in UNRECOVERABLE and not _is_about_parameters(view):
            useless.add("retry_with_params")
            if untried and "retry_with_tool" in view.allowed:
                useless.add(_LAST_RESORT)  # it would give up before the other tool was tried
    return tuple(kind for kind in view.allowed if kind not in useless) or tuple(view.allowed)


def _readers(view: FailureView) -> list[ToolSpec]:
    """Reading tools that are asked with something that the call was made with: the likeliest to show it."""
    known = view.tool.parameters.get("properties") if view.tool is not None else None
    names = {*view.parameters, *(known if isinstance(known, dict) else ())}
    return [
        tool
        for tool in view.tools
        if tool.may_verify and names & set(tool.parameters.get("properties") or ())
    ]


def stand_ins(view: FailureView) -> list[str]:
    """Substitutes that give something of the same kind: a small model takes a look-up for one."""
    tools = {tool.id: tool for tool in view.tools}
    known = [tools[name] for name in view.substitutes if name in tools]
    return [tool.id for tool in known if view.tool is None or _like_results(view.tool, tool)]


def _like_results(failed: ToolSpec, other: ToolSpec) -> bool:
    if (failed.effect == "reads") != (other.effect == "reads"):
        return False
    one, two = (_fields(tool.output_schema) for tool in (failed, other))
    return not one or not two or bool(one.keys() & two.keys() or set(one.values()) & set(two.values()))


def _fields(schema: JsonObject | None) -> dict[str, str]:
    """The declared fields of an output, and their types in words."""
    found = inline(schema).get("properties") if schema is not None else None
    return {name: shape(child) for name, child in found.items()} if isinstance(found, dict) else {}


def _is_about_parameters(view: FailureView) -> bool:
    """Whether the message names a parameter, or quotes a value that was given."""
    message = view.fault.message
    known = view.tool.parameters.get("properties") if view.tool is not None else None
    given = (str(value) for value in view.parameters.values() if isinstance(value, str | int | float))
    quoted = any(len(value) >= _TELLING and value in message for value in given)
    return quoted or names_parameter(message, known if isinstance(known, dict) else ())


def offered_tools(view: FailureView, style: str) -> list[ToolSpec]:
    """The tools that are shown: of a call in doubt those that only read; the failed one and its substitutes first."""
    tools: list[ToolSpec] = list(view.tools)
    if view.in_doubt:
        tools = [tool for tool in tools if tool.may_verify]
        readers = [tool.id for tool in _readers(view)]
        if style == "small" and readers:
            tools = [tool for tool in tools if tool.id in readers]
        return shown_tools(tools, readers, style)
    if view.tool is not None and view.tool.id not in {tool.id for tool in tools}:
        tools.insert(0, view.tool)
    first = [view.tool.id] if view.tool is not None else []
    return shown_tools(tools, [*first, *view.substitutes], style)


def offered_strategies(plan: Plan, steps: Sequence[StepReport]) -> list[StrategyType]:
    """The strategies that a small model may choose from.

    To skip a step, only if others wait for it and nothing uses its output; never to adjust dependencies: it takes
    either for a remedy of anything.
    """
    failed = {report.step_id for report in steps if report.status == "failed"}
    used = {ref.head for step in plan.steps for ref in references_of(step)}
    awaited = {need for step in plan.steps for need in step.dependencies}
    found: list[StrategyType] = ["replan_from_step", "add_remediation_steps", "full_replan"]
    return [*found, "skip_steps"] if (failed & awaited) - used else found
