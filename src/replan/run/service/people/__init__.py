"""What people, and callers outside, do to a task that has not ended: each is an event beside its driver."""
