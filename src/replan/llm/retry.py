"""Trying again after a transient fault of a model: the one layer that does."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Literal

from replan.core.limits.prices import FREE, Price
from replan.core.words import in_digits
from replan.errors import ModelUnavailable
from replan.llm.faults import EndpointError
from replan.llm.limits import Limited, excuse, limited
from replan.llm.pace import Pace
from replan.llm.relay import Relay
from replan.ports import Model, ModelReply, ModelRequest, Priced

FIRST_WAIT_SECS, LONGEST_WAIT_SECS = 0.5, 30.0
_TOLD_SECS = 1.0
"""Who waits longer is told why."""
_SPREAD, _MOST_SPREAD_SECS = 0.25, 5.0
"""So much longer than it was asked for a wait is at most, by chance."""
_LATEST = 253_402_300_799
"""The last second of the year 9999."""
_MOST_WAITED_SECS = 600.0
"""For an endpoint that says "later" to everybody, where there is no time limit."""


def _too_long(
    error: ModelUnavailable, wait: float, limit: float | None, left: float | None
) -> ModelUnavailable:
    """What the endpoint said, and how long it asks to be left alone if that is longer than may be waited. `left`: of a task's time."""
    if not isinstance(error, EndpointError) or error.retry_after is None:
        return error
    wait = max(wait, error.asks_for or 0.0)
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(time.time() + wait, _LATEST)))
    if left is None:
        text = f"in {wait:.0f} s, and the time limit here is {in_digits(limit)} s"
    elif wait >= left:
        text = f"in {wait:.0f} s, at {when}, and the task's time is over in {max(left, 0.0):.0f} s"
    else:
        text = f"in {wait:.0f} s, at {when}: so long no task waits for it"
    said = EndpointError(
        f"{error}; it asks to be asked again {text}", transient=True,
        status=error.status, code=error.code, retry_after=error.retry_after, lost=error.lost,
    )  # fmt: skip
    said.in_stream = error.in_stream
    said.__cause__ = error
    return said


def _unasked(why: str, secs: float | None) -> EndpointError:
    """For one that was not asked at all: another was turned away, and the wait is not over."""
    held = EndpointError(why, transient=True, status=429, retry_after=secs)
    held.unasked = True
    return held


def _left_alone(name: str, secs: float, pace: Pace) -> EndpointError:
    """`secs`: as long as that holds for all. What is told is what the endpoint has said."""
    asked = max(secs, pace.asked_for())
    held = _unasked(f"{name} has asked to be left alone for {in_digits(max(1, round(asked)))} s more", secs)
    held.asks_for = asked
    return held


def _time_of(request: ModelRequest) -> float | None:
    """When whoever asks has no time any more, by the loop's clock; None: nobody has said."""
    if request.watcher is None:
        return None
    left: float = request.watcher.time_left()
    return asyncio.get_running_loop().time() + left


def _is_busy(error: ModelUnavailable) -> bool:
    return bool(getattr(error, "is_busy", False))


def _back_in(error: ModelUnavailable) -> float | None:
    """In so many seconds one of those that stand in for one another wants to be asked, whatever is wrong with the others."""
    return getattr(error, "back_in", None)


def _was_not_asked(error: ModelUnavailable) -> bool:
    """All are left alone for a while after their failures, or somebody else tries them."""
    return bool(getattr(error, "is_being_tried", False) or getattr(error, "is_left_alone", False))


class _Waits:
    """The waits of one question, which end with its time: as long as nobody else gets an answer there, either."""

    def __init__(self, pace: Pace, limit: float | None, scope: asyncio.Timeout, own: Limited) -> None:
        self._pace = pace
        self._own = own
        self._limit = limit
        self._scope = scope
        self._clock = asyncio.get_running_loop().time
        self._passed = pace.gate.passed
        self._waited = 0.0
        self._over = self._own_until = 0.0

    def left(self) -> float:
        """So long it has to be left alone still, but for what was waited already."""
        until = max(self._pace.left_alone_until, self._own_until)
        return until - self._clock() if until > self._over else 0.0

    def leave_alone(self, secs: float) -> None:
        self._own_until = self._clock() + secs
        self._pace.leave_alone(secs, asked=False)  # if it was, whoever was told has said so

    def begin(self, secs: float, error: ModelUnavailable) -> None:
        self._over = max(self._pace.left_alone_until, self._own_until)
        if self._may_wait(secs, error):
            excuse(secs)
        else:
            self._waited += secs

    def queue(self) -> None:
        """It has to be waited for others: what of that the endpoint has asked for is none of one's own time."""
        if (secs := self._pace.alone_for()) > 0:
            excuse(secs)

    def _may_wait(self, secs: float, error: ModelUnavailable) -> bool:
        asked = getattr(error, "retry_after", None) is not None or _back_in(error) is not None
        return asked and not _was_not_asked(error) and self._own.may_wait(secs)

    def check(self, secs: float, error: ModelUnavailable) -> None:
        """Raise what is wrong where a wait would only run into the limit."""
        if self._passed != self._pace.gate.passed:
            self._passed, self._waited = self._pace.gate.passed, 0.0
            self._own.somebody_is_there()
        if self._may_wait(secs, error):
            return
        deadline = self._scope.when()
        most = _MOST_WAITED_SECS if self._limit is None else self._limit
        if (deadline is not None and self._clock() + secs >= deadline) or self._waited + secs > most:
            raise _too_long(error, secs, most, self._own.time_left())


