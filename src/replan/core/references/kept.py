"""Bytes that are kept apart, and are too many for a value: tools that take files are given them piece by piece."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from replan.core.types import JsonObject

MOST_VALUE = 64 * 2**20
"""So many bytes can be a value, as outputs that are values from the beginning can."""
TAKES_FILE = "x-replan-file"
"""Says in a parameter's schema that its tool takes files."""
_PREFIX = "artifact:"


class KeptBytes(str):
    """Stands for an output that is not in memory: its name. It goes whole to a parameter that takes files, and nowhere else."""

    __slots__ = ()

    @classmethod
    def of(cls, artifact_id: str) -> KeptBytes:
        return cls(_PREFIX + artifact_id)


def artifact_named(text: str) -> str | None:
    """The artifact that a text of that form names."""
    return text.removeprefix(_PREFIX) if text.startswith(_PREFIX) else None


def value_of(data: bytes, media_type: str) -> str:
    """Bytes as a value: text if they are that, else a `data:` URL."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def misplaced(parameters: JsonObject, schema: JsonObject) -> list[str]:
    """The parameters in which such an output stands and whose tool takes no file there."""
    fields = schema.get("properties", {})
    return [
        name
        for name, value in parameters.items()
        if any(isinstance(one, KeptBytes) for one in _texts(value))
        and not (
            isinstance(value, KeptBytes)
            and isinstance(fields.get(name), dict)
            and fields[name].get(TAKES_FILE)
        )
    ]


def named(parameters: JsonObject) -> JsonObject:
    """The parameters with the plain name of each such output; the same where there is none."""
    if not any(isinstance(value, KeptBytes) for value in parameters.values()):
        return parameters
    return {name: str(value) if isinstance(value, KeptBytes) else value for name, value in parameters.items()}


def _texts(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, list | tuple):
            stack += value
