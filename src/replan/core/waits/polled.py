"""`until` on a step: its tool is called again and again until a condition over what it gives holds.

It is another way to write a `wait_for_condition`, and read as that: so it waits as all waits do, and nothing is held meanwhile.
"""

from __future__ import annotations

import math
from typing import Any

from replan.core.types import JsonObject
from replan.core.waits.tools import WAIT_FOR_CONDITION
from replan.core.words import kind_of

_SECS = ("every_secs", "limit_secs")


def polled(fields: JsonObject, raw: JsonObject, where: str, faults: list[str]) -> JsonObject:
    """The fields of a step as they were read, with what `raw` says of polling in them."""
    condition, given = (
        raw.get("until"),
        {name: raw[name] for name in _SECS if raw.get(name) not in (None, "")},
    )
    if condition in (None, ""):
        faults += [f"{where}: `{name}` goes with `until`, the condition that is waited for" for name in given]
        return fields
    if not isinstance(condition, str):
        faults.append(
            f"{where}: `until` has to be a condition over the output, as output.status == 'done', not {kind_of(condition)}"
        )
        return fields
    if raw.get("actions"):
        faults.append(
            f"{where}: `until` is of a step with one tool; make a step of its own of what is asked again and again"
        )
        return fields
    if fields.get("tool") == WAIT_FOR_CONDITION.id:
        faults.append(
            f"{where}: {WAIT_FOR_CONDITION.id} has its condition among its parameters; leave `until` out"
        )
        return fields
    asked = {
        "tool": fields.get("tool", ""),
        "parameters": fields.get("parameters", {}),
        "condition": condition.strip(),
    }
    asked |= {name: _number(value, name, where, faults) for name, value in given.items()}
    return {**fields, "tool": WAIT_FOR_CONDITION.id, "parameters": asked}


def _number(value: Any, name: str, where: str, faults: list[str]) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        faults.append(f"{where}: `{name}` has to be a number of seconds, not {value!r}")
        return 1.0
    return int(number) if number == int(number) else number
