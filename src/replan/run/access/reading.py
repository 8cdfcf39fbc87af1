"""What callers see of tasks and tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any, get_args

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.events import PlanGenerated, PlanUpdated, Record
from replan.core.ids import task_id_problem
from replan.core.plan.diff import PlanChanges, changes_of
from replan.core.state.progress import TaskStatus
from replan.core.state.task import ENDED, State
from replan.core.types import Plan
from replan.errors import InputError, NoSuchPart, NotAllowed, TaskNotFound
from replan.ports import Store, TaskSummary
from replan.run.access.callers import Caller
from replan.run.access.ports import Driver
from replan.run.access.states import Places
from replan.run.access.submitting import own_name
from replan.run.access.views import Page, PlanView, StepView, TaskRow, TaskView
from replan.run.reviews.estimates import Estimates, critical_path
from replan.run.service.results import step_of, step_result, waiting_for
from replan.run.service.tasks import Service


def row(summary: TaskSummary, caller: Caller) -> TaskRow:
    return TaskRow(
        task_id=summary.task_id,
        status=summary.status,
        description=summary.description,
        created=summary.created,
        updated=summary.updated,
        last_seq=summary.last_seq,
        session_id=summary.session or None,
        tenant=summary.tenant if caller.sees_all else None,
        queue=summary.queue or None,
    )


STATUSES: tuple[str, ...] = get_args(TaskStatus)


async def own(store: Store, caller: Caller, task_id: str) -> TaskSummary:
    """The row of a task of the caller's, by its id or by the one that the caller has chosen; `TaskNotFound`, also of another's."""
    for name in dict.fromkeys((task_id, own_name(caller, task_id))):
        with contextlib.suppress(TaskNotFound):
            if not task_id_problem(name):
                found = await store.summary(name)
                if found.tenant == caller.tenant or caller.sees_all:
                    return found
    raise TaskNotFound(task_id[:200], where="this service")


async def check_cursor(store: Store, caller: Caller, cursor: str) -> None:
    """A cursor is the id of a task of the caller's, which may be gone meanwhile."""
    with contextlib.suppress(TaskNotFound):
        if (await own(store, caller, cursor)).task_id == cursor:
            return
    raise InputError(f"cursor {cursor!r:.80}: no page ends there (any more): begin anew, without a cursor")


async def rows(
    store: Store,
    caller: Caller,
    *,
    status: Sequence[str],
    session_id: str | None,
    tenant: str | None,
    cursor: str | None,
    limit: int,
) -> Page[TaskRow]:
    if tenant is not None and tenant != caller.tenant and not caller.sees_all:
        raise NotAllowed("the tasks of other tenants are for whoever keeps the service")
    if wrong := [one for one in status if one not in STATUSES]:
        raise InputError(f"status {wrong[0]!r:.80}: there are {', '.join(STATUSES)}")
    if session_id is not None and not session_id.isprintable():
        raise InputError("session_id: printable characters, as a task's context gives it")
    whose = tenant if caller.sees_all else caller.tenant
    if cursor is not None:
        await check_cursor(store, caller, cursor)
    found = await store.list_tasks(
        status=status, limit=limit + 1, before=cursor, tenant=whose, session=session_id
    )
    shown = [row(one, caller) for one in found[:limit]]
    return Page(items=shown, next_cursor=shown[-1].task_id if len(found) > limit and shown else None)


def task_view(summary: TaskSummary, state: State, caller: Caller) -> TaskView:
    steps, running = state.steps, None
    if state.status == "succeeded":  # what was left out of it is done with, too
        done = len(steps)
    else:
        done = sum(step.status == "succeeded" for step in steps.values())
    if state.open_steps and state.status not in ENDED:
        running = next((step_id for step_id, step in steps.items() if step.status == "running"), None)
    return TaskView(
        task_id=summary.task_id,
        status=summary.status,
        description=summary.description,
        created=summary.created,
        updated=summary.updated,
        last_seq=summary.last_seq,
        current_round=state.round,
        current_step=running,
        total_steps=len(steps),
        done_steps=done,
        progress=1.0 if state.status == "succeeded" else done / len(steps) if steps else 0.0,
        plan_version=state.plans,
        usage=state.usage,
        waiting_for=waiting_for(state),
        session_id=summary.session or None,
        tenant=summary.tenant if caller.sees_all else None,
    )


