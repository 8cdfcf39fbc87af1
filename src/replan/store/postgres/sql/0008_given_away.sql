-- Of a task that is about to be removed, as a file of an export has it: the SHA-256 in the end of that file. Nobody drives it
-- here any more, and nobody writes to it: the trigger holds older releases to that.
ALTER TABLE task ADD COLUMN given_away text COLLATE "C";
CREATE INDEX task_given ON task (id) WHERE given_away IS NOT NULL;

CREATE FUNCTION stays_given_away() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'task % was given away to a file of an export', OLD.task_id;
END;
$$;
CREATE TRIGGER task_given_away BEFORE UPDATE OF epoch, last_signal ON task
    FOR EACH ROW WHEN (OLD.given_away IS NOT NULL) EXECUTE FUNCTION stays_given_away();
