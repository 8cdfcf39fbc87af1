-- The log of every task. `epoch` is the fence: an append with an older one finds no row.
CREATE TABLE task (
    id          INTEGER PRIMARY KEY,
    task_id     TEXT    NOT NULL UNIQUE,
    request     TEXT    NOT NULL,           -- digest of what was asked, to tell a repeat from a clash
    status      TEXT    NOT NULL,
    description TEXT    NOT NULL,
    created     REAL    NOT NULL,
    updated     REAL    NOT NULL,
    last_seq    INTEGER NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0,
    holder      TEXT                        -- the process that drives it, see holders.py
);
CREATE INDEX task_status ON task (status, id);

CREATE TABLE event (
    task  INTEGER NOT NULL REFERENCES task (id),
    seq   INTEGER NOT NULL,
    ts    REAL    NOT NULL,
    round INTEGER NOT NULL,
    type  TEXT    NOT NULL,
    data  TEXT    NOT NULL,
    PRIMARY KEY (task, seq)
) WITHOUT ROWID;

-- What people wrote, in one row of ids, so that drivers in other processes find it with one look.
CREATE TABLE signal (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES task (id),
    seq  INTEGER NOT NULL
);

CREATE TABLE artifact (
    task        INTEGER NOT NULL REFERENCES task (id),
    artifact_id TEXT    NOT NULL,
    data        BLOB    NOT NULL,
    PRIMARY KEY (task, artifact_id)
);
