"""What models write in another form than a schema wants, where that leaves one reading: a number or a truth value as a text, null for what
may be left out.

Nothing is lost by it, and nothing guessed: a text stays a text wherever the schema takes texts, or does not tell.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from replan.core.data.schemas import PathUnknown, problems, schema_at, types_of
from replan.core.data.validation import Fault, faults
from replan.core.types import Action, JsonObject, Plan, Step, StepId, ToolSpec
from replan.core.walk import every

_LITERAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?|true|false", re.ASCII)
_KINDS = frozenset({"integer", "number", "boolean", "null"})

Resolve = Callable[[str], ToolSpec | None]
_Call = TypeVar("_Call", Step, Action)


def plan_as_meant(plan: Plan, kept: Collection[StepId], resolve: Resolve) -> Plan:
    """The plan with the parameters of its steps, but for those that are `kept`, as their tools want them."""
    steps = tuple(step if step.step_id in kept else step_as_meant(step, resolve) for step in plan.steps)
    if all(one is other for one, other in zip(steps, plan.steps, strict=True)):
        return plan
    return plan.model_copy(update={"steps": steps})


def step_as_meant(step: Step, resolve: Resolve) -> Step:
    """The same of one step."""
    actions = tuple([_call_as_meant(one, resolve) for one in step.actions])
    if any(one is not other for one, other in zip(actions, step.actions, strict=True)):
        step = step.model_copy(update={"actions": actions})
    return _call_as_meant(step, resolve)


def _call_as_meant(one: _Call, resolve: Resolve) -> _Call:
    tool = resolve(one.tool) if one.tool and one.parameters else None
    given = as_meant(tool.parameters, one.parameters) if tool is not None else one.parameters
    return one if given is one.parameters else one.model_copy(update={"parameters": given})


def as_meant(schema: JsonObject, value: JsonObject) -> JsonObject:
    """The value as the schema wants it, as far as there is no other reading; the very same object where nothing is to be changed."""
    if not any(map(_may_be_another, every(value))):
        return value
    made: JsonObject | None = None
    for fault in faults(schema, value):
        if not fault.path:
            continue
        read = _read(schema, fault)
        if read is not None or _is_left_out(schema, fault):
            made = copy.deepcopy(value) if made is None else made
            _put(made, fault.path, read)
    return value if made is None else made


def _may_be_another(one: Any) -> bool:
    return one is None or (isinstance(one, str) and _LITERAL.fullmatch(one) is not None)


def _read(schema: JsonObject, fault: Fault) -> Any:
    """What the text says as JSON, where the schema takes that and no text; else None."""
    text = fault.instance
    if not isinstance(text, str) or not _LITERAL.fullmatch(text):
        return None
    wanted = _at(schema, fault.path)
    kinds = types_of(wanted)
    if wanted is None or kinds is None or not kinds <= _KINDS:
        return None
    if "." in text and "number" not in kinds:
        return None
    found = json.loads(text)
    if isinstance(found, float) and Decimal(repr(found)) != Decimal(text):
        return None
    return None if problems(wanted, found) else found


def _is_left_out(schema: JsonObject, fault: Fault) -> bool:
    """True of a null that the schema does not take, for a field that need not be there."""
    name = fault.path[-1]
    if fault.instance is not None or not isinstance(name, str):
        return False
    wanted, around = _at(schema, fault.path), _at(schema, fault.path[:-1])
    if wanted is None or around is None or name in around.get("required", ()):
        return False
    kinds = types_of(wanted)
    return kinds is not None and "null" not in kinds


def _at(schema: JsonObject, path: Sequence[str | int]) -> JsonObject | None:
    try:
        return schema_at(schema, path)
    except PathUnknown:
        return None


def _put(value: Any, path: Sequence[str | int], read: Any) -> None:
    """Put what was read in its place; None: take the field out."""
    *parts, last = path
    for part in parts:
        value = value[part]
    if read is None:
        value.pop(last, None)
    else:
        value[last] = read
