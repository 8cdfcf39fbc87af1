-- Tasks that no worker was asked for: `made_by` is the process that has submitted one. The view has those whose process is
-- gone: whether it lives is told as in presence.py.
ALTER TABLE task ADD COLUMN made_by integer;
CREATE INDEX task_local ON task (id) WHERE NOT ended AND queue IS NULL;

CREATE FUNCTION gone(number integer) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT NOT coalesce(
    (SELECT w.seen > now() - make_interval(secs => w.stale_secs)
         OR pg_postmaster_start_time() > now() - make_interval(secs => w.stale_secs)
     FROM worker w WHERE w.number = $1),
    EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1380993102 AND objid = $1::oid AND objsubid = 2
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND granted))
$$;

CREATE VIEW left_behind (id, task_id, updated) AS
SELECT id, task_id, updated FROM task
WHERE NOT ended AND queue IS NULL AND coalesce(holder, made_by) IS NOT NULL AND gone(coalesce(holder, made_by));
