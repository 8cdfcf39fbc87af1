"""Trying again after a transient fault of a model: the one layer that does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Literal

from replan.core.limits.prices import FREE, Price
from replan.core.words import in_digits
from replan.errors import ModelUnavailable
from replan.llm.faults import EndpointError
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
        deadline = None if limit is None else asyncio.get_running_loop().time() + limit
        try:
            async with asyncio.timeout_at(deadline) as scope:
                relay = None if on_text is None else Relay(on_text)
                attempt = 0
                while True:
                    attempt += 1
                    if relay is not None:
                        relay.begin()
                    try:
                        reply = await self._model.ask(request, relay)
                        self.name = self._model.name  # it may have asked the endpoint for it
                        return reply
                    except ModelUnavailable as error:
                        last = error
                        if deadline is not None and getattr(error, "is_being_tried", False):
                            attempt -= 1  # who waits for somebody else's try has not had one
                        if not error.transient or attempt > self.max_retries:
                            raise
                    wait = self._wait(max(attempt, 1), last)
                    if deadline is not None and asyncio.get_running_loop().time() + wait >= deadline:
                        raise _too_long(last, wait, limit)  # it would only run into the limit
                    if request.watcher is not None and wait >= _TOLD_SECS:
                        request.watcher.tell(f"waiting {wait:.0f} s before asking again: {last}")
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
