"""The use cases of every front end, and what watchers and callers see of a task."""
