"""Tasks taken by any number of workers, on any number of machines, from a queue beside the log (PostgreSQL, procrastinate)."""
