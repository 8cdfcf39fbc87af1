"""What the database knows of tools: statistics, which only add up, and the names that sources have."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from replan.core.tools.stats import ToolKey, ToolStats
from replan.store.postgres.line import Line
from replan.store.tool_memory import names_of, stats_of


async def add(line: Line, more: Mapping[ToolKey, ToolStats], now: float) -> None:
    """Add counts to those that are stored, in one transaction."""
    connection = await line.connected()
    async with connection.transaction():
        for key, stats in sorted(
            more.items()
        ):  # in one order, so that two processes never wait for each other
            where = {"source": key.source, "tool": key.tool_id, "now": now}
            await line.ask(
                "INSERT INTO tool_stats VALUES (%(source)s::text, %(tool)s::text, '', %(now)s::float8) ON CONFLICT DO NOTHING",
                where,
            )
            rows = await line.ask(
                "SELECT data FROM tool_stats WHERE source = %(source)s::text AND tool_id = %(tool)s::text FOR UPDATE",
                where,
            )
            known = stats_of(rows[0][0])
            known.merge(stats)
            await line.ask(
                "UPDATE tool_stats SET data = %(data)s::text, updated = %(now)s::float8"
                " WHERE source = %(source)s::text AND tool_id = %(tool)s::text",
                {**where, "data": json.dumps(known.to_json())},
            )


async def read(line: Line) -> dict[ToolKey, ToolStats]:
    """Every tool's statistics."""
    rows = await line.ask("SELECT source, tool_id, data FROM tool_stats ORDER BY source, tool_id")
    return {ToolKey(source, tool_id): stats_of(data) for source, tool_id, data in rows}


async def remember(line: Line, names: Mapping[str, Collection[str]], now: float) -> None:
    """Keep the names that each source has listed."""
    for source, listed in sorted(names.items()):
        await line.ask(
            "INSERT INTO tool_names VALUES (%(source)s::text, %(names)s::text, %(now)s::float8)"
            " ON CONFLICT (source) DO UPDATE SET names = excluded.names, updated = excluded.updated",
            {"source": source, "names": json.dumps(list(listed)), "now": now},
        )


async def remembered(line: Line) -> dict[str, tuple[str, ...]]:
    """The names that each source listed last."""
    return names_of(await line.ask("SELECT source, names FROM tool_names"))
