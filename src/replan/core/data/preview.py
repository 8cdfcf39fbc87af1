"""A large value in few words: head, tail, size and shape."""

from __future__ import annotations

import re
from typing import Any

from replan.core.types import Artifact

HEAD = 1_000
TAIL = 300

# Each text is read in one way only, and not far: a near miss of many megabytes would take hours.
_URL = r"data:[\w.+-]{0,127}(?:/[\w.+-]{0,127})?(?:;[\w=.-]{1,127}){0,9};base64,"
_BINARY = re.compile(rf"({_URL})([A-Za-z0-9+/]{{64,}}={{0,2}})", re.ASCII)
_BINARY_BYTES = re.compile(rf'"{_URL}[A-Za-z0-9+/]{{1024}}'.encode())


def holds_binary(data: bytes) -> bool:
    """True if JSON text holds bytes (a base64 `data:` URL) that nobody would read."""
    return b";base64," in data and _BINARY_BYTES.search(data) is not None


def without_binary(text: str) -> str:
    """The text with what base64 `data:` URLs hold named by its size only."""
    return _BINARY.sub(lambda found: f"{found[1]}…({len(found[2].rstrip('=')) * 3 // 4:,} bytes)", text)


def artifact_of(artifact_id: str, data: bytes, value: Any) -> Artifact:
    """What is kept in the log of a value that is stored apart. `data`: its JSON."""
    if b";base64," in data:
        shown = without_binary(value if isinstance(value, str) else data.decode())
        head, tail = shown[:HEAD], shown[-TAIL:]
    elif isinstance(value, str):
        head, tail = value[:HEAD], value[-TAIL:]
    else:  # a sign has four bytes at most, and one that is cut through is none of those that are shown
        head = data[: 4 * HEAD].decode(errors="ignore")[:HEAD]
        tail = data[-4 * TAIL :].decode(errors="ignore")[-TAIL:]
    return Artifact(artifact_id=artifact_id, size=len(data), head=head, tail=tail, shape=shape_of(value))


def shape_of(value: Any, depth: int = 2) -> str:
    """What the value is made of: `object {id: number, items: list of 300 × object {…}}`."""
    match value:
        case None:
            return "null"
        case bool():
            return "truth value"
        case int() | float():
            return "number"
        case str():
            return f"text of {len(value)} characters"
        case list():
            if not value:
                return "empty list"
            return (
                f"list of {len(value)} × {shape_of(value[0], depth - 1)}"
                if depth
                else f"list of {len(value)}"
            )
        case dict():
            if not depth:
                return f"object of {len(value)} fields"
            fields = [f"{key}: {shape_of(item, depth - 1)}" for key, item in list(value.items())[:20]]
            more = ", …" if len(value) > 20 else ""
            return "object {" + ", ".join(fields) + more + "}"
        case _:
            return type(value).__name__
