"""The event log in one SQLite file: WAL, one writing thread with group commit, readers beside it.

With `synchronous="normal"` a commit survives a killed process, with `"full"` also a power cut.
Other processes' signals and events are noticed by a look at `PRAGMA data_version` every tenth of a second, and where that says
that something was written, at where the logs of followed tasks end.
"""

from replan.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
