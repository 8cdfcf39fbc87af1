"""One drive of one task: the claim, the state, and the way into the log.

What is recorded takes effect on the state at once and goes to the log in order, in batches: everything that
is recorded in one turn of the event loop is one append. `durable` waits until a batch is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from pydantic_core import PydanticSerializationError

from replan.core.data.strict_json import storable_value
from replan.core.events import AnyEvent
from replan.core.plain_calls import Recorded, spelled_out
from replan.core.state.fold import apply
from replan.core.state.task import State
from replan.core.types import Usage
from replan.errors import NotHeard, ReplanError, StaleWriter, StoreBusy, StoreError
from replan.ports import Appended, Claim, Landing, NewArtifact
from replan.run.session.dependencies import Parts, Passed, Tap
from replan.run.session.feed import Standing
from replan.run.session.known_secrets import LateSecrets

log = logging.getLogger("replan")


class Batch:
    """Events that go to the log together."""

    __slots__ = (
        "artifacts",
        "awaited",
        "done",
        "due",
        "ends",
        "events",
        "flushed",
        "heard",
        "refused",
        "round",
        "taken",
        "ts",
        "waiters",
    )

    def __init__(self, ts: float, round: int) -> None:
        self.ts = ts
        self.round = round
        self.events: list[Recorded] = []
        self.artifacts: list[NewArtifact] = []
        self.waiters: list[asyncio.Future[None]] = []
        self.due = False
        """It is sent off soon, whatever happens."""
        self.awaited = False
        """Somebody is about to wait for it, and will send it off."""
        self.flushed = False
        self.done = False
        self.ends: list[Recorded] = []
        """They come behind the others, and are in the state once they are in the log: with which the task ends, or what time alone decides."""
        self.taken = 0
        """So many of these are in the state already."""
        self.heard: int | None = None
        """It is written if people have written nothing after that."""
        self.refused = False
        """They had."""

    def land(self) -> None:
        """It is in the log, or never will be: whoever still holds it keeps nothing of it."""
        self.done = True
        self.events = self.ends = _NO_EVENTS
        self.artifacts = _NO_ARTIFACTS


_AT_ONCE_SECS = 1.0
"""So soon nobody is taken for dead."""
_LOOKS = 3
"""The answer may come late, too; where it always does, that is the database."""
_NO_EVENTS: list[Recorded] = []
_NO_ARTIFACTS: list[NewArtifact] = []
"""What batches that have landed hold: nothing is added to them."""


class Run:
    """A claimed task."""

    __slots__ = (
        "_batch",
        "_cleared",
        "_decisions",
        "_end",
        "_flying",
        "_listener",
        "_loop",
        "_pauses",
        "_since",
        "_time",
        "asking",
        "broken",
        "claim",
        "closed",
        "deadline",
        "family",
        "hear",
        "heard",
        "kept",
        "large",
        "name",
        "outputs_held",
        "parts",
        "passed",
        "secrets",
        "state",
        "stopped",
        "stopping",
        "task_id",
        "told",
        "unheard",
        "unread",
    )

    def __init__(self, parts: Parts, claim: Claim, state: State) -> None:
        self.parts = parts
        self.claim = claim
        self.state = state
        self.task_id = claim.task_id
        self.name = state.name
        self.secrets = state.secrets
        """What is known to be secret: nothing of it is recorded, told or asked."""
        self.kept: dict[str, Any] = {}
        """Values of artifacts that hold secrets, which their stored form does not."""
        self.outputs_held: int | None = None
        """About how many characters of outputs the task has in memory; None: nobody has asked in this drive."""
        self.broken: StoreError | None = None
        """Why the log can no longer be written."""
        self.large = False
        """Its log, or the plan that came with it, is not gone through in the event loop."""
        self.passed: Passed | None = None
        """Of the plan that came with it, where that was checked as it was stored here."""
        self.closed = False
        self.deadline: float | None = None
        """When the task's own time is over, by the loop's clock."""
        self.family: Any = None
        """What was read of the other tasks of its family, where it has one."""
        self.hear: Callable[[], Awaitable[None]] | None = None
        """Takes in what people have written."""
        self.heard = state.last_seq
        """Up to where it has been taken in."""
        self.unread = False
        """What people have written last is of a kind that cannot be read here, as a newer release has: it keeps nothing off."""
        self._loop: asyncio.Task[Any] | None = None
        """Whoever runs the loop, as long as it may be stopped."""
        self._listener: Callable[[], None] | None = None
        self.stopped = False
        """The loop was stopped: by a person, at the deadline, or as the log was lost."""
        self.stopping = False
        """Nothing new is begun: what runs is being stopped."""
        self.asking: dict[object, Usage] = {}
        """What each model call under way has used beyond its first request; of one that was cut off, by its id."""
        self._pauses: dict[object, Callable[[], bool]] = {}
        """What waits, and whether time alone ends that."""
        self.unheard = 0
        """Up to where people have written, as the log shows, and what they wrote has not been taken in; 0: it has."""
        self.told: set[str] | None = None
        """Sentences for people that are said once."""
        self._cleared: list[Callable[[], None]] = []
        """What is done once something of the task has come to its end: it does not end the process each time."""
        self._batch: Batch | None = None
        self._flying: list[Batch] = []
        self._end: Batch | None = None
        """The end that is on its way to the log."""
        self._decisions: list[Batch] = []
        """What is decided if nobody has spoken, on its way to the log."""
        self._time = asyncio.get_running_loop().time
        self._since = parts.clock.now() - self._time()

    def now(self) -> float:
        """Unix seconds as this drive counts them: the machine's clock at its beginning, and from then on one that nobody sets.

        What is measured from the log (time limits, how long steps take) so has no jump in it.
        """
        return self._since + self._time()

    def standing(self) -> Standing:
        """Whether the task is getting on."""
        state = self.state
        gets_on = self.asking or state.llm_running or any(ends() for ends in self._pauses.values())
        return Standing(
            0.0 if gets_on else max(0.0, self.now() - state.last_ts),
            in_tool=bool(state.running_calls()),
            limit_secs=state.policy.budget.task_timeout_secs or math.inf,
        )

    @contextmanager
    def pausing(self, ends: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """`with`: something waits inside. `ends`: whether time alone ends that; a delay always does."""
        mine = object()
        self._pauses[mine] = ends
        try:
            yield
        finally:
            del self._pauses[mine]

    @contextmanager
    def waiting_for_another(self) -> Iterator[None]:
        """`with`: inside, the task waits for what another one comes to, which may itself stand in line behind it."""
        with self.pausing(lambda: False), self.parts.turns.waiting_for_another(self.task_id):
            yield

    def stoppable(self, loop: asyncio.Task[Any] | None) -> None:
        """From now on `stop` cancels this task, once; None: it cancels nothing any more."""
        self._loop = loop

    def stop(self) -> None:
        """Stop the loop: a person wants it, time is up, or the log is lost."""
        if self._loop is not None and not self.stopped:
            self.stopped = self.stopping = True
            self._loop.cancel()

    def lose(self, error: StoreError) -> None:
        """The store does not take what has to be kept, or is away: this drive ends, and what it was at is taken up again as after
        a crash."""
        if self.broken is None:
            self.broken, self.stopping = error, True
            asyncio.get_running_loop().call_soon(self.stop)

    def when_cleared(self, do: Callable[[], None]) -> None:
        """Call this once something of the task has come to its end."""
        self._cleared.append(do)

    def _clear(self) -> None:
        cleared, self._cleared = self._cleared, []
        for do in cleared:
            asyncio.get_running_loop().call_soon(do)

    def heard_by(self, listener: Callable[[], None] | None) -> None:
        """From now on this is called whenever people's events have been taken in."""
        self._listener = listener

    def people_heard(self) -> None:
        """People's events have been taken in."""
        if self._listener is not None:
            self._listener()

    def record(self, *events: Recorded, artifacts: Sequence[NewArtifact] = (), soon: bool = True) -> Batch:
        """Record facts: they are in the state now, and in the log once the batch is durable.

        `soon`: the batch is sent off in the next turn of the event loop; else whoever records sees to that (`send_soon`).
        """
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        state = self.state
        if state.any_lost or self.secrets.any:
            events = self._masked(events)
        if self.closed or state.outcome is not None or self._end is not None:
            raise self._is_over()
        batch = self._batch
        now = self._since + self._time() if batch is None else batch.ts
        for event in events:
            apply(state, event, now, state.round)
        if state.outcome is not None:
            self.parts.feed.ended(self.task_id)
        if batch is None or batch.round != state.round:
            if batch is not None:
                self._flush()
            batch = self._batch = Batch(now, state.round)
        if soon and not batch.due:
            self.send_soon(batch)
        batch.events += events
        if artifacts:
            batch.artifacts += artifacts
        if self._cleared and state.fruitless <= 0:
            self._clear()
        return batch

    def _masked(self, events: tuple[Recorded, ...]) -> tuple[Recorded, ...]:
        lost = self.state.any_lost
        return tuple([self.secrets.masked_event(event, lost=lost) for event in spelled_out(events)])

    def _is_over(self) -> StaleWriter:
        """For a late answer after the end: it is nobody's any more."""
        return StaleWriter(f"the drive of task {self.task_id!r} has ended")

    async def end(self, *events: Recorded, heard: int | None, taken: int = 0) -> bool:
        """Record these events, with which the task ends: they are in the state once they are in the log, in one append with what was
        recorded before.

        `heard`: only if people have written nothing after that; else False, and nothing of them is recorded. `taken`: so many of them
        are in the state already, which is then another than that of the log: where they are not recorded, it is to be read anew.
        """
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if self.closed or self.state.outcome is not None or self._end is not None:
            raise self._is_over()
        if self._batch is not None and self._batch.round != self.state.round:
            self._flush()
        self._end = self._batch = batch = self._batch or Batch(self.now(), self.state.round)
        batch.heard, batch.ends, batch.taken = heard, [*self._masked(events)], taken
        await self.durable(batch)
        return not batch.refused

    async def decided(self, *events: AnyEvent) -> bool:
        """Record what time alone decides, unless people have written what was not taken in: what they were told that it counts comes first.

        It is in the state once it is in the log. False: they have, it has been taken in now, and nothing of this is recorded.
        """
        if self.broken is not None:
            raise self.broken.with_traceback(None)
        if self.closed or self.state.outcome is not None or self._end is not None:
            raise self._is_over()
        self._flush()  # what was recorded before is no part of it
        batch = Batch(self.now(), self.state.round)
        batch.heard, batch.ends = None if self.unread else self.heard, [*self._masked(events)]
        self._decisions.append(batch)
        self._send(batch)
        await self.durable(batch)
        if batch.refused:
            await self.take_in(batch.heard)
        return not batch.refused

    async def take_in(self, since: int | None) -> None:
        """Take in what people have written, where something was refused for what they wrote `since`."""
        if self.hear is not None:
            await self.hear()
        self.unread = self.heard == since

    async def end_told(self) -> None:
        """Wait until it is known what becomes of the end that is on its way, and of what is being decided, if anything is."""
        for batch in [*self._decisions] if self._end is None else [*self._decisions, self._end]:
            with contextlib.suppress(StoreError):
                await self.durable(batch)

    def tell(self, event: AnyEvent) -> None:
        """News for watchers only."""
        if self.parts.feed.heard(self.task_id):
            seen = self.secrets.masked_event(event, lost=self.state.any_lost)
            self.parts.feed.tell(self.task_id, seen, self.now(), self.state.round)

    async def durable(self, batch: Batch) -> None:
        """Wait until the batch, and so everything before it, is in the log."""
        if not batch.flushed:
            self._flush()
        if self.broken is not None:  # first: a batch that could not be written is done too
            raise self.broken.with_traceback(None)
        if batch.done:
            return
        waiter = asyncio.get_running_loop().create_future()
        batch.waiters.append(waiter)
        await waiter

    async def still_ours(self, batch: Batch) -> None:
        """Before the call is made that it tells of: where that took long, this process may have been frozen, and the task is another's."""
        since = batch.ts
        for _ in range(_LOOKS):
            if 0 <= (now := self.parts.clock.now()) - since <= _AT_ONCE_SECS:
                return
            since = now
            await self.parts.store.confirm(self.claim)

    def has_landed(self, batch: Batch) -> bool:
        """Send the batch off; True if it is in the log by now, so that nobody has to wait."""
        if not batch.flushed:
            self._flush()
        return batch.done and self.broken is None

    def send_soon(self, batch: Batch | None = None) -> None:
        """Have a batch sent off in the next turn of the event loop; without one, what is recorded and not sent yet."""
        batch = batch or self._batch
        if batch is not None and not (batch.due or batch.flushed):
            batch.due = True
            asyncio.get_running_loop().call_soon(self._flush_one, batch)

    def _flush_one(self, batch: Batch) -> None:
        if batch is self._batch:
            self._flush()

    def _flush(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._send(batch)

    def _send(self, batch: Batch) -> None:
        batch.flushed = True
        self._flying.append(batch)
        try:
            try:
                future = self._append(batch)
            except (
                PydanticSerializationError
            ):  # half a surrogate pair in some text: better a replaced sign than no log
                batch.events = [_storable(event) for event in spelled_out(batch.events)]
                batch.ends = [_storable(event) for event in spelled_out(batch.ends)]
                future = self._append(batch)
            # here, where it is told if the store gives something else: all would wait for ever
            done = future.done()
        except Exception as error:  # noqa: BLE001 - an event that cannot be written breaks the run, whatever it was
            self._fail(batch, error)
            return
        if done:
            self._landed(batch, future)
        elif isinstance(future, Landing):
            future.told = partial(self._landed, batch)
        else:
            future.add_done_callback(partial(self._landed, batch))

    def _append(self, batch: Batch) -> asyncio.Future[Appended]:
        return self.parts.store.append(
            self.claim,
            [*batch.events, *batch.ends] if batch.ends else batch.events,
            ts=batch.ts,
            round=batch.round,
            artifacts=batch.artifacts,
            heard=batch.heard,
        )

    def _landed(self, batch: Batch, future: asyncio.Future[Appended]) -> None:
        if future.cancelled():
            self._fail(batch, StaleWriter("the log was closed"))
            return
        if error := future.exception():
            self._fail(batch, error)
            return
        if batch is self._end:
            self._has_ended(batch)
        elif batch.ends:
            self._is_decided(batch)
        for tap in self.parts.taps:
            _told(tap, self.state, batch)
        batch.land()
        self._flying.remove(batch)
        first, last = future.result()
        if first > self.state.last_seq + 1:  # others have numbers between: people have written
            self.unheard = first - 1
        self.state.last_seq = last
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _has_ended(self, batch: Batch) -> None:
        self._end = None
        self._take(batch)
        self.parts.feed.ended(self.task_id)

    def _is_decided(self, batch: Batch) -> None:
        self._decisions.remove(batch)
        self._take(batch)

    def _take(self, batch: Batch) -> None:
        """It is in the log: so it is in the state."""
        for event in batch.ends[batch.taken :]:
            apply(self.state, event, batch.ts, batch.round)
        batch.events += batch.ends

    def _refuse_end(self, batch: Batch) -> None:
        """People have written something: what was recorded before the end goes to the log without it."""
        self._end, self._batch = None, batch
        batch.refused, batch.flushed, batch.heard, batch.ends = True, False, None, []
        self._flush()

    def _fail(self, batch: Batch, error: BaseException) -> None:
        self._flying.remove(batch)
        if batch is self._end and isinstance(error, NotHeard) and batch.events:
            self._refuse_end(batch)
            return
        batch.land()
        conditional = batch is self._end or batch in self._decisions
        if batch is self._end:
            self._end = None
        elif conditional:
            self._decisions.remove(batch)
        if conditional and isinstance(error, NotHeard):
            batch.refused = True
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_result(None)
            return
        if not isinstance(error, StoreError):
            found = StoreError(f"the log could not take what was recorded: {type(error).__name__}: {error}")
            found.__cause__ = error
            error = found
        self.lose(error)
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def redact(self, late: Mapping[str, Any]) -> None:
        """Take metadata that turned out to be secret, by place, out of the log; it is known to be secret already."""
        if self._batch is not None:
            self._flush()
        redaction = LateSecrets(self.secrets, late)
        self.parts.given.learn(self.name, late)
        if (given := self.state.submitted) is not None:  # as it stands in the log from now on
            known = {**dict.fromkeys(late, ""), **given.secrets}
            self.state.submitted = given.model_copy(update={"secrets": known})
        future = self.parts.store.redact(self.claim, redaction)
        future.add_done_callback(lambda _: self.kept.update(redaction.kept))
        await asyncio.shield(future)

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        """`ports.ArtifactStore` that also sees what is still on its way to the log."""
        on_the_way = [*self._flying] if self._batch is None else [*self._flying, self._batch]
        for batch in on_the_way:
            for made in batch.artifacts:
                if made.artifact_id == artifact_id and made.kept is None:
                    return made.data
        await self._landed_with(artifact_id)
        try:
            return await self.parts.store.artifact(task_id, artifact_id)
        except StoreBusy as away:
            self.lose(away)
            raise

    async def pieces(self, artifact_id: str) -> AsyncIterator[bytes]:
        """An artifact of this task, also one whose event is still on its way to the log."""
        await self._landed_with(artifact_id)
        try:
            async for piece in self.parts.store.pieces(self.task_id, artifact_id):
                yield piece
        except StoreBusy as away:
            self.lose(away)
            raise

    async def _landed_with(self, artifact_id: str) -> None:
        for batch in [*self._flying] if self._batch is None else [*self._flying, self._batch]:
            if any(made.artifact_id == artifact_id for made in batch.artifacts):
                await self.durable(batch)

    async def settle(self) -> None:
        """Wait until everything recorded is in the log; raises what broke it."""
        if self._batch is not None:
            await self.durable(self._batch)
        while self._flying:
            await self.durable(self._flying[0])
        if self.broken is not None:
            raise self.broken.with_traceback(None)

    async def close(self) -> None:
        """Write what is left, if the log lets us."""
        with contextlib.suppress(ReplanError):
            await self.settle()
        self.closed = True


def _told(tap: Tap, state: State, batch: Batch) -> None:
    try:
        tap.landed(state, batch.events, batch.ts)
    except Exception:  # who looks on breaks nothing
        log.exception("what looks on at task %s has failed", state.task_id)


def _storable(event: AnyEvent) -> AnyEvent:
    return type(event).model_validate(storable_value(event.model_dump()))
