"""From a step to a call that can be made: references filled in, parameters checked, key made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from replan.core.calls.seals import seal
from replan.core.data import schemas
from replan.core.data.pieces import AT_ONCE, MANY, weight
from replan.core.ids import call_key
from replan.core.plan.index import references_of
from replan.core.plan.receivers import strays
from replan.core.recovery.check_proposal import mapped
from replan.core.references.conditions import roots
from replan.core.references.derived import derived
from replan.core.references.meter import Meter
from replan.core.references.paths import PathError, select, static_steps
from replan.core.references.refs import Reference, has_references
from replan.core.references.resolve import resolve
from replan.core.secrets import MASK, SecretLost, holds_lost, reveal, reveal_known
from replan.core.state.consent import asked_of, too_often
from replan.core.state.recovery import Recovery
from replan.core.state.task import ONLY, Slot, State, StepState
from replan.core.types import Fault, JsonObject, Step, ToolSpec
from replan.errors import UnresolvedReference
from replan.ports import Gate, Tools
from replan.run.calls.twins import mended_before, restated, unmeant
from replan.run.calls.unsaid import referred_unsaid, unsaid
from replan.run.session.outputs import Loaded


class CannotCall(Exception):
    """There is no call to make, and the fault says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class NeedsApproval(Exception):
    """The call waits for a person's yes."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.key)
        self.call = call


@dataclass(slots=True)
class Call:
    """A call that is ready to be made."""

    step: Step
    slot: Slot
    tool: ToolSpec
    parameters: JsonObject
    key: str
    attempt: int = 1
    retries: int = 0
    """Faults that were let pass, not tries: one that a crash cut off was no fault of the call."""
    doubt: str = ""
    """Why an earlier attempt is in doubt, where one is: the same call was made again with its key."""
    until: float | None = None
    """When the step's own time is over, for this call and its retries together (in the event loop's time)."""
    gate: Gate | None = None
    """The tool's limits, while the call has their leave to be made."""
    about: str = ""
    """The key of the call that a verifier looks for."""
    answer: Any = None
    """What it has given, where it is such a look."""
    short: bool = False
    """Its parameters hold no secret and nothing large: they go into the log as they are."""
    why_asked: str = ""
    """Why it needs a person's yes, where it is not the settings that ask for it."""
    item: Any = None
    """What it is made for, where it is one of a `for_each` and a person is asked about it."""
    large: bool = False
    """Its parameters are gone through beside the event loop."""

    def labels(self) -> dict[str, Any]:
        """What every event of this call says."""
        return {
            "call_key": self.key,
            "step_id": self.step.step_id,
            "action_id": self.slot.action_id,
            "index": self.slot.item,
            "attempt": self.attempt,
            "tool_id": self.tool.id,
        }


class Scope:
    """What references mean for one step: finished outputs, metadata, the task, the item."""

    def __init__(
        self, step: Step, state: State, loaded: Loaded, item: Any = None, index: int | None = None
    ) -> None:
        self._step = step
        self._state = state
        self._loaded = loaded
        self._item = item
        self._index = index

    def __call__(self, ref: Reference) -> tuple[Any, str]:
        found, where = self._found(ref)
        if not self._state.hides or not self._may_be_masked(ref):
            return found, where
        real = reveal_known(found)
        if holds_lost(real):
            _check_known(ref, real)
        if ref.path and static_steps(ref.path) is None:
            self._learn_made(ref, found, real)
        return real, where

    def _learn_made(self, ref: Reference, found: Any, real: Any) -> None:
        """What is computed from a secret is one."""
        known = self._state.secrets
        seen = known.masked(found) if ref.head == "metadata" else found
        if seen is not real:
            for text in derived(ref.path, seen, real):
                if known.hide(text) == text:  # one in which a secret stands as it is is hidden already
                    known.add(text)

    def _may_be_masked(self, ref: Reference) -> bool:
        step = self._state.named(ref.head)
        return step is None or any(call.output and call.output.masked for call in step.calls.values())

    def _found(self, ref: Reference) -> tuple[Any, str]:
        match ref.head:
            case "metadata":
                return self._metadata(whole=not ref.path), "the metadata"
            case "task":
                words = {"description": str(self._state.description), "id": self._state.task_id}
                return words, "the task"  # a secret that the words quote stays masked
            case "item" if self._index is not None:
                return self._item, f"item {self._index + 1}"
            case "index" if self._index is not None:
                return self._index, "the index"
        return self._output(ref)

    def _metadata(self, *, whole: bool) -> Mapping[str, Any]:
        """The metadata that the step sees; as a whole without their secrets."""
        known = self._state.secret_metadata(self._step.step_id) if whole else None
        return self._state.metadata_of(self._step.step_id) if known is None else known.shown

    def _output(self, ref: Reference) -> tuple[Any, str]:
        action = ref.action
        step = self._state.steps.get(ref.head) or self._state.earlier.get(ref.head)
        if step is None:
            step = self._state.step_of_action(ref.head)
            action = ref.head
        if step is None or not step.has_output:
            status = step.status if step else "unknown"
            has = [name for name, one in self._state.steps.items() if one.has_output]
            others = f"; steps that have one: {', '.join(has[:20])}" if has else ""
            why = f"{ref.head!r} has no output ({status}){others}"
            raise UnresolvedReference(ref.raw, where="this task", why=why)
        value = self._loaded.output_of(step)
        names = [one.action_id for one in step.step.actions]
        if action is not None and action not in names:
            why = f"step {step.step.step_id!r} has no action {action!r}"
            raise UnresolvedReference(ref.raw, where="this task", available=names, why=why)
        if action is not None:
            value = [one[action] for one in value] if step.items is not None else value[action]
        return value, f"the output of {ref.head!r}"


