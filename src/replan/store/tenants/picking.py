"""Events of a few kinds out of the logs of many tasks: what is not of these kinds is not made into events, nor read twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from replan.core import events as e
from replan.store.rows import TOGETHER


def rows_with(kinds: Collection[str], holds: str) -> str:
    """The condition on rows of `event` that may have one of these kinds. `holds`: of a text in `data`, with a place for it."""
    named = ", ".join(f"'{kind}'" for kind in kinds)
    inside = " OR ".join(holds.format(f"""'"{kind}"'""") for kind in kinds)
    return f"(event.type IN ({named}) OR (event.type = '{TOGETHER}' AND ({inside})))"


def picked_of(rows: Iterable[tuple[Any, ...]], kinds: Collection[str]) -> dict[str, list[e.Record]]:
    """By task, from rows of `task_id, after, seq, ts, round, type, data`."""
    found: dict[str, list[e.Record]] = {}
    for task_id, after, seq, ts, round, kind, data in rows:
        if kind != TOGETHER:
            found.setdefault(task_id, []).append(e.Record(seq, task_id, ts, round, e.load(kind, data)))
            continue
        pairs = e.split_together(data)
        for at, (one, fields) in enumerate(pairs, seq - len(pairs) + 1):
            if at > after and one in kinds:
                found.setdefault(task_id, []).append(e.Record(at, task_id, ts, round, e.read(one, fields)))
    return found


def picked(
    db: sqlite3.Connection, *, after: Mapping[str, int], kinds: Collection[str]
) -> dict[str, list[e.Record]]:
    rows = db.execute(
        "SELECT task_id, j.value, event.seq, event.ts, event.round, event.type, event.data FROM json_each(?) j "
        "CROSS JOIN task ON task_id = j.key CROSS JOIN event ON event.task = task.id AND event.seq > j.value "
        f"WHERE {rows_with(kinds, 'instr(event.data, {}) > 0')} ORDER BY task.id, event.seq",
        (json.dumps(dict(after)),),
    )
    return picked_of(rows, kinds)
