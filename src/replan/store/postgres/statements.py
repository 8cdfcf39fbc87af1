"""The statements that write a log. Each is one transaction by itself, so that no dead client leaves one open."""

from __future__ import annotations

from replan.store.postgres.presence import ALIVE, CHANNEL

SEPARATOR = "\x1f"
"""Between texts that are sent as one. JSON writes it as an escape, and no kind of event has it."""

APPEND_ROW = """WITH t AS (
 UPDATE task SET last_seq = last_seq + %(n)s::int, last_append = %(k)s::bigint, append_seq = last_seq + %(n)s::int,
  updated = %(updated)s::float8, status = coalesce(%(status)s::text, status), ended = %(ends)s::bool
 WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint AND last_append = %(k)s::bigint - 1 AND NOT ended
 RETURNING id, last_seq)
INSERT INTO event SELECT id, last_seq, %(updated)s::float8, %(round)s::int, %(type)s::text, %(data)s::text FROM t RETURNING seq"""
"""One row, which most appends are."""
APPEND = """WITH t AS (
 UPDATE task SET last_seq = last_seq + %(n)s::int, last_append = %(k)s::bigint, append_seq = last_seq + %(n)s::int,
  updated = %(updated)s::float8, status = coalesce(%(status)s::text, status), ended = %(ends)s::bool
 WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint AND last_append = %(k)s::bigint - 1 AND NOT ended
 RETURNING id, last_seq),
i AS (INSERT INTO event SELECT t.id, t.last_seq - %(n)s::int + r.at, r.ts, r.round, r.type, r.data
 FROM t, unnest(%(ats)s::int[], %(times)s::float8[], %(rounds)s::int[],
  string_to_array(%(types)s::text, E'\\x1f'), string_to_array(%(datas)s::text, E'\\x1f')) AS r(at, ts, round, type, data)),
u AS (INSERT INTO artifact_use SELECT t.id, a.artifact_id, a.digest
 FROM t, unnest(%(artifacts)s::text[], %(digests)s::bytea[]) AS a(artifact_id, digest) ON CONFLICT DO NOTHING),
c AS (UPDATE artifact SET touched = '-infinity' WHERE digest = ANY(%(digests)s::bytea[]) AND EXISTS (SELECT FROM t))
SELECT last_seq FROM t"""
"""One task's events. `k`: the number of the append under this fence; `ats`: where each row's last event stands in it."""
APPEND_HEARD = APPEND.replace(" AND NOT ended", " AND NOT ended AND last_signal <= %(heard)s::bigint")
"""The same, if people have written nothing after `heard`."""

APPEND_MANY = """WITH w AS (
 SELECT * FROM unnest(%(tasks)s::text[], %(epochs)s::bigint[], %(ks)s::bigint[], %(ns)s::int[], %(updateds)s::float8[],
  %(statuses)s::text[], %(endss)s::bool[], %(heards)s::bigint[]) AS w(task_id, epoch, k, n, updated, status, ends, heard)),
l AS MATERIALIZED (
 SELECT t.id, t.last_seq AS before, w.* FROM task t JOIN w ON t.task_id = w.task_id AND t.epoch = w.epoch
 WHERE t.last_append = w.k - 1 AND NOT t.ended AND (w.heard IS NULL OR t.last_signal <= w.heard) ORDER BY t.id FOR UPDATE OF t),
u AS (
 UPDATE task SET last_seq = l.before + l.n, last_append = l.k, append_seq = l.before + l.n, updated = l.updated,
  status = coalesce(l.status, task.status), ended = l.ends FROM l WHERE task.id = l.id),
i AS (INSERT INTO event SELECT l.id, l.before + r.at, r.ts, r.round, r.type, r.data
 FROM unnest(string_to_array(%(owners)s::text, E'\\x1f'), %(ats)s::int[], %(times)s::float8[], %(rounds)s::int[],
  string_to_array(%(types)s::text, E'\\x1f'), string_to_array(%(datas)s::text, E'\\x1f'))
  AS r(task_id, at, ts, round, type, data) JOIN l ON l.task_id = r.task_id)
SELECT task_id, before + n FROM l"""
"""The same for several tasks, each with its fence and its number: those that are refused have no row in the answer."""

LOOK = "SELECT epoch, last_append, append_seq, ended, status FROM task WHERE task_id = %(task)s::text"
"""What became of an append whose answer was lost. A statement of its own: it sees what the lost one has done."""