async def events(service: Service, task_id: str, after: int, limit: int) -> list[Record]:
    return await service.history(task_id, after, limit)


async def until_it_ends(service: Service, driver: Driver, task_id: str, secs: float) -> None:
    """Or for so long, or until this process is about to end: it cannot wait for the task any longer."""
    leaving, gone = service.parts.leaving, asyncio.Event()
    leaving.heard_by(gone.set)
    waits: tuple[Coroutine[Any, Any, Any], ...] = (driver.ended(task_id), gone.wait())
    both = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(both, timeout=secs, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.forget(gone.set)
        for one in both:
            one.cancel()
        await asyncio.gather(*both, return_exceptions=True)  # what has become of it is told by its row


async def plans(service: Service, task_id: str, places: Places) -> list[PlanView]:
    estimates = Estimates(service.parts, {})
    found: list[PlanView] = []
    before: Record | None = None
    for version, seq in enumerate(list(places.plans), 1):
        record = await _at(service, task_id, seq)
        found.append(await _plan(record, version, estimates, before))
        before = record
    return found


async def plan(service: Service, task_id: str, places: Places, version: int) -> PlanView:
    if not 1 <= version <= len(places.plans):
        there = ", ".join(map(str, range(1, len(places.plans) + 1))) or "none yet"
        raise NoSuchPart(f"task {task_id!r} has no plan {version}; there are: {there}")
    record = await _at(service, task_id, places.plans[version - 1])
    before = await _at(service, task_id, places.plans[version - 2]) if version > 1 else None
    return await _plan(record, version, Estimates(service.parts, {}), before)


async def _at(service: Service, task_id: str, seq: int) -> Record:
    """One event, as it may be shown."""
    found = await service.history(task_id, seq - 1, 1)
    if not found:  # it was deleted just now
        raise TaskNotFound(task_id)
    return found[0]


def _plan_of(record: Record | None) -> Plan | None:
    event = None if record is None else record.event
    return event.plan if isinstance(event, PlanGenerated | PlanUpdated) else None


async def changes_between(old: Plan | None, new: Plan, before: int | None) -> PlanChanges:
    """From one plan to the next; `before`: what the old one is called in the list of plans."""
    found = await beside(changes_of, old, new) if len(new.steps) > MANY else changes_of(old, new)
    return found.model_copy(update={"before": before}) if old is not None else found


async def _plan(record: Record, version: int, estimates: Estimates, before: Record | None) -> PlanView:
    event = record.event
    assert isinstance(event, PlanGenerated | PlanUpdated)
    return PlanView(
        version=version,
        round=record.round,
        seq=record.seq,
        reason=getattr(event, "reason", "") or "",
        plan=event.plan.model_dump(mode="json"),
        critical_path=tuple(await critical_path(event.plan, estimates)),
        changes=await changes_between(_plan_of(before), event.plan, version - 1),
    )


async def step(service: Service, state: State, step_id: str, places: Places) -> StepView:
    found = step_of(state, step_id)
    kept = next(
        (call.output.artifact for call in found.every_call() if call.output and call.output.artifact), None
    )
    thought = [await _at(service, state.task_id, seq) for seq in list(places.reflections.get(step_id, ()))]
    return StepView(
        step=step_result(state, found),
        planned=found.step.model_dump(mode="json"),
        depends_on=tuple(found.step.dependencies),
        output_size=None if kept is None else kept.size,
        media_type=None if kept is None else kept.media_type,
        reflections=tuple(record.wire()["data"] for record in thought),
    )
