-- The key of the seals that approvals are bound to (core/seals.py). It stands in no event, and in no output.
CREATE TABLE seal_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
);
