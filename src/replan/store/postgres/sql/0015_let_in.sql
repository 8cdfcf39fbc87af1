-- How many tasks of a tenant were let in after it was counted what it may still do, and by which process the last one: a process whose
-- count is older than a task of another one counts again.
CREATE TABLE let_in (
    tenant text COLLATE "C" PRIMARY KEY,
    n      bigint NOT NULL,
    maker  int NOT NULL
);
