"""Steps that wait: begun, looked at when they are due, and let go of in between."""
