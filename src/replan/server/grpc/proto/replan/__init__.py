"""See `generate`."""
