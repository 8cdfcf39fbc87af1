"""Several models that stand in for one another, tried in order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import Literal, Protocol

from replan.core.limits.breaker import Breaker
from replan.core.limits.prices import FREE, Price
from replan.core.types import Usage
from replan.core.words import in_digits
from replan.errors import ModelUnavailable
from replan.llm.relay import Relay
from replan.ports import Model, ModelReply, ModelRequest, Priced

COOL_DOWN_SECS, LONGEST_COOL_DOWN_SECS = 2.0, 30.0


class NoneAnswered(ModelUnavailable):
    """All that stand in for one another have failed. `retry_after`: in so many seconds one of them may be asked again.

    `is_being_tried`: none was asked, and somebody else is finding out whether one is there again. `is_left_alone`: none was asked, and
    one of them may be soon. `is_busy`: all say "later". `back_in`: in so many seconds one of them wants to be asked, as it has said itself.
    """

    retry_after: float | None = None
    is_being_tried = False
    is_left_alone = False
    is_busy = False
    back_in: float | None = None


class Place:
    """One model of those, and what is known of it."""

    def __init__(
        self,
        model: Model,
        *,
        threshold: int = 3,
        cool_down_secs: float = COOL_DOWN_SECS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = model
        self.breaker = Breaker(
            threshold=threshold, cool_down_secs=cool_down_secs, longest_secs=LONGEST_COOL_DOWN_SECS, now=now
        )
        self.ways: dict[str, int] = {}
        """How often the schema's question can be put to it in yet another way, once it has said that it has none left."""
        self.failed: ModelUnavailable | None = None
        """Why it gave no answer when it was asked last."""

    async def aclose(self) -> None:
        await self.model.aclose()


class Places(Protocol):
    """Who can be asked now."""

    async def begin(self) -> None: ...
    def order(self) -> Sequence[Place]: ...
    def using(self, place: Place) -> AbstractContextManager[None]:
        """It stays open within."""
        ...

    def answered(self, place: Place) -> None: ...
    def nobody(self) -> str:
        """Why nobody can be asked."""
        ...


class FallbackModel:
    """The first of `models` that answers; each behind a circuit breaker of its own.

    The prompts are rendered for the first one's style. All of them failing is one `ModelUnavailable` that
    names each with its reason, transient if any of them is worth another try. One whose answers could be used in none of
    its ways gives way to the next, too.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        threshold: int = 3,
        cool_down_secs: float = COOL_DOWN_SECS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("a fallback needs at least one model")
        self._models = tuple(models)
        self._places = _These(
            [
                Place(model, threshold=threshold, cool_down_secs=cool_down_secs, now=now)
                for model in self._models
            ]
        )
        self.name = self._models[0].name
        self.style: Literal["standard", "small"] = self._models[0].style

    @property
    def breadth(self) -> int:
        """How many can be asked."""
        return len(self._models)

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        reply = await ask_first(self._places, request, on_text)
        self.name = self._models[0].name  # it may have asked its endpoint for it
        return reply

    def price(self) -> Price | None:
        """That of the dearest; None if one is not known."""
        prices = [model.price() if isinstance(model, Priced) else FREE for model in self._models]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices):
            return None
        return Price(input=max(one.input for one in known), output=max(one.output for one in known))

    async def aclose(self) -> None:
        """Close each, also where one before it cannot be closed."""
        await self._places.aclose()


async def ask_first(
    places: Places, request: ModelRequest, on_text: Callable[[str], None] | None
) -> ModelReply:
    """The answer of the first that gives one. `NoneAnswered` if none does."""
    await places.begin()
    relay = None if on_text is None else Relay(on_text)
    order = places.order()
    reasons: list[str] = []
    transient = False
    codes: set[int] = set()
    refused: set[bool] = set()
    waits: list[float] = []
    back: list[float] = []
    later: set[bool] = set()
    in_part: ModelReply | None = None
    unread = request.unread
    for place in order:
        model, last = place.model, place is order[-1]
        if not last and unread > (ways := place.ways.get(request.schema_name, unread)):
            unread -= ways + 1
            reasons.append(f"{model.name}: none of its answers could be used")
            continue
        if (tried := place.breaker.allow()) is None:
            transient = True
            refused.add(False)
            waits.append(place.breaker.wait_secs)
            later.add(getattr(place.failed, "is_busy", False))
            reasons.append(_left_alone(place))
            continue
        if relay is not None:
            relay.begin()
        try:
            asked = request if unread == request.unread else request.model_copy(update={"unread": unread})
            with places.using(place):
                reply = await model.ask(asked, relay)
        except ModelUnavailable as error:
            is_busy = bool(getattr(error, "is_busy", False))
            later.add(is_busy)
            if not getattr(error, "unasked", False):
                if not (
                    is_busy and getattr(error, "retry_after", None)
                ):  # who says when to come back is well
                    tried.failed()
                place.failed = error
            transient = transient or error.transient
            codes.add(error.exit_code)
            refused.add(error.refused)
            reasons.append(str(error))
            if error.transient:
                secs: float | None = getattr(error, "retry_after", None)
                waits.append(secs or 0.0)
                back += [secs] if secs else []
            if request.watcher is not None and not last:
                request.watcher.tell(f"{model.name} does not answer, another is asked: {error}")
        else:
            tried.succeeded()
            place.failed = None
            places.answered(place)
            if not (last or reply.other_ways):
                place.ways[request.schema_name] = unread
            reply = reply.model_copy(
                update={
                    "endpoint": reply.endpoint or model.name,
                    "other_ways": reply.other_ways or not last,
                }
            )
            if last or not reply.read_in_part:
                return reply
            reasons.append(f"{model.name}: it has read a part of the prompt only")
            if in_part is None:
                in_part = reply
            if request.watcher is not None:
                request.watcher.used(reply.usage)
        finally:
            tried.abandoned()  # unless it has told how it went
    if in_part is not None:  # better than nobody
        was_told = request.watcher is not None
        return in_part.model_copy(update={"usage": Usage()}) if was_told else in_part
    if not order:
        transient, reasons = True, [places.nobody()]
    # A single model speaks for itself.
    text = reasons[0] if len(reasons) == 1 else "no model answered:\n" + "\n".join(f"- {r}" for r in reasons)
    none = NoneAnswered(text, transient=transient, setup=codes == {2}, refused=refused == {True})
    none.retry_after = min(waits, default=0.0) or None
    none.back_in = min(back, default=None)
    none.is_busy = later == {True}
    none.is_being_tried = not codes and any(place.breaker.is_probing for place in order)
    none.is_left_alone = not codes and none.retry_after is not None
    raise none


def _left_alone(place: Place) -> str:
    """Why it is not asked now: what it said when it was asked last, else nobody could tell what to mend."""
    wait = math.ceil(place.breaker.wait_secs)
    held = (
        f"left alone for {in_digits(wait)} s after several failures"
        if wait
        else "another request finds out whether it is there again"
    )
    return f"{place.model.name}: {held}" if place.failed is None else f"{place.failed} ({held})"


class _These:
    """Always the same."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = tuple(places)

    async def begin(self) -> None:
        pass

    def order(self) -> Sequence[Place]:
        return self._places

    def using(self, place: Place) -> AbstractContextManager[None]:
        return nullcontext()

    def answered(self, place: Place) -> None:
        pass

    def nobody(self) -> str:
        return ""

    async def aclose(self) -> None:
        async with AsyncExitStack() as closing:
            for place in reversed(self._places):
                closing.push_async_callback(place.aclose)
