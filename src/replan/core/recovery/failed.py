"""A failed call as proposals about it are checked against it, and what is no value in one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replan.core.calls.site import Slot
from replan.core.data import schemas
from replan.core.plan.placeholders import Stands, no_value, placeholders
from replan.core.references.refs import has_references
from replan.core.reflection import ActionType
from replan.core.state.step_recovery import Healing
from replan.core.types import Effect, JsonObject, StepId, ToolId, ToolSpec
from replan.core.walk import texts_in


def _nothing_known(text: str) -> bool:
    return False


def _not_done(tool: ToolSpec, parameters: JsonObject) -> bool:
    return False


def _nowhere(tool: ToolSpec, parameters: JsonObject) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed call, and what a proposal about it is checked against."""

    task_id: str
    step_id: StepId
    slot: Slot
    tool: ToolSpec | None
    """None: it does not exist."""
    parameters: JsonObject
    """As resolved; as planned where references could not be."""
    allowed: Sequence[ActionType]
    healing: Healing
    available: Mapping[ToolId, ToolSpec]
    """What may be used instead."""
    planned: JsonObject = field(default_factory=dict)
    """The step's parameters as resolved for a call of the planned tool, before anything was changed."""
    in_doubt: bool = False
    wanted: JsonObject | None = None
    """What an output of the tool has to look like, where it is declared."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What fills in required parameters that are left out."""
    elsewhere: Collection[str] = ()
    """Values that other calls of the tool were made with."""
    may: Effect | None = None
    """The effect of what was planned: no stand-in has a stronger one. None: nothing is known of it."""
    key: str = ""
    """Of the call in doubt."""
    since: float | None = None
    """When it was first made."""
    seal_key: bytes = b""
    """Of the names of calls that have secrets (`core.calls.names`)."""
    claims: Collection[str] = ()
    """Records that have settled other calls."""
    given: Sequence[Any] = ()
    """What the very same calls have given that succeeded by themselves."""
    others: Sequence[tuple[JsonObject, Any]] = ()
    """Other calls of the tool that succeeded by themselves: what they were made with, and have given."""
    references: Sequence[str] = ()
    """Paths into the output that other steps refer to."""
    is_done: Callable[[ToolSpec, JsonObject], bool] = _not_done
    """Whether this very call has been made."""
    made_elsewhere: Callable[[ToolSpec, JsonObject], str] = _nowhere
    """Which other place of the plan makes a call, or is to make it, in words; empty if none does."""
    stands: Stands = _nothing_known
    """Whether a text stands in what the task has to go by."""


def not_values(data: JsonObject, tool: ToolSpec, failed: Failed) -> Iterator[str]:
    """Values that stand for one, in place of one."""
    required = tool.parameters.get("required", ())
    properties = tool.parameters.get("properties")
    for name, value in data.items():
        schema = properties.get(name) if isinstance(properties, dict) else None
        if value is None and name in required and not _may_be_null(schema):
            yield f"{name} is required and cannot be null: give a concrete value"
        for text in texts_in(value):
            if has_references(text):
                yield f"{name}: {text[:60]!r} is a reference; give the value itself"
    for place, piece in placeholders(tool, data, failed.stands):
        yield (f"{place}: {no_value(piece)}; give a concrete value, or propose another remedy")


def _may_be_null(schema: Any) -> bool:
    return not isinstance(schema, dict) or not schemas.problems(schema, None)
