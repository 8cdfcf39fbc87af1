"""The statistics of tools in the database: read, added to, and written back in one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping

from replan.core.tool_stats import ToolKey, ToolStats


def add(db: sqlite3.Connection, more: Mapping[ToolKey, ToolStats], now: float) -> None:
    """Add counts to those that are stored."""
    for key, stats in more.items():
        row = db.execute("SELECT data FROM tool_stats WHERE source = ? AND tool_id = ?", key).fetchone()
        known = _read(row[0]) if row is not None else ToolStats()
        known.merge(stats)
        data = json.dumps(known.to_json(), ensure_ascii=False)
        db.execute(
            "INSERT OR REPLACE INTO tool_stats VALUES (?, ?, ?, ?)",
            (key.source, key.tool_id, data, now),
        )


def read(db: sqlite3.Connection) -> dict[ToolKey, ToolStats]:
    """Every tool's statistics."""
    rows = db.execute("SELECT source, tool_id, data FROM tool_stats ORDER BY source, tool_id")
    return {ToolKey(source, tool_id): _read(data) for source, tool_id, data in rows}


def _read(data: str) -> ToolStats:
    """What is stored; nothing where a person has spoilt it."""
    try:
        return ToolStats.from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ToolStats()
