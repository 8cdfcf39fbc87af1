-- Tasks that no worker was asked for, whichever way they came: one without a process that could go on with it (it was
-- imported, or is of an older release) is left behind as well as one whose process is gone.
CREATE OR REPLACE VIEW left_behind (id, task_id, updated) AS
SELECT id, task_id, updated FROM task
WHERE NOT ended AND queue IS NULL AND given_away IS NULL
  AND (coalesce(holder, made_by) IS NULL OR gone(coalesce(holder, made_by)));
