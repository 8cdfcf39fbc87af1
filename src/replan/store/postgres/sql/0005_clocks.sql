-- By how much a worker's clock was ahead of the database's when it was last seen, in seconds.
ALTER TABLE worker ADD COLUMN ahead float8;
