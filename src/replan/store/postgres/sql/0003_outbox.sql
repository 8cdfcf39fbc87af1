-- Who is delivered what the log says (ports.Outbox), and how far. Every task up to `horizon` has a row in `outbox_position`,
-- or is delivered to its end; those after it are new, and stand at 0 where they have no row. No task up to `horizon` can
-- still be in a transaction that is not seen yet.
CREATE TABLE outbox_consumer (
    name      text COLLATE "C" PRIMARY KEY,
    horizon   bigint  NOT NULL,
    epoch     bigint  NOT NULL DEFAULT 0,   -- the fence of whoever delivers
    holder    integer,                      -- the process, as in `task`
    seen      timestamptz NOT NULL DEFAULT '-infinity', -- when it last said that it lives
    delivered timestamptz,                  -- when the cursor last moved
    failures  integer NOT NULL DEFAULT 0,   -- in a row
    error     text
);
CREATE TABLE outbox_position (
    consumer text COLLATE "C" NOT NULL,
    task     bigint NOT NULL,
    seq      bigint NOT NULL,
    PRIMARY KEY (consumer, task)
) WITH (fillfactor = 50);
