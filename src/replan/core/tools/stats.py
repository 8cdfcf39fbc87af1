"""How a tool has done so far: calls, successes, how long they took, what went wrong most often."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from replan.core.types import Fault, JsonObject

_BASE = math.log(1.2)
"""Durations are counted in classes, each a fifth longer than the one before: a quantile is off by a tenth at most."""
_SHORTEST = 1e-6
_RECENT = 50
_ALL_WELL = "+" * _RECENT
_ERRORS = 20
_ERROR_CHARS = 120
_MOST = 2**53
_LONGEST_CLASS = 200
"""Far more than a year."""
_VARYING = re.compile(r"\b[0-9a-fA-F]{8,}\b|\d+(?:\.\d+)?")


class ToolKey(NamedTuple):
    """Whose statistics these are: like ids of different sources are different tools."""

    source: str
    tool_id: str


class ToolStats:
    """Counts of one tool's calls, every attempt by itself. They add up in any order, but for which were the latest."""

    __slots__ = ("calls", "durations", "errors", "failures", "recent")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.durations: dict[int, int] = {}
        """Successful calls by class of duration."""
        self.errors: dict[str, int] = {}
        """The commonest errors, numbers in them folded, and how often each was met."""
        self.recent = ""
        """The latest calls, the newest last: `+` for a success, `-` for a failure."""

    def add(self, secs: float, fault: Fault | None = None) -> None:
        """Count one attempt."""
        self.calls += 1
        if fault is not None or self.recent != _ALL_WELL:
            self.recent = (self.recent + ("+" if fault is None else "-"))[-_RECENT:]
        if fault is None:
            at = round(math.log(max(secs, _SHORTEST)) / _BASE)
            self.durations[at] = self.durations.get(at, 0) + 1
            return
        self.failures += 1
        said = f"{fault.kind}: {fault.message}".encode("utf-8", "replace").decode()
        words = _VARYING.sub("#", " ".join(said.split()))[:_ERROR_CHARS]
        self.errors[words] = self.errors.get(words, 0) + 1
        if len(self.errors) > 4 * _ERRORS:
            self.errors = dict(self.common_errors(2 * _ERRORS))

    def merge(self, later: ToolStats) -> None:
        """Add what another one has counted after this one."""
        self.calls += later.calls
        self.failures += later.failures
        self.recent = (self.recent + later.recent)[-_RECENT:]
        for at, count in later.durations.items():
            self.durations[at] = self.durations.get(at, 0) + count
        for words, count in later.errors.items():
            self.errors[words] = self.errors.get(words, 0) + count
        self.errors = dict(self.common_errors(_ERRORS))

    @property
    def success_rate(self) -> float | None:
        """From 0 to 1; None where nothing was called."""
        return None if not self.calls else 1 - self.failures / self.calls

    @property
    def recent_failures(self) -> int:
        return self.recent.count("-")

    def quantile(self, q: float) -> float | None:
        """Seconds that a part `q` of the successful calls did not exceed; None where there are none."""
        total = sum(self.durations.values())
        wanted = max(1, math.ceil(q * total))
        seen = 0
        for at, count in sorted(self.durations.items()):
            seen += count
            if seen >= wanted:
                return math.exp(at * _BASE)
        return None

    def common_errors(self, most: int = 3) -> list[tuple[str, int]]:
        """The errors that were met most often, and how often."""
        return sorted(self.errors.items(), key=lambda each: (-each[1], each[0]))[:most]

    def to_json(self) -> JsonObject:
        return {
            "calls": self.calls,
            "failures": self.failures,
            "durations": {str(at): count for at, count in self.durations.items()},
            "errors": self.errors,
            "recent": self.recent,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ToolStats:
        """The counts that `to_json` gave; `ValueError` for numbers that no counting comes to."""
        made = cls()
        made.calls, made.failures = int(data["calls"]), int(data["failures"])
        made.durations = {int(at): int(count) for at, count in data["durations"].items()}
        made.errors = {str(words): int(count) for words, count in data["errors"].items()}
        made.recent = str(data["recent"])[-_RECENT:]
        counts = (made.calls, made.failures, *made.durations.values(), *made.errors.values())
        if not all(0 <= count <= _MOST for count in counts) or made.failures > made.calls:
            raise ValueError("these are no counts of calls")
        if any(abs(at) > _LONGEST_CLASS for at in made.durations):
            raise ValueError("no call takes so long")
        return made


_TELLING = 5
"""Failures among the latest calls before a tool's record is worth a word."""


def warning(stats: ToolStats | None) -> str:
    """A word on a tool that has often failed lately; empty where there is nothing to warn of."""
    if stats is None or stats.recent_failures < _TELLING or stats.recent_failures * 4 < len(stats.recent):
        return ""
    told = f"failed {stats.recent_failures} of its last {len(stats.recent)} calls"
    common = stats.common_errors(1)
    # The kind alone: what an error says may be of another task, or addressed to a model.
    return f"{told}, mostly with: {common[0][0].partition(':')[0]}" if common else told
