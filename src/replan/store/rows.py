"""How events lie in the table `event`: what was appended together is one row, with the number of its last event.

An event that is written alone, by a person or by this or an earlier release, has a row of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replan.core import events as e
from replan.core.plain_calls import EVENTS_OF_ONE, PLAIN, Recorded, dump_together, spelled_out
from replan.core.state.task import TaskStatus, status_of

TOGETHER = "+"
"""The kind of a row that holds several events; no event has such a kind."""
MOST = 100
"""Events in one row: whoever reads from the middle of it reads all of it."""
_ALONE = frozenset([e.UnknownEvent, *(kind for kind in e.KINDS.values() if kind.signal)])
"""Signals are looked for by their kind, and what is not known is kept as it came."""


class EventRow(NamedTuple):
    """A row that is yet to be numbered."""

    holds: int
    type: str
    data: str


class Laid(NamedTuple):
    """How what is appended together comes to lie, and what it does to its task."""

    rows: list[EventRow]
    status: TaskStatus | None
    """The status that the events leave the task in, if they change it."""
    ends: bool
    """One of them ends it."""


def laid(recorded: Sequence[Recorded]) -> Laid:
    """One append, as it comes to lie."""
    if 0 < len(recorded) <= MOST // EVENTS_OF_ONE and PLAIN.issuperset(map(type, recorded)):  # as most are
        row = EventRow(EVENTS_OF_ONE * len(recorded), TOGETHER, dump_together(recorded))
        return Laid([row], None, False)
    return Laid(rows_of(recorded), *brings(recorded))


def rows_of(recorded: Sequence[Recorded]) -> list[EventRow]:
    """The rows of one append."""
    stored = [one for one in recorded if one.stored]
    kinds = list(map(type, stored))
    plain = len(stored) if PLAIN.issuperset(kinds) else sum([kind in PLAIN for kind in kinds])
    held = len(stored) + (EVENTS_OF_ONE - 1) * plain
    if held <= MOST and _ALONE.isdisjoint(kinds):
        return [_row(stored, held)] if stored else []
    rows: list[EventRow] = []
    some: list[e.AnyEvent] = []
    for event in spelled_out(stored):
        alone = type(event) in _ALONE
        if some and (alone or len(some) == MOST):
            rows.append(_row(some, len(some)))
            some = []
        if alone:
            rows.append(_row([event], 1))
        else:
            some.append(event)
    if some:
        rows.append(_row(some, len(some)))
    return rows


def _row(recorded: Sequence[Recorded], held: int) -> EventRow:
    if held == 1:
        (event,) = spelled_out(recorded)
        return EventRow(1, event.type, e.dump(event))
    return EventRow(held, TOGETHER, dump_together(recorded))


_QUIET = frozenset([*PLAIN, e.StepReady, e.StepStarted, e.CallStarted, e.CallCompleted, e.StepCompleted])
"""Kinds that leave a task's status as it is: most appends have no others."""


_NOTHING: tuple[None, bool] = (None, False)


def brings(recorded: Sequence[Recorded]) -> tuple[TaskStatus | None, bool]:
    """The status that the events leave the task in, if they change it; and whether one of them ends it."""
    status, ends = None, False
    if _QUIET.issuperset(map(type, recorded)):
        return _NOTHING
    for event in spelled_out(recorded):
        if (brought := status_of(event)) is not None:
            status, ends = brought, ends or isinstance(event, e.TERMINAL)
    return status, ends


def records_of(
    task_id: str, rows: Iterable[tuple[int, float, int, str, str]], after: int
) -> Iterator[e.Record]:
    """The records after `after`, from rows of `seq, ts, round, type, data`."""
    for seq, ts, round, kind, data in rows:
        if kind != TOGETHER:
            yield e.Record(seq, task_id, ts, round, e.load(kind, data))
            continue
        pairs = e.split_together(data)
        first = seq - len(pairs) + 1
        skipped = max(0, after + 1 - first)
        for at, (kind, fields) in enumerate(pairs[skipped:], first + skipped):
            yield e.Record(at, task_id, ts, round, e.read(kind, fields))
