"""Drive one task to its end: decide, do, record, again. Every front end, engine and test calls `drive`."""

from replan.run.orchestrator.driving import MOST_FRUITLESS, Drive, drive, goes_on

__all__ = ["MOST_FRUITLESS", "Drive", "drive", "goes_on"]
