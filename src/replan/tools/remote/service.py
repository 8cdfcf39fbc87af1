"""What a tool server does, whatever the transport: list, admit, make each call once, let go."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from replan.core.failures.faults import classify
from replan.core.ids import call_content
from replan.core.types import ToolSpec
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall, ToolProblem, ToolSource
from replan.tools.bounds import MAX_RESULT_BYTES, check_parameters, too_large
from replan.tools.catalog.catalog import Catalog
from replan.tools.functions.output import to_plain
from replan.tools.remote.keys import Keys
from replan.tools.remote.messages import MAX_REQUEST_BYTES, Execute, Listing, dumps, spec_to_wire
from replan.tools.remote.running import Answer, Running, Waiter

MOST_CALLS = 100
REJOIN_SECS = 10.0
"""How long a call with an effect runs on for a client whose connection broke, and who may come back with its key."""
LONGEST_WAIT_SECS = 60.0
BUSY_SECS = 0.5
MOST_WAITING = 1000
"""Reports of progress that may wait for a slow client; further ones are left out."""


class Service:
    """Tools offered to other processes.

    `keys`: where idempotency keys are remembered. `max_calls`: how many may run at once; the next one is turned
    away. `max_call_secs`: a limit for calls that come without a deadline.
    """

    def __init__(
        self,
        sources: Sequence[ToolSource],
        *,
        keys: Keys,
        max_calls: int = MOST_CALLS,
        max_call_secs: float | None = None,
        rejoin_secs: float = REJOIN_SECS,
        max_result_bytes: int = MAX_RESULT_BYTES,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.max_request_bytes = max_request_bytes
        self.max_result_bytes = max_result_bytes
        self._catalog = Catalog(sources)
        self._keys = keys
        self._max_calls = max_calls
        self._max_call_secs = max_call_secs
        self._rejoin_secs = rejoin_secs
        self._running: set[Running] = set()
        self._by_key: dict[str, Running] = {}
        self._waiters: dict[str, Waiter] = {}
        self._changed = asyncio.Event()
        self._draining = False
        self._listing: Listing | None = None

    @property
    def draining(self) -> bool:
        return self._draining

    async def open(self) -> None:
        await self._keys.open()
        self._catalog.watch(self._renew)
        await self._catalog.open()

    async def listing(self, known: str = "", wait_secs: float = 0.0) -> Listing:
        """The tools; waits while the revision is the `known` one, for `wait_secs` at most."""
        if known and wait_secs > 0:
            limit = asyncio.get_running_loop().time() + min(wait_secs, LONGEST_WAIT_SECS)
            while self._current().revision == known and not self._draining:
                changed = self._changed
                try:
                    async with asyncio.timeout_at(limit):
                        await changed.wait()
                except TimeoutError:
                    break
        return self._current()

    def execute(self, request: Execute, report: Callable[[Progress], None] | None = None) -> Waiter:
        """Admit a call and start it, or join the one that runs under its key.

        `ToolCallError` for a call that is turned away: nothing was done then.
        """
        if self._draining:
            raise ToolCallError(
                "the tool server is about to stop",
                kind="unavailable",
                happened="no",
                status=503,
                retry_after=1.0,
            )
        spec = self._spec(request.tool)
        call = ToolCall(spec.id, request.parameters, request.key)
        check_parameters(spec, call)
        if request.key_store and request.key_store != self._keys.store:
            text = "this server does not have the memory of keys that the call counts on; list its tools anew"
            raise ToolCallError(text, kind="unavailable", happened="no", status=409)
        keyed = bool(request.key) and spec.effect != "reads"
        content = hashlib.sha256(
            call_content(spec.id, request.parameters).encode("utf-8", "replace")
        ).hexdigest()
        running = self._by_key.get(request.key) if keyed else None
        if running is None:
            running = self._start(spec, request, content, keyed)
        elif running.content != content:
            raise _other_call()
        limits = (request.deadline_secs, spec.timeout_secs, self._max_call_secs)
        call_id = request.call_id or secrets.token_hex(8)

        def left() -> None:
            if self._waiters.get(call_id) is waiter:
                del self._waiters[call_id]

        waiter = Waiter(
            running,
            deadline_secs=min((each for each in limits if each is not None), default=None),
            linger_secs=self._rejoin_secs if keyed else 0.0,
            report=report,
            left=left,
        )
        self._waiters[call_id] = waiter
        return waiter

    def cancel(self, call_id: str) -> None:
        """The client of that request does not want its answer; the call goes on if others wait for it."""
        if waiter := self._waiters.get(call_id):
            waiter.call_off()

    async def drain(self, grace_secs: float) -> None:
        """Take no more calls; let those that run end within the grace, then cancel them."""
        self._draining = True
        self._changed.set()
        tasks = {running.task for running in self._running}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_secs)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)

    async def aclose(self) -> None:
        await self._catalog.aclose()
        await self._keys.aclose()

    def _renew(self) -> None:
        self._listing = None
        self._changed.set()
        self._changed = asyncio.Event()

    def _current(self) -> Listing:
        if self._listing is None:
            tools = tuple(self._catalog.specs())
            said = dumps([spec_to_wire(spec) for spec in tools])
            self._listing = Listing(
                revision=hashlib.sha256(said + self._keys.store.encode()).hexdigest()[:16],
                tools=tools,
                problems=tuple(
                    ToolProblem(f"{each.source}: {each.message}", each.tool)
                    for each in self._catalog.problems
                ),
                key_store=self._keys.store,
                keys_are_durable=self._keys.durable,
                max_request_bytes=self.max_request_bytes,
            )
        return self._listing

    def _spec(self, name: str) -> ToolSpec:
        spec = self._catalog.resolve(name)
        if spec is None:
            near = self._catalog.nearest(name)
            hint = f"; the nearest are: {', '.join(near)}" if near else ""
            raise ToolCallError(
                f"there is no tool {name!r}{hint}", kind="unknown_tool", happened="no", status=404
            )
        return spec

    def _start(self, spec: ToolSpec, request: Execute, content: str, keyed: bool) -> Running:
        if len(self._running) >= self._max_calls:
            raise ToolCallError(
                f"the tool server is busy: it has reached its limit of concurrent calls ({self._max_calls})",
                kind="http",
                happened="no",
                status=429,
                retry_after=BUSY_SECS,
            )

        def ended() -> None:
            self._running.discard(running)
            if keyed and self._by_key.get(request.key) is running:
                del self._by_key[request.key]

        running = Running(content, ended)
        self._running.add(running)
        if keyed:
            self._by_key[request.key] = running
        make = self._once if keyed else self._call
        running.start(make(spec, request, running))
        return running

    async def _once(self, spec: ToolSpec, request: Execute, running: Running) -> Answer:
        """The answer that is remembered; or the call, made and remembered."""
        try:
            known = await self._keys.begin(request.key, running.content)
        except Exception as reason:  # noqa: BLE001 - a full disk: what cannot be remembered is not done
            text = f"the key of the call cannot be remembered: {reason}"
            error = ToolCallError(text, kind="unavailable", happened="no", status=503)
            return Answer.failed(error, refused=True)
        if known.answer is not None:
            return Answer.read(known.answer)
        if known.state == "other":
            return Answer.failed(_other_call(), refused=True)
        if known.state == "begun" and spec.effect == "once" and not spec.honours_key:
            text = (
                f"a call of {spec.id!r} with this key was begun before and nobody knows how it ended; "
                "it is not made again"
            )
            return Answer.failed(ToolCallError(text, kind="in_doubt", happened="unknown"))
        answer = await self._call(spec, request, running)
        # Where the answer cannot be kept, the key stays begun: in doubt for those who come later.
        with contextlib.suppress(Exception):
            if answer.error is None:
                await self._keys.answer(request.key, answer.stored())
            elif answer.error["happened"] == "no" or spec.effect == "repeatable":
                await self._keys.forget(request.key)
        return answer

    async def _call(self, spec: ToolSpec, request: Execute, running: Running) -> Answer:
        running.admitted.set()
        call = ToolCall(
            spec.id,
            request.parameters,
            request.key or f"call-{secrets.token_hex(8)}",
            request.task_id,
            request.step_id,
            request.attempt,
            request.deadline_secs,
            running.tell,
        )
        try:
            output = _written(await self._catalog.call(call))
            if len(output) > self.max_result_bytes:
                raise too_large(spec.id, self.max_result_bytes)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            text = f"the call of {spec.id!r} was cut off from inside, though nobody had stopped it"
            return Answer.failed(ToolCallError(text, kind="connection_lost", happened="unknown"))
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its answer
            fault = classify(error, spec)
            return Answer.failed(
                ToolCallError(
                    fault.message.encode("utf-8", "replace").decode(),
                    kind=fault.kind,
                    happened=fault.happened,
                    status=fault.status,
                    retry_after=fault.retry_after,
                )
            )
        return Answer(output)


def _written(value: Any) -> bytes:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return dumps(to_plain(value))  # a source that does not give plain JSON


def _other_call() -> ToolCallError:
    text = "the idempotency key was used before for a call of another tool or with other parameters"
    return ToolCallError(text, kind="parameter", happened="no", status=422)
