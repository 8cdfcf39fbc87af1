"""What a task may use, and what it costs."""
