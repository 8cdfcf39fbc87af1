"""What a person changes of a call that was shown for approval.

Secrets are shown masked and never come back: what is given as it was shown, mask and all, stays as it was.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from replan.core.data.validation import faults
from replan.core.events import ApprovalRequested
from replan.core.secrets import MASK, is_secret_parameter, secrets_of_schema
from replan.core.types import JsonObject
from replan.errors import InputError


class Edit(NamedTuple):
    changes: JsonObject
    without: tuple[str, ...]

    def over(self, shown: JsonObject) -> JsonObject:
        """The call as it will be made, as far as it may be seen."""
        return {name: value for name, value in {**shown, **self.changes}.items() if name not in self.without}


def edit_of(asked: ApprovalRequested, given: JsonObject) -> Edit:
    """What is given, laid over what was shown: what is not mentioned stays. `null` leaves out what cannot be null.

    `InputError` if the call would not fit its tool, or a secret is changed.
    """
    shown, schema = asked.parameters, asked.parameters_schema or {"type": "object"}
    masked = {name for name, value in shown.items() if _holds_mask(value)}
    changes = {name: value for name, value in given.items() if name not in shown or shown[name] != value}
    masked |= {
        name
        for name, value in changes.items()
        if value is not None and (is_secret_parameter(name) or any(secrets_of_schema(schema, {name: value})))
    }
    if secret := masked & changes.keys():
        raise InputError(
            f"{', '.join(sorted(secret))} is a secret: it cannot be changed here, where it would stand in the log; "
            "leave it as it is shown"
        )
    if strange := [name for name, value in changes.items() if _holds_mask(value)]:
        raise InputError(
            f"{', '.join(strange)}: {MASK} stands for a secret that is not shown, and is no value"
        )
    without = tuple(
        name
        for name, value in changes.items()
        if value is None and _problems(schema, {**shown, name: None}, name)
    )
    edit = Edit({name: value for name, value in changes.items() if name not in without}, without)
    made = edit.over(shown)
    found = [text for name in (*edit.changes, *without, "") for text in _problems(schema, made, name)]
    if found:
        raise InputError(f"the parameters do not fit tool {asked.tool_id!r}: " + "; ".join(found[:10]))
    return edit


def _problems(schema: JsonObject, parameters: JsonObject, name: str) -> list[str]:
    """What is wrong with one parameter, or with all of them together (`""`): not with what is shown only in part."""
    return [
        str(fault)
        for fault in faults(schema, parameters)
        if (str(fault.path[0]) if fault.path else "") == name
    ]


def _holds_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_mask, value.values()))
    if isinstance(value, list):
        return any(map(_holds_mask, value))
    return isinstance(value, str) and value == MASK
