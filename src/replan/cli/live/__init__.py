"""A task shown while it runs."""
