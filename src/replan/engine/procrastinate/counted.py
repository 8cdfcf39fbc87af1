"""What the server knows of how large the queue is: by that it chooses how it looks for a job.

The server counts by itself once a minute, where nobody has told it otherwise. Tasks that are handed in by the thousand within that
minute would be looked for as in the empty table of before: all of them are read for each that is taken.
"""

from __future__ import annotations

import asyncio
import logging

from replan.errors import StoreBusy, StoreError
from replan.ports import Database

log = logging.getLogger("replan.worker")
MANY = 1_000
"""So many changes more than there were rows make a count worth while."""
_CHANGED = f"""SELECT c.relname FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
 WHERE s.relid IN (to_regclass('procrastinate_jobs'), to_regclass('task'), to_regclass('event'))
  AND pg_has_role(c.relowner, 'USAGE') AND n_mod_since_analyze > {MANY} + greatest(c.reltuples, 0)"""


async def keep_counted(database: Database, every: float) -> None:
    """Have the tables counted that have grown manyfold since they were."""
    while True:
        await asyncio.sleep(every)
        try:
            for row in await database.ask(_CHANGED):
                await database.ask(f"ANALYZE {row['relname']}")
        except StoreBusy:
            pass  # it only is slower meanwhile
        except StoreError as error:
            log.warning(
                "the tables of the queue could not be counted, which leaves that to the server: %s", error
            )
            return