_TURN = """counted AS (INSERT INTO let_in AS l (tenant, n, maker) SELECT %(tenant)s::text, 1, %(mine)s::int WHERE %(seen)s::bigint IS NOT NULL
 ON CONFLICT (tenant) DO UPDATE SET n = l.n + 1, maker = excluded.maker WHERE l.n = %(seen)s::bigint OR l.maker = excluded.maker
 RETURNING n)"""
"""Taken first: where another process was faster, it has no row, and nothing is stored."""
_LET_IN = "(%(seen)s::bigint IS NULL OR EXISTS (SELECT FROM counted))"
LET_IN = "SELECT n FROM let_in WHERE tenant = %(tenant)s::text"

CREATE = f"""WITH {_TURN},
t AS (
 INSERT INTO task (task_id, request, description, status, created, updated, last_seq, epoch, queue, priority, due, made_by,
  tenant, session)
 SELECT %(task)s::text, %(request)s::text, %(description)s::text, 'queued', %(ts)s::float8, %(ts)s::float8, 1, %(epoch)s::bigint,
  %(queue)s::text, %(priority)s::int, %(queue)s::text IS NOT NULL, %(mine)s::int, %(tenant)s::text, %(session)s::text
 WHERE {_LET_IN} AND NOT EXISTS (SELECT FROM moved_away WHERE task_id = %(task)s::text)
 ON CONFLICT (task_id) DO NOTHING RETURNING id, task_id, queue, priority),
e AS (INSERT INTO event SELECT id, 1, %(ts)s::float8, 0, %(type)s::text, %(data)s::text FROM t),
n AS (INSERT INTO need SELECT queue, %(needs)s::text FROM t WHERE queue IS NOT NULL ON CONFLICT DO NOTHING)
SELECT id, wake(task_id, queue, priority) FROM t"""
"""`queue`: of a task that workers take. Its wake-up is in the queue if and only if the task is stored."""
GIVEN_AWAY = "SELECT given_away FROM task WHERE task_id = %(task)s::text"
GONE = "SELECT FROM moved_away WHERE task_id = %(task)s::text"
KIN_GONE = """SELECT moved_away.task_id FROM task t JOIN task f ON f.id = coalesce(t.family, t.id) JOIN moved_away ON moved_away.family = f.task_id AND since = f.created
 WHERE t.id = %(parent)s::bigint LIMIT 1"""
KNOWN = "SELECT request, epoch FROM task WHERE task_id = %(task)s::text"

CLAIM = f"""WITH t AS (SELECT id, holder, epoch FROM task WHERE task_id = %(task)s::text FOR UPDATE)
UPDATE task SET epoch = task.epoch + 1, holder = %(mine)s::int, last_append = 0, append_seq = task.last_seq, due = false, refused = NULL FROM t
WHERE task.id = t.id AND task.given_away IS NULL AND (%(steal)s::bool OR t.holder IS NULL
 OR (t.holder = %(mine)s::int AND t.epoch <> %(driven)s::bigint)
 OR (t.holder <> %(mine)s::int AND NOT {ALIVE.format(holder="t.holder")}))
RETURNING task.epoch"""
RELEASE = """UPDATE task SET holder = NULL, epoch = epoch + 1 WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint"""

SIGNAL = f"""WITH t AS (
 UPDATE task SET last_seq = last_seq + 1, last_signal = last_seq + 1, updated = %(ts)s::float8, due = queue IS NOT NULL
 WHERE task_id = %(task)s::text AND NOT ended AND given_away IS NULL RETURNING id, last_seq, task_id, queue, priority),
r AS (SELECT t.*, coalesce((SELECT round FROM event WHERE task = t.id ORDER BY seq DESC LIMIT 1), 0) AS round FROM t),
e AS (INSERT INTO event SELECT id, last_seq, %(ts)s::float8, round, %(type)s::text, %(data)s::text FROM r),
s AS (INSERT INTO signal SELECT id, last_seq, %(mark)s::text FROM r)
SELECT last_seq, round, pg_notify('{CHANNEL}', %(told)s::text), wake(task_id, queue, priority) FROM r"""
"""With the wake-up of a task that workers take: always one, since a driver that is about to let go may not see the event."""
SIGNAL_HEARD = SIGNAL.replace(
    "given_away IS NULL RETURNING", "given_away IS NULL AND last_signal <= %(heard)s::bigint RETURNING"
)
"""The same, if nobody has written to the task after `heard`."""
WRITE_NOTHING = """DO $$ BEGIN
 INSERT INTO tool_names SELECT 'try ' || md5(random()::text), string_agg(md5(random()::text), ''), 0 FROM generate_series(1, 240);
 RAISE EXCEPTION USING ERRCODE = 'RP001';
EXCEPTION WHEN SQLSTATE 'RP001' THEN NULL; END $$"""
"""A row of about a page, so that the table has to have room, which is taken back at once."""
SIGNALLED = """SELECT event.seq, event.round FROM task JOIN signal ON signal.task = task.id
 JOIN event ON event.task = task.id AND event.seq = signal.seq WHERE task_id = %(task)s::text AND mark = %(mark)s::text"""

