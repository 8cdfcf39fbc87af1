"""Tasks of the PostgreSQL database as they lie there, for another store, and from one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from replan.core import events as e
from replan.core.data.strict_json import storable
from replan.core.words import some
from replan.errors import StaleWriter, TaskExists, TaskNotFound, TaskShared
from replan.ports import Admission, Claim, Content, StoredRow, StoredTask
from replan.store.moving import EPOCH_BITS, moved_before
from replan.store.postgres.line import LONG_SECS, Line, Params
from replan.store.postgres.statements import ALL_OF_T, SEPARATOR

_TOGETHER = 200
_STORED = """SELECT t.request, t.created, p.task_id, t.shared, t.sealed_by, u.artifact_id, u.digest, a.size FROM task t
 LEFT JOIN task p ON p.id = t.parent LEFT JOIN artifact_use u ON u.task = t.id
 LEFT JOIN artifact a ON a.digest = u.digest WHERE t.task_id = %(task)s::text ORDER BY u.artifact_id"""
_TAKEN = """SELECT e.key, o.task_id, e.times FROM task t JOIN effect e ON e.family = t.id LEFT JOIN task o ON o.id = e.owner
 WHERE t.task_id = %(task)s::text ORDER BY e.key"""
_ROWS = """SELECT e.seq, e.ts, e.round, e.type, e.data FROM task t LEFT JOIN event e ON e.task = t.id AND e.seq > %(after)s::bigint
 WHERE t.task_id = %(task)s::text ORDER BY e.seq LIMIT %(limit)s::int"""
_TASK = """INSERT INTO task (task_id, request, description, status, ended, created, updated, last_seq, last_signal, epoch, append_seq,
 queue, priority, due, parent, shared, family, sealed_by, tenant, session) SELECT %(task)s::text, %(request)s::text, %(description)s::text, %(status)s::text, %(ended)s::bool,
 %(created)s::float8, 0, 1, 0, %(epoch)s::bigint, 1, %(queue)s::text, %(priority)s::int, %(due)s::bool,
 p.id, %(shared)s::bigint, coalesce(p.family, p.id), %(sealed_by)s::text, %(tenant)s::text, %(session)s::text
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
_MOVED = "SELECT 1 FROM move WHERE task_id = %(task)s::text AND created = %(created)s::float8 AND (seq > %(seq)s::bigint OR digest = %(digest)s::text)"
_FURTHER = "ON CONFLICT (task_id, created, digest) DO UPDATE SET seq = greatest(move.seq, excluded.seq)"
_REMEMBER = f"INSERT INTO move VALUES (%(task)s::text, %(created)s::float8, %(digest)s::text, %(seq)s::bigint) {_FURTHER}"
_REMEMBER_GIVEN = f"INSERT INTO move SELECT task_id, created, given_away, last_seq FROM task WHERE task_id = ANY(%(tasks)s::text[]) ORDER BY 1 {_FURTHER}"
_GONE = """INSERT INTO moved_away SELECT t.task_id, f.task_id, f.created FROM task t LEFT JOIN task f ON f.id = t.family AND NOT t.ended
 WHERE t.task_id = ANY(%(tasks)s::text[]) ORDER BY 1 ON CONFLICT (task_id) DO UPDATE SET family = excluded.family, since = excluded.since"""
_BACK = "DELETE FROM moved_away WHERE task_id = ANY(%(tasks)s::text[])"
_UNDELIVERED = """SELECT t.task_id, c.name FROM task t CROSS JOIN outbox_consumer c LEFT JOIN outbox_position p ON p.consumer = c.name AND p.task = t.id
 WHERE t.task_id = ANY(%(tasks)s::text[]) AND coalesce(p.seq, CASE WHEN t.id > c.horizon THEN 0 ELSE t.last_seq END) < t.last_seq ORDER BY t.id, c.name"""
_LOCK = "SELECT id FROM task WHERE task_id = ANY(%(tasks)s::text[]) ORDER BY id FOR UPDATE"
_GIVE_AWAY = """WITH w AS (SELECT * FROM unnest(%(tasks)s::text[], %(epochs)s::bigint[], %(lasts)s::bigint[]) AS w(task_id, epoch, last)),
t AS (SELECT task.id FROM task JOIN w ON w.task_id = task.task_id WHERE task.epoch = w.epoch AND task.last_seq = w.last AND task.given_away IS NULL
 AND NOT EXISTS (SELECT FROM task f WHERE f.parent = task.id AND f.task_id <> ALL(%(tasks)s::text[])) ORDER BY task.id FOR UPDATE OF task)
UPDATE task SET given_away = %(digest)s::text, holder = NULL, epoch = epoch + 1 FROM t
 WHERE task.id = t.id AND (SELECT count(*) FROM t) = cardinality(%(tasks)s::text[]) RETURNING 1"""
