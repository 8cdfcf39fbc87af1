"""How a task has ended, for a program and for a person."""