ALL_OF_T = """o AS (UPDATE effect SET owner = NULL FROM t WHERE effect.owner = t.id AND effect.family NOT IN (SELECT id FROM t)),
p AS (DELETE FROM effect USING t WHERE effect.family = t.id),
e AS (DELETE FROM event USING t WHERE event.task = t.id),
s AS (DELETE FROM signal USING t WHERE signal.task = t.id),
a AS (DELETE FROM artifact_use USING t WHERE artifact_use.task = t.id RETURNING digest),
d AS (DELETE FROM task USING t WHERE task.id = t.id)
SELECT id, (SELECT array_agg(digest) FROM a) FROM t"""
"""What deletes the tasks `t` with all that is their own; gives their contents, which others may have too."""
DELETE = (
    f"""WITH t AS (
 SELECT id FROM task WHERE task_id = %(task)s::text AND (ended OR %(unfinished)s::bool) AND NOT (
  (coalesce(holder, 0) = %(mine)s::int AND epoch = %(driven)s::bigint)
  OR (holder IS NOT NULL AND holder <> %(mine)s::int AND {ALIVE.format(holder="holder")}))
 AND NOT EXISTS (SELECT FROM task f WHERE f.parent = task.id) FOR UPDATE),
"""
    + ALL_OF_T
)
"""Foreign keys are looked at when the statement ends, so that the order in it does not matter."""

_HELD = f"(holder IS NOT NULL AND {ALIVE.format(holder='holder')})"
_REWRITTEN = """CASE WHEN parent IS NULL THEN rewritten ELSE (WITH RECURSIVE line (parent, n) AS (
 SELECT task.parent, task.rewritten UNION ALL SELECT p.parent, p.rewritten FROM line JOIN task p ON p.id = line.parent)
 SELECT sum(n) FROM line)::bigint END AS rewritten"""
"""Of a fork's whole history."""
SUMMARY = f"""SELECT task_id, status, description, created, updated, last_seq, holder, epoch, {_HELD}, queue, due, given_away, tenant, session,
 {_REWRITTEN} FROM task"""
PAGE = """SELECT shared, ended, e.seq, e.ts, e.round, e.type, e.data FROM task
 LEFT JOIN event e ON e.task = id AND e.seq > %(after)s::bigint {only} {own} WHERE task_id = %(task)s::text ORDER BY e.seq {limit}"""
"""`own` says where the page ends: a row has many events, so that as many rows could be most of the log."""
OWN_TO = """AND e.seq <= coalesce((SELECT min(seq) FROM event WHERE task = task.id AND seq >= %(to)s::bigint), %(to)s::bigint)"""

PIECES = """WITH RECURSIVE line (id, parent, low, upto) AS (
 SELECT p.id, p.parent, p.shared, t.shared FROM task t JOIN task p ON p.id = t.parent WHERE t.task_id = %(task)s::text
 UNION ALL
 SELECT p.id, p.parent, p.shared, line.low FROM line JOIN task p ON p.id = line.parent WHERE line.low > %(after)s::bigint)
"""
"""The tasks whose events after `after` a fork's log begins with, each with those that are its own part of it."""
SHARED_PAGE = (
    PIECES
    + """SELECT e.seq, e.ts, e.round, e.type, e.data, greatest(line.low, %(after)s::bigint), line.upto
 FROM line JOIN event e ON e.task = line.id AND e.seq > greatest(line.low, %(after)s::bigint)
 AND e.seq <= (SELECT min(seq) FROM event WHERE task = line.id AND seq >= least(line.upto, %(to)s::bigint)) {only} ORDER BY line.upto, e.seq {limit}"""
)
"""Events that were appended together are one row, which may go beyond the last that is shared."""

