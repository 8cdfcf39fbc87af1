-- Unfinished tasks that came in with a file of an export, or were given away to one, and up to which event they had come then: kept when
-- they are gone. The file, taken in once more, would make again what was done since.
CREATE TABLE move (
    task_id TEXT    NOT NULL,
    created REAL    NOT NULL,
    digest  TEXT    NOT NULL,       -- the SHA-256 in the end of that file
    seq     INTEGER NOT NULL,
    PRIMARY KEY (task_id, created, digest)
) WITHOUT ROWID;
INSERT INTO move SELECT task_id, created, given_away, (SELECT max(seq) FROM event WHERE task = id) FROM task WHERE given_away IS NOT NULL;
