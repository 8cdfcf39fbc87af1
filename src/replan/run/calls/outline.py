"""What a place in the plan would call: references filled in, parameters checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from replan.core.data import schemas
from replan.core.plan.receivers import strays
from replan.core.recovery.check_proposal import mapped
from replan.core.references.kept import MOST_VALUE, misplaced, named, too_large
from replan.core.references.meter import Meter
from replan.core.references.refs import has_references
from replan.core.references.resolve import resolve
from replan.core.secrets import MASK, SecretLost, reveal
from replan.core.state.task import Slot, State, StepState
from replan.core.types import Fault, JsonObject, ToolSpec
from replan.core.waits.condition import condition_with_values
from replan.errors import UnresolvedReference
from replan.ports import Tools
from replan.run.calls.scope import Scope
from replan.run.calls.unsaid import referred_unsaid, unsaid
from replan.run.session.outputs import Loaded


def _lost_fault(what: str) -> Fault:
    text = f"{what} a secret, which no log keeps, and the process that knew it is another one or has ended: give it as metadata, or refer to what holds it"
    return _unread(text)


def _unread(why: str) -> Fault:
    return Fault(category="dependency_error", kind="reference", message=why)


class Outline(NamedTuple):
    """What a place in the plan would call, as far as it can be told."""

    name: str
    """The tool's name, as planned or as changed by recovery."""
    tool: ToolSpec | None
    parameters: JsonObject
    """As resolved; as written where `fault` says why they could not be."""
    planned: JsonObject
    """The same without what recovery has changed."""
    fault: Fault | None


def outline(
    step: StepState, slot: Slot, state: State, tools: Tools, loaded: Loaded, item: Any = None
) -> Outline:
    """The call that a place means, before it is checked."""
    if slot.action_id is None:
        name, raw = step.step.tool, step.step.parameters
    else:
        action = step.action(slot.action_id)
        name, raw = action.tool, action.parameters
    written, planned_name = raw, name
    changed = step.healing.overrides.get(slot) if step.healing is not None else None
    if changed is not None:
        other = {*changed.parameters, *changed.without}
        raw = {} if changed.whole else {key: raw[key] for key in raw if key not in other}
        name = changed.tool_id or name
    tool = tools.resolve(name)
    if tool is None:
        has = ", ".join(tools.nearest(name)) or "none"
        message = f"the tool {name!r} does not exist here; there are: {has}"
        fault = Fault(category="tool_error", kind="unknown_tool", message=message)
        return Outline(name, None, raw, raw, fault)
    if changed is not None and not changed.whole and tools.resolve(planned_name) != tool:
        raw = mapped(raw, tool)
    new = changed.parameters if changed is not None else {}
    if state.hides:
        try:
            raw, written, new = reveal(raw), reveal(written), reveal(new)
        except SecretLost:
            return Outline(name, tool, raw, raw, _lost_fault("the step's parameters hold"))
    hidden = state.secret_metadata(step.step.step_id) if has_references(raw) else None
    if hidden is not None and (found := strays(tool, raw, step.step.for_each, hidden, at=slot.item)):
        fault = Fault(category="parameter_error", kind="parameter", message="; ".join(found[:10]))
        return Outline(name, tool, raw, raw, fault)
    if text := referred_unsaid(raw, step.step.step_id, state, tools):
        return Outline(name, tool, raw, raw, _unread(text))
    scope = Scope(step.step, state, loaded, item, slot.item)
    parameters, broken = _resolved(tool, raw, scope)
    planned = parameters if changed is None else _resolved(tool, written, scope)[0]
    if changed is not None:  # what is put in place of a reference is used whatever that would give
        parameters = {**parameters, **new}
    if broken is not None:
        state.secrets.learn(tool, parameters)
        return Outline(name, tool, parameters, planned, _unread(str(broken)))
    given = parameters
    try:
        parameters = _filled(tool, given, state.metadata_of(step.step.step_id))
    except SecretLost:
        return Outline(name, tool, parameters, planned, _lost_fault("the metadata hold"))
    filled = [name for name in parameters if name not in given]
    if filled and (text := unsaid(filled, step.step.step_id, state, tools)):
        return Outline(name, tool, given, planned, _unread(text))
    state.secrets.learn(tool, parameters)
    if stands := [secret for secret in tool.secrets if parameters.get(secret) == MASK]:
        text = f"{', '.join(stands)}: {MASK} stands for a secret that is not shown, and is no value; refer to what holds it"
        fault = Fault(category="parameter_error", kind="parameter", message=text)
        return Outline(name, tool, parameters, planned, fault)
    if state.files:
        as_values = misplaced(parameters, tool.parameters, state.files)
        if large := too_large(as_values, state.files):
            text = (
                f"{', '.join(large)}: an output larger than {MOST_VALUE:,} bytes goes whole to a parameter that takes files, and "
                f"{tool.id!r} has none there"
            )
            return Outline(name, tool, parameters, planned, _unread(text))
        parameters = named(parameters)
    if found := schemas.parameter_problems(tool, parameters):
        text = f"the parameters do not fit tool {tool.id!r}: " + "; ".join(found[:10])
        text = state.secrets.hide(text)
        fault = Fault(category="parameter_error", kind="parameter", message=text)
        return Outline(name, tool, parameters, planned, fault)
    return Outline(name, tool, parameters, planned, None)


def _resolved(tool: ToolSpec, raw: JsonObject, scope: Scope) -> tuple[JsonObject, UnresolvedReference | None]:
    """The parameters with references filled in; where some cannot be, those stay as written, and why."""
    if not has_references(raw):
        return raw, None
    meter = Meter()
    condition = raw.get("condition") if tool.waits == "condition" else None
    if not isinstance(condition, str) or not has_references(condition):
        return _with_values(raw, scope, meter)
    found, broken = _with_values({name: raw[name] for name in raw if name != "condition"}, scope, meter)
    try:
        condition = condition_with_values(condition, lambda written: resolve(written, scope, meter))
    except UnresolvedReference as error:
        broken = broken or error
    return {**found, "condition": condition}, broken


def _with_values(
    raw: JsonObject, scope: Scope, meter: Meter
) -> tuple[JsonObject, UnresolvedReference | None]:
    try:
        return resolve(raw, scope, meter), None
    except UnresolvedReference as error:
        broken = error
    found: JsonObject = {}
    for name, value in raw.items():
        try:
            found |= resolve({name: value}, scope, meter)
        except UnresolvedReference:
            found[name] = value
    return found, broken


def _filled(tool: ToolSpec, parameters: JsonObject, metadata: JsonObject) -> JsonObject:
    """Required parameters that the step leaves out, from metadata of the same name; never over a given value."""
    missing = [name for name in tool.from_metadata if name not in parameters]
    found = {name: reveal(metadata[name]) for name in missing if name in metadata} if missing else {}
    return {**parameters, **found} if found else parameters


class Meant(NamedTuple):
    """What a place in the plan would call, and every name that the log may have for that."""

    outline: Outline
    bases: list[str]


def meaning(
    step: StepState, slot: Slot, state: State, tools: Tools, loaded: Loaded, item: Any = None
) -> Meant:
    """The part of `prepare` that goes through the parameters; it changes nothing, and may be done beside the event loop."""
    found = outline(step, slot, state, tools, loaded, item)
    if found.fault is not None or found.tool is None:
        return Meant(found, [])
    return Meant(found, state.bases(found.tool, found.parameters))
