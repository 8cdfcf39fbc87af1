-- Tasks that were given away to a file of an export, and have not come back: kept when they are gone. Handed in once more, such an id would be a
-- second task, beside the one that goes on elsewhere. `family`, `since`: of a fork that had not ended, the first task of its family, and when that
-- was created: what stays here of the family makes no further fork that would make the same calls.
CREATE TABLE moved_away (
    task_id text COLLATE "C" PRIMARY KEY,
    family  text COLLATE "C",
    since   float8
);
INSERT INTO moved_away (task_id) SELECT DISTINCT task_id FROM move
 WHERE NOT EXISTS (SELECT FROM task WHERE task.task_id = move.task_id AND given_away IS NULL);
