"""What the slots of a workflow are filled with: held against their schemas, defaults put in."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from replan.core.data.schemas import problems, types_of
from replan.core.kinds.workflow import Workflow
from replan.core.types import JsonObject


class Filled(NamedTuple):
    """The slots with their values. Those that may stay empty and did are not in it."""

    values: JsonObject
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Slots that have to be filled and were not."""


def filled(workflow: Workflow, given: Mapping[str, Any]) -> Filled:
    """The values of all slots. A null counts as nothing given where the slot takes no null."""
    wrong = [no_such_slot(name, workflow.slots) for name in given if name not in workflow.slots]
    values: JsonObject = {}
    for name, schema in workflow.slots.items():
        value = given.get(name)
        if name in given and not (value is None and problems(schema, None)):
            values[name] = value
            wrong += [f"slot {name!r}: {problem}" for problem in problems(schema, value)]
        elif "default" in schema:
            values[name] = copy.deepcopy(schema["default"])
    missing = tuple(name for name in workflow.required if name not in values)
    return Filled(values, tuple(wrong), missing)


def no_such_slot(name: str, slots: Mapping[str, Any]) -> str:
    """That there is no such slot, and which there are."""
    near = difflib.get_close_matches(name, list(slots), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(slots) or 'none'}"
    return f"there is no slot {name[:100]!r}; {hint}"


def typed(schema: Mapping[str, Any], text: str) -> Any:
    """The value that a text on a command line means: JSON where the slot takes that, else the text itself."""
    kinds = types_of(dict(schema))
    if kinds == frozenset({"string"}):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    fits = not problems(dict(schema), value)
    return value if fits or problems(dict(schema), text) else text


def told(name: str, workflow: Workflow) -> str:
    """A slot in a few words: `city: string`, `days?: integer = 3`."""
    schema = workflow.slots[name]
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list):
        kind = " | ".join(json.dumps(one, ensure_ascii=False) for one in schema["enum"][:12])
    elif not isinstance(kind, str):
        kind = " or ".join(sorted(types_of(schema) or ())) or "any"
    optional = "" if name in workflow.required else "?"
    default = f" = {json.dumps(schema['default'], ensure_ascii=False)[:80]}" if "default" in schema else ""
    return f"{name}{optional}: {kind}{default}"
