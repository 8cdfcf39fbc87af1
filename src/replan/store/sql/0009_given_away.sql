-- Of a task that is about to be removed, as a file of an export has it: the SHA-256 in the end of that file. Nobody drives it
-- here any more, and nobody writes to it.
ALTER TABLE task ADD COLUMN given_away TEXT;
CREATE INDEX task_given ON task (id) WHERE given_away IS NOT NULL;
