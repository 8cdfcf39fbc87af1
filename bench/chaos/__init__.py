"""Thousands of tasks while workers, the database and the ways between them are killed, frozen, cut, filled and woken."""
