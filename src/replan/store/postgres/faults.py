"""What an error of the database means: gone for now, so that it is asked again, or a refusal."""

from __future__ import annotations

import re

import psycopg

from replan.errors import ReplanError, StoreBusy, StoreError, StoreFull, StoreUnusable

FAULTS = (psycopg.Error, OSError, TimeoutError)
"""What comes of asking a server."""
_AGAIN = frozenset(
    {
        "25006",  # read_only_sql_transaction: it has become a standby, and another may be what this one was
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "53000",
        "53100",  # disk_full
        "53200",  # out_of_memory
        "53300",  # too_many_connections
        "55P03",  # lock_not_available
        "57014",  # query_canceled
        "57P01",  # admin_shutdown
        "57P02",  # crash_shutdown
        "57P03",  # cannot_connect_now
        "57P05",  # idle_session_timeout
        "0A000",  # a prepared statement's result has changed: a migration beside us
    }
)
"""Codes (appendix A of PostgreSQL's manual) after which the same statement may succeed."""
_NEVER = ("28", "3D", "3F000", "42501")
"""Refusals that no waiting changes: who is not let in, a database or a schema that does not exist, rights that are missing."""
RIGHTS = (
    "have its owner grant that right, or connect as another user (--db, [database_service] connection_string)"
)
_TO_DO = (
    (
        re.compile(r"password authentication failed|no password supplied"),
        "give that user's password with PGPASSWORD or in ~/.pgpass, or correct the user in the address",
    ),
    (
        re.compile(r'database "[^"]*" does not exist'),
        "make that database (`createdb`), or correct its name in the address",
    ),
    (
        re.compile(r'role "[^"]*" does not exist'),
        "make that user (`createuser`), or correct the name in the address",
    ),
    (
        re.compile(r"pg_hba\.conf"),
        "let it in there (a line in the server's pg_hba.conf), or correct host and user in the address",
    ),
    (
        re.compile(r"no schema has been selected"),
        "make the schema that search_path names, or correct ?options= in the address",
    ),
    (re.compile(r"permission denied"), RIGHTS),
)
"""What to do about what a server says. Only advice goes by its words: of a session that is refused there is nothing else, and
a server of another language says nothing of these."""


def passes(error: BaseException) -> bool:
    """Whether the server, or the way to it, is only gone for now."""
    if isinstance(error, (TimeoutError, OSError, psycopg.InterfaceError)):
        return True
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    if code is not None:
        return code in _AGAIN or code.startswith("08")
    # Without a code it is no answer of the server, but what the driver makes of a way that is lost.
    return isinstance(error, (psycopg.OperationalError, psycopg.InternalError)) and not refuses(error)


def refuses(error: BaseException) -> bool:
    """Whether a connection is refused for good. What is refused before a session is there has no code, only words."""
    code = error.sqlstate if isinstance(error, psycopg.Error) else None
    if code is not None:
        return code.startswith(_NEVER)
    pgconn = getattr(error, "pgconn", None)
    return bool(getattr(pgconn, "needs_password", False))


def _said(error: BaseException) -> str:
    """What it says, without the statement that it points into."""
    diag = error.diag if isinstance(error, psycopg.Error) else None
    parts = (diag.message_primary, diag.message_detail) if diag is not None else ()
    text = ". ".join(part for part in parts if part) or str(error)
    return " ".join(text.split()) or type(error).__name__


def translated(error: BaseException, shown: str) -> BaseException:
    """The store error that an error of the database is."""
    if isinstance(error, ReplanError) or not isinstance(error, (psycopg.Error, TimeoutError, OSError)):
        return error
    code = getattr(error, "sqlstate", None) or ""
    text = _said(error)
    if code == "53100":
        return StoreFull(
            f"the disk of the database {shown} is full ({text}): free some space, then resume the task, or hand it in again if it is not there"
        )
    if code == "25006":
        return StoreUnusable(
            f"the database {shown} takes no writes ({text}); give the address of the primary"
        )
    advice = next((todo for said, todo in _TO_DO if said.search(text)), "")
    if refuses(error):
        return StoreUnusable(
            f"the database {shown} refuses: {text}; {advice or 'check the address, the user and its rights'}"
        )
    if passes(error) and advice:  # it may be made, or let in, while somebody waits for that
        return StoreBusy(f"the database {shown} refuses: {text}; {advice}")
    if passes(error):
        return StoreBusy(f"the database {shown} does not answer ({text}); start it, or check the address")
    return StoreError(f"the database {shown} failed: {text}")
