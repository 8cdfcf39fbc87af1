"""What a step costs when everything is on disk before what depends on it: SQLite and PostgreSQL, beside the peers."""
