"""One drive of one task: its claim, its log, its dependencies, its model calls, and the secrets that it knows."""