class RetryingModel:
    """A model whose transient faults are tried again, within one time limit for the whole.

    Waits grow from `FIRST_WAIT_SECS` by two up to `LONGEST_WAIT_SECS`, each shortened by a random part of up to
    a half; a `retry_after` of the endpoint is waited for in full, and a random part more (`FIRST_WAIT_SECS` at the least where too many ask). To be turned away as too many is none of the
    `max_retries` failures: it is asked again while there is time, in one's turn (`Gate`). `timeout_secs` holds where the request sets none; a function is asked
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
        pace: Pace = getattr(self._model, "pace", None) or Pace()
        gate, ticket = pace.gate, pace.gate.ticket()
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout_at(None if limit is None else clock() + limit) as scope:
                with limited(scope, _time_of(request)) as own:
                    relay = None if on_text is None else Relay(on_text)
                    attempt = 0
                    waits = _Waits(pace, limit, scope, own)
                    while True:
                        if relay is not None:
                            relay.begin()
                        if (held := self._held(pace, waits)) is not None:
                            last = last or held
                            if not self.max_retries:
                                raise held
                            waits.check(pace.alone_for(), held)
                            waits.queue()
                        entry = await gate.enter(ticket)
                        busy = answered = False
                        try:
                            while (secs := waits.left()) > 0:
                                last = last or _left_alone(self.name, secs, pace)
                                waits.check(secs, last)
                                await self._wait_for(secs, request, last, waits)
                            attempt += 1
                            gate.sent(entry)
                            reply = await self._model.ask(request, relay)
                            self.name = self._model.name  # it may have asked the endpoint for it
                            answered = True
                            return reply
                        except ModelUnavailable as error:
                            last = error
                            busy = _is_busy(error)
                            if busy or (limit is not None and _was_not_asked(error)):
                                attempt -= (
                                    1  # "later" is no failure; and where nobody was asked there was no try
                                )
                            back_in: float | None = None
                            if not error.transient or not self.max_retries:
                                raise
                            if attempt > self.max_retries and (back_in := _back_in(error)) is None:
                                raise
                        finally:
                            gate.left(entry, answered=answered, busy=busy)
                        wait = back_in or self._wait(gate.refused if busy else max(attempt, 1), last)
                        waits.check(wait, last)
                        if busy:
                            waits.leave_alone(wait)  # at the gate, in one's turn
                        else:
                            await self._wait_for(wait, request, last, waits)
        except TimeoutError:
            if not scope.expired():
                raise
            before = "" if last is None else f"; before that: {last}"
            raise EndpointError(
                f"{self.name} did not answer within {in_digits(limit)} s{before} "
                "(the limit is [llm] timeout_secs; a slow model needs a longer one)",
                transient=True,
            ) from last

    def _held(self, pace: Pace, waits: _Waits) -> EndpointError | None:
        """Why it may not be asked at once, if it may not."""
        if waits.left() > 0 and (secs := pace.alone_for()) > 0:
            return _left_alone(self.name, secs, pace)
        return None if pace.gate.is_free else _unasked(f"{self.name} has turned others away, and takes no more at once", None)  # fmt: skip

    async def _wait_for(
        self, secs: float, request: ModelRequest, why: ModelUnavailable, waits: _Waits
    ) -> None:
        waits.begin(secs, why)
        if _is_busy(why) or getattr(why, "retry_after", None) is not None:
            # Not all that were told the same at once: other processes have heard it, too.
            secs += min(secs * _SPREAD, _MOST_SPREAD_SECS) * self._rand()
        if request.watcher is not None and round(secs, 1) >= _TOLD_SECS:
            request.watcher.tell(f"waiting {secs:.0f} s before asking again: {why}")
        await self._sleep(secs)

    def price(self) -> Price | None:
        """What the model says; one that is not asked for it bears the cost that it reports."""
        return self._model.price() if isinstance(self._model, Priced) else FREE

    async def aclose(self) -> None:
        await self._model.aclose()

    def _wait(self, attempt: int, error: ModelUnavailable) -> float:
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            # "Later, and at once" would be asked without end, since to be turned away uses up no try.
            return max(FIRST_WAIT_SECS if _is_busy(error) else 0.0, float(asked))
        grown = min(LONGEST_WAIT_SECS, FIRST_WAIT_SECS * 2.0 ** min(attempt - 1, 30))
        return grown * (1.0 - 0.5 * self._rand())
