"""Databases in files, and the processes that their statements run in."""
