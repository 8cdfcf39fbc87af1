"""Waits as steps: the tools that a plan waits with, what is known of each wait, and which answers fit what a step asks."""

WAITS_FOR = ("person", "time", "callback", "pause", "key", "model", "process")
"""What a task may wait for as a whole; the last three, so that it is put right and the task resumed."""
