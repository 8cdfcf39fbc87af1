-- A fork's log is that of `parent` up to the event `shared`, and then its own. `family` is the task that the first of
-- their line was; it is NULL in that one itself.
ALTER TABLE task
    ADD COLUMN parent bigint REFERENCES task (id),
    ADD COLUMN shared bigint NOT NULL DEFAULT 0,
    ADD COLUMN family bigint REFERENCES task (id);
CREATE INDEX task_parent ON task (parent) WHERE parent IS NOT NULL;
CREATE INDEX task_family ON task (family) WHERE family IS NOT NULL;

-- Which task of a family makes a call that must not be made twice, and how often it was taken. NULL: a deleted one.
CREATE TABLE effect (
    family bigint NOT NULL REFERENCES task (id),
    key    text COLLATE "C" NOT NULL,
    owner  bigint REFERENCES task (id),
    times  integer NOT NULL,
    PRIMARY KEY (family, key)
);
CREATE INDEX effect_owner ON effect (owner);
