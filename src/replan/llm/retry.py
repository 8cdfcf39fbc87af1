"""Trying again after a transient fault of a model: the one layer that does."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from typing import Literal

from replan.core.limits.prices import FREE, Price
from replan.core.words import in_digits
from replan.errors import ModelUnavailable
from replan.llm.faults import EndpointError
from replan.llm.pace import Pace, limited
from replan.llm.relay import Relay
from replan.ports import Model, ModelReply, ModelRequest, Priced

FIRST_WAIT_SECS, LONGEST_WAIT_SECS = 0.5, 30.0
_TOLD_SECS = 1.0
"""Who waits longer is told why."""


def _too_long(error: ModelUnavailable, wait: float, limit: float | None) -> ModelUnavailable:
    """What the endpoint said, and how long it asks to be left alone if that is longer than may be waited."""
    if not isinstance(error, EndpointError) or error.retry_after is None:
        return error
    said = EndpointError(
        f"{error}; it asks to be asked again in {wait:.0f} s, and the time limit here is {in_digits(limit)} s", transient=True,
        status=error.status, code=error.code, retry_after=error.retry_after, lost=error.lost,
    )  # fmt: skip
    said.in_stream = error.in_stream
    said.__cause__ = error
    return said


def _leave_alone(name: str, secs: float) -> None:
    """`EndpointError` where another task was told so, and its wait is not over."""
    if secs > 0:
        held = EndpointError(f"{name} has asked to be left alone for {in_digits(math.ceil(secs))} s more", transient=True, status=429, retry_after=secs)  # fmt: skip
        held.unasked = True
        raise held


class RetryingModel:
    """A model whose transient faults are tried again, within one time limit for the whole.

    Waits grow from `FIRST_WAIT_SECS` by two up to `LONGEST_WAIT_SECS`, each shortened by a random part of up to
    a half; a `retry_after` of the endpoint is waited for in full. `timeout_secs` holds where the request sets none; a function is asked
    at the beginning of each.
    """

    def __init__(
        self,
        model: Model,
        *,
        max_retries: int = 3,
        timeout_secs: float | Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self.name = model.name
        self.style: Literal["standard", "small"] = model.style
        self.max_retries = max_retries
        self._timeout_secs = timeout_secs
        self._sleep = sleep
        self._rand = rand

    @property
    def timeout_secs(self) -> float | None:
        return self._timeout_secs() if callable(self._timeout_secs) else self._timeout_secs

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        limit = self.timeout_secs if request.timeout_secs is None else request.timeout_secs
        last: ModelUnavailable | None = None
        pace: Pace | None = getattr(self._model, "pace", None)
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout_at(None if limit is None else clock() + limit) as scope:
                with limited(scope):
                    relay = None if on_text is None else Relay(on_text)
                    attempt = 0
                    waited_for = 0.0
                    """Until then the provider wanted to be left alone, and was."""
                    while True:
                        if relay is not None:
                            relay.begin()
                        try:
                            if pace is not None and pace.left_alone_until > waited_for:
                                _leave_alone(self.name, pace.alone_for())
                            attempt += 1
                            reply = await self._model.ask(request, relay)
                            self.name = self._model.name  # it may have asked the endpoint for it
                            return reply
                        except ModelUnavailable as error:
                            last = error
                            if limit is not None and getattr(error, "is_being_tried", False):
                                attempt -= 1  # who waits for somebody else's try has not had one
                            if isinstance(error, EndpointError) and error.unasked:
                                if not self.max_retries:
                                    raise
                            elif not error.transient or attempt > self.max_retries:
                                raise
                        wait = self._wait(max(attempt, 1), last)
                        deadline = scope.when()
                        if deadline is not None and clock() + wait >= deadline:
                            raise _too_long(last, wait, limit)  # it would only run into the limit
                        if request.watcher is not None and wait >= _TOLD_SECS:
                            request.watcher.tell(f"waiting {wait:.0f} s before asking again: {last}")
                        waited_for = pace.left_alone_until if pace is not None else 0.0
                        await self._sleep(wait)
        except TimeoutError:
            if not scope.expired():
                raise
            before = "" if last is None else f"; before that: {last}"
            raise EndpointError(
                f"{self.name} did not answer within {in_digits(limit)} s{before} "
                "(the limit is [llm] timeout_secs; a slow model needs a longer one)",
                transient=True,
            ) from last

    def price(self) -> Price | None:
        """What the model says; one that is not asked for it bears the cost that it reports."""
        return self._model.price() if isinstance(self._model, Priced) else FREE

    async def aclose(self) -> None:
        await self._model.aclose()

    def _wait(self, attempt: int, error: ModelUnavailable) -> float:
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return max(0.0, float(asked))
        grown = min(LONGEST_WAIT_SECS, FIRST_WAIT_SECS * 2.0 ** min(attempt - 1, 30))
        return grown * (1.0 - 0.5 * self._rand())
