"""A task, its tools, and the plans that are given for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.plans.hands import ByHand
from replan.core.types import Effect, JsonObject
from replan.testing import FakeTool

Tools = Mapping[str, FakeTool]


@dataclass(frozen=True)
class Task:
    """One task."""

    name: str
    kind: str
    """What its plan needs to be able to say."""
    text: str
    tools: Callable[[], Tools]
    """Anew for every run: what they give may change while it goes on."""
    by_hand: ByHand
    before: Sequence[JsonObject]
    """The plans of a planner that cannot say it, round by round: each is judged as not enough but for the last."""
    now: Sequence[JsonObject]
    """The plans of one that can; all but the last say `more`."""
    answers: Mapping[str, Sequence[Any]] | None = None
    """What else is asked for on the way, by schema."""
    failed_before: bool = False
    """Its plans before get nowhere: they only do the same again, which Replan ends."""
    waits: bool = False
    """Agents get a tool to wait with."""
    person: str = ""
    """What a person answers who is asked; agents get a tool to ask with."""


def tool(
    description: str,
    output: Any,
    gives: JsonObject | None = None,
    *,
    effect: Effect = "reads",
    secs: float = 1.0,
    optional: Sequence[str] = (),
    volatile: bool = False,
    sample: Any = None,
    **parameters: str | JsonObject,
) -> FakeTool:
    """A tool. `output`: a value, or a function of the parameters. `gives`: the fields of its output, by name. `sample`: of its data.

    A text in place of a schema is its type.
    """
    properties = {name: _schema(of) for name, of in parameters.items()}
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    spec: JsonObject = {"volatile": True} if volatile else {}
    if sample is not None:
        spec["sample"] = sample
    if gives is not None:
        spec["output_schema"] = record(**gives)
    return FakeTool(output, effect, (), secs, schema, description, (), spec)


def record(**fields: str | JsonObject) -> JsonObject:
    """The schema of an object with these fields."""
    return {"type": "object", "properties": {name: _schema(of) for name, of in fields.items()}}


def listed(**fields: str | JsonObject) -> JsonObject:
    """The schema of a list of such objects."""
    return {"type": "array", "items": record(**fields)}


def _schema(of: str | JsonObject) -> JsonObject:
    return {"type": of} if isinstance(of, str) else of


def step(step_id: str, called: str, *needs: str, with_: JsonObject | None = None, **more: Any) -> JsonObject:
    """A step as a planner writes it, with a name and what is expected of it. `with_`: fields of the step."""
    return {
        "step_id": step_id,
        "name": called.replace("_", " ").capitalize(),
        "tool": called,
        "parameters": more,
        "dependencies": list(needs),
        "expected_output": f"what {called} gives",
        **(with_ or {}),
    }


def action(action_id: str, called: str, **parameters: Any) -> JsonObject:
    return {"action_id": action_id, "tool": called, "parameters": parameters}


def actions(step_id: str, for_each: Any, *those: JsonObject) -> JsonObject:
    """A step that does several things with each item."""
    return {
        "step_id": step_id,
        "name": "With each",
        "for_each": for_each,
        "actions": list(those),
        "expected_output": "what each action gives",
    }


def plan(*steps: JsonObject, more: str = "") -> JsonObject:
    said = {"more": more} if more else {}
    return {
        "reasoning": "These steps find out what is needed and do what the task asks for.",
        "task_type": "default",
        "workflow_id": None,
        "steps": list(steps),
        **said,
        "estimated_duration": 10,
    }
