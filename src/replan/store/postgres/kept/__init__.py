"""What the database keeps, as it lies there: large outputs in pieces, and tasks that move to another store or come from one."""
