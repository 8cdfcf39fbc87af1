"""Several models that stand in for one another, tried in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Literal

from replan.core.limits.breaker import Breaker
from replan.core.limits.prices import FREE, Price
from replan.errors import ModelUnavailable
from replan.llm.relay import Relay
from replan.ports import Model, ModelReply, ModelRequest, Priced


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
        cool_down_secs: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        if not models:
            raise ValueError("a fallback needs at least one model")
        self._models = tuple(models)
        self._breakers = tuple(
            Breaker(threshold=threshold, cool_down_secs=cool_down_secs, now=now) for _ in self._models
        )
        self._ways: dict[tuple[int, str], int] = {}
        """How often the schema's question can be put to a model in yet another way, once it has said that it has none left."""
        self.name = self._models[0].name
        self.style: Literal["standard", "small"] = self._models[0].style

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        relay = None if on_text is None else Relay(on_text)
        reasons: list[str] = []
        transient = False
        codes: set[int] = set()
        refused: set[bool] = set()
        unread = request.unread
        for at, (model, breaker) in enumerate(zip(self._models, self._breakers, strict=True)):
            last = model is self._models[-1]
            if not last and unread > (ways := self._ways.get((at, request.schema_name), unread)):
                unread -= ways + 1
                reasons.append(f"{model.name}: none of its answers could be used")
                continue
            if not breaker.allow():
                transient = True
                refused.add(False)
                reasons.append(
                    f"{model.name}: left alone for {breaker.wait_secs:.0f} s after several failures"
                )
                continue
            if relay is not None:
                relay.begin()
            try:
                asked = request if unread == request.unread else request.model_copy(update={"unread": unread})
                reply = await model.ask(asked, relay)
            except ModelUnavailable as error:
                breaker.failed()
                transient = transient or error.transient
                codes.add(error.exit_code)
                refused.add(error.refused)
                reasons.append(str(error))
                if request.watcher is not None and not last:
                    request.watcher.tell(f"{model.name} does not answer, another is asked: {error}")
            except BaseException:
                breaker.abandoned()
                raise
            else:
                breaker.succeeded()
                self.name = self._models[0].name  # it may have asked its endpoint for it
                if not (last or reply.other_ways):
                    self._ways[at, request.schema_name] = unread
                return reply.model_copy(
                    update={
                        "endpoint": reply.endpoint or model.name,
                        "other_ways": reply.other_ways or not last,
                    }
                )
        # A single model speaks for itself.
        text = (
            reasons[0] if len(reasons) == 1 else "no model answered:\n" + "\n".join(f"- {r}" for r in reasons)
        )
        raise ModelUnavailable(text, transient=transient, setup=codes == {2}, refused=refused == {True})

    def price(self) -> Price | None:
        """That of the dearest; None if one is not known."""
        prices = [model.price() if isinstance(model, Priced) else FREE for model in self._models]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices):
            return None
        return Price(input=max(one.input for one in known), output=max(one.output for one in known))

    async def aclose(self) -> None:
        """Close each, also where one before it cannot be closed."""
        async with AsyncExitStack() as closing:
            for model in reversed(self._models):
                closing.push_async_callback(model.aclose)
