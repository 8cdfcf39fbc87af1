-- How often events of the task were written anew, because of a secret in them: what was read of them before is out of date.
ALTER TABLE task ADD COLUMN rewritten INTEGER NOT NULL DEFAULT 0;

-- By a trigger, so that it holds whatever release does it.
CREATE TRIGGER event_rewritten AFTER UPDATE OF data ON event
BEGIN
    UPDATE task SET rewritten = rewritten + 1 WHERE id = NEW.task;
END;
