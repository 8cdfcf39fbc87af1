"""Runs a plan: each step as soon as the last thing it needs is done, the longest way to the end first.

There is no layer barrier and no polling. A step that ends records its end and the start of what it frees in
one turn of the event loop, so a chain costs one commit a step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from replan.core.events import ExecutionMode, StepCompleted, StepFailed, StepReady, StepSkipped, StepStarted
from replan.core.refs import references, resolve
from replan.core.schedule import mode_of
from replan.core.state import Slot, StepState
from replan.core.types import Fault, JsonObject, StepId
from replan.core.when import holds
from replan.errors import StoreError, UnresolvedReference
from replan.run.attempts import Attempts
from replan.run.calls import Call, CannotCall, Scope, prepare, steps_referred
from replan.run.context import Run
from replan.run.outputs import Loaded
from replan.run.places import Places, PlacesClosed
from replan.run.stops import BudgetReached

GRACE_SECS = 5.0
"""How long running calls may go on after a budget is used up."""


async def execute(run: Run, deadline: float | None) -> None:
    """Run every open step of the plan, or record why it cannot run.

    Raises `BudgetReached` and `StoreError`; a fault of the parallel scheduler itself makes the rest serial.
    """
    mode, reason = mode_of(run.state)
    if run.state.mode is None:
        run.record(ExecutionMode(mode=mode, reason=reason))
    try:
        await Executor(run, deadline, serial=mode == "serial").run_all()
    except (BudgetReached, StoreError):
        raise
    except Exception as error:  # noqa: BLE001 - our own scheduler broke: the work goes on without it
        if mode == "serial":
            raise
        run.record(ExecutionMode(mode="serial", reason=f"the parallel scheduler failed: {error!r}"))
        await Executor(run, deadline, serial=True).run_all()


class Executor:
    """One pass over the open steps of a run's plan."""

    def __init__(self, run: Run, deadline: float | None, *, serial: bool) -> None:
        self._run = run
        self._state = run.state
        self._tools = run.parts.tools
        self._graph = run.state.graph()
        policy = run.state.policy
        self._places = Places(1 if serial else max(1, policy.parallel_max_concurrent))
        self._attempts = Attempts(run, self._places, deadline)
        self._urgency = (
            {step: -float(n) for n, step in enumerate(self._graph.topological())}
            if serial
            else self._graph.distance_to_end()
        )
        self._missing: dict[StepId, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._halt: BaseException | None = None

    async def run_all(self) -> None:
        """Run until nothing is left to run."""
        steps = self._state.steps
        for step_id in self._graph.order:
            self._missing[step_id] = sum(not steps[need].closed for need in self._graph.needs[step_id])
        for step_id in self._graph.order:
            if steps[step_id].status == "failed":  # closed before a crash, its dependents perhaps not
                self._skip_dependents(step_id)
        for step_id in self._graph.order:
            if not steps[step_id].closed and not self._missing[step_id]:
                self._offer(step_id)
        self._check_idle()
        try:
            await self._idle
        except asyncio.CancelledError:
            await self._abandon()
            raise
        if self._halt is not None:
            await self._wind_down()
            raise self._halt

    # ── life and death of tasks ──

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._stop(error)
        self._check_idle()

    def _stop(self, error: BaseException) -> None:
        if self._halt is None:
            self._halt = error
        self._places.close()
        if not self._idle.done():
            self._idle.set_result(None)

    def _check_idle(self) -> None:
        if not self._tasks and not self._places.waiting and not self._idle.done():
            self._idle.set_result(None)

    async def _wind_down(self) -> None:
        """Let running calls end, for a while if the budget is used up; not at all if the log is broken."""
        if isinstance(self._halt, BudgetReached) and self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE_SECS)
        await self._abandon()

    async def _abandon(self) -> None:
        """Cancel what runs. Tasks that do not listen are left behind."""
        self._places.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    # ── from ready to running ──

    def _offer(self, step_id: StepId) -> None:
        if self._places.free <= 0 and self._state.steps[step_id].status == "pending":
            self._run.record(StepReady(step_id=step_id))
        self._places.offer(self._urgency[step_id], lambda: self._launch(step_id))

    def _launch(self, step_id: StepId) -> None:
        """Start a step; a place is held. Simple steps start in this very turn."""
        step = self._state.steps[step_id]
        try:
            if step.closed:
                self._places.give()
                return
            needs = steps_referred(step, self._state)
            simple = not (step.step.actions or step.step.for_each or step.step.when)
            if simple and not any(c.output and c.output.artifact for s in needs for c in s.calls.values()):
                self._launch_simple(step)
            else:
                self._spawn(self._composite(step, needs))
        except BudgetReached as stop:
            self._places.give()
            self._stop(stop)

    def _launch_simple(self, step: StepState) -> None:
        if skip := self._skipped_input(step):
            self._places.give()
            self._skip(step, skip)
            return
        slot = Slot()
        prepared = self._prepare(step, slot, Loaded())
        if isinstance(prepared, Call):
            self._announce(step, None)
            metadata = self._attempts.reuse(prepared)
            if metadata is None:
                batch = self._attempts.begin(prepared)
                self._spawn(self._single(step, prepared, batch))
                return
            prepared = metadata
        self._places.give()
        self._close(step, prepared)

    def _announce(self, step: StepState, items: int | None) -> None:
        if step.status != "running" or step.items != items:
            self._run.record(StepStarted(step_id=step.step.step_id, items=items))

    async def _single(self, step: StepState, call: Call, batch: Any) -> None:
        try:
            outcome = await self._attempts.finish(call, batch, self._urgency[step.step.step_id])
        except PlacesClosed:
            return
        except BudgetReached as stop:
            self._stop(stop)
            return
        self._places.free += 1  # handed out below, with what this step frees
        self._close(step, outcome)
        self._places.hand_out()

    # ── steps of several calls ──

    async def _composite(self, step: StepState, needs: list[StepState]) -> None:
        """A step with actions, items, a condition or large inputs. Gives its place back and takes one a call."""
        self._places.give()
        loaded = Loaded()
        await loaded.load_steps(self._run.parts.store, self._run.task_id, needs)
        if step.step.when is not None and not self._condition(step.step.when, loaded):
            self._skip(step, StepSkipped(
                step_id=step.step.step_id, kind="condition", reason=f"its condition does not hold: {step.step.when}",
            ))  # fmt: skip
            return
        if skip := self._skipped_input(step):
            self._skip(step, skip)
            return
        try:
            items = self._items(step, loaded)
        except CannotCall as error:
            self._close(step, error.fault)
            return
        self._announce(step, None if items is None else len(items))
        indexes: list[int | None] = [None] if items is None else list(range(len(items)))
        slots = [
            (Slot(action, index), None if items is None or index is None else items[index])
            for index in indexes
            for action in _actions_of(step)
        ]
        outcomes = await self._gather(step, slots, loaded)
        if outcomes is None:
            return
        faults = [outcome for outcome in outcomes if isinstance(outcome, Fault)]
        if faults:
            self._close(step, _summed(faults, len(slots)))
            return
        metadata: JsonObject = {}
        for outcome in outcomes:
            metadata.update(outcome if isinstance(outcome, dict) else {})
        self._close(step, metadata)

    async def _gather(
        self, step: StepState, slots: list[tuple[Slot, Any]], loaded: Loaded
    ) -> list[Fault | JsonObject] | None:
        """The outcome of every call; None if the execution is being stopped. Few tasks however many calls."""
        outcomes: list[Fault | JsonObject] = [{} for _ in slots]
        todo = iter(enumerate(slots))
        urgency = self._urgency[step.step.step_id]
        stopped = False

        async def work() -> None:
            nonlocal stopped
            for at, (slot, item) in todo:
                try:
                    outcomes[at] = await self._one(step, slot, item, loaded, urgency)
                except PlacesClosed:
                    stopped = True
                    return
                except BudgetReached as stop:
                    stopped = True
                    self._stop(stop)
                    return

        workers = min(len(slots), self._state.policy.parallel_max_concurrent)
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        return None if stopped else outcomes

    async def _one(
        self, step: StepState, slot: Slot, item: Any, loaded: Loaded, urgency: float
    ) -> Fault | JsonObject:
        prepared = self._prepare(step, slot, loaded, item)
        if not isinstance(prepared, Call):
            return prepared
        metadata = self._attempts.reuse(prepared)
        if metadata is not None:
            return metadata
        await self._places.take(urgency)
        try:
            return await self._attempts.finish(prepared, self._attempts.begin(prepared), urgency)
        finally:
            self._places.give()

    def _items(self, step: StepState, loaded: Loaded) -> list[Any] | None:
        if step.step.for_each is None:
            return None
        try:
            items = resolve(step.step.for_each, Scope(self._state, loaded))
        except UnresolvedReference as error:
            raise CannotCall(Fault(category="dependency_error", kind="reference", message=str(error))) from None
        limit = self._state.policy.limits.max_fan_out
        if not isinstance(items, list):
            text = f"for_each: {step.step.for_each} gives {type(items).__name__}, and a list is needed"
            raise CannotCall(Fault(category="dependency_error", kind="reference", message=text))
        if len(items) > limit:
            text = f"for_each: {step.step.for_each} gives {len(items)} items; at most {limit} are allowed"
            raise CannotCall(Fault(category="decomposition_error", kind="parameter", message=text))
        return items

    def _condition(self, when: str, loaded: Loaded) -> bool:
        scope: dict[str, Any] = {"metadata": self._state.metadata}
        for step_id, step in self._state.steps.items():
            if step_id in when:
                output = loaded.output_of(step) if step.status == "succeeded" else None
                scope[step_id] = {"status": step.status, "output": output}
        return holds(when, scope)

    # ── one call ──

    def _prepare(self, step: StepState, slot: Slot, loaded: Loaded, item: Any = None) -> Call | Fault | JsonObject:
        """The call to make; or its outcome, where it has one already or cannot be made."""
        known = step.calls.get(slot)
        if known is not None and known.status == "unknown":
            return known.fault or Fault(
                category="unknown", kind="crashed", message="its outcome is unknown", happened="unknown"
            )
        if known is not None and known.status == "failed" and known.fault is not None:
            return known.fault
        try:
            call = prepare(step.step, slot, self._state, self._tools, loaded, item=item)
        except CannotCall as error:
            return error.fault
        if known is not None:
            call.attempt = known.attempt if known.status == "succeeded" else known.attempt + 1
            if known.status == "succeeded" and known.key == call.key:
                return {}
        return call

    # ── ends ──

    def _skipped_input(self, step: StepState) -> StepSkipped | None:
        """The skip of a step that refers to the output of a skipped one."""
        wanted = [need for need in step.step.dependencies if self._state.steps[need].status == "skipped"] if (
            step.step.dependencies
        ) else []  # fmt: skip
        if not wanted:
            return None
        heads = {reference.head for reference in references(step.step.parameters)}
        for action in step.step.actions:
            heads.update(reference.head for reference in references(action.parameters))
        if step.step.for_each:
            heads.update(reference.head for reference in references(step.step.for_each))
        for need in wanted:
            owned = {need, *(a.action_id for a in self._state.steps[need].step.actions)}
            if heads & owned:
                return StepSkipped(
                    step_id=step.step.step_id,
                    kind="dependency_skipped",
                    because=need,
                    reason=f"it needs the output of {need!r}, which was skipped",
                )
        return None

    def _close(self, step: StepState, outcome: Fault | JsonObject) -> None:
        """Record the end of a step and start what it frees."""
        step_id = step.step.step_id
        if isinstance(outcome, Fault):
            if step.status != "running":
                self._run.record(StepStarted(step_id=step_id))
            self._run.record(StepFailed(step_id=step_id, error=outcome))
            self._skip_dependents(step_id)
            return
        self._run.record(StepCompleted(step_id=step_id, metadata=outcome))
        self._free(step_id)

    def _skip(self, step: StepState, skip: StepSkipped) -> None:
        self._run.record(skip)
        self._free(step.step.step_id)

    def _free(self, step_id: StepId) -> None:
        for dependent in self._graph.needed_by[step_id]:
            self._missing[dependent] -= 1
            if not self._missing[dependent] and not self._state.steps[dependent].closed:
                self._offer(dependent)

    def _skip_dependents(self, failed: StepId) -> None:
        for step_id in self._graph.downstream([failed]):
            if not self._state.steps[step_id].closed:
                reason = f"step {failed!r}, which it depends on, failed"
                self._run.record(
                    StepSkipped(step_id=step_id, kind="dependency_failed", because=failed, reason=reason)
                )


def _summed(faults: list[Fault], of: int) -> Fault:
    """One fault for a step whose calls failed."""
    first = next((fault for fault in faults if fault.happened == "unknown"), faults[0])
    if of == 1:
        return first
    return first.model_copy(update={"message": f"{len(faults)} of {of} calls failed; the first: {first.message}"})




def _actions_of(step: StepState) -> list[str | None]:
    return [action.action_id for action in step.step.actions] or [None]
