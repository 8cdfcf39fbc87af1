"""What all front ends of one process share."""

from __future__ import annotations

import contextvars
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from replan.config import Settings
from replan.core.trace import parent_of
from replan.core.words import one_line, some
from replan.errors import NotSignedIn, ReplanError
from replan.run.access.callers import LOCAL, Caller
from replan.run.access.use_cases import UseCases
from replan.run.access.views import Dependency
from replan.run.session.dependencies import Leaving, Parts
from replan.server.auth.credentials import Credentials
from replan.server.auth.failures import Failures
from replan.server.auth.keys import holds_key
from replan.server.auth.staying import Staying
from replan.server.holding import Holding
from replan.server.streams.hub import Hub
from replan.server.streams.sse import Sending
from replan.server.telemetry.metrics import Metrics
from replan.server.turns import Turns

log = logging.getLogger("replan.server")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
"""Of the call that is answered, for the log."""


def named_call(given: object) -> str:
    """The id of the call that is answered from here on: the caller's own where it has sent one that can be."""
    text = given if isinstance(given, str) else ""
    fits = _ID.fullmatch(text) is not None and not holds_key(text)  # it goes into logs, too
    named = text if fits else secrets.token_hex(8)
    request_id.set(named)
    return named


class Authenticator(Protocol):
    """Says who calls."""

    async def __call__(self, credentials: Credentials) -> Caller:
        """`NotSignedIn` if nobody can tell."""
        ...


async def nobody_asked(credentials: Credentials) -> Caller:
    """Of a service on loopback that asks nobody who they are."""
    return LOCAL


class Pace(NamedTuple):
    """How long things may take on a connection."""

    header_secs: float = 10.0
    """The head of a request."""
    body_secs: float = 10.0
    """Its body, and longer for its size."""
    beat_secs: float = 15.0
    """A stream on which nothing happens, until a sign of life."""
    stuck_secs: float = 60.0
    """A reader that takes nothing, until it is cut off."""


@dataclass(slots=True)
class Shared:
    """Of one process."""

    use_cases: UseCases
    parts: Parts
    settings: Settings
    hub: Hub
    authenticate: Authenticator = nobody_asked
    leaving: Leaving = field(default_factory=Leaving)
    """It takes no new calls, and ends its streams."""
    sending: Sending = field(default_factory=Sending)
    """Who is sent events over HTTP."""
    metrics: Metrics | None = None
    pace: Pace = field(default_factory=Pace)
    staying: Staying = field(init=False)
    """Streams and waits, which end when their callers are known no more."""
    holding: Holding = field(init=False)
    """How many of them each caller has."""
    arriving: Holding = field(init=False)
    """How many calls each caller has begun that have not come whole."""
    turns: Turns = field(default_factory=Turns)
    """Of answers that may be large."""
    failures: Failures = field(init=False)
    """Of signing in, by address."""
    checks: dict[str, Callable[[], Awaitable[str | None]]] = field(default_factory=dict)
    """What it stands on, by name: raises if that does not answer, and may say how it stands."""

    def __post_init__(self) -> None:
        self.staying = Staying(self.authenticate)
        asked = self.authenticate is not nobody_asked
        self.failures = Failures(self.settings.server.failed_signins if asked else "")
        self.holding = Holding(self.settings.server, asked=asked)
        self.arriving = Holding(
            self.settings.server, asked=asked, what="calls begun that have not come whole"
        )

    async def signed(self, credentials: Credentials) -> Caller:
        """Who calls, and in whose trace; `NotSignedIn` if nobody can tell, `TooMany` where that was so too often from there."""
        self.failures.check(credentials)
        try:
            caller = await self.authenticate(credentials)
        except NotSignedIn:
            self.failures.failed(credentials)
            raise
        self.failures.let_in(credentials)
        if parent_of(credentials.traceparent) is None:
            return caller
        return caller._replace(traceparent=str(credentials.traceparent))

    async def dependencies(self) -> list[Dependency]:
        """How each stands. Why, where callers have to say who they are, is for the log: whoever asks this need not."""
        found, anybody = [], self.authenticate is nobody_asked
        for name, check in self.checks.items():
            try:
                said = await check()
            except ReplanError as error:
                why = one_line(str(error))
                log.warning("not ready: %s: %s", name, why)
                detail = why if anybody else "the log of the service says why"
                found.append(Dependency(name=name, ready=False, detail=detail))
            else:
                found.append(Dependency(name=name, ready=True, detail=(said or "") if anybody else ""))
        if broken := (await self.parts.kinds.current()).problems:  # it goes on with what they had last
            told = some(broken, 3, between="; ") if anybody else "the log of the service says why"
            found.append(
                Dependency(name="scenes and workflows", ready=True, detail=f"some are broken: {told}")
            )
        return found
