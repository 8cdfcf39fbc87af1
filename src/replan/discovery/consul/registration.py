"""The registration of this service: made, kept through whatever the agent forgets, and taken back at the end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replan.core.words import in_digits
from replan.discovery.consul.client import Consul
from replan.discovery.consul.instances import quoted
from replan.discovery.told import Told
from replan.errors import RegistryUnavailable

log = logging.getLogger("replan.discovery")
ASK_SECS = 5.0
LEAVE_SECS = 2.0
_LONGEST_BACKOFF_SECS = 30.0
_GONE_SECS = 600
"""Of a process that was killed, the agent forgets the registration after that."""


@dataclass(frozen=True)
class Offer:
    """What is registered."""

    id: str
    name: str
    address: str
    """Empty: that of the agent's machine."""
    port: int
    grpc_port: int | None
    check_url: str
    check_grpc: str | None
    interval_secs: float
    timeout_secs: float
    tags: tuple[str, ...] = ()
    meta: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        every = {
            "Interval": f"{in_digits(self.interval_secs)}s",
            "Timeout": f"{in_digits(self.timeout_secs)}s",
            "Status": "passing",  # who registers is up: nobody has to wait for the first check
            "DeregisterCriticalServiceAfter": f"{_GONE_SECS}s",
        }
        checks: list[dict[str, Any]] = [
            {"CheckID": f"{self.id}:http", "Name": "HTTP", "HTTP": self.check_url, **every}
        ]
        if self.check_grpc is not None:
            checks.append({"CheckID": f"{self.id}:grpc", "Name": "gRPC", "GRPC": self.check_grpc, **every})
        grpc = {} if self.grpc_port is None else {"grpc_port": str(self.grpc_port)}
        return {
            "ID": self.id,
            "Name": self.name,
            "Address": self.address,
            "Port": self.port,
            "Tags": list(self.tags),
            "Meta": {**grpc, **dict(self.meta)},
            "Checks": checks,
        }


class Registration:
    """Sees to it that the agent has the offer, from `begin` to `leave`."""

    def __init__(
        self,
        consul: Consul,
        offer: Offer,
        *,
        look_secs: float | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        """`look_secs`: between two looks whether it still stands; None: as often as the agent checks this service, between 1 and 10."""
        self.offer = offer
        self.name = consul.name
        self._consul = consul
        self._look_secs = look_secs or min(10.0, max(1.0, offer.interval_secs))
        self._rand = rand
        self._told = Told(log)
        self._task: asyncio.Task[None] | None = None
        self._stands = asyncio.Event()
        self.problem = "it has not answered yet"
        """Why it does not stand, or is not known to; empty: it does."""
        self.made = 0
        """How often it was made."""
        self._was_well: bool | None = None

    async def begin(self) -> None:
        """Make it in the background: the service serves whether or not the agent is there."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep())

    async def stands(self) -> None:
        """Return when the agent has it."""
        await self._stands.wait()

    async def leave(self) -> None:
        """Take it back, so that nobody is sent here any more; an agent that does not answer in time is left to find out."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        self._told.close()
        try:
            # Also one whose answer was lost may stand.
            await self._consul.ask(
                "PUT", f"/v1/agent/service/deregister/{quoted(self.offer.id)}", secs=LEAVE_SECS, missing=True
            )
            log.info("%s: %s is registered no more", self.name, self.offer.name)
        except RegistryUnavailable as error:
            if self.made:
                log.warning(
                    "%s: %s could not be deregistered (%s); its checks will fail, and the agent forgets it after %d s",
                    self.name, self.offer.name, error, _GONE_SECS,
                )  # fmt: skip
        finally:
            self.problem = "it was taken back"
            await self._consul.aclose()

    async def _keep(self) -> None:
        failures = 0
        while True:
            try:
                if not await self._is_there():
                    await self._make()
            except RegistryUnavailable as error:
                failures += 1
                self._failed(str(error))
                wait = min(_LONGEST_BACKOFF_SECS, 0.5 * 2.0 ** min(failures - 1, 10))
            else:
                failures = 0
                self.problem = ""
                self._stands.set()
                wait = self._look_secs
            await asyncio.sleep(wait * (1.0 - 0.2 * self._rand()))

    async def _is_there(self) -> bool:
        if not self.made:
            return False
        found = await self._consul.ask(
            "GET", f"/v1/agent/service/{quoted(self.offer.id)}", secs=ASK_SECS, missing=True
        )
        if found.status == 404:
            self._stands.clear()
            return False
        if not isinstance(found.body, dict) or "ID" not in found.body:
            raise RegistryUnavailable("it does not answer as Consul does: a service is none")
        if self._was_well is False:
            self._well("answers again; the registration stands")
        same = (found.body.get("Service"), found.body.get("Port"), found.body.get("Address", ""))
        return same == (self.offer.name, self.offer.port, self.offer.address)

    async def _make(self) -> None:
        await self._consul.ask("PUT", "/v1/agent/service/register", secs=ASK_SECS, body=self.offer.as_json())
        self.made += 1
        at = f"{self.offer.address or 'its own address'}:{self.offer.port}"
        self._well(f"{self.offer.name} is registered{' again' if self.made > 1 else ''} at {at}")

    def _well(self, text: str) -> None:
        self._told(logging.INFO, f"{self.name}: {text}")
        self._was_well = True

    def _failed(self, why: str) -> None:
        self.problem = why
        if self._was_well is not False:
            self._told(
                logging.WARNING,
                f"{self.name}: {self.offer.name} cannot be registered: {why}; it is tried again and again",
            )
        self._was_well = False
