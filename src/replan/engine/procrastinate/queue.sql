-- Beside the schema of procrastinate, and after it. The indexes keep a fetch short while many jobs wait.
CREATE INDEX replan_jobs_lock ON procrastinate_jobs (lock, priority, id) WHERE status IN ('todo', 'doing');
CREATE INDEX replan_jobs_queue ON procrastinate_jobs (queue_name, priority DESC, id) WHERE status = 'todo';

-- A job, unless so many tasks are driven already by all workers together. One fetches at a time then, each with a new
-- look at what the others have taken.
CREATE FUNCTION fetch_within(queues varchar[], worker bigint, most integer) RETURNS SETOF procrastinate_jobs LANGUAGE plpgsql AS $$
BEGIN
    IF most IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(1380993103, 0);
        IF (SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing' AND task_name = 'replan.activate') >= most THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM procrastinate_fetch_job_v2(queues, worker) AS job WHERE job.id IS NOT NULL;
END;
$$;
