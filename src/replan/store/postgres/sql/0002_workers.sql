-- Tasks that workers take: `queue` is the line that one waits in (NULL: whoever has submitted it drives it), `due` that
-- something was asked of the workers that no driver has claimed since, `refused` why a worker gave it back meanwhile.
ALTER TABLE task
    ADD COLUMN queue    text COLLATE "C",
    ADD COLUMN priority integer NOT NULL DEFAULT 0,
    ADD COLUMN due      boolean NOT NULL DEFAULT false,
    ADD COLUMN refused  text;

-- What the tasks of a line need of a worker, as JSON.
CREATE TABLE need (
    queue text COLLATE "C" PRIMARY KEY,
    needs text NOT NULL
);

-- The workers, by the number that stands in `task.holder` (a name of its own: it is looked up beside that). One that was not seen for `stale_secs` counts as dead.
CREATE TABLE worker (
    number      integer PRIMARY KEY,
    id          bigint  NOT NULL,           -- by which the queue's jobs name it
    name        text    NOT NULL,
    queues      text[]  NOT NULL,           -- empty: all
    offers      text    NOT NULL,           -- as JSON
    concurrency integer NOT NULL,
    stale_secs  float8  NOT NULL,
    started     timestamptz NOT NULL DEFAULT now(),
    seen        timestamptz NOT NULL DEFAULT now()
);

-- A job that has the task driven, in the transaction of whoever calls it. Where there is no queue yet the task stays due,
-- and the first worker finds it.
CREATE FUNCTION wake(task_id text, queue text, priority integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF queue IS NOT NULL AND to_regclass('procrastinate_jobs') IS NOT NULL THEN
        PERFORM procrastinate_defer_jobs_v1(ARRAY[ROW(queue, 'replan.activate', priority, task_id, NULL,
            jsonb_build_object('task_id', task_id), NULL)::procrastinate_job_to_defer_v1]);
    END IF;
END;
$$;
