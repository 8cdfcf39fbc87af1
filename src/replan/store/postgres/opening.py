"""Opening the store, where its driver may not be installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.errors import InputError

if TYPE_CHECKING:
    from replan.store.postgres.store import PostgresStore


_ALWAYS = 3
"""One that writes, one that is heard by, and one that tells others."""


def open_postgres(dsn: str, connections: int) -> PostgresStore:
    """The store at this address, with at most so many connections; `InputError` if there is no driver."""
    try:
        import psycopg as psycopg
    except ImportError as error:
        raise InputError(
            f"a log in PostgreSQL needs its driver ({error.name or 'libpq'} is missing): pip install 'replan[postgres]'"
        ) from None
    from replan.store.postgres.store import PostgresStore

    return PostgresStore(dsn, lines=max(1, connections - _ALWAYS))
