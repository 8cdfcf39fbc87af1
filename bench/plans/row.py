"""One run of one task."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bench.plans.hands import ASK, WAIT
from bench.plans.meter import Meter
from replan.ports import ToolCall
from replan.testing import FakeSource


@dataclass(frozen=True)
class Row:
    """What it took."""

    task: str
    kind: str
    runner: str
    requests: int
    prompt_tokens: int
    answer_tokens: int
    calls: int
    secs: float
    acting_secs: float
    """Of these, without a request to a model under way."""
    critical_secs: float
    """What the calls take one after another on the longest way through the task."""
    wrong: str
    """What is wrong with its effects or its end; empty: nothing."""

    @property
    def to_critical(self) -> float:
        return self.acting_secs / self.critical_secs

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True)
class Wanted:
    """What the task comes to, done by hand."""

    effects: list[str]
    answer: str
    critical_secs: float


def effects_of(source: FakeSource) -> list[str]:
    """Every effect that was had, in any order."""
    return sorted(map(_told, source.effects))


def wrong_effects(wanted: Iterable[str], had: Iterable[str]) -> str:
    wanted, had = list(wanted), list(had)
    if wanted == had:
        return ""
    missing = [one for one in wanted if one not in had]
    beyond = [one for one in had if one not in wanted]
    return f"missing {missing[:2]}, beyond {beyond[:2]}, {len(had)} in place of {len(wanted)}"


def row(
    task: str, kind: str, runner: str, meter: Meter, source: FakeSource, secs: float, wanted: Wanted, end: str
) -> Row:
    """`end`: what is wrong with how it ended."""
    calls = [call for call in source.calls if call.tool_id not in (WAIT, ASK)]
    return Row(
        task,
        kind,
        runner,
        len(meter.prompts),
        sum(meter.prompts),
        sum(meter.answers),
        len(calls),
        secs,
        secs - meter.secs(),
        wanted.critical_secs,
        end or wrong_effects(wanted.effects, effects_of(source)),
    )


def _told(call: ToolCall) -> str:
    return f"{call.tool_id} {json.dumps(_plain(call.parameters), sort_keys=True)}"


def _plain(value: Any) -> Any:
    """Numbers that are the same are one, however they are held."""
    match value:
        case bool() | None | str():
            return value
        case int() | float() | Decimal():
            return float(value)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case _:
            return [_plain(one) for one in value]
