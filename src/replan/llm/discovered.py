"""A model at the endpoints of a service, which come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal

from replan.core.limits.prices import Price
from replan.endpoints import Kept
from replan.llm.fallback import Place, ask_first
from replan.ports import Endpoints, Model, ModelReply, ModelRequest


class DiscoveredModel:
    """The first endpoint that answers, each behind a circuit breaker of its own.

    `at`: the model at an address. Each is asked once for a request; for more rounds there is `RetryingModel` around it.
    """

    def __init__(
        self, name: str, endpoints: Endpoints, at: Callable[[str], Model], price: Callable[[], Price | None]
    ) -> None:
        self._places = _Known(Kept(endpoints, lambda url: Place(at(url)), lambda place: place.aclose()))
        self._endpoints = endpoints
        self._price = price
        self.name = f"{name}@{endpoints.service}" if name else endpoints.service
        self.style: Literal["standard", "small"] = "standard"

    @property
    def breadth(self) -> int:
        """How many can be asked."""
        return max(1, len(self._endpoints.known()))

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return await ask_first(self._places, request, on_text)

    def price(self) -> Price | None:
        return self._price()

    async def aclose(self) -> None:
        await self._places.kept.aclose()


class _Known:
    """Those at the addresses that are known now."""

    def __init__(self, kept: Kept[Place]) -> None:
        self.kept = kept

    async def begin(self) -> None:
        await self.kept.begin()

    def order(self) -> Sequence[Place]:
        return self.kept.order()

    def using(self, place: Place) -> AbstractContextManager[None]:
        return self.kept.using(place)

    def answered(self, place: Place) -> None:
        self.kept.answered(place)

    def nobody(self) -> str:
        state = self.kept.endpoints.state()
        why = state.problem or "it lists none"
        return f"no instance of the model service {state.service!r} is known: {state.registry}: {why}"
