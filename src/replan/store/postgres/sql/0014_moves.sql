-- Unfinished tasks that came in with a file of an export, or were given away to one, and up to which event they had come then: kept when
-- they are gone. The file, taken in once more, would make again what was done since.
CREATE TABLE move (
    task_id text COLLATE "C" NOT NULL,
    created float8 NOT NULL,
    digest  text COLLATE "C" NOT NULL,   -- the SHA-256 in the end of that file
    seq     bigint NOT NULL,
    PRIMARY KEY (task_id, created, digest)
);
INSERT INTO move SELECT task_id, created, given_away, last_seq FROM task WHERE given_away IS NOT NULL;
