"""The event log in PostgreSQL: one statement an append, fenced and numbered, so that no lost answer loses or doubles one."""
