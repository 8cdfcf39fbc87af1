"""Tasks for other agents over A2A: a reading of the log, and calls of the use cases."""
