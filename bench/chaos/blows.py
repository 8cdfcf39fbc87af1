"""What befalls the workers, the database and the ways between them."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from bench.workers import Worker, Workers
from postgres_server import PostgresServer
from tcp_proxy import TcpProxy

SHARES = {
    "worker killed": 56,
    "worker frozen": 16,
    "worker told to end": 8,
    "server killed": 4,
    "server's child killed": 4,
    "server stopped": 2,
    "disk full": 3,
    "connections cut": 12,
    "connections half closed": 6,
    "no answers": 6,
    "slow answers": 8,
    "new connections refused": 5,
    "server away for long": 1,
}
"""How many there are of each in a whole run, 131 in all; a shorter one has them in the same parts."""
LIVING = 4
_AWAY_SECS = 75.0
"""Longer than a drive waits for its database."""
_FALLS_SECS = 4.0
"""The longest that a way stays shut, or the disk full."""


def drawn(count: int, chance: random.Random, only: Collection[str] = ()) -> list[str]:
    """So many blows, shuffled; of each kind at least one, but for what takes long."""
    shares = {kind: share for kind, share in SHARES.items() if not only or kind in only}
    whole = sum(shares.values())
    parts = [
        kind
        for kind, share in shares.items()
        for _ in range(max(int(share > 1 or kind in only), round(share * count / whole)))
    ]
    chance.shuffle(parts)
    return parts


class Blows:
    """All of one run. What is hit stands up again: killed workers are replaced, a server is started again."""

    def __init__(
        self,
        workers: Workers,
        server: PostgresServer,
        proxies: list[TcpProxy],
        database: str,
        chance: random.Random,
        freeze_secs: tuple[float, float],
        say: Callable[[str], None],
    ) -> None:
        self._workers = workers
        self._server = server
        self._proxies = proxies
        self._database = database
        self._chance = chance
        self._freeze_secs = freeze_secs
        self._say = say
        self._living: list[Worker] = []
        self._frozen: dict[int, Worker] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self.count: Counter[str] = Counter()
        self.failures: list[str] = []
        """Workers that ended by themselves, and how."""
        self._acts: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "worker killed": self._kill,
            "worker frozen": self._freeze,
            "worker told to end": self._tell_to_end,
            "server killed": lambda: self._restart(signal.SIGKILL),
            "server stopped": lambda: self._restart(signal.SIGINT),
            "server away for long": lambda: self._restart(signal.SIGKILL, _AWAY_SECS),
            "server's child killed": self._kill_child,
            "disk full": self._fill_disk,
            "connections cut": self._cut,
            "connections half closed": self._half_close,
            "no answers": self._mute,
            "slow answers": self._slow,
            "new connections refused": self._refuse,
        }

    def frozen(self) -> frozenset[int]:
        return frozenset(self._frozen)

    async def fill_up(self) -> None:
        """As many workers as there should be."""
        for worker in [one for one in self._living if one.has_ended()]:
            self._living.remove(worker)
            if trace := worker.traceback():
                self._ended_by_itself(worker, trace)
        while len(self._living) < LIVING:
            way = self._chance.choice([None, *self._proxies])
            port = self._server.port if way is None else way.port
            address = self._server.url(self._database, port=port)
            tools = self._chance.choice(["tools", "tools", "some_tools"])
            self._living.append(
                await asyncio.to_thread(
                    self._workers.start, address=address, tools=f"bench.chaos.tasks:{tools}"
                )
            )

    def _ended_by_itself(self, worker: Worker, trace: str) -> None:
        """One that found no database at its start is started again, as a supervisor would."""
        if worker.is_ready:
            self.failures.append(trace)
        else:
            self.count["worker that found no database"] += 1

    async def fall(self, blows: list[str], secs: float) -> None:
        """All of them, spread over so many seconds."""
        each = secs / max(1, len(blows))
        for kind in blows:
            until = time.monotonic() + each * self._chance.uniform(0.5, 1.5)
            await self._acts[kind]()
            self.count[kind] += 1
            while time.monotonic() < until:
                await self.fill_up()
                await asyncio.sleep(min(0.2, max(0.0, until - time.monotonic())))
            self._say(kind)

    async def end(self) -> None:
        """Everything works again."""
        await asyncio.gather(*self._beside)
        await self.fill_up()

    def _later(self, secs: float, act: Callable[[], None]) -> None:
        async def work() -> None:
            await asyncio.sleep(secs)
            act()

        task = asyncio.create_task(work())
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _drawn_worker(self) -> Worker | None:
        ready = [one for one in self._living if one.is_ready and not one.has_ended()]
        if not ready:
            return None
        worker = self._chance.choice(ready)
        self._living.remove(worker)
        return worker

    async def _some_worker(self) -> Worker:
        while (worker := self._drawn_worker()) is None:
            await self.fill_up()
            await asyncio.sleep(0.05)
        return worker

    async def _kill(self) -> None:
        (await self._some_worker()).kill()

    async def _tell_to_end(self) -> None:
        worker = await self._some_worker()
        worker.kill(signal.SIGTERM)

    async def _freeze(self) -> None:
        worker = await self._some_worker()
        worker.kill(signal.SIGSTOP)
        self._frozen[worker.pid] = worker

        def wake() -> None:
            worker.kill(signal.SIGCONT)
            del self._frozen[worker.pid]
            self._living.append(worker)

        self._later(self._chance.uniform(*self._freeze_secs), wake)

    async def _restart(self, how: signal.Signals, secs: float | None = None) -> None:
        await asyncio.to_thread(self._server.stop, how)
        await asyncio.sleep(self._chance.uniform(0, _FALLS_SECS) if secs is None else secs)
        await asyncio.to_thread(self._server.start)

    async def _kill_child(self) -> None:
        await asyncio.to_thread(self._server.kill_child, self._chance)
        await asyncio.to_thread(self._server.start_again)

    async def _fill_disk(self) -> None:
        if not self._server.limited:
            self._say("the disk cannot be limited here: not filled")
            return
        self._server.fill_disk()
        await asyncio.sleep(self._chance.uniform(1.0, _FALLS_SECS))
        self._server.free_disk()
        await asyncio.to_thread(self._server.start_again)

    async def _cut(self) -> None:
        self._chance.choice(self._proxies).cut_all()

    async def _half_close(self) -> None:
        self._chance.choice(self._proxies).half_close_all(self._chance.choice(["questions", "answers"]))

    async def _mute(self) -> None:
        proxy = self._chance.choice(self._proxies)
        proxy.mute = True
        self._later(self._chance.uniform(0.5, _FALLS_SECS), lambda: setattr(proxy, "mute", False))

    async def _slow(self) -> None:
        proxy = self._chance.choice(self._proxies)
        proxy.delay_secs = self._chance.uniform(0.02, 0.3)
        self._later(self._chance.uniform(0.5, _FALLS_SECS), lambda: setattr(proxy, "delay_secs", 0.0))

    async def _refuse(self) -> None:
        proxy = self._chance.choice(self._proxies)
        proxy.refuses = True
        proxy.cut_all()
        self._later(self._chance.uniform(0.5, _FALLS_SECS), lambda: setattr(proxy, "refuses", False))
