"""The tools of a remote tool service as a `ToolSource`."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from replan.core.secrets import KnownSecrets, secrets_of_headers
from replan.core.types import JsonObject, ToolSpec
from replan.core.words import in_digits
from replan.endpoints import Fixed, Kept
from replan.errors import InputError, ToolCallError
from replan.ports import Endpoints, ToolCall, ToolProblem
from replan.tools.bounds import MAX_RESULT_BYTES, check_parameters, unknown_tool
from replan.tools.large_bytes import with_files
from replan.tools.remote.client.attempt import Attempt, Doubt
from replan.tools.remote.client.endpoints import LIST_SECS, Peer, is_down, nobody, shared_store
from replan.tools.remote.client.transport import Endpoint, checked_url
from replan.tools.remote.messages import Listing

CANCEL_SECS = 2.0
LOOK_AFTER_SECS = 2.0
WATCH_SECS = 30.0
"""How long one question for a changed list may be left open."""
_MOST_DOUBTS = 10_000


class RemoteSource:
    """Tools of another process, over HTTP or gRPC (docs/reference/tool-service.md).

    `endpoints`: the service, and where else it can be reached, in order of preference; each
    `http://`, `https://`, `grpc://` or `grpcs://host:port`, or `host:port` for `protocol`. Or `replan.ports.Endpoints`, which
    change. `timeout_secs` limits a call without a deadline whose tool has no time limit of its own.

    A request that failed is sent again, `max_retries` times at most, where that is safe: it did not reach the tool,
    the tool may be called twice, or the endpoint remembers the key of the call. Calls of tasks are made again by the task where it can
    (`ToolCall.retries`). Then the next endpoint is asked, too,
    except for a call that may have taken effect at one that alone remembers its key.
    `ToolSpec.honours_key` is true where every endpoint keeps the same durable memory of keys.
    Raises `InputError` for endpoints that are none, or packages that are missing.
    """

    def __init__(
        self,
        endpoints: Sequence[str] | Endpoints,
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
        if isinstance(endpoints, str) or (isinstance(endpoints, Sequence) and not endpoints):
            raise InputError("a tool service needs a list of endpoints, like ['grpc://host:8471']")

        def peer(url: str) -> Peer:
            return Peer(
                Endpoint(
                    checked_url(url, protocol),
                    token,
                    dict(headers or {}),
                    connect_timeout_secs,
                    max_result_bytes,
                    ca_file,
                    self.secrets,
                ),
                self.name,
            )

        self.secrets = KnownSecrets()
        self.secrets.add(token, "token")
        self.secrets.add_all(secrets_of_headers(headers or {}))
        self._timeout_secs = timeout_secs
        self._max_retries = max_retries
        if isinstance(endpoints, Sequence):
            urls = list(dict.fromkeys(checked_url(each, protocol) for each in endpoints))
            self.name = name or re.sub(r"\W+", "_", urlsplit(urls[0]).netloc)
            self._peers = Kept(Fixed(urls), peer, lambda each: each.transport.aclose())
            self._peers.known()  # what is wrong with one is told here
        else:
            self.name = name or re.sub(r"\W+", "_", endpoints.service)
            self._peers = Kept(endpoints, peer, lambda each: each.transport.aclose())
            endpoints.watch(self._others)
        self._specs: dict[str, ToolSpec] | None = None
        self._revision = ""
        self._problems: list[ToolProblem] = []
        self._changed: Callable[[], None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._beside: set[asyncio.Task[None]] = set()
        self._attempts: set[Attempt] = set()
        self._doubts: dict[str, Doubt] = {}
        """By key, of calls that failed."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Where it can be reached, as far as is known."""
        return tuple(peer.endpoint.url for peer in self._peers.known())

    async def tools(self) -> Sequence[ToolSpec]:
        """The tools of the first endpoint that lists them; if none does, the error of the first that is there."""
        await self._peers.begin()
        peers = self._peers.known()
        if not peers:
            raise ToolCallError(nobody(self._peers.endpoints), kind="unavailable", happened="no")
        asked = [self._listed(peer) for peer in peers]
        found = await asyncio.gather(*asked, return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, ToolCallError):
                raise each
        listed = [each for each in found if not isinstance(each, BaseException)]
        if not listed:
            raise min((each for each in found if isinstance(each, ToolCallError)), key=is_down)
        self._problems = [ToolProblem(str(each)) for each in found if isinstance(each, ToolCallError)]
        self._problems += listed[0].problems
        relied = shared_store(peers)
        if not relied and any(each.keys_are_durable for each in listed):
            text = (
                "its endpoints do not share one memory of keys, so that a call with an effect whose answer gets lost is in "
                "doubt: it is found out about, or a person is asked"
            )
            self._problems.append(ToolProblem(text, works=True))
        for other in listed[1:]:
            if missing := {spec.id for spec in listed[0].tools} ^ {spec.id for spec in other.tools}:
                text = f"its endpoints offer different tools: {', '.join(sorted(missing)[:10])}"
                self._problems.append(ToolProblem(text))
        specs: dict[str, ToolSpec] = {}
        for spec in listed[0].tools:
            of_keys = {"keys_in": listed[0].key_store} if relied else {"honours_key": False}
            changes: JsonObject = of_keys if spec.effect == "once" or not relied else {}
            if spec.timeout_secs is None:  # a limit of the tool, for whoever gives each call its deadline
                changes = {**changes, "timeout_secs": self._timeout_secs}
            specs.setdefault(spec.id, spec.model_copy(update=changes))
        if len(specs) < len(listed[0].tools):
            self._problems.append(ToolProblem("lists several tools of the same id; the first is taken"))
        self._specs, self._revision = specs, listed[0].revision
        self._watch()
        return list(specs.values())

    async def _listed(self, peer: Peer) -> Listing:
        with self._peers.using(peer):
            return await peer.list_tools(min(LIST_SECS, self._timeout_secs))

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
        """End the connections, and with them the calls that run; a later call connects anew."""
        for attempt in self._attempts:
            attempt.stop_trying()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait({self._watching}, timeout=1.0)
            self._watching = None
        if self._beside:
            await asyncio.wait(self._beside, timeout=CANCEL_SECS)
        await self._peers.aclose()

    async def _call(self, call: ToolCall) -> Any:
        await self._peers.begin()
        if self._specs is None:
            await self.tools()
        specs = self._specs or {}
        spec = specs.get(call.tool_id)
        if spec is None:
            raise unknown_tool(call.tool_id, self.name, specs)
        check_parameters(spec, call)
        secs = call.deadline_secs or spec.timeout_secs or self._timeout_secs
        doubt = self._doubt_about(call)
        if doubt.why and call.keys_in == "" and not doubt.store and spec.keys_in and call.effect == "once":
            # Its service keeps keys now, and did not where that attempt was made, or nobody has said that it does.
            text = f"{doubt.why}, at an endpoint whose memory of keys was not relied on"
            raise ToolCallError(text, kind="in_doubt", happened="unknown")
        attempt = Attempt(
            self._peers,
            call,
            spec,
            secs=secs,
            max_retries=self._max_retries,
            call_off=self._call_off,
            doubt=doubt,
        )
        self._attempts.add(attempt)
        try:
            async with asyncio.timeout(secs) as limit:
                output = await attempt.run()
        except TimeoutError:
            if not limit.expired():
                raise
            late = attempt.final(f"no answer within {in_digits(secs)} seconds")
            self._remember(call, late, attempt)
            if attempt.asked is not None:
                self._in_the_background(self._look_after(attempt.asked))
            raise late from None
        except ToolCallError as error:
            self._remember(call, error, attempt)
            raise
        except asyncio.CancelledError:
            happened = "unknown" if attempt.sent or attempt.doubt else "no"
            stopped = ToolCallError("an earlier attempt of this call was cancelled", happened=happened)
            self._remember(call, stopped, attempt)
            raise
        finally:
            self._attempts.discard(attempt)
        self._doubts.pop(call.key, None)
        return await with_files(output, call.keep)

    def _doubt_about(self, call: ToolCall) -> Doubt:
        """Why an earlier attempt of the call may have taken effect, as far as is known; and where its key was kept."""
        unknown = "an earlier attempt of this call may have taken effect" if call.attempt > 1 else ""
        return self._doubts.get(call.key, Doubt(unknown, call.keys_in or "")) if call.key else Doubt()

    def _remember(self, call: ToolCall, error: ToolCallError, attempt: Attempt) -> None:
        if not call.key:
            return
        self._doubts[call.key] = (
            Doubt() if error.happened == "no" else Doubt(attempt.doubt or str(error), attempt.store)
        )
        while len(self._doubts) > _MOST_DOUBTS:
            del self._doubts[next(iter(self._doubts))]

    def _call_off(self, peer: Peer, call_id: str) -> None:
        """Tell the service that nobody waits for the call any more, without waiting for it."""

        async def tell() -> None:
            with contextlib.suppress(ToolCallError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECS):
                    await peer.transport.cancel(call_id)

        self._in_the_background(tell())

    async def _look_after(self, peer: Peer) -> None:
        """A call had no answer in time. Its tool may be slow, or nobody may be there any more: then others are not sent there."""
        with self._peers.using(peer):
            try:
                await peer.list_tools(min(LOOK_AFTER_SECS, self._timeout_secs))
            except ToolCallError as error:
                if error.happened == "no" and (is_down(error) or error.kind == "unavailable"):
                    peer.breaker.trip()

    def _in_the_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    def _others(self) -> None:
        """Other endpoints than before: what they offer, and which keys they remember, may be something else."""
        if self._changed is not None and self._specs is not None:
            self._changed()

    def _watch(self) -> None:
        if self._changed is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.get_running_loop().create_task(self._keep_watching())

    async def _keep_watching(self) -> None:
        """Ask the first endpoint that can be reached for another list, again and again."""
        loop = asyncio.get_running_loop()
        pause = 1.0
        while True:
            begun, told = loop.time(), False
            for peer in self._peers.known():
                try:
                    async with asyncio.timeout(WATCH_SECS + LIST_SECS):
                        with self._peers.using(peer):
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


def load(url: str, *, token: str | None = None, name: str | None = None) -> RemoteSource:
    """The tools at `grpc://host:port`, `grpcs://…`, `http://…` or `https://…`."""
    return RemoteSource([url], token=token, name=name)
