-- Large outputs, each content once, in pieces, so that none has to be in memory whole. `sha256` is a function of ours.
ALTER TABLE artifact RENAME TO artifact_before;

CREATE TABLE artifact (
    id      INTEGER PRIMARY KEY,
    digest  BLOB UNIQUE,                    -- SHA-256; NULL while it is still being written
    size    INTEGER NOT NULL,
    touched REAL    NOT NULL                -- until a task uses it: when it was last written to
);
CREATE TABLE artifact_piece (
    artifact INTEGER NOT NULL REFERENCES artifact (id) ON DELETE CASCADE,
    n        INTEGER NOT NULL,
    data     BLOB    NOT NULL,
    PRIMARY KEY (artifact, n)
);
CREATE TABLE artifact_use (
    task        INTEGER NOT NULL REFERENCES task (id),
    artifact_id TEXT    NOT NULL,
    artifact    INTEGER NOT NULL REFERENCES artifact (id),
    PRIMARY KEY (task, artifact_id)
) WITHOUT ROWID;
CREATE INDEX artifact_users ON artifact_use (artifact);

INSERT INTO artifact SELECT min(rowid), sha256(data) AS made, length(data), 0 FROM artifact_before GROUP BY made;
INSERT INTO artifact_piece
WITH RECURSIVE cut (artifact, n, size) AS (
    SELECT id, 0, size FROM artifact WHERE size > 0
    UNION ALL
    SELECT artifact, n + 1, size FROM cut WHERE (n + 1) * 1048576 < size
)
SELECT artifact, n, substr(data, n * 1048576 + 1, 1048576) FROM cut JOIN artifact_before ON artifact_before.rowid = artifact;
INSERT INTO artifact_use
SELECT task, artifact_id, (SELECT id FROM artifact WHERE digest = sha256(data)) FROM artifact_before;
DROP TABLE artifact_before;

-- When this database was last looked through for what nobody needs any more, by whichever process.
CREATE TABLE tidied (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at REAL NOT NULL
);
