"""Events of a few kinds out of the logs of many tasks in the PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from replan.store.postgres.line import Line, Row, sendable
from replan.store.tenants.picking import rows_with


async def rows(line: Line, *, after: Mapping[str, int], kinds: Collection[str]) -> list[Row]:
    """Rows of `task_id, after, seq, ts, round, type, data`."""
    query = (
        "SELECT task_id, j.value::bigint, event.seq, event.ts, event.round, event.type, event.data "
        "FROM json_each_text(%(after)s::json) j JOIN task ON task_id = j.key "
        "JOIN event ON event.task = task.id AND event.seq > j.value::bigint "
        f"WHERE {rows_with(kinds, 'position({} IN event.data) > 0')} ORDER BY task.id, event.seq"
    )
    return await line.ask(
        query, {"after": json.dumps({sendable(name): last for name, last in after.items()})}
    )
