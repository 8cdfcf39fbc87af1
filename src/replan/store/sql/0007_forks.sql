-- A fork's log is that of `parent` up to the event `shared`, and then its own. `family` is the task that the first of
-- their line was; it is NULL in that one itself.
ALTER TABLE task ADD COLUMN parent INTEGER REFERENCES task (id);
ALTER TABLE task ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN family INTEGER REFERENCES task (id);
CREATE INDEX task_parent ON task (parent) WHERE parent IS NOT NULL;

-- Which task of a family makes a call that must not be made twice, and how often it was taken. NULL: a deleted one.
CREATE TABLE effect (
    family INTEGER NOT NULL REFERENCES task (id),
    key    TEXT    NOT NULL,
    owner  INTEGER REFERENCES task (id),
    times  INTEGER NOT NULL,
    PRIMARY KEY (family, key)
) WITHOUT ROWID;
