"""The list of tasks in the PostgreSQL database. Each way to narrow it down has an index in its order, so that a page reads that many rows.

Conditions are comparisons of whole rows, and the order names every column: a statement that asked for one tenant "newest first"
would be answered by a guess, at times by reading through all newer tasks of others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from replan.core.state.task import ENDED, TaskStatus
from replan.errors import TaskNotFound
from replan.store.postgres.line import Line, Params, Row, sendable
from replan.store.postgres.statements import SUMMARY

_LAST_OF_ALL = 2**62
_STATUSES = get_args(TaskStatus)
_OPEN = "status IN ({})".format(", ".join(f"'{status}'" for status in _STATUSES if status not in ENDED))
_BEFORE = "SELECT id, tenant FROM task WHERE task_id = %(before)s::text"


async def rows(
    line: Line,
    *,
    status: Sequence[str],
    limit: int,
    before: str | None,
    tenant: str | None,
    session: str | None,
) -> list[Row]:
    """Tasks with one of these statuses, newest first: rows of `SUMMARY`."""
    params = Params(
        most=max(limit, 0), id=_LAST_OF_ALL, tenant=sendable(tenant or ""), session=sendable(session or "")
    )
    if before is not None:
        known = await line.ask(_BEFORE, {"before": sendable(before)})
        if not known or tenant not in (None, known[0][1]):
            raise TaskNotFound(before)
        params["id"] = known[0][0]
    # As literals, so that the plan of the statement is one for these statuses.
    wanted = [f"'{one}'" for one in _STATUSES if one in status]
    if status and not wanted:
        return []
    only = f" AND status IN ({', '.join(wanted)})" if wanted else ""
    if session and tenant is not None:
        ways = [_way({"session": _SESSION, "tenant": _TENANT}, f" AND session <> ''{only}")]
    elif session:
        # `OFFSET 0` keeps the two apart: all that the session has, and then the newest of it.
        found = (
            f"SELECT id FROM task WHERE session <> '' AND session = {_SESSION} AND id < {_ID}{only} OFFSET 0"
        )
        ways = [f"(SELECT id FROM ({found}) found ORDER BY id DESC LIMIT {_MOST})"]
    elif tenant is not None:
        ways = [_way({"tenant": _TENANT, "status": one}) for one in wanted] or [_way({"tenant": _TENANT})]
    else:
        ways = [_way({"status": one}) for one in wanted] or [_way({})]
    newest = f"SELECT id FROM ({' UNION ALL '.join(ways)}) each ORDER BY id DESC LIMIT {_MOST}"
    return await line.ask(f"{SUMMARY} WHERE id = ANY(ARRAY({newest})) ORDER BY id DESC", params)


_ID, _MOST, _TENANT, _SESSION = "%(id)s::bigint", "%(most)s::int", "%(tenant)s::text", "%(session)s::text"


def _way(places: dict[str, str], more: str = "") -> str:
    """The newest of the tasks that have these values in these columns, along the index of just that order."""
    columns, values = ", ".join(places), ", ".join(places.values())
    if not places:
        return f"(SELECT id FROM task WHERE id < {_ID} ORDER BY id DESC LIMIT {_MOST})"
    order = ", ".join(f"{column} DESC" for column in (*places, "id"))
    return (
        f"(SELECT id FROM task WHERE ({columns}, id) < ({values}, {_ID}) AND ({columns}) >= ({values}){more} "
        f"ORDER BY {order} LIMIT {_MOST})"
    )


async def count(line: Line, *, tenant: str | None, unfinished: bool) -> int:
    where = [] if tenant is None else ["tenant = %(tenant)s::text"]
    if unfinished:
        where.append("NOT ended" if tenant is None else _OPEN)
    query = f"SELECT count(*) FROM task {'WHERE ' if where else ''}{' AND '.join(where)}"
    found = await line.ask(query, {"tenant": sendable(tenant or "")})
    return int(found[0][0])
