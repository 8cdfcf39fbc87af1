"""The merged settings for people and programs: each value with its origin, secrets masked."""

from __future__ import annotations

import json
import re
from typing import Any

from replan.config.keys import NAMED, SECRETS, SECTIONS
from replan.config.load import Loaded

MASK = "********"
_URL_PASSWORD = re.compile(r"(?<=://)([^/?#\s]*):([^/?#\s]*)@")
_NAMED_SECRET = re.compile(r"(?i)\b(password|passwd|pwd|secret|token|api[-_]?key)=([^&;\s]+)")


def mask(text: str) -> str:
    """`text` without the passwords of URLs and connection strings."""
    masked = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    return _NAMED_SECRET.sub(rf"\1={MASK}", masked)


def as_json(loaded: Loaded) -> dict[str, dict[str, dict[str, Any]]]:
    """`{section: {key: {value, origin}}}`."""
    return {
        section: {
            key: {"value": _masked(section, key, value), "origin": str(loaded.origins[f"{section}.{key}"])}
            for key, value in getattr(loaded.settings, section).model_dump(mode="json").items()
        }
        for section in SECTIONS
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
    hidden = "# " if shown != _without_unset(value) else ""
    return f"{hidden}{key} = {_toml(shown)}", origin


def _masked(section: str, key: str, value: Any) -> Any:
    if value is None:
        return None
    if (section, key) in SECRETS:
        return MASK
    if (section, key) in NAMED and isinstance(
        value, dict
    ):  # what a user calls a table says nothing of its values
        return {name: _masked_deep(table) for name, table in value.items()}
    return _masked_deep(value)


def _without_unset(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_unset(item) for name, item in value.items() if item is not None}
    return value


_HELD = re.compile(
    r"(?i)^(env|headers?|.*(auth|authorization|cookie|credential|token|secret|password|passwd|pwd|passphrase|key)s?)$"
)
"""Keys of nested tables whose values are never shown, but for texts that only name a variable."""
_VARIABLE = re.compile(r"(?:(?i:bearer|basic|token) +)?\$\{\w+\}")
_HEADER = re.compile(r"(?i)\b([\w-]*(?:authorization|cookie|token|secret|key)): *(.+)", re.DOTALL)
_FLAG = re.compile(r"(?i)(?<!\S)(--?[\w-]*(?:token|secret|password|passwd|key)s?)([ =]+)(?!\$\{\w+\})\S+")


def _masked_deep(value: Any, held: bool = False) -> Any:
    if isinstance(value, list):
        flags = [isinstance(item, str) and _is_secret_flag(item) for item in value]
        return [
            _masked_deep(item, held or before)
            for item, before in zip(value, [False, *flags], strict=False)
            if item is not None
        ]
    if isinstance(value, dict):
        return {
            name: _masked_deep(item, held or bool(_HELD.match(name)))
            for name, item in value.items()
            if item is not None
        }
    if held and value is not None and not isinstance(value, bool):
        return value if isinstance(value, str) and _VARIABLE.fullmatch(value) else MASK
    if isinstance(value, str):
        return _masked_header(_FLAG.sub(rf"\1\2{MASK}", mask(value)))
    return value


def _is_secret_flag(text: str) -> bool:
    """True for `--token` and the like: what comes next is the secret."""
    return text.startswith("-") and bool(_HELD.match(text.lstrip("-")))


def _masked_header(text: str) -> str:
    """The text without the secret of a header (`Authorization: Bearer …`) that it holds."""
    found = _HEADER.search(text)
    return text if found is None or _VARIABLE.fullmatch(found[2]) else f"{text[: found.start(2)]}{MASK}"


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
