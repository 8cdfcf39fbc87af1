"""Where the database is: what the address says, with what Replan needs to notice that a server is gone."""

from __future__ import annotations

from typing import Any

from replan.errors import InputError

SCHEMA = "replan"
_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
    "application_name": "replan",
}


class Address:
    """A connection string, read once. What it says itself is kept; `shown` has no password."""

    def __init__(self, dsn: str) -> None:
        import psycopg
        from psycopg import conninfo

        try:
            given: dict[str, Any] = dict(conninfo.conninfo_to_dict(dsn))
        except psycopg.ProgrammingError as error:
            raise InputError(
                f"the database's address cannot be read: {str(error).strip()}; write postgresql://USER@HOST:5432/DATABASE"
            ) from None
        options = str(given.get("options", ""))
        if "search_path" not in options:
            given["options"] = f"{options} -c search_path={SCHEMA}".strip()
            self.schema: str | None = SCHEMA
        else:
            self.schema = None
        self.given = {**_DEFAULTS, **given}
        self.shown = _shown(given)


def _shown(given: dict[str, Any]) -> str:
    host, port, name = (str(given.get(key, "")) for key in ("host", "port", "dbname"))
    where = ",".join(
        f"{one}:{at}" if at else one
        for one, at in zip(host.split(","), _as_many(port.split(","), host.count(",") + 1), strict=True)
    )
    return f"postgresql://{where}/{name}"


def _as_many(ports: list[str], count: int) -> list[str]:
    return ports if len(ports) == count else ports[:1] * count
