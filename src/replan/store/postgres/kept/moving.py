"""Tasks of the PostgreSQL database as they lie there, for another store, and from one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from itertools import islice

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.errors import StaleWriter, TaskExists, TaskNotFound, TaskShared
from replan.ports import Admission, Claim, Content, StoredRow, StoredTask
from replan.store.postgres.line import LONG_SECS, Line, Params
from replan.store.postgres.statements import ALL_OF_T, FORKS, SEPARATOR

EPOCH_BITS = 48
"""Where a task's fences begin is random: an id that comes again, for another task, has none of the fences that it had."""
_TOGETHER = 200
_STORED = """SELECT t.request, t.created, p.task_id, t.shared, t.sealed_by, u.artifact_id, u.digest, a.size FROM task t
 LEFT JOIN task p ON p.id = t.parent LEFT JOIN artifact_use u ON u.task = t.id
 LEFT JOIN artifact a ON a.digest = u.digest WHERE t.task_id = %(task)s::text ORDER BY u.artifact_id"""
_TAKEN = """SELECT e.key, o.task_id, e.times FROM task t JOIN effect e ON e.family = t.id LEFT JOIN task o ON o.id = e.owner
 WHERE t.task_id = %(task)s::text ORDER BY e.key"""
_ROWS = """SELECT e.seq, e.ts, e.round, e.type, e.data FROM task t LEFT JOIN event e ON e.task = t.id AND e.seq > %(after)s::bigint
 WHERE t.task_id = %(task)s::text ORDER BY e.seq LIMIT %(limit)s::int"""
_TASK = """INSERT INTO task (task_id, request, description, status, ended, created, updated, last_seq, last_signal, epoch, append_seq,
 queue, priority, due, parent, shared, family, sealed_by) SELECT %(task)s::text, %(request)s::text, %(description)s::text, %(status)s::text, %(ended)s::bool,
 %(created)s::float8, 0, 1, 0, %(epoch)s::bigint, 1, %(queue)s::text, %(priority)s::int, %(due)s::bool,
 p.id, %(shared)s::bigint, coalesce(p.family, p.id), %(sealed_by)s::text
 FROM (SELECT 1) one LEFT JOIN task p ON p.task_id = %(parent)s::text
 ON CONFLICT (task_id) DO NOTHING RETURNING id"""
_EVENTS = """INSERT INTO event SELECT %(id)s::bigint, * FROM unnest(%(seqs)s::bigint[], %(times)s::float8[], %(rounds)s::int[],
 string_to_array(%(types)s::text, E'\x1f'), string_to_array(%(datas)s::text, E'\x1f'))"""
_SIGNAL = "INSERT INTO signal VALUES (%(id)s::bigint, %(seq)s::bigint, %(mark)s::text)"
_USE = """WITH a AS (UPDATE artifact SET touched = '-infinity' WHERE digest = %(digest)s::bytea RETURNING digest)
INSERT INTO artifact_use SELECT %(id)s::bigint, %(artifact)s::text, digest FROM a RETURNING 1"""
_LAST = "UPDATE task SET updated = %(ts)s::float8, last_seq = %(seq)s::bigint, append_seq = %(seq)s::bigint, last_signal = %(signal)s::bigint WHERE id = %(id)s::bigint"
_TAKE = """INSERT INTO effect SELECT f.id, %(key)s::text, (SELECT id FROM task WHERE task_id = %(owner)s::text), %(times)s::int
 FROM task f WHERE f.task_id = %(task)s::text ON CONFLICT DO NOTHING"""
_WAKE = "SELECT wake(task_id, queue, priority) FROM task WHERE id = %(id)s::bigint"
GIVE_AWAY = (
    """WITH t AS (SELECT id FROM task WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint AND last_seq = %(last)s::bigint
 AND NOT EXISTS (SELECT FROM task f WHERE f.parent = task.id) FOR UPDATE),
"""
    + ALL_OF_T
)


async def stored(line: Line, task_id: str) -> StoredTask:
    found = await line.ask(_STORED, {"task": task_id})
    if not found:
        raise TaskNotFound(task_id)
    artifacts = tuple((row[5], Content(bytes(row[6]).hex(), row[7])) for row in found if row[5] is not None)
    request, created, parent, shared, sealed_by = found[0][:5]
    taken = tuple(await line.ask(_TAKEN, {"task": task_id}))
    return StoredTask(task_id, request, created, artifacts, parent, shared, taken, sealed_by)


