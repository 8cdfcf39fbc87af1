"""A process that delivers a log to a journal, and kills itself between a delivery and the cursor, by chance."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from replan.core.events import Record
from replan.ports import HasOutbox
from replan.projections.delivery import Delivery, Pace


class Journal:
    name = "journal"

    def __init__(self, path: Path, chance: random.Random, risk: float) -> None:
        self._path = path
        self._chance = chance
        self._risk = risk

    async def deliver(self, records: Sequence[Record]) -> None:
        some = records
        dies = self._chance.random() < self._risk
        if dies and self._chance.random() < 0.5:
            some = records[: self._chance.randrange(len(records) + 1)]  # in the middle of it
        with self._path.open("a") as file:
            file.write("".join(f"{record.task_id} {record.seq}\n" for record in some))
            file.flush()
            os.fsync(file.fileno())
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


def opened(address: str) -> HasOutbox:
    """Without all that is not needed here: it is begun again and again."""
    if address.startswith("postgresql:"):
        from replan.store.postgres.store import PostgresStore

        return PostgresStore(address)
    from replan.store.sqlite import SqliteStore

    return SqliteStore(Path(address))


async def main(address: str, journal: Path, seed: str, risk: float) -> None:
    store = opened(address)
    pace = Pace(look_secs=0.01, beat_secs=0.5, take_secs=0.02, first_pause_secs=0.05)
    await Delivery(store.outbox(), Journal(journal, random.Random(seed), risk), pace=pace).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
