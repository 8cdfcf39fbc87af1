-- The log of every task. `epoch` is the fence, and `last_append` the number of the last append under that fence, so
-- that one whose answer was lost can be looked up. `append_seq` is the number that its last event was given.
CREATE TABLE task (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id     text COLLATE "C" NOT NULL UNIQUE,
    request     text    NOT NULL,           -- digest of what was asked, to tell a repeat from a clash
    description text    NOT NULL,           -- as JSON: a text may hold what `text` cannot, a NUL
    status      text COLLATE "C" NOT NULL,
    ended       boolean NOT NULL DEFAULT false,
    created     float8  NOT NULL,
    updated     float8  NOT NULL,
    last_seq    bigint  NOT NULL,
    last_signal bigint  NOT NULL DEFAULT 0, -- of the last event that a person wrote
    epoch       bigint  NOT NULL,
    holder      integer,                    -- whose lock tells that its driver lives, see presence.py
    last_append bigint  NOT NULL DEFAULT 0,
    append_seq  bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);                   -- room for the next version of a row beside it
CREATE INDEX task_status ON task (status, id);
CREATE INDEX task_open ON task (id) WHERE NOT ended;

-- What is appended together is one row of the kind '+': its `seq` is that of its last event, its `data` a list of
-- [type, data]. Not jsonb: a history is kept byte for byte.
CREATE TABLE event (
    task  bigint  NOT NULL REFERENCES task (id),
    seq   bigint  NOT NULL,
    ts    float8  NOT NULL,
    round integer NOT NULL,
    type  text COLLATE "C" NOT NULL,
    data  text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, seq)
);

-- What people wrote. `mark` tells whether one whose answer was lost is there.
CREATE TABLE signal (
    task bigint NOT NULL REFERENCES task (id),
    seq  bigint NOT NULL,
    mark text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, seq)
);

-- Large outputs, each content once, in pieces, so that none has to be in memory whole.
CREATE TABLE artifact (
    digest  bytea  PRIMARY KEY,             -- SHA-256
    size    bigint NOT NULL,
    touched timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE artifact_piece (
    digest bytea   NOT NULL REFERENCES artifact (digest) ON DELETE CASCADE,
    n      integer NOT NULL,
    data   bytea   NOT NULL,
    PRIMARY KEY (digest, n)
);
CREATE TABLE artifact_use (
    task        bigint NOT NULL REFERENCES task (id),
    artifact_id text COLLATE "C" NOT NULL,
    digest      bytea  NOT NULL REFERENCES artifact (digest),
    PRIMARY KEY (task, artifact_id)
);
CREATE INDEX artifact_users ON artifact_use (digest);

-- How tools have done so far: counts that only add up; and the names that each source listed last.
CREATE TABLE tool_stats (
    source  text COLLATE "C" NOT NULL,
    tool_id text COLLATE "C" NOT NULL,
    data    text   NOT NULL,
    updated float8 NOT NULL,
    PRIMARY KEY (source, tool_id)
);
CREATE TABLE tool_names (
    source  text COLLATE "C" NOT NULL PRIMARY KEY,
    names   text   NOT NULL,
    updated float8 NOT NULL
);

-- The key of the seals that approvals are bound to (core/calls/seals.py). It stands in no event, and in no output.
CREATE TABLE seal_key (
    id  integer PRIMARY KEY CHECK (id = 1),
    key bytea NOT NULL
);

CREATE VIEW events (task, seq, ts, round, type, data) AS
SELECT task, seq, ts, round, type, data FROM event WHERE type <> '+'
UNION ALL
SELECT event.task, event.seq - json_array_length(event.data::json) + each.at, event.ts, event.round,
       each.pair ->> 0, (each.pair -> 1)::text
FROM event, json_array_elements(event.data::json) WITH ORDINALITY AS each (pair, at) WHERE event.type = '+';