async def rows(line: Line, task_id: str, after: int, limit: int) -> list[StoredRow]:
    found = await line.ask(_ROWS, {"task": task_id, "after": after, "limit": limit})
    if not found:
        raise TaskNotFound(task_id)
    return [StoredRow(*row) for row in found if row[0] is not None]


def new_epochs(admissions: Sequence[Admission]) -> dict[str, int]:
    """By which an admission whose answer was lost is known again."""
    return {one.task.task_id: secrets.randbits(EPOCH_BITS) for one in admissions}


async def admit(line: Line, admissions: Sequence[Admission], epochs: dict[str, int]) -> None:
    """Take the tasks in, in one transaction; also once more, after an answer that was lost."""
    known: dict[str, int] = dict(
        await line.ask(
            "SELECT task_id, epoch FROM task WHERE task_id = ANY(%(ids)s::text[])", {"ids": list(epochs)}
        )
    )
    if known == epochs:
        return
    if known:
        raise TaskExists(next(iter(known)))
    connection = await line.connected()
    async with connection.transaction():
        for one in admissions:
            await _admit(line, one, epochs[one.task.task_id])
        for one in admissions:  # who has taken a call may come later in the file
            for key, owner, times in one.task.taken:
                await line.ask(_TAKE, {"task": one.task.task_id, "key": key, "owner": owner, "times": times})


async def _admit(line: Line, one: Admission, epoch: int) -> None:
    task, wanted = one.task, one.work
    params: Params = {
        "task": task.task_id,
        "request": task.request,
        "description": json.dumps(storable(one.description), ensure_ascii=False),
        "status": one.status,
        "ended": one.ended,
        "created": task.created,
        "epoch": epoch,
        "queue": None if wanted is None else wanted.line,
        "priority": 0 if wanted is None else wanted.priority,
        "due": wanted is not None and one.due,
        "parent": task.parent,
        "shared": task.shared,
        "sealed_by": task.sealed_by,
    }
    made = await line.ask(_TASK, params)
    if not made:
        raise TaskExists(task.task_id)
    number, rows, signal, last = made[0][0], iter(one.rows()), 0, StoredRow(1, task.created, 0, "", "")
    while some := list(islice(rows, _TOGETHER)):
        seqs, times, rounds, types, datas = zip(*some, strict=True)
        await line.ask(
            _EVENTS,
            {
                "id": number,
                "seqs": list(seqs),
                "times": list(times),
                "rounds": list(rounds),
                "types": SEPARATOR.join(types),
                "datas": SEPARATOR.join(datas),
            },
            more_secs=LONG_SECS,
        )
        for row in some:
            if (kind := e.KINDS.get(row.type)) is not None and kind.signal:
                signal = row.seq
                await line.ask(_SIGNAL, {"id": number, "seq": row.seq, "mark": secrets.token_hex(8)})
        last = some[-1]
    for artifact_id, content in task.artifacts:
        used = {"id": number, "artifact": artifact_id, "digest": bytes.fromhex(content.digest)}
        if not await line.ask(_USE, used):
            raise StaleWriter(
                f"the content of {artifact_id} was removed before its task came to use it; import it again"
            )
    await line.ask(_LAST, {"id": number, "ts": last.ts, "seq": last.seq, "signal": signal})
    if wanted is not None:
        await line.ask(
            "INSERT INTO need VALUES (%(queue)s::text, %(needs)s::text) ON CONFLICT DO NOTHING",
            {"queue": wanted.line, "needs": wanted.needs.model_dump_json()},
        )
        if one.due:
            await line.ask(_WAKE, {"id": number})


async def give_away(line: Line, claim: Claim, last_seq: int) -> list[bytes]:
    """Remove a task that another store has now; the contents that it used."""
    found = await line.ask(
        GIVE_AWAY, {"task": claim.task_id, "epoch": claim.fence, "last": last_seq}, more_secs=LONG_SECS
    )
    if not found:
        if not await line.ask("SELECT 1 FROM task WHERE task_id = %(task)s::text", {"task": claim.task_id}):
            return []  # the first answer was lost
        if shared := await line.ask(FORKS, {"task": claim.task_id}):
            raise TaskShared(claim.task_id, [one[0] for one in shared])
        raise StaleWriter(f"task {claim.task_id!r} has been taken over by another driver, or has gone on")
    return [bytes(digest) for digest in found[0][1] or ()]
