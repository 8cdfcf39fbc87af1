"""The built-in model: its weights, and the thread that runs it in this process."""
