"""The store that is named, and the workers' queue in it."""

from __future__ import annotations

from pathlib import Path

from replan.config import Settings
from replan.engine.procrastinate.queue import Queue
from replan.errors import ConfigError, InputError
from replan.ports import Store


def default_database() -> Path:
    """The database in the user's state folder."""
    from platformdirs import user_state_path

    return user_state_path("replan") / "replan.db"


def open_store(db: str | Path | None, settings: Settings) -> Store:
    """The store that `db` (a path, `sqlite:///FILE` or `postgresql://…`) or the settings name."""
    from replan.store.sqlite import SqliteStore

    named = db if db is not None else settings.database_service.connection_string
    if isinstance(named, str) and is_postgres(named):
        from replan.store.postgres.opening import open_postgres

        return open_postgres(named, settings.database_service.max_connections)
    return SqliteStore(database_path(named), synchronous=settings.store.synchronous)


def queue_of(store: Store) -> Queue | None:
    """The workers' queue of this database, if it can have one; nothing is made."""
    shared = getattr(store, "shared", None)
    return None if shared is None else Queue(shared())


def need_queue(queue: Queue | None) -> Queue:
    """The same for whoever cannot do without."""
    if queue is None:
        raise ConfigError(
            "workers take tasks from a PostgreSQL database: give its address (--db postgresql://HOST/DATABASE, or "
            '[database_service] connection_string), or set [engine] kind = "local"'
        )
    return queue


def database(named: str | Path | None) -> str | Path:
    """What is named now, wherever the process goes to later: a SQLite file, or the address of a PostgreSQL database."""
    return named if isinstance(named, str) and is_postgres(named) else database_path(named)


def is_postgres(named: str) -> bool:
    """Whether that is the address of a PostgreSQL database."""
    return named.partition("://")[0] in ("postgresql", "postgres")


def database_path(named: str | Path | None) -> Path:
    """The SQLite file that a `--db` value or connection string names now, wherever the process goes to later."""
    return _database_path(named).absolute()


def _database_path(named: str | Path | None) -> Path:
    if named is None or named == "":
        return default_database()
    if isinstance(named, Path):
        return named
    kind, found, rest = named.partition("://")
    if not found and named.startswith("file:"):
        raise InputError(f"{named!r} is an address of SQLite's own; write sqlite:///FILE, or the path alone")
    if not found:
        return Path(named).expanduser()
    if kind == "sqlite":
        path = rest.removeprefix("/")
        if "?" in path:
            raise InputError(
                f"{named!r}: options are not taken; write sqlite:///FILE without what follows the ?"
            )
        if not path:
            raise InputError(
                f"{named!r} is not the address of a file; write sqlite:///FILE (four slashes for an absolute path)"
            )
        return Path(path).expanduser()
    raise InputError(
        f"{kind}:// is no database that Replan knows; use sqlite:///FILE or postgresql://HOST/DATABASE"
    )
