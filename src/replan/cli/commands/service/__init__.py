"""Commands that are the service, and that keep what it needs."""
