"""One task's row and log written many times over, by the database itself: a store of any size in minutes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

LOT = 2_000
"""Tasks in one transaction."""
Ask = Callable[..., Sequence[Sequence[Any]]]


class Names(NamedTuple):
    """How a database says a few things."""

    columns: str
    """The columns of a table."""
    task_id: str
    """The id of the n-th clone."""


SQLITE = Names("SELECT name FROM pragma_table_info('{table}')", "printf('c%08d', n)")
POSTGRES = Names(
    "SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped",
    "'c' || lpad(n::text, 8, '0')",
)


def name_of(n: int) -> str:
    return f"c{n:08d}"


def clone(ask: Ask, names: Names, template: str, count: int) -> None:
    """Write the task so many times more, as `c00000000` and on."""
    ((template_id,),) = ask(f"SELECT id FROM task WHERE task_id = '{template}'")
    task = ", ".join(_columns(ask, names, "task", without={"id", "task_id"}))
    event = ", ".join(_columns(ask, names, "event", without={"task"}))
    for begin in range(0, count, LOT):
        end = min(begin + LOT, count)
        numbers = f"WITH RECURSIVE n(n) AS (SELECT {begin} UNION ALL SELECT n + 1 FROM n WHERE n < {end - 1})"
        ask(
            f"INSERT INTO task (task_id, {task}) {numbers} SELECT {names.task_id}, {task} FROM task, n WHERE id = {template_id}"
        )
        ask(
            f"INSERT INTO event (task, {event}) SELECT t.id, {', '.join(f'e.{name}' for name in event.split(', '))} "
            f"FROM task t, event e WHERE e.task = {template_id} AND t.task_id BETWEEN '{name_of(begin)}' AND '{name_of(end - 1)}'"
        )


def _columns(ask: Ask, names: Names, table: str, without: set[str]) -> list[str]:
    return [name for (name,) in ask(names.columns.format(table=table)) if name not in without]


def sqlite_ask(db: sqlite3.Connection) -> Ask:
    def ask(sql: str) -> Sequence[Sequence[Any]]:
        with db:
            return db.execute(sql).fetchall()

    return ask


def postgres_ask(connection: Any) -> Ask:
    """Of a connection in autocommit, whose search path has the tables."""

    def ask(sql: str) -> Sequence[Sequence[Any]]:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    return ask
