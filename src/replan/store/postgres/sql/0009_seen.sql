-- How many tasks a worker lets all of them together drive; NULL: as many as there are places.
ALTER TABLE worker ADD COLUMN most integer;

-- For whoever looks at logs with SQL: whose event it is, and how that task stands.
CREATE OR REPLACE VIEW events (task, seq, ts, round, type, data, task_id, status) AS
SELECT task, seq, ts, round, type, data, task_id, status FROM event JOIN task ON task.id = event.task WHERE type <> '+'
UNION ALL
SELECT event.task, event.seq - json_array_length(event.data::json) + each.at, event.ts, event.round,
       each.pair ->> 0, (each.pair -> 1)::text, task.task_id, task.status
FROM event JOIN task ON task.id = event.task, json_array_elements(event.data::json) WITH ORDINALITY AS each (pair, at) WHERE event.type = '+';
