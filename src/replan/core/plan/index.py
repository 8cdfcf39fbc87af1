"""A plan while it is checked: its steps, what each calls, and what can be known of outputs beforehand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replan.core.following.referred import NOTHING, Followed
from replan.core.plan.receivers import SecretMetadata
from replan.core.references.paths import check_path, static_steps
from replan.core.references.refs import Reference, has_references, references
from replan.core.types import Action, JsonObject, Step, StepId, ToolSpec


class PlannedCall(NamedTuple):
    """A step's own call or one of its actions."""

    where: str
    """What to call it in a violation."""
    tool: ToolSpec | None
    parameters: JsonObject
    repeat: bool
    missing: tuple[str, ...]
    """The parameters that the tool requires and the call leaves out, where metadata may fill them in."""
    refers: bool
    """Filling in would change its parameters."""
    unread: bool = False
    """Its parameters could not be read."""

    @classmethod
    def of(
        cls,
        where: str,
        tool: ToolSpec | None,
        parameters: JsonObject,
        repeat: bool,
        *,
        unread: bool = False,
    ) -> PlannedCall:
        missing: tuple[str, ...] = ()
        for name in tool.from_metadata if tool is not None else ():
            if name not in parameters:
                missing = (*missing, name)
        refers = has_references(parameters)
        return tuple.__new__(
            cls, (where, tool, parameters, repeat, missing, refers, unread)
        )  # a plan may have thousands


@dataclass(slots=True)
class Draft:
    """What the checks know of a plan. Where an id is used twice, the first step has it."""

    metadata: Mapping[str, Any]
    earlier: Mapping[str, JsonObject | None]
    """Finished steps of earlier rounds, with their output schemas."""
    secret: SecretMetadata | None = None
    """The metadata that hold secrets, if any do."""
    ran: Mapping[tuple[StepId, str | None], ToolSpec | None] = field(default_factory=dict)
    """The tools that made calls of finished steps in place of the planned ones, by step and action; None: several."""
    steps: dict[StepId, Step] = field(default_factory=dict)
    calls: dict[StepId, list[PlannedCall]] = field(default_factory=dict)
    actions: dict[str, tuple[StepId, int]] = field(default_factory=dict)
    """Action id → its step and its place there."""
    position: dict[StepId, int] = field(default_factory=dict)
    followed: Followed = NOTHING
    """What there is of the tasks that this one follows."""
    writers: dict[str, list[StepId]] = field(default_factory=dict)
    """Metadata name → the steps whose tools write it, in plan order."""
    sees: dict[StepId, Collection[str | None]] = field(default_factory=dict)
    """The metadata that a step needs, and so waits for; None: all of it."""

    def owner(self, head: str) -> str:
        """The step that a reference's head belongs to."""
        return self.actions[head][0] if head in self.actions else head

    def writers_before(self, step_id: StepId, name: str | None) -> list[StepId]:
        """The steps before this one, in plan order, whose writing of this metadata it sees; of any metadata for None.

        The nearest that surely writes it, and those after that which may; one that needs it itself waits for all before it.
        """
        mine = self.position[step_id]
        found: dict[StepId, None] = {}
        for each in self.writers if name is None else (name,):
            for one in reversed(self.writers.get(each, ())):
                if self.position[one] < mine:
                    found[one] = None
                    sees = self.sees.get(one, ())
                    if each in sees or None in sees or self._surely_writes(one, each):
                        break
        return list(found)

    def _surely_writes(self, step_id: StepId, name: str) -> bool:
        """True if no success of the step is without this field of its output."""
        step = self.steps[step_id]
        if step.when is not None or step.for_each is not None or step.actions:
            return False
        tool = self.calls[step_id][0].tool
        schema = (tool.output_schema if tool else None) or {}
        required = schema.get("required")
        return isinstance(required, list) and name in required

    def filled(self, call: PlannedCall) -> JsonObject:
        """The required parameters that the call leaves out and the metadata has."""
        return {name: self.metadata[name] for name in call.missing if name in self.metadata}

    def produced(self, ref: Reference, own: StepId = "") -> JsonObject | None:
        """The schema of what the reference's head (and action) gives, without its path; None if unknown.

        `own`: the step that has the reference: of its own actions it sees those of one item.
        """
        step = self.steps.get(self.owner(ref.head))
        if step is None:
            known = self.earlier if ref.head in self.earlier else self.followed.schemas
            return known.get(ref.head) if ref.action is None else None
        action = ref.action or (ref.head if ref.head in self.actions else None)
        one = self._output_schema(step, action)
        if step.for_each is None or step.step_id == own:
            return one
        return {"type": "array"} if one is None or _refers(one) else {"type": "array", "items": one}

    def _ran(self, step: Step, action: str | None, call: PlannedCall) -> ToolSpec | None:
        return self.ran.get((step.step_id, action), call.tool)

    def _output_schema(self, step: Step, action: str | None) -> JsonObject | None:
        calls = self.calls[step.step_id]
        if action is not None:
            owner, place = self.actions.get(action, ("", 0))
            tool = self._ran(step, action, calls[place]) if owner == step.step_id else None
            return tool.output_schema if tool else None
        if not step.actions:
            tool = self._ran(step, None, calls[0])
            return tool.output_schema if tool else None
        each = {
            item.action_id: _inner(self._ran(step, item.action_id, call))
            for item, call in zip(step.actions, calls, strict=True)
        }
        return {"type": "object", "properties": each, "additionalProperties": False}


def _inner(tool: ToolSpec | None) -> JsonObject:
    schema = tool.output_schema if tool else None
    return {} if schema is None or _refers(schema) else schema


def _refers(schema: Any) -> bool:
    """True if the schema has references within itself: it cannot be put into another one."""
    if isinstance(schema, dict):
        return "$ref" in schema or "$defs" in schema or any(_refers(part) for part in schema.values())
    return isinstance(schema, list) and any(_refers(part) for part in schema)


def metadata_name(ref: Reference) -> str | None:
    """The name of the metadata that the reference looks at; None for the whole, or where it cannot be told."""
    names = static_steps(ref.path) if ref.path and not check_path(ref.path) else None
    return names[0] if names and isinstance(names[0], str) else None


def references_of(step: Step | Action) -> list[Reference]:
    """Every reference of the step's calls and of its `for_each`."""
    found = list(references(step.parameters))
    if isinstance(step, Step):
        for action in step.actions:
            found.extend(references(action.parameters))
        if step.for_each is not None:
            found.extend(references(step.for_each))
    return found
