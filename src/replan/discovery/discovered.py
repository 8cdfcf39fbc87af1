"""A service that is looked for: the instances known last, kept through whatever becomes of the registry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence

from replan.core.words import beginning, one_line, some
from replan.discovery.balance import Balance, Place
from replan.discovery.told import Told
from replan.discovery.urls import problem_of, url_of
from replan.errors import InputError, RegistryUnavailable
from replan.ports import Instance, Look, Registry, ServiceState

log = logging.getLogger("replan.discovery")
FIRST_SECS = 2.0
"""How long the first call waits for the first answer."""
LONGEST_LOOK_SECS = 90.0
_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.1, 5.0
"""Between two looks that bring news, and where a registry answers at once without any."""
_BACKOFF_SECS, _LONGEST_BACKOFF_SECS = 0.5, 30.0
MOST = 1_000
"""Instances of a service."""


class Discovered:
    """`replan.ports.Endpoints` over a registry: the instances that it lists, and after them `others`. `check` raises `InputError`
    for an address that cannot be used.

    An empty list is not taken for the truth while others were known: who is alive is found out by asking them.
    """

    def __init__(
        self,
        registry: Registry,
        service: str,
        *,
        scheme: str,
        balance: Balance,
        others: Sequence[str] = (),
        check: Callable[[str], object] = lambda url: None,
        rand: Callable[[], float] = random.random,
        log_: logging.Logger = log,
    ) -> None:
        self.service = service
        self._registry = registry
        self._scheme = scheme
        self._balance = balance
        self._others = tuple(others)
        self._check = check
        for each in others:
            check(each)
        self._rand = rand
        self._told = Told(log_)
        self._places: tuple[Place, ...] = ()
        self._watchers: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first = asyncio.Event()
        self._problem = "it has not answered yet"
        self._was_well: bool | None = None
        self._looks = self._changes = self._failures = 0

    # ── Endpoints ──

    def start(self) -> None:
        """Look for it from now on, and wait for nothing."""
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._loop is not loop:
            self._loop, self._first = loop, asyncio.Event()
            self._task = loop.create_task(self._keep_looking())

    async def begin(self) -> None:
        self.start()
        if not self._places and not self._first.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_SECS):
                    await self._first.wait()
            self._first.set()  # who comes next does not wait

    def order(self) -> Sequence[str]:
        return (*self._balance.order(self._places), *self._others)

    def known(self) -> Sequence[str]:
        return (*(place.url for place in self._places), *self._others)

    def answered(self, url: str) -> None:
        if url not in self._others:
            self._balance.answered(url)

    def watch(self, changed: Callable[[], None]) -> None:
        self._watchers.append(changed)

    def state(self) -> ServiceState:
        return ServiceState(
            self.service, self._registry.name, len(self._places), self._problem,
            self._looks, self._changes, self._failures,
        )  # fmt: skip

    async def aclose(self) -> None:
        task, self._task = self._task, None
        if task is not None and self._loop is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait({task})
        self._told.close()
        await self._registry.aclose()

    # ── looking ──

    async def _keep_looking(self) -> None:
        loop, mark, failures, pause = asyncio.get_running_loop(), None, 0, _PAUSE_SECS
        while True:
            begun = loop.time()
            try:
                async with asyncio.timeout(LONGEST_LOOK_SECS):
                    look = await self._registry.look(self.service, mark)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is said, and looked again
                self._failures += 1
                mark, failures = None, failures + 1
                self._failed(_words(error))
                wait = min(_LONGEST_BACKOFF_SECS, _BACKOFF_SECS * 2.0 ** min(failures - 1, 10))
                wait *= 1.0 - 0.5 * self._rand()
            else:
                mark, failures = look.mark, 0
                if self._take(look) or loop.time() - begun > 1.0:
                    pause = _PAUSE_SECS
                else:  # it does not know how to wait
                    pause = min(2 * pause, _LONGEST_PAUSE_SECS)
                wait = pause
            self._first.set()
            await asyncio.sleep(wait)

    def _take(self, look: Look) -> bool:
        """What a look has brought; whether that is news."""
        self._looks += 1
        odd = list(look.odd)
        found: dict[str, Place] = {}
        for each in sorted(look.instances, key=_identity)[:MOST]:
            if problem := self._problem_of(each):
                odd.append(problem)
            else:
                place = Place(url_of(each, self._scheme), each.weight, each.priority)
                found.setdefault(place.url, place)
        if len(look.instances) > MOST:
            odd.append(f"more than {MOST:,} are listed")
        why = f": {some([beginning(one_line(one), 200) for one in odd], 3, between='; ')}" if odd else ""
        if not found:
            kept = f"; the {len(self._places)} known last are asked" if self._places else ""
            self._failed(
                f"{'none that can be used' if odd else 'no instance'} is listed{why}{kept}", down=False
            )
            return False
        self._problem = f"{len(odd)} listed cannot be used{why}" if odd else ""
        places = tuple(found.values())
        news = places != self._places
        if self._was_well is False or (news and self._was_well is not None):
            self._told(
                logging.INFO,
                f"{self.service}: {_instances(len(places))} by {self._registry.name}{why and '; left out'}{why}",
            )
        self._was_well = True
        if news:
            self._places = places
            self._changes += 1
            for changed in self._watchers:
                changed()
        return news

    def _problem_of(self, instance: Instance) -> str:
        if problem := problem_of(instance):
            return problem
        try:
            self._check(url_of(instance, self._scheme))
        except InputError as error:
            return str(error)
        return ""

    def _failed(self, why: str, *, down: bool = True) -> None:
        self._problem = why
        if self._was_well is not False:
            still = (
                f"; what was known last is asked ({_instances(len(self._places))})"
                if self._places and down
                else ""
            )
            self._told(logging.WARNING, f"{self.service}: {self._registry.name}: {why}{still}")
        self._was_well = False


def _words(error: Exception) -> str:
    if isinstance(error, RegistryUnavailable):
        return str(error)
    if isinstance(error, TimeoutError):
        return str(error) or f"no answer in {LONGEST_LOOK_SECS:.0f} s"
    return f"{type(error).__name__}: {error}"


def _instances(count: int) -> str:
    return f"{count} instance{'' if count == 1 else 's'}"


def _identity(instance: Instance) -> tuple[int, str, int]:
    return instance.priority, instance.host, instance.port
