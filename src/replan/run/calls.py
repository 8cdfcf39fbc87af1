"""From a step to a call that can be made: references filled in, parameters checked, key made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replan.core import schemas
from replan.core.ids import call_base, call_key
from replan.core.policy import needs_approval
from replan.core.refs import Reference, has_references, resolve
from replan.core.state import Slot, State, StepState
from replan.core.types import Fault, JsonObject, Step, ToolSpec
from replan.errors import UnresolvedReference
from replan.ports import Tools
from replan.run.masking import hidden, secrets_of
from replan.run.outputs import Loaded


class CannotCall(Exception):
    """There is no call to make, and the fault says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


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

    def __init__(self, state: State, loaded: Loaded, item: Any = None, index: int | None = None) -> None:
        self._state = state
        self._loaded = loaded
        self._item = item
        self._index = index

    def __call__(self, ref: Reference) -> tuple[Any, str]:
        match ref.head:
            case "metadata":
                return self._state.metadata, "the metadata"
            case "task":
                words = {"description": self._state.description, "id": self._state.task_id}
                return words, "the task"
            case "item" if self._index is not None:
                return self._item, f"item {self._index}"
            case "index" if self._index is not None:
                return self._index, "the index"
        return self._output(ref)

    def _output(self, ref: Reference) -> tuple[Any, str]:
        action = ref.action
        step = self._state.steps.get(ref.head)
        if step is None:
            step = self._state.step_of_action(ref.head)
            action = ref.head
        if step is None or step.status != "succeeded":
            status = step.status if step else "unknown"
            raise UnresolvedReference(
                ref.raw, where="this task", why=f"{ref.head!r} has no output ({status})"
            )
        value = self._loaded.output_of(step)
        if action is not None:
            value = [one[action] for one in value] if step.items is not None else value[action]
        return value, f"the output of {ref.head!r}"


def prepare(
    step: StepState, slot: Slot, state: State, tools: Tools, loaded: Loaded, *, item: Any = None
) -> Call:
    """The call that a place in the plan makes. `CannotCall` if it cannot be made."""
    if slot.action_id is None:
        name, raw = step.step.tool, step.step.parameters
    else:
        action = step.action(slot.action_id)
        name, raw = action.tool, action.parameters
    tool = tools.resolve(name)
    if tool is None:
        has = ", ".join(tools.nearest(name)) or "none"
        message = f"the tool {name!r} does not exist here; there are: {has}"
        raise CannotCall(Fault(category="tool_error", kind="unknown_tool", message=message))
    parameters: JsonObject = raw
    if has_references(raw):
        try:
            parameters = resolve(raw, Scope(state, loaded, item, slot.item))
        except UnresolvedReference as error:
            fault = Fault(category="dependency_error", kind="reference", message=str(error))
            raise CannotCall(fault) from None
    parameters = _filled(tool, parameters, state)
    if found := schemas.parameter_problems(tool, parameters):
        text = f"the parameters do not fit tool {tool.id!r}: " + "; ".join(found[:10])
        text = hidden(text, secrets_of(tool, parameters))
        raise CannotCall(Fault(category="parameter_error", kind="parameter", message=text))
    if needs_approval(state.policy, step.step, tool):
        text = f"the call of {tool.id!r} needs a person's approval, and nobody can be asked here"
        raise CannotCall(Fault(category="external_error", kind="approval", message=text))
    base = call_base(state.task_id, tool.id, parameters)
    occurrence = state.occurrence(base, (step.step.step_id, slot))
    return Call(step.step, slot, tool, parameters, call_key(base, occurrence))


def _filled(tool: ToolSpec, parameters: JsonObject, state: State) -> JsonObject:
    """Required parameters that the step leaves out, from metadata of the same name; never over a given value."""
    missing = [name for name in tool.parameters.get("required", ()) if name not in parameters]
    found = {name: state.metadata[name] for name in missing if name in state.metadata} if missing else {}
    return {**parameters, **found} if found else parameters


def own_copy(value: Any) -> Any:
    """The value for somebody who may change it: what is recorded stays as it is."""
    if isinstance(value, dict):
        return {name: own_copy(item) for name, item in value.items()}
    if isinstance(value, list):
        return [own_copy(item) for item in value]
    return value


def steps_referred(step: StepState, state: State) -> list[StepState]:
    """The steps whose outputs this one's references and condition may need."""
    return [state.steps[name] for name in step.step.dependencies if name in state.steps]