_GIVEN = "SELECT task_id, given_away FROM task WHERE task_id = ANY(%(tasks)s::text[])"
_RESTING = """SELECT p.task_id, array_agg(f.task_id ORDER BY f.id) FROM task p JOIN task f ON f.parent = p.id
 WHERE p.task_id = ANY(%(tasks)s::text[]) AND f.task_id <> ALL(%(tasks)s::text[]) GROUP BY p.task_id"""
_REMOVE = (
    """WITH m AS (SELECT id FROM task WHERE task_id = ANY(%(tasks)s::text[]) AND given_away = %(digest)s::text AND NOT EXISTS
 (SELECT FROM task f WHERE f.parent = task.id AND f.task_id <> ALL(%(tasks)s::text[])) ORDER BY id FOR UPDATE),
t AS (SELECT id FROM m WHERE (SELECT count(*) FROM m) = (SELECT count(*) FROM task WHERE task_id = ANY(%(tasks)s::text[]))),
"""
    + ALL_OF_T
)
_TAKE_BACK = """WITH t AS (UPDATE task SET given_away = NULL, due = due OR (queue IS NOT NULL AND NOT ended)
 WHERE task_id = ANY(%(tasks)s::text[]) AND given_away = coalesce(%(digest)s::text, given_away) RETURNING task_id, queue, priority, ended),
g AS (DELETE FROM moved_away USING t WHERE moved_away.task_id = t.task_id)
SELECT task_id, CASE WHEN NOT ended THEN wake(task_id, queue, priority) END FROM t"""
"""With a wake-up for the workers: theirs may be gone by now."""


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


async def admit(
    line: Line,
    admissions: Sequence[Admission],
    digest: str,
    epochs: dict[str, int],
    *,
    not_gone_on: bool = False,
) -> None:
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
            if not one.ended and not not_gone_on and await line.ask(_MOVED, _place_of(one, digest)):
                raise moved_before(one.task.task_id)
            await _admit(line, one, epochs[one.task.task_id])
            if not one.ended:
                await line.ask(_REMEMBER, _place_of(one, digest))
        await line.ask(_BACK, {"tasks": list(epochs)})
        for one in admissions:  # who has taken a call may come later in the file
            for key, owner, times in one.task.taken:
                await line.ask(_TAKE, {"task": one.task.task_id, "key": key, "owner": owner, "times": times})


def _place_of(one: Admission, digest: str) -> Params:
    return {
        "task": one.task.task_id,
        "created": one.task.created,
        "seq": one.last_seq,
        "digest": digest,
    }


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
        "tenant": one.tenant,
        "session": one.session,
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


async def undelivered(line: Line, task_ids: Collection[str]) -> list[tuple[str, str]]:
    return [(task_id, name) for task_id, name in await line.ask(_UNDELIVERED, {"tasks": list(task_ids)})]


async def give_away(line: Line, claims: Mapping[Claim, int], digest: str) -> None:
    """Mark tasks that a file has; also once more, after an answer that was lost."""
    named = [claim.task_id for claim in claims]
    given: Params = {
        "tasks": named,
        "epochs": [claim.fence for claim in claims],
        "lasts": list(claims.values()),
        "digest": digest,
    }
    connection = await line.connected()
    async with connection.transaction():
        await line.ask(
            _LOCK, {"tasks": named}, more_secs=LONG_SECS
        )  # what is looked at next sees forks that were being made
        if await line.ask(_GIVE_AWAY, given, more_secs=LONG_SECS):
            await line.ask(_REMEMBER_GIVEN, {"tasks": named}, more_secs=LONG_SECS)
            await line.ask(_GONE, {"tasks": named}, more_secs=LONG_SECS)
            return
    if dict(await line.ask(_GIVEN, {"tasks": named})) == dict.fromkeys(named, digest):
        return
    await _refuse_shared(line, named)
    raise StaleWriter(f"{some(named, 3)}: taken over by another driver, or gone on")


async def _refuse_shared(line: Line, named: Sequence[str]) -> None:
    for task_id, forks in await line.ask(_RESTING, {"tasks": list(named)}):
        raise TaskShared(task_id, forks)


async def remove_given(line: Line, task_ids: Sequence[str], digest: str) -> list[bytes]:
    """Remove tasks that are marked so; the contents that they used."""
    found = await line.ask(_REMOVE, {"tasks": list(task_ids), "digest": digest}, more_secs=LONG_SECS)
    if found:
        return [bytes(digest) for digest in found[0][1] or ()]
    left: dict[str, str | None] = dict(await line.ask(_GIVEN, {"tasks": list(task_ids)}))
    if other := [task_id for task_id, mark in left.items() if mark != digest]:
        raise StaleWriter(
            f"task {other[0]!r} was taken back meanwhile: the file is out of date, do not import it"
        )
    if left:
        await _refuse_shared(line, task_ids)
        raise StaleWriter(f"{some(list(left), 3)}: others have written to them just now; try again")
    return []  # they are gone: the first answer was lost


async def take_back(line: Line, task_ids: Sequence[str], digest: str | None) -> list[str]:
    found = await line.ask(_TAKE_BACK, {"tasks": list(task_ids), "digest": digest})
    return [row[0] for row in found]
