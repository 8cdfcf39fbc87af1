"""Readings of the log that stand outside of it: who is delivered its events, and how."""
