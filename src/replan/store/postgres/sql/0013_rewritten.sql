-- How often events of the task were written anew, because of a secret in them: what was read of them before is out of date.
ALTER TABLE task ADD COLUMN rewritten bigint NOT NULL DEFAULT 0;

-- By a trigger, so that it holds whatever release does it.
CREATE FUNCTION count_rewritten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE task SET rewritten = rewritten + 1 WHERE id = NEW.task;
    RETURN NULL;
END;
$$;
CREATE TRIGGER event_rewritten AFTER UPDATE OF data ON event FOR EACH ROW EXECUTE FUNCTION count_rewritten();
