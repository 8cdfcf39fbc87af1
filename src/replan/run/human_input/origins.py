"""Where each parameter of a call that waits for a yes comes from, by the plan and by what was changed since."""

from __future__ import annotations

from replan.core.calls.origins import Origin
from replan.core.references.refs import Reference, references
from replan.core.state.task import State
from replan.ports import Tools
from replan.run.calls.build import Call

_MOST = 20
"""References of one parameter that are told."""
_PLAN, _TOOL = (Origin(kind="plan"),), (Origin(kind="tool"),)


def origins_of(call: Call, state: State, tools: Tools) -> dict[str, tuple[Origin, ...]]:
    step = state.steps.get(call.step.step_id)
    planned = call.step if step is None else step.step
    action = next((one for one in planned.actions if one.action_id == call.slot.action_id), None)
    written = planned.parameters if action is None else action.parameters
    override = (
        step.healing.overrides.get(call.slot) if step is not None and step.healing is not None else None
    )
    by_person = state.recovery is not None and (call.step.step_id, call.slot) in state.recovery.edited
    instead = (Origin(kind="person" if by_person else "recovery"),)
    found: dict[str, tuple[Origin, ...]] = {}
    for name in call.parameters:
        if override is not None and (override.whole or name in override.parameters):
            found[name] = instead
        elif name not in written:
            found[name] = _TOOL
        else:
            named = [_origin(one, state, tools) for one in references(written[name])]
            found[name] = tuple(dict.fromkeys(named))[:_MOST] or _PLAN
    return found


def _origin(reference: Reference, state: State, tools: Tools) -> Origin:
    head, path = reference.head, reference.path
    if head in ("item", "metadata"):
        return Origin(kind="item" if head == "item" else "metadata", path=path)
    if head in state.previous:
        return Origin(kind="previous", path=f"{head}.{path}" if path else head)
    known = state.named(reference.action or head)
    if known is None:
        return Origin(kind="other", path=f"{head}.{path}" if path else head)
    tool = tools.resolve(known.step.tool) if known.step.tool else None
    asked = tool is not None and tool.waits == "question"
    return Origin(kind="answer" if asked else "step", step_id=known.step.step_id, path=path)