def _check_known(ref: Reference, value: Any) -> None:
    """Raise if just the part that is meant is lost; what is lost beside it does no harm."""
    try:
        part = select(ref.path, value) if ref.path else value
    except PathError:
        return  # which is said better where it is resolved
    if holds_lost(part):
        raise UnresolvedReference(ref.raw, where="this task", why=_LOST)


_LOST = (
    "what it refers to held a secret, which no log keeps, and the process that knew it has ended: "
    "get it anew in a step of its own"
)


def _lost_fault(what: str) -> Fault:
    text = f"{what} a secret, which no log keeps, and the process that knew it has ended: give it as metadata, or refer to what holds it"
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
    parameters, broken = _resolved(raw, scope)
    planned = parameters if changed is None else _resolved(written, scope)[0]
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
    if found := schemas.parameter_problems(tool, parameters):
        text = f"the parameters do not fit tool {tool.id!r}: " + "; ".join(found[:10])
        text = state.secrets.hide(text)
        fault = Fault(category="parameter_error", kind="parameter", message=text)
        return Outline(name, tool, parameters, planned, fault)
    return Outline(name, tool, parameters, planned, None)


def _resolved(raw: JsonObject, scope: Scope) -> tuple[JsonObject, UnresolvedReference | None]:
    """The parameters with references filled in; where some cannot be, those stay as written, and why."""
    if not has_references(raw):
        return raw, None
    meter = Meter()
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


def constant(step: StepState, state: State, tools: Tools) -> Call | None:
    """The only call of a step, where the check of its plan has left nothing to find out about it and nobody has made it.

    `prepare` would come to the same. None: ask it.
    """
    found = state.constant_call(step)
    if found is None or step.calls or state.recovery is not None:
        return None
    tool = found.tool
    if tools.resolve(step.step.tool) is not tool:
        return None
    base = state.constant_base(found)
    key = call_key(base, 1)
    if asked_of(state, step, ONLY, tool, key) is not None or state.latest_try(key) is not None:
        return None
    if not state.ledger.is_first(base, (step.step.step_id, ONLY)):
        return None
    return Call(step.step, ONLY, tool, found.parameters, key, short=found.short)


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


def prepare(
    step: StepState,
    slot: Slot,
    state: State,
    tools: Tools,
    loaded: Loaded,
    *,
    one_of_several: Callable[[str, JsonObject], bool],
    item: Any = None,
    meant: Meant | None = None,
) -> Call:
    """The call that a place in the plan makes. `CannotCall` if it cannot be made, `NeedsApproval` if not yet.

    `meant`: its meaning, if it is known already. `one_of_several`: whether the plan marks like calls beside this one with `repeat`.
    """
    found, names = meant or meaning(step, slot, state, tools, loaded, item)
    tool, parameters = found.tool, found.parameters
    if found.fault is not None or tool is None:
        raise CannotCall(found.fault or Fault(category="tool_error", kind="unknown_tool", message=found.name))
    base = state.known_base(names, tool, parameters)
    place = (step.step.step_id, slot)
    occurrence = state.occurrence(
        base, place, lambda: one_of_several(base, parameters), repeatable=tool.effect == "repeatable"
    )
    twin = state.twin(base, occurrence, place) if tool.effect == "once" else None
    if twin is not None and (text := unmeant(step, slot, tool, twin, state, tools)):
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    if step.meant > 1 and tool.effect == "once" and not state.ledger.is_done(base):
        changed = step.healing is not None and slot in step.healing.overrides
        text = "" if changed else restated(step, slot, tool, parameters, state)
        if text := text or mended_before(step, slot, tool, {base, *names}, state):
            raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    large = meant is not None
    call = Call(step.step, slot, tool, parameters, call_key(base, occurrence), large=large)
    under_way = state.latest_try(call.key)
    if (
        under_way is not None
        and under_way.status in ("running", "retrying")
        and (under_way.step_id, under_way.slot) != (step.step.step_id, slot)
    ):
        text = f"this very call is being made by step {under_way.step_id!r}, and is not made twice"
        raise CannotCall(Fault(category="unknown", kind="duplicate", message=text))
    if (doubt := state.in_doubt.get(call.key)) is not None and doubt is not step.calls.get(slot):
        text = f"this very call was made before, and nobody knows whether it took effect: {doubt.fault.message if doubt.fault else 'cut off'}"
        raise CannotCall(Fault(category="unknown", kind="in_doubt", message=text, happened="unknown"))
    if text := too_often(state, step, tool, call.key):
        raise CannotCall(Fault(category="decomposition_error", kind="repeated", message=text))
    asked = asked_of(state, step, slot, tool, call.key)
    if asked is not None and state.reusable(call.key, tool, step.step) is None:
        call.why_asked, call.item = asked.why, item
        _check_approved(call, state)
    return call


