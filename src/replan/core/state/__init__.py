"""The state of a task: what its events add up to."""
