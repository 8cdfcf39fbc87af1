"""What the database knows of tools: statistics, added to in one transaction, and the names that sources have."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping

from replan.core.tools.stats import ToolKey, ToolStats


def add(db: sqlite3.Connection, more: Mapping[ToolKey, ToolStats], now: float) -> None:
    """Add counts to those that are stored."""
    for key, stats in more.items():
        row = db.execute("SELECT data FROM tool_stats WHERE source = ? AND tool_id = ?", key).fetchone()
        known = stats_of(row[0]) if row is not None else ToolStats()
        known.merge(stats)
        data = json.dumps(known.to_json(), ensure_ascii=False)
        db.execute(
            "INSERT OR REPLACE INTO tool_stats VALUES (?, ?, ?, ?)",
            (key.source, key.tool_id, data, now),
        )


def read(db: sqlite3.Connection) -> dict[ToolKey, ToolStats]:
    """Every tool's statistics."""
    rows = db.execute("SELECT source, tool_id, data FROM tool_stats ORDER BY source, tool_id")
    return {ToolKey(source, tool_id): stats_of(data) for source, tool_id, data in rows}


def remember(db: sqlite3.Connection, names: Mapping[str, Collection[str]], now: float) -> None:
    """Keep the names that each source has listed."""
    rows = [(source, json.dumps(list(listed)), now) for source, listed in names.items()]
    db.executemany("INSERT OR REPLACE INTO tool_names VALUES (?, ?, ?)", rows)


def remembered(db: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The names that each source listed last."""
    return names_of(db.execute("SELECT source, names FROM tool_names"))


def names_of(rows: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """The names of each source as they are stored; nothing where a person has spoilt them."""
    found: dict[str, tuple[str, ...]] = {}
    for source, data in rows:
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            found[source] = tuple(str(name) for name in json.loads(data))
    return found


def stats_of(data: str) -> ToolStats:
    """What is stored; nothing where a person has spoilt it."""
    try:
        return ToolStats.from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return ToolStats()
