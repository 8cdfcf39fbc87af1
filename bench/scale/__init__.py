"""How time and memory grow: plans of ten thousand steps, ten thousand tasks, a million events."""
