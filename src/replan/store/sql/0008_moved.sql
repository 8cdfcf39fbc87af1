-- Of a task that came from another database, and has calls with secrets in it: that database. They are named by its key.
ALTER TABLE task ADD COLUMN sealed_by TEXT;
