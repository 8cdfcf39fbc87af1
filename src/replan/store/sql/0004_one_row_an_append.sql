-- What is appended together is one row of the kind '+': its `seq` is that of its last event, its `data` a list of
-- [type, data]. Where a task's log ends is told by the log alone. `events` has every event in a row of its own.
ALTER TABLE task DROP COLUMN last_seq;
ALTER TABLE task DROP COLUMN updated;

CREATE VIEW events (task, seq, ts, round, type, data) AS
SELECT task, seq, ts, round, type, data FROM event WHERE type <> '+'
UNION ALL
SELECT task, seq - json_array_length(event.data) + 1 + each.key, ts, round,
       json_extract(each.value, '$[0]'), json_extract(each.value, '$[1]')
FROM event, json_each(event.data) AS each WHERE event.type = '+';
