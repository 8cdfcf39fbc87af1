"""The endpoints of one service: which may be asked now, and what is known of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from replan.core.limits.breaker import Breaker, Try
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.ports import Endpoints
from replan.tools.remote.client.transport import Endpoint, Hushed, Transport, TransportFailure
from replan.tools.remote.messages import Listing

COOL_DOWN_SECS = 1.0
LIST_SECS = 15.0
_EXTRA = "tools over {} need more packages: pip install 'replan[remote]'"


class Peer:
    """One endpoint: its connection, its breaker, and its latest list."""

    def __init__(self, endpoint: Endpoint, source: str) -> None:
        self.endpoint = endpoint
        self.breaker = Breaker(cool_down_secs=COOL_DOWN_SECS)
        self.listing: Listing | None = None
        self.transport = transport_to(endpoint, source)

    @property
    def store(self) -> str:
        """The memory of keys that it had when it was last listed; empty: none, or not known."""
        return self.listing.key_store if self.listing is not None else ""

    async def list_tools(self, timeout_secs: float) -> Listing:
        """The list as it is now, kept in `listing`."""
        try:
            async with asyncio.timeout(timeout_secs):
                found = await self.transport.list_tools("", 0.0)
        except TimeoutError:
            text = f"{self.endpoint.url} did not list its tools within {in_digits(timeout_secs)} s"
            raise TransportFailure(text, kind="unavailable", happened="no") from None
        except ToolCallError as error:
            # Only listed: no tool was called, whatever became of the request.
            raise TransportFailure(
                str(error), kind=error.kind, happened="no", status=error.status, retry_after=error.retry_after
            ) from error
        if found is None:
            text = f"{self.endpoint.url} says that its list is unchanged to somebody who has none"
            raise TransportFailure(text, kind="output", happened="no")
        self.listing = found
        return found


def took(tried: Try, error: ToolCallError | None) -> None:
    """Tell a breaker how a request went: a service that answers is there."""
    if error is None or not is_down(error):
        tried.succeeded()
    else:
        tried.failed()


def is_down(error: ToolCallError) -> bool:
    """Whether nobody is there, as against somebody who answers with an error."""
    return error.kind in ("refused", "connection_lost") or error.status in (502, 503, 504)


def nobody(endpoints: Endpoints) -> str:
    """That not one address of the service is known, and why."""
    state = endpoints.state()
    why = state.problem or "it lists none"
    return f"no instance of the tool service {endpoints.service!r} is known: {state.registry}: {why}"


def shared_store(peers: Sequence[Peer]) -> bool:
    """Whether a key that one endpoint remembers for good is remembered by all: only then may it be relied on."""
    stores = {
        peer.listing.key_store if peer.listing and peer.listing.keys_are_durable else "" for peer in peers
    }
    return len(stores) == 1 and "" not in stores


def transport_to(endpoint: Endpoint, source: str) -> Transport:
    try:
        if endpoint.scheme.startswith("grpc"):
            from replan.tools.remote.client.grpc import GrpcTransport

            return Hushed(GrpcTransport(endpoint, source), endpoint)
        from replan.tools.remote.client.http import HttpTransport

        return Hushed(HttpTransport(endpoint, source), endpoint)
    except ImportError as error:
        raise InputError(_EXTRA.format("gRPC" if endpoint.scheme.startswith("grpc") else "HTTP")) from error
