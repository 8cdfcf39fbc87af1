-- What was given away to a file is gone on with by nobody: an earlier release, that has had the database open since before
-- there was such a mark, would claim it, write to it and fork it.
CREATE TRIGGER task_given_away BEFORE UPDATE OF epoch ON task WHEN OLD.given_away IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'the task was given away to a file of an export');
END;
CREATE TRIGGER event_given_away BEFORE INSERT ON event
WHEN EXISTS (SELECT 1 FROM task WHERE given_away IS NOT NULL AND id = NEW.task)
BEGIN
    SELECT RAISE(ABORT, 'the task was given away to a file of an export');
END;
CREATE TRIGGER fork_given_away BEFORE INSERT ON task
WHEN NEW.parent IS NOT NULL AND EXISTS (SELECT 1 FROM task WHERE given_away IS NOT NULL AND id = NEW.parent)
BEGIN
    SELECT RAISE(ABORT, 'the task was given away to a file of an export');
END;
