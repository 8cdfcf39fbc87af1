"""What a check finds, and what becomes of one that breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """One line. `problem`: something configured or needed does not work; `note`: optional and not there, or to be looked at."""

    name: str
    state: Literal["ok", "note", "problem"]
    found: str
    todo: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    """The figures, for programs."""


def guarded(name: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What the check finds; one that breaks is a finding, not the end of the others."""
    from replan.errors import ReplanError

    try:
        yield from check()
    except ReplanError as error:
        yield Finding(name, "problem", str(error))
    except Exception as error:  # noqa: BLE001 - likewise
        yield Finding(name, "problem", f"{type(error).__name__}: {error}")