ORIGIN = """SELECT id, parent, shared, ended, last_seq, (SELECT round FROM event WHERE task = task.id AND seq >= %(at)s::bigint ORDER BY seq LIMIT 1), sealed_by,
 given_away, task_id FROM task WHERE {which}"""
FORK = f"""WITH {_TURN},
p AS (SELECT id, task_id, description, coalesce(family, id) AS family FROM task WHERE id = %(parent)s::bigint AND given_away IS NULL FOR UPDATE),
t AS (INSERT INTO task (task_id, request, description, status, created, updated, last_seq, epoch, queue, priority, due, parent, shared, family, made_by)
 SELECT %(task)s::text, %(request)s::text, description, 'queued', %(ts)s::float8, %(ts)s::float8, %(at)s::bigint + 1, %(epoch)s::bigint,
  %(queue)s::text, %(priority)s::int, %(queue)s::text IS NOT NULL, id, %(at)s::bigint, family, %(mine)s::int FROM p WHERE {_LET_IN}
 ON CONFLICT (task_id) DO NOTHING RETURNING id, task_id, queue, priority),
e AS (INSERT INTO event SELECT id, %(at)s::bigint + 1, %(ts)s::float8, %(round)s::int, %(type)s::text, %(data)s::text FROM t),
n AS (INSERT INTO need SELECT queue, %(needs)s::text FROM t WHERE queue IS NOT NULL ON CONFLICT DO NOTHING),
s AS (UPDATE task SET last_seq = task.last_seq + 1, last_signal = task.last_seq + 1, updated = %(ts)s::float8 FROM p, t
 WHERE task.id = p.id AND NOT task.ended RETURNING task.id, task.last_seq),
f AS (INSERT INTO event SELECT id, last_seq, %(ts)s::float8,
 (SELECT round FROM event WHERE task = s.id ORDER BY seq DESC LIMIT 1), %(told_type)s::text, %(told_data)s::text FROM s),
g AS (INSERT INTO signal SELECT id, last_seq, %(mark)s::text FROM s)
SELECT (SELECT task_id FROM p), wake(task_id, queue, priority), pg_notify('{CHANNEL}', %(told)s::text) FROM t"""

RESTS_ON = PIECES + "SELECT task.task_id, line.upto FROM line JOIN task USING (id) ORDER BY line.upto"
FAMILY = """WITH root AS (SELECT coalesce(family, id) AS id FROM task WHERE task_id = %(task)s::text)
SELECT t.task_id, t.created, t.last_seq FROM root JOIN task t ON t.id = root.id
UNION ALL (SELECT t.task_id, t.created, t.last_seq FROM root JOIN task t ON t.family = root.id ORDER BY t.id)"""
FORKS = """SELECT f.task_id, f.shared FROM task JOIN task f ON f.parent = task.id WHERE task.task_id = %(task)s::text ORDER BY f.id"""

_MAY = "(e.owner = excluded.owner OR (e.owner IS NOT DISTINCT FROM (SELECT id FROM task WHERE task_id = %(over)s::text) AND e.times = %(times)s::int))"
TAKE = f"""WITH i AS (INSERT INTO effect AS e (family, key, owner, times)
 SELECT coalesce(family, id), %(key)s::text, id, 1 FROM task WHERE task_id = %(task)s::text AND epoch = %(epoch)s::bigint
 ON CONFLICT (family, key) DO UPDATE SET owner = CASE WHEN {_MAY} THEN excluded.owner ELSE e.owner END,
  times = CASE WHEN {_MAY} THEN e.times + 1 ELSE e.times END RETURNING owner, times)
SELECT task_id, times FROM i LEFT JOIN task ON task.id = i.owner"""
WHO_HAS = """SELECT e.key, o.task_id FROM task t JOIN effect e ON e.family = coalesce(t.family, t.id) LEFT JOIN task o ON o.id = e.owner
 WHERE t.task_id = %(task)s::text AND e.key = ANY(%(keys)s::text[])"""
RESERVE = """INSERT INTO effect SELECT coalesce(family, id), key, id, 1 FROM task, unnest(%(keys)s::text[]) AS key
 WHERE task_id = %(task)s::text ON CONFLICT DO NOTHING"""
