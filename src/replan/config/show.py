"""The merged settings for people and programs: each value with its origin, secrets masked."""

from __future__ import annotations

import json
from typing import Any

from replan.config.keys import NAMED, OPEN, SECRETS, SECTIONS
from replan.config.load import Loaded
from replan.config.sections import Settings
from replan.config.values import kind_of
from replan.core.secrets import MASK, settings_without_secrets


def as_json(loaded: Loaded) -> dict[str, dict[str, dict[str, Any]]]:
    """`{section: {key: {value, origin}}}`."""
    return {
        section: {
            key: {"value": _masked(section, key, value), "origin": str(loaded.origins[f"{section}.{key}"])}
            for key, value in getattr(loaded.settings, section).model_dump(mode="json").items()
        }
        for section in SECTIONS
    }


def may_hold_secrets(settings: Settings) -> dict[str, dict[str, Any]]:
    """The settings without those that are one of a few words which everybody knows: `auth = "keys"` makes no secret of the word."""
    return {
        section: getattr(settings, section).model_dump(
            mode="json",
            exclude={key for key, field in model.model_fields.items() if kind_of(field.annotation).choices},
        )
        for section, model in SECTIONS.items()
        if section not in OPEN
    }


def as_toml(loaded: Loaded) -> str:
    """The settings as a TOML file that means the same; what is unset or masked stands in a comment."""
    blocks: list[str] = []
    for section in SECTIONS:
        values = getattr(loaded.settings, section).model_dump(mode="json")
        rows = [_row(loaded, section, key, value) for key, value in values.items()]
        width = max(len(row) for row, _ in rows)
        lines = [f"{row:<{min(width, 48)}}  # {note}" for row, note in rows]
        blocks.append("\n".join([f"[{section}]", *lines]))
    return "\n\n".join(blocks) + "\n"


def _row(loaded: Loaded, section: str, key: str, value: Any) -> tuple[str, str]:
    origin = str(loaded.origins[f"{section}.{key}"])
    if value is None:
        return f"# {key} =", "not set" if origin == "default" else f"emptied by {origin}"
    shown = _masked(section, key, value)
    hidden = "# " if shown != _without_unset(value, lists=False) else ""
    return f"{hidden}{key} = {_toml(shown)}", origin


def _masked(section: str, key: str, value: Any) -> Any:
    if value is None or section in OPEN:
        return value
    if (section, key) in SECRETS:
        return MASK
    value = _without_unset(value)
    if (section, key) in NAMED and isinstance(value, dict):
        # What a user calls a table says nothing of its values.
        return {name: settings_without_secrets(table) for name, table in value.items()}
    return settings_without_secrets(value)


def _without_unset(value: Any, *, lists: bool = True) -> Any:
    """The value without what TOML cannot hold; `lists`: in lists, too, where leaving it out changes what is meant."""
    if isinstance(value, dict):
        return {name: _without_unset(item, lists=lists) for name, item in value.items() if item is not None}
    if isinstance(value, list) and lists:
        return [_without_unset(item) for item in value if item is not None]
    return value


def _toml(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's, but for these: DEL has to be escaped, half characters cannot be held.
            text = value.encode("utf-8", "replace").decode("utf-8")
            return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
        case dict():
            pairs = (f"{_toml(str(name))} = {_toml(item)}" for name, item in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            return "[" + ", ".join(_toml(item) for item in value) + "]"
