"""Tasks as runs of AG-UI: a reading of the log in that protocol's events."""
