"""One call of a remote tool: sent, and sent again where that is safe."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from replan.core.failures.faults import classify, may_retry
from replan.core.limits.breaker import Try
from replan.core.types import ToolSpec
from replan.core.words import some
from replan.endpoints import Kept
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.tools.bounds import traceparent
from replan.tools.remote.client.endpoints import LIST_SECS, Peer, nobody, took
from replan.tools.remote.client.transport import TransportFailure
from replan.tools.remote.messages import Execute, dumps

_NOBODY_ASKED = ("refused", "unavailable")
_BASE_DELAY, _MAX_DELAY = 0.1, 2.0


class Doubt(NamedTuple):
    """Why a call may have taken effect (empty: it surely has not), and which memory of keys knows of it."""

    why: str = ""
    store: str = ""


class Attempt:
    """One call, sent until there is an answer or another try would not be safe."""

    def __init__(
        self,
        peers: Kept[Peer],
        call: ToolCall,
        spec: ToolSpec,
        *,
        secs: float,
        max_retries: int,
        call_off: Callable[[Peer, str], None],
        doubt: Doubt,
    ) -> None:
        self._peers = peers
        self._order = peers.order()
        self._call = call
        self._spec = spec
        self._is_once = (call.effect or spec.effect) == "once"
        self._is_kept = spec.effect == "once"
        """Whether the service takes it for one whose end it has to remember, whatever the user has decided."""
        self._left = max_retries if call.retries is None else min(max_retries, call.retries)
        self._secs = secs
        self._call_off = call_off
        self.doubt, self.store = doubt
        self._begun = asyncio.get_running_loop().time()
        self.failure: ToolCallError | None = None
        """Why the latest try failed."""
        self._store_sent = ""
        self.sent = False
        self.under_way = False
        self.asked: Peer | None = None
        """Where the latest try is, or was."""
        self._is_last = False

    def stop_trying(self) -> None:
        """Let the try that is under way be the last one: the source is closed."""
        self._is_last = True

    async def run(self) -> Any:
        wait = 0.0
        delay = _BASE_DELAY
        skip: set[Peer] = set()
        while True:
            peer, tried = self._choose(skip)
            if peer is None or tried is None:
                skip.clear()
                ready = min((each.breaker.wait_secs for each in self._candidates()), default=0.0)
                wait = max(wait, ready, delay * random.uniform(0.5, 1.0))
                if self._is_last or self._left <= 0 or self._is_late(wait):
                    raise self.final()
                if self._is_tried_by_the_caller():
                    found = self.final()
                    if ready and found.retry_after is None:
                        found.retry_after = ready
                    raise found
                self._left -= 1
                delay = min(delay * 2, _MAX_DELAY)
                await asyncio.sleep(wait)
                wait = 0.0
                self._order = self._peers.order()
                continue
            self.asked = peer
            try:
                with self._peers.using(peer):
                    return await self._try(peer, tried)
            except TransportFailure as error:
                skip.add(peer)
                wait = error.retry_after or 0.0
                self._judged(peer, error)
                if self.failure is not error or not self._may_repeat(error):
                    raise self.final() from error

    def _candidates(self) -> Sequence[Peer]:
        """Where the call may be made. One that may have taken effect: only where its key is remembered."""
        if not self.doubt or not self.store or not self._is_once:
            return self._order
        return [each for each in self._peers.recent() if each.store == self.store] or self._order

    def _choose(self, skip: set[Peer]) -> tuple[Peer | None, Try | None]:
        for each in self._candidates():
            if each not in skip and (tried := each.breaker.allow()) is not None:
                return each, tried
        return None, None

    async def _try(self, peer: Peer, tried: Try) -> Any:
        """One request to one endpoint; its breaker is told how it went."""
        told = False
        call_id = secrets.token_hex(8)
        try:
            if peer.listing is None:
                await peer.list_tools(LIST_SECS)
            request = self._request(peer, call_id)
            self._store_sent = request.key_store
            self.sent = self.under_way = True
            output = await peer.transport.execute(request, self._call.report)
            took(tried, None)
            self._peers.answered(peer)
            told = True
            return output
        except ToolCallError as error:
            took(tried, error)
            told = True
            raise
        except asyncio.CancelledError:
            if self.under_way:
                self._call_off(peer, call_id)
            raise
        finally:
            if told:
                self.under_way = False
            else:
                tried.abandoned()

    def _request(self, peer: Peer, call_id: str) -> Execute:
        call, listing = self._call, peer.listing
        size = len(dumps(call.parameters))
        if listing is not None and size > listing.max_request_bytes:
            text = (
                f"the parameters of {call.tool_id!r} are {size:,} bytes; the tool service takes no more than "
                f"{listing.max_request_bytes:,}"
            )
            raise ToolCallError(text, kind="parameter", happened="no")
        kept = self._is_once and self._is_kept and call.key
        gone = asyncio.get_running_loop().time() - self._begun
        return Execute(
            tool=call.tool_id,
            parameters=call.parameters,
            key=call.key,
            key_store=(self.store if self.doubt and self.store else peer.store) if kept else "",
            task_id=call.task_id,
            step_id=call.step_id,
            attempt=call.attempt,
            call_id=call_id,
            deadline_secs=max(0.001, self._secs - gone),
            traceparent=traceparent(call),
        )

    def _judged(self, peer: Peer, error: TransportFailure) -> None:
        """Remember what a failure tells about the endpoint, and about the call."""
        self.failure = error
        if error.happened != "no":
            self.doubt, self.store = str(error), self.store or self._store_sent
        if error.status != 409:
            return
        # Another memory of keys than it had.
        if self.doubt and self._is_once:
            text = f"{self.doubt}; now its server does not know of the call any more"
            self.failure = ToolCallError(text, kind="in_doubt", happened="unknown")
        else:
            peer.listing = None  # asked anew

    def final(self, late: str = "") -> ToolCallError:
        """The failure of the whole call: one that may have taken effect cannot be said not to have.

        `late`: what is said if the time was up while an answer was waited for.
        """
        found = self.failure
        if late and (self.under_way or found is None):
            happened = "unknown" if self.under_way or self.doubt else "no"
            return ToolCallError(late, kind="timeout", happened=happened)
        if found is None:
            ready = min((each.breaker.wait_secs for each in self._order), default=1.0)
            urls = some([peer.endpoint.url for peer in self._order], 5)
            text = f"the tool service at {urls} was not there lately; it is tried again in {ready:.1f} s"
            if not self._order:
                text = nobody(self._peers.endpoints)
            found = ToolCallError(text, kind="unavailable", happened="no", retry_after=ready)
        if found.happened == "no" and self.doubt and self._is_once:
            text = f"{self.doubt}; then: {found}"
            wait = found.retry_after
            return ToolCallError(text, kind="connection_lost", happened="unknown", retry_after=wait)
        return found

    def _may_repeat(self, error: TransportFailure) -> bool:
        if self._is_last or not _passes(error):
            return False
        if error.happened == "no" or not self._is_once:
            return True
        return self._is_kept and (self._spec.honours_key or bool(self._call.key and self.store))

    def _is_tried_by_the_caller(self) -> bool:
        """Whether whoever calls makes such a call again, and counts: tried here as well, it would be asked that many times each time.

        An address where nobody is was not asked.
        """
        if self._call.retries is None or self.failure is None or self.failure.kind in _NOBODY_ASKED:
            return False
        tool = self._spec.model_copy(update={"effect": "once" if self._is_once else "reads"})
        return may_retry(classify(self.final(), tool), tool)

    def _is_late(self, wait: float) -> bool:
        return asyncio.get_running_loop().time() - self._begun + wait >= self._secs


def _passes(error: ToolCallError) -> bool:
    return error.kind in (*_NOBODY_ASKED, "connection_lost") or error.status in (
        409,
        425,
        429,
        502,
        503,
        504,
    )
