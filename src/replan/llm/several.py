"""One model at several endpoints: each is asked in its turn, and all of them again where none has answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replan.core.limits.prices import Price
from replan.llm.address import is_grpc, name_at
from replan.llm.discovered import DiscoveredModel
from replan.llm.fallback import FallbackModel
from replan.llm.provider import open_model
from replan.llm.providers.opening import require_library
from replan.llm.retry import RetryingModel
from replan.ports import Endpoints

_MOST_LIMITS = 3
"""A request ends after so many times the limit of one endpoint, however many there are."""


def open_several(
    name: str,
    endpoints: Sequence[str | None] | Endpoints,
    *,
    others: Sequence[tuple[str, str | None]] = (),
    timeout_secs: float,
    max_retries: int,
    prices: Mapping[str, Price] | None = None,
    **options: Any,
) -> RetryingModel:
    """The model at the first of these that answers. `timeout_secs` limits one request to one of them.

    Each is asked once before any is asked again: to wait is for when all have failed. An endpoint that is None is the model's provider.
    `others`: models of providers that are asked after them, each with its key. `options`: of `open_model`.
    """

    if not isinstance(endpoints, Sequence) or not all(one and is_grpc(one) for one in endpoints):
        require_library()  # what is missing is told before any work is done

    def at(endpoint: str | None) -> RetryingModel:
        return open_model(
            name, endpoint=endpoint, timeout_secs=timeout_secs, max_retries=0, prices=prices, **options
        )

    def price() -> Price | None:
        return (
            next((prices[one] for one in (name, name_at(name), "*") if one in prices), None)
            if prices
            else None
        )

    def of_provider(other: str, key: str | None) -> RetryingModel:
        own = {**options, "api_key": key}
        return open_model(other, timeout_secs=timeout_secs, max_retries=0, prices=prices, **own)

    rest = [of_provider(other, key) for other, key in others]
    several: FallbackModel | DiscoveredModel
    if isinstance(endpoints, Sequence):
        several = FallbackModel([*(at(each) for each in endpoints), *rest])
    else:
        discovered = DiscoveredModel(name_at(name), endpoints, at, price)
        several = FallbackModel([discovered, *rest]) if rest else discovered
    limit: Callable[[], float] = lambda: timeout_secs * min(_MOST_LIMITS, several.breadth)  # noqa: E731
    return RetryingModel(several, max_retries=max_retries, timeout_secs=limit)
