"""How events lie in the table `event`: what was appended together is one row, with the number of its last event.

An event that is written alone, by a person or by this or an earlier release, has a row of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from replan.core import events as e

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


def rows_of(events: Sequence[e.AnyEvent]) -> list[EventRow]:
    """The rows of one append."""
    stored = [event for event in events if event.stored]
    if len(stored) <= MOST and _ALONE.isdisjoint(map(type, stored)):
        return [_row(stored)] if stored else []
    rows: list[EventRow] = []
    some: list[e.AnyEvent] = []
    for event in stored:
        alone = type(event) in _ALONE
        if some and (alone or len(some) == MOST):
            rows.append(_row(some))
            some = []
        if alone:
            rows.append(_row([event]))
        else:
            some.append(event)
    if some:
        rows.append(_row(some))
    return rows


def _row(events: Sequence[e.AnyEvent]) -> EventRow:
    if len(events) == 1:
        return EventRow(1, events[0].type, e.dump(events[0]))
    return EventRow(len(events), TOGETHER, e.dump_together(events))


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
