-- Who is delivered what the log says (ports.Outbox), and how far. Every task up to `horizon` has a row in `outbox_position`,
-- or is delivered to its end; those after it are new, and stand at 0 where they have no row.
CREATE TABLE outbox_consumer (
    name      TEXT    PRIMARY KEY,
    horizon   INTEGER NOT NULL,
    epoch     INTEGER NOT NULL DEFAULT 0,   -- the fence of whoever delivers
    holder    TEXT,                         -- the process, see holders.py
    seen      REAL    NOT NULL DEFAULT 0,   -- when it last said that it lives
    delivered REAL,                         -- when the cursor last moved
    failures  INTEGER NOT NULL DEFAULT 0,   -- in a row
    error     TEXT
) WITHOUT ROWID;
CREATE TABLE outbox_position (
    consumer TEXT    NOT NULL,
    task     INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    PRIMARY KEY (consumer, task)
) WITHOUT ROWID;

-- The number of the last task is given again once that is deleted: whoever has it then is a new task. A trigger, so that
-- it holds whatever release deletes.
CREATE TRIGGER outbox_task_deleted AFTER DELETE ON task BEGIN
    DELETE FROM outbox_position WHERE consumer IN (SELECT name FROM outbox_consumer) AND task = OLD.id;
    UPDATE outbox_consumer SET horizon = min(horizon, (SELECT coalesce(max(id), 0) FROM task));
END;
