"""The tools of a remote tool service as a `ToolSource`."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from replan.core.types import ToolSpec
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall, ToolProblem
from replan.tools.bounds import MAX_RESULT_BYTES, check_parameters, traceparent
from replan.tools.names import nearest
from replan.tools.remote.endpoints import Peer, shared_store
from replan.tools.remote.messages import Execute, dumps
from replan.tools.remote.transport import Endpoint, TransportFailure, checked_url

LIST_SECS = 15.0
CANCEL_SECS = 2.0
WATCH_SECS = 30.0
"""How long one question for a changed list may be left open."""
_BASE_DELAY, _MAX_DELAY = 0.1, 2.0
_MOST_DOUBTS = 10_000


class _Doubt(NamedTuple):
    """Why a call may have taken effect (empty: it surely has not), and which memory of keys knows of it."""

    why: str = ""
    store: str = ""


class RemoteSource:
    """Tools of another process, over HTTP or gRPC (docs/reference/tool-service.md).

    `endpoints`: the service, and where else it can be reached, in order of preference; each
    `http://`, `https://`, `grpc://` or `grpcs://host:port`, or `host:port` for `protocol`. `timeout_secs` limits a
    call without a deadline whose tool has no time limit of its own.

    A request that failed is sent again, `max_retries` times at most, where that is safe: it did not reach the tool,
    the tool may be called twice, or the endpoint remembers the key of the call. Then the next endpoint is asked, too,
    except for a call that may have taken effect at one that alone remembers its key.
    `ToolSpec.honours_key` is true where every endpoint keeps the same durable memory of keys.
    Raises `InputError` for endpoints that are none, or packages that are missing.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        name: str | None = None,
        protocol: Literal["http", "grpc"] = "grpc",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
        connect_timeout_secs: float = 5.0,
        timeout_secs: float = 60.0,
        max_retries: int = 3,
        max_result_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        if isinstance(endpoints, str) or not endpoints:
            raise InputError("a tool service needs a list of endpoints, like ['grpc://host:8471']")
        urls = list(dict.fromkeys(checked_url(each, protocol) for each in endpoints))
        self.name = name or re.sub(r"\W+", "_", urlsplit(urls[0]).netloc)
        self._timeout_secs = timeout_secs
        self._max_retries = max_retries
        self._peers = [
            Peer(
                Endpoint(url, token, dict(headers or {}), connect_timeout_secs, max_result_bytes, ca_file),
                self.name,
            )
            for url in urls
        ]
        self._specs: dict[str, ToolSpec] | None = None
        self._revision = ""
        self._problems: list[ToolProblem] = []
        self._changed: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._cancels: set[asyncio.Task[None]] = set()
        self._doubts: dict[str, _Doubt] = {}
        """By key, of calls that failed."""

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools of the first endpoint that lists them; its error if none does."""
        asked = [peer.list_tools(min(LIST_SECS, self._timeout_secs)) for peer in self._peers]
        found = await asyncio.gather(*asked, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, ToolCallError):
                raise each
        listed = [each for each in found if not isinstance(each, BaseException)]
        if not listed:
            raise next(each for each in found if isinstance(each, BaseException))
        self._problems = [ToolProblem(str(each)) for each in found if isinstance(each, ToolCallError)]
        self._problems += listed[0].problems
        relied = shared_store(self._peers)
        if not relied and any(each.keys_are_durable for each in listed):
            text = "its endpoints do not share one memory of keys, so that idempotency keys are not relied on"
            self._problems.append(ToolProblem(text))
        for other in listed[1:]:
            if missing := {spec.id for spec in listed[0].tools} ^ {spec.id for spec in other.tools}:
                text = f"its endpoints offer different tools: {', '.join(sorted(missing)[:10])}"
                self._problems.append(ToolProblem(text))
        specs: dict[str, ToolSpec] = {}
        for spec in listed[0].tools:
            specs.setdefault(spec.id, spec if relied else spec.model_copy(update={"honours_key": False}))
        if len(specs) < len(listed[0].tools):
            self._problems.append(ToolProblem("lists several tools of the same id; the first is taken"))
        self._specs, self._revision = specs, listed[0].revision
        self._watch()
        return list(specs.values())

    def problems(self) -> Sequence[ToolProblem]:
        return tuple(self._problems)

    def watch(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        if self._specs is not None:
            self._watch()

    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]:
        """The tool's output. The deadline of the call, else the tool's own, else `timeout_secs`, limits it."""
        return self._call(call)

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching}, timeout=1.0)
            self._watching = None
        if self._cancels:
            await asyncio.wait(self._cancels, timeout=CANCEL_SECS)
        await asyncio.gather(*(peer.transport.aclose() for peer in self._peers))

    async def _call(self, call: ToolCall) -> Any:
        if self._specs is None:
            await self.tools()
        specs = self._specs or {}
        spec = specs.get(call.tool_id)
        if spec is None:
            near = nearest(call.tool_id, specs)
            hint = f"; the nearest are: {', '.join(near)}" if near else ""
            raise ToolCallError(
                f"there is no tool {call.tool_id!r} in {self.name!r}{hint}",
                kind="unknown_tool",
                happened="no",
            )
        check_parameters(spec, call)
        secs = call.deadline_secs or spec.timeout_secs or self._timeout_secs
        attempt = _Attempt(
            self._peers, call, spec, self._max_retries, self._call_off, self._doubt_about(call)
        )
        try:
            async with asyncio.timeout(secs) as limit:
                output = await attempt.run()
        except TimeoutError:
            if not limit.expired():
                raise
            late = attempt.final(f"no answer within {secs:g} seconds")
            self._remember(call, late, attempt)
            raise late from None
        except ToolCallError as error:
            self._remember(call, error, attempt)
            raise
        except asyncio.CancelledError:
            happened = "unknown" if attempt.sent else "no"
            stopped = ToolCallError("an earlier attempt of this call was cancelled", happened=happened)
            self._remember(call, stopped, attempt)
            raise
        self._doubts.pop(call.key, None)
        return output

    def _doubt_about(self, call: ToolCall) -> _Doubt:
        """Why an earlier attempt of the call may have taken effect, as far as is known."""
        unknown = "an earlier attempt of this call may have taken effect" if call.attempt > 1 else ""
        return self._doubts.get(call.key, _Doubt(unknown)) if call.key else _Doubt()

    def _remember(self, call: ToolCall, error: ToolCallError, attempt: _Attempt) -> None:
        if not call.key:
            return
        self._doubts[call.key] = (
            _Doubt() if error.happened == "no" else _Doubt(attempt.doubt or str(error), attempt.store)
        )
        while len(self._doubts) > _MOST_DOUBTS:
            del self._doubts[next(iter(self._doubts))]

    def _call_off(self, peer: Peer, call_id: str) -> None:
        """Tell the service that nobody waits for the call any more, without waiting for it."""

        async def tell() -> None:
            with contextlib.suppress(ToolCallError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECS):
                    await peer.transport.cancel(call_id)

        task = asyncio.get_running_loop().create_task(tell())
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    def _watch(self) -> None:
        if self._changed is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._keep_watching())

    async def _keep_watching(self) -> None:
        """Ask the first endpoint that can be reached for another list, again and again."""
        loop = asyncio.get_running_loop()
        pause = 1.0
        while True:
            begun, told = loop.time(), False
            for peer in self._peers:
                try:
                    async with asyncio.timeout(WATCH_SECS + LIST_SECS):
                        found = await peer.transport.list_tools(self._revision, WATCH_SECS)
                except (ToolCallError, TimeoutError):
                    continue
                told = True
                if found is not None and found.revision != self._revision:
                    self._revision = found.revision
                    if self._changed is not None:
                        self._changed()
                break
            # A service that answers at once does not know how to wait, or has lists that change all the time.
            pause = 1.0 if told and loop.time() - begun > 1.0 else min(pause * 2, WATCH_SECS)
            await asyncio.sleep(pause if not told or pause > 1.0 else 0)


class _Attempt:
    """One call, sent until there is an answer or another try would not be safe."""

    def __init__(
        self,
        peers: Sequence[Peer],
        call: ToolCall,
        spec: ToolSpec,
        max_retries: int,
        call_off: Callable[[Peer, str], None],
        doubt: _Doubt,
    ) -> None:
        self._peers = peers
        self._call = call
        self._spec = spec
        self._left = max_retries
        self._call_off = call_off
        self.doubt, self.store = doubt
        self._begun = asyncio.get_running_loop().time()
        self.failure: ToolCallError | None = None
        """Why the latest try failed."""
        self.sent = False
        self.under_way = False

    async def run(self) -> Any:
        wait = 0.0
        delay = _BASE_DELAY
        skip: set[Peer] = set()
        while True:
            peer = self._choose(skip)
            if peer is None:
                skip.clear()
                ready = min(each.breaker.wait_secs for each in self._candidates())
                wait = max(wait, ready, delay * random.uniform(0.5, 1.0))
                if self._left <= 0 or self._is_late(wait):
                    raise self.final()
                self._left -= 1
                delay = min(delay * 2, _MAX_DELAY)
                await asyncio.sleep(wait)
                wait = 0.0
                continue
            try:
                return await self._try(peer)
            except TransportFailure as error:
                skip.add(peer)
                wait = error.retry_after or 0.0
                self._judged(peer, error)
                if self.failure is not error or not self._may_repeat(error):
                    raise self.final() from error

    def _candidates(self) -> Sequence[Peer]:
        """Where the call may be made. One that may have taken effect: only where its key is remembered."""
        if not self.doubt or not self.store or self._spec.effect != "once":
            return self._peers
        return [each for each in self._peers if each.store == self.store] or self._peers

    def _choose(self, skip: set[Peer]) -> Peer | None:
        return next((each for each in self._candidates() if each not in skip and each.breaker.allow()), None)

    async def _try(self, peer: Peer) -> Any:
        """One request to one endpoint; its breaker is told how it went."""
        told = False
        call_id = secrets.token_hex(8)
        try:
            if peer.listing is None:
                await peer.list_tools(LIST_SECS)
            request = self._request(peer, call_id)
            self.sent = self.under_way = True
            output = await peer.transport.execute(request, self._call.report)
            peer.took(None)
            told = True
            return output
        except ToolCallError as error:
            peer.took(error)
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
                peer.breaker.abandoned()

    def _request(self, peer: Peer, call_id: str) -> Execute:
        call, listing = self._call, peer.listing
        size = len(dumps(call.parameters))
        if listing is not None and size > listing.max_request_bytes:
            text = (
                f"the parameters of {call.tool_id!r} are {size:,} bytes; the tool service takes no more than "
                f"{listing.max_request_bytes:,}"
            )
            raise ToolCallError(text, kind="parameter", happened="no")
        once = self._spec.effect == "once" and call.key
        secs = call.deadline_secs or self._spec.timeout_secs
        gone = asyncio.get_running_loop().time() - self._begun
        return Execute(
            tool=call.tool_id,
            parameters=call.parameters,
            key=call.key,
            key_store=(self.store if self.doubt and self.store else peer.store) if once else "",
            task_id=call.task_id,
            step_id=call.step_id,
            attempt=call.attempt,
            call_id=call_id,
            deadline_secs=max(0.001, secs - gone) if secs else None,
            traceparent=traceparent(call),
        )

    def _judged(self, peer: Peer, error: TransportFailure) -> None:
        """Remember what a failure tells about the endpoint, and about the call."""
        self.failure = error
        if error.happened != "no":
            self.doubt, self.store = str(error), peer.store
        if error.status != 409:
            return
        # Another memory of keys than it had.
        if self.doubt and self._spec.effect == "once":
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
            ready = min(each.breaker.wait_secs for each in self._peers)
            urls = ", ".join(peer.endpoint.url for peer in self._peers)
            text = f"the tool service at {urls} was not there lately; it is tried again in {ready:.1f} s"
            found = ToolCallError(text, kind="unavailable", happened="no", retry_after=ready)
        if found.happened == "no" and self.doubt and self._spec.effect == "once":
            text = f"{self.doubt}; then: {found}"
            wait = found.retry_after
            return ToolCallError(text, kind="connection_lost", happened="unknown", retry_after=wait)
        return found

    def _may_repeat(self, error: TransportFailure) -> bool:
        if not _passes(error):
            return False
        if error.happened == "no" or self._spec.effect != "once" or self._spec.honours_key:
            return True
        return bool(self._call.key and self.store)

    def _is_late(self, wait: float) -> bool:
        secs = self._call.deadline_secs
        return secs is not None and asyncio.get_running_loop().time() - self._begun + wait >= secs


def _passes(error: ToolCallError) -> bool:
    return error.kind in ("refused", "connection_lost", "unavailable") or error.status in (
        409,
        425,
        429,
        502,
        503,
        504,
    )


def load(url: str, *, token: str | None = None, name: str | None = None) -> RemoteSource:
    """The tools at `grpc://host:port`, `grpcs://…`, `http://…` or `https://…`."""
    return RemoteSource([url], token=token, name=name)
