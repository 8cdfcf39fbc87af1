"""What a database file offers to the tools, and how rows become JSON."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypedDict

from replan.core.words import in_digits
from replan.errors import ToolCallError
from replan.tools.functions.context import current, time_left

Parameters = list[Any] | dict[str, Any]


class Rows(TypedDict):
    """The rows as objects; `truncated` if there are more than were asked for or can be given."""

    columns: list[str]
    rows: list[dict[str, Any]]
    row_count: int
    truncated: bool


class Column(TypedDict):
    name: str
    type: str


class Table(TypedDict):
    name: str
    kind: str
    columns: list[Column]


class Changed(TypedDict):
    """How many rows were changed; -1 where the database does not say."""

    rows_changed: int


MOST_VALUE = 32 * 2**20
"""Bytes of a row: one that is larger is refused, however few are asked for."""


class Database(Protocol):
    """A database whose every call opens it anew. All raise `ToolCallError`."""

    def query(self, statement: str, parameters: Parameters, limit: int) -> Rows: ...
    def tables(self) -> list[Table]: ...
    def execute(self, statement: str, parameters: Parameters, key: str) -> Changed: ...


def rows_of(
    columns: Sequence[str], fetch: Callable[[], Sequence[Any] | None], limit: int, most_bytes: int
) -> Rows:
    """Fetch up to `limit` rows and about `most_bytes`; columns that bear the same name get a number."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    rows: list[dict[str, Any]] = []
    size = 0
    while (row := fetch()) is not None:
        own = sum(len(value) if isinstance(value, str | bytes) else 16 for value in row)
        if own > MOST_VALUE:
            raise refused(
                f"a row has {own:,} bytes; the most are {MOST_VALUE:,}: ask for parts, or aggregate"
            )
        size += own
        if len(rows) >= limit or (rows and size > most_bytes):
            return {"columns": names, "rows": rows, "row_count": len(rows), "truncated": True}
        rows.append({name: plain(value) for name, value in zip(names, row, strict=True)})
    return {"columns": names, "rows": rows, "row_count": len(rows), "truncated": False}


def plain(value: Any) -> Any:
    """A decimal as a number where that is the same; whatever else is left to the source."""
    if isinstance(value, Decimal):
        if value == value.to_integral_value() and value.is_finite():
            return int(value)
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    return value


@contextlib.contextmanager
def interrupted(interrupt: Callable[[], None], most_secs: float) -> Iterator[None]:
    """Call `interrupt` from another thread when the call is cancelled or has had its time, which raises then."""
    call, secs = current(), time_left(most_secs)
    done, late = threading.Event(), threading.Event()
    end = time.monotonic() + secs

    def watch() -> None:
        while not done.wait(0.02):
            if time.monotonic() >= end:
                late.set()
            if late.is_set() or call.cancelled:
                interrupt()  # again and again: one that comes before the statement has begun is lost

    watcher = threading.Thread(target=watch, name="replan-sql-watch", daemon=True)
    watcher.start()
    try:
        yield
    except ToolCallError:
        raise
    except Exception as error:
        if late.is_set():
            text = f"the statement had not ended after {in_digits(secs)} seconds and was stopped; ask for less, or aggregate"
            raise ToolCallError(text, kind="timeout", happened="no") from error
        raise
    finally:
        done.set()
        watcher.join()


def refused(text: str, kind: str = "parameter") -> ToolCallError:
    return ToolCallError(text, kind=kind, happened="no")
