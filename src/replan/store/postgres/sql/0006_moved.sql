-- Of a task that came from another database, and has calls with secrets in it: that database. They are named by its key.
ALTER TABLE task ADD COLUMN sealed_by text;

-- When this database was last looked through for what nobody needs any more, by whichever process.
CREATE TABLE tidied (
    id integer PRIMARY KEY CHECK (id = 1),
    at timestamptz NOT NULL
);
