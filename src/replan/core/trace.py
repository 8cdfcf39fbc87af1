"""The ids of a task's trace (W3C Trace Context): made of what the log says, so that every process and every tool has the same ones."""

from __future__ import annotations

import hashlib
import re
from typing import Any, NamedTuple

SETTING = "traceparent"
"""Where the settings of a submission have whose trace it belongs to."""
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?", re.ASCII)


class Parent(NamedTuple):
    """Whose trace something belongs to."""

    trace: str
    """32 hexadecimal digits."""
    span: str
    """16 of them."""


def parent_of(header: Any) -> Parent | None:
    """What a `traceparent` header says; None for none, and for what is none."""
    found = _FORM.fullmatch(header) if isinstance(header, str) and len(header) <= 512 else None
    if found is None:
        return None
    trace, span = found[1], found[2]
    return None if trace == "0" * 32 or span == "0" * 16 else Parent(trace, span)


def trace_of(task_id: str, header: Any = None) -> str:
    """The trace of a task: that of whoever has submitted it, or one of its own."""
    parent = parent_of(header)
    return parent.trace if parent is not None else _hash(task_id)[:32]


def span_of(*names: object) -> str:
    """The span of something that is known by these names."""
    return _hash("/".join(map(str, names)))[:16]


def traceparent(trace: str, span: str) -> str:
    return f"00-{trace}-{span}-01"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