def _check_approved(call: Call, state: State) -> None:
    """Raise unless a person has agreed to just this call: what runs is what was shown."""
    known = state.recovery
    if known is not None:
        said = known.approvals.get(call.key)
        if said is not None and not said.approved:
            why = f": {said.reason}" if said.reason else ""
            text = f"a person has rejected the call of {call.tool.id!r}{why}"
            raise CannotCall(Fault(category="unknown", kind="rejected", message=text))
        if said is not None and said.parameters is None:
            return
        if _is_as_edited(call, known, state.seal_key):
            return
        if said is not None:
            text = f"a person has agreed to this call of {call.tool.id!r} only with other parameters"
            raise CannotCall(Fault(category="parameter_error", kind="rejected", message=text))
    if not state.policy.interactive:
        text = f"the call of {call.tool.id!r} needs a person's approval, and nobody can be asked here"
        raise CannotCall(Fault(category="external_error", kind="approval", message=text))
    raise NeedsApproval(call)


def _is_as_edited(call: Call, known: Recovery, seal_key: bytes) -> bool:
    """True if the call is made with just what a person has put in place of what was asked, hidden values included."""
    edited = known.edited.get((call.step.step_id, call.slot))
    if edited is None or call.tool.id != edited.tool_id or call.parameters.keys() != edited.parameters.keys():
        return False
    return all(
        seal(seal_key, call.tool.id, name, value) == edited.seals[name]
        if name in edited.seals
        else edited.parameters[name] == value
        for name, value in call.parameters.items()
    )


def _filled(tool: ToolSpec, parameters: JsonObject, metadata: JsonObject) -> JsonObject:
    """Required parameters that the step leaves out, from metadata of the same name; never over a given value."""
    missing = [name for name in tool.parameters.get("required", ()) if name not in parameters]
    found = {name: reveal(metadata[name]) for name in missing if name in metadata} if missing else {}
    return {**parameters, **found} if found else parameters


def own_copy(value: Any) -> Any:
    """The value for somebody who may change it: what is recorded stays as it is."""
    if isinstance(value, dict):
        return {
            name: own_copy(item) if isinstance(item, dict | list) else item for name, item in value.items()
        }
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    return value


def takes_much(step: StepState, state: State, *, items: bool = False) -> bool:
    """True if the step's parameters and what its references may bring are large. `items`: whatever its `for_each` is over."""
    wanted = step.step
    room = AT_ONCE - weight([wanted.parameters, *[one.parameters for one in wanted.actions]], AT_ONCE)
    for one in _referred(wanted, state, items=items):
        room -= _EACH * len(one.calls)
        for call in one.calls.values() if room >= 0 else ():
            if call.output is not None:
                kept = call.output.artifact
                room -= kept.size if kept is not None else weight(call.output.value, AT_ONCE)
            if room < 0:
                return True
    return room < 0


def _referred(step: Step, state: State, *, items: bool) -> Iterable[StepState]:
    """The steps that references may be to: of many that only come before it, those that some are to."""
    if not items and not state.earlier and len(step.dependencies) <= MANY:
        return [state.steps[name] for name in step.dependencies if name in state.steps]
    heads = {ref.head for ref in references_of(step.model_copy(update={"for_each": None}) if items else step)}
    found = map(state.named, heads)
    return [one for one in found if one is not None]


_EACH = 64


def steps_referred(step: StepState, state: State) -> list[StepState]:
    """The steps whose outputs this one's references and condition may need."""
    found = [state.steps[name] for name in step.step.dependencies if name in state.steps]
    if state.earlier:
        heads = {ref.head for ref in references_of(step.step)}
        heads.update(root for root, _ in (roots(step.step.when) if step.step.when else ()))
        named = (state.earlier.get(head) or state.step_of_action(head) for head in sorted(heads))
        left = {one.step.step_id: one for one in named if one is not None}
        found += [one for name, one in left.items() if state.earlier.get(name) is one]
    return found
