"""What the PostgreSQL database holds that nobody needs any more."""

from __future__ import annotations

from collections.abc import Collection

from replan.ports import KeptTask
from replan.store.postgres.kept.artifacts import KEPT, SWEPT
from replan.store.postgres.line import LONG_SECS, Line

_TASKS = """SELECT id, task_id, status, updated, last_seq FROM task WHERE id < %(id)s::bigint AND created < %(before)s::float8
 AND updated < %(before)s::float8 AND status = ANY(%(status)s::text[]) ORDER BY id DESC LIMIT %(limit)s::int"""
_KEPT = f"""WITH t AS ({_TASKS})
SELECT task_id, status, updated, (SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM event WHERE event.task = t.id),
 (SELECT coalesce(json_agg(json_build_array(encode(a.digest, 'hex'), a.size,
   (SELECT count(DISTINCT o.task) FROM artifact_use o WHERE o.digest = a.digest))), '[]')
  FROM artifact a WHERE a.digest IN (SELECT digest FROM artifact_use u WHERE u.task = t.id)),
 (SELECT coalesce(array_agg(f.task_id), '{{}}') FROM task f WHERE f.parent = t.id),
 EXISTS (SELECT FROM outbox_consumer c LEFT JOIN outbox_position p ON p.consumer = c.name AND p.task = t.id
  WHERE coalesce(p.seq, CASE WHEN t.id > c.horizon THEN 0 ELSE t.last_seq END) < t.last_seq), id
FROM t ORDER BY id DESC"""
_DUE = """INSERT INTO tidied VALUES (1, now()) ON CONFLICT (id) DO UPDATE SET at = now()
 WHERE tidied.at <= now() - make_interval(secs => %(secs)s::float8) OR tidied.at > now() RETURNING 1"""


async def sizes(
    line: Line, status: Collection[str], before: float | None, below: int | None, limit: int
) -> list[KeptTask]:
    rows = await line.ask(
        _KEPT,
        {
            "id": 2**62 if below is None else below,
            "before": 1e300 if before is None else before,
            "status": list(status),
            "limit": limit,
        },
        more_secs=LONG_SECS,
    )
    return [
        KeptTask(
            task_id, status, updated, size, tuple((digest, held, users) for digest, held, users in contents),
            tuple(forks), undelivered, number,
        )
        for task_id, status, updated, size, contents, forks, undelivered, number in rows
    ]  # fmt: skip


async def sweep(line: Line) -> int:
    """Some of what no task uses; how many contents."""
    return len(await line.ask(f"{SWEPT} RETURNING 1", {"age": KEPT}, more_secs=LONG_SECS))


async def give_back(line: Line) -> None:
    """What is free at the end of a table goes back to the disk, the rest is used again."""
    await line.ask("VACUUM event, task, artifact, artifact_piece", more_secs=LONG_SECS)


async def now(line: Line) -> float:
    return float((await line.ask("SELECT extract(epoch FROM now())::float8"))[0][0])


async def lived_since(line: Line, before: float) -> float | None:
    found = await line.ask(
        "SELECT min(updated) FROM task WHERE updated >= %(before)s::float8", {"before": before}
    )
    return found[0][0] if found else None


async def due(line: Line, secs: float) -> bool:
    return bool(await line.ask(_DUE, {"secs": secs}))


async def forget(line: Line) -> None:
    await line.ask("DELETE FROM tidied")
