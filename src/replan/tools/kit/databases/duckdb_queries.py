"""Whether a statement of DuckDB only reads; its type does not say: `WITH x AS (COPY … TO 'file') SELECT …` is a SELECT."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any

import duckdb

from replan.tools.kit.databases.database import refused

_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLE_FUNCTIONS = re.compile(
    r"range|generate_series|unnest|repeat|repeat_row|json_each|json_tree|glob|sniff_csv|pg_timezone_names|"
    r"(read|parquet|duckdb|pragma)_\w+"
)
"""Those that are known to read: others run statements that they are given as text, or functions by name."""


def the_only(
    connection: duckdb.DuckDBPyConnection, statement: str, kinds: Collection[Any], right: str
) -> duckdb.Statement:
    """The statement, if it is one alone and of these kinds."""
    statements = connection.extract_statements(statement)
    if len(statements) != 1:
        raise refused(f"statement: there are {len(statements)} statements; give one")
    if statements[0].type == duckdb.StatementType.MULTI:
        raise refused(
            "statement: DuckDB makes several of it, as of a PIVOT that finds its columns itself: name them "
            "(PIVOT t ON kind IN ('a', 'b') USING sum(amount))"
        )
    if statements[0].type not in kinds:
        raise refused(f"statement: {statements[0].type.name} is not allowed here; right is {right}")
    return statements[0]


def reading(connection: duckdb.DuckDBPyConnection, statement: str) -> duckdb.Statement:
    """The statement, if every part of its tree is one that reads."""
    one = the_only(connection, statement, {duckdb.StatementType.SELECT}, "SELECT")
    found = connection.execute("SELECT json_serialize_sql(?)", [one.query]).fetchone()
    try:
        tree = json.loads(found[0] if found else "")
    except (ValueError, RecursionError) as error:
        raise refused(f"statement: it cannot be taken apart: {error}") from error
    if tree.get("error") is not False:
        raise refused(f"statement: it cannot be taken apart: {tree.get('error_message')}")
    parts: list[Any] = [tree["statements"]]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            _check(part)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return one


def _check(part: dict[str, Any]) -> None:
    kind = part.get("type")
    if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _NODES:
        what = kind.removesuffix("_NODE").removesuffix("_QUERY")
        raise refused(f"statement: {what} is not allowed in a query; right is SELECT alone")
    if kind == "TABLE_FUNCTION":
        name = str((part.get("function") or {}).get("function_name", "")).lower()
        if _TABLE_FUNCTIONS.fullmatch(name) is None:
            raise refused(f"statement: the table function {name!r} is not allowed in a query")
