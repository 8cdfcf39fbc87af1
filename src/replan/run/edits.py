"""What a person changes of a call that was shown for approval.

Secrets are shown masked and never come back: what is given as it was shown, mask and all, stays as it was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from replan.core.events import ApprovalRequested
from replan.core.secrets import MASK
from replan.core.types import JsonObject
from replan.core.validation import faults
from replan.errors import InputError


class Edit(NamedTuple):
    changes: JsonObject
    without: tuple[str, ...]


def edit_of(asked: ApprovalRequested, given: JsonObject) -> Edit:
    """What differs from what was shown. `InputError` if the call would not fit its tool, or a secret is changed."""
    shown = asked.parameters
    masked = {name for name, value in shown.items() if _holds_mask(value)}
    changes = {name: value for name, value in given.items() if name not in shown or shown[name] != value}
    if secret := masked & changes.keys():
        raise InputError(
            f"{', '.join(sorted(secret))} is a secret: it cannot be changed here, where it would stand in the log; "
            "leave it as it is shown"
        )
    if strange := [name for name, value in changes.items() if _holds_mask(value)]:
        raise InputError(
            f"{', '.join(strange)}: {MASK} stands for a secret that is not shown, and is no value"
        )
    without = tuple(name for name in shown if name not in given and name not in masked)
    made = {**{name: shown[name] for name in masked}, **given}
    unchanged = made.keys() - changes.keys()
    found = [
        str(error)
        for error in faults(asked.parameters_schema or {"type": "object"}, made)
        if not error.path or error.path[0] not in unchanged
    ]
    if found:
        raise InputError(f"the parameters do not fit tool {asked.tool_id!r}: " + "; ".join(found[:10]))
    return Edit(changes, without)


def _holds_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_mask, value.values()))
    if isinstance(value, list):
        return any(map(_holds_mask, value))
    return isinstance(value, str) and value == MASK
