"""Small texts for terminals: times, sizes, and foreign text made safe to print."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean(text: str, limit: int = 400) -> str:
    """One line without control characters or terminal sequences: tools and models write what they like."""
    flat = re.sub(r"\s+", " ", printable(text[: limit * 4])).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def printable(text: str) -> str:
    """The text without terminal sequences and control characters, lines and tabs kept."""
    return _CONTROL.sub("", _ESCAPE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def secs(duration: float) -> str:
    """`0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`, `4 d 07 h`: never more than eleven characters."""
    duration = max(duration, 0.0)
    if duration < 10:
        return f"{duration:.1f} s"
    whole = round(duration)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 360_000:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"


def size(count: int) -> str:
    """`512 bytes`, `1.1 GB`."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def money(dollars: float) -> str:
    """`$0.0123`, `$4.50`."""
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def counted(number: int, what: str) -> str:
    """`1 step`, `3 steps`."""
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"


def times(number: int) -> str:
    """`once`, `twice`, `3 times`."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
