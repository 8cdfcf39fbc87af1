"""What callers see of tasks and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from replan.core.data.strict_json import write_strictly
from replan.core.events import PlanGenerated, PlanUpdated, Record, StepReflected
from replan.core.limits.policy import Policy, asks_about
from replan.core.state.task import ENDED, State
from replan.core.types import Plan, Step
from replan.core.waits.tools import tools_of
from replan.errors import InputError, NoSuchPart
from replan.ports import Store, TaskSummary, Tools
from replan.run.access.acting import call_hash
from replan.run.access.callers import Caller
from replan.run.access.views import (
    OutputPiece,
    Page,
    PlanView,
    Preview,
    StepView,
    TaskRow,
    TaskView,
    ToolStatsView,
    ToolView,
    WaitingTask,
)
from replan.run.service.results import open_approvals, step_of, step_result, waiting_for
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts

PIECE_CHARS = 65_536
MOST_LOOKED_AT = 1_000


class Bytes(NamedTuple):
    data: bytes
    media_type: str


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
    whose = tenant if caller.sees_all else caller.tenant
    found = await store.list_tasks(
        status=status, limit=limit + 1, before=cursor, tenant=whose, session=session_id
    )
    shown = [row(one, caller) for one in found[:limit]]
    return Page(items=shown, next_cursor=shown[-1].task_id if len(found) > limit and shown else None)


def task_view(summary: TaskSummary, state: State, caller: Caller) -> TaskView:
    steps = list(state.steps.values())
    done = sum(step.closed for step in steps)
    running = next((step.step.step_id for step in steps if step.status == "running"), None)
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


async def plans(service: Service, task_id: str) -> list[PlanView]:
    found: list[PlanView] = []
    for record in await service.history(task_id):
        event = record.event
        if isinstance(event, PlanGenerated | PlanUpdated):
            found.append(_plan(record, event, len(found) + 1))
    return found


def _plan(record: Record, event: PlanGenerated | PlanUpdated, version: int) -> PlanView:
    return PlanView(
        version=version,
        round=record.round,
        seq=record.seq,
        reason=getattr(event, "reason", "") or "",
        plan=event.plan.model_dump(mode="json"),
    )


async def step(service: Service, state: State, step_id: str) -> StepView:
    found = step_of(state, step_id)
    reflections = tuple(
        record.wire()["data"]
        for record in await service.history(state.task_id)
        if isinstance(record.event, StepReflected) and record.event.step_id == step_id
    )
    output = next((call.output for call in found.every_call() if call.output is not None), None)
    kept = output.artifact if output is not None else None
    return StepView(
        step=step_result(state, found),
        planned=found.step.model_dump(mode="json"),
        depends_on=tuple(found.step.dependencies),
        output_size=kept.size if kept is not None else None,
        reflections=reflections,
    )


async def output(service: Service, task_id: str, step_id: str, item: int | None, offset: int) -> OutputPiece:
    text = write_strictly(await service.output(task_id, step_id, item)).decode()
    if not 0 <= offset <= len(text):
        raise InputError(f"offset {offset}: the output has {len(text)} characters")
    piece = text[offset : offset + PIECE_CHARS]
    end = offset + len(piece)
    return OutputPiece(
        offset=offset, total=len(text), text=piece, next_offset=end if end < len(text) else None
    )


async def artifact(service: Service, task_id: str, artifact_id: str) -> Bytes:
    return Bytes(await service.parts.store.artifact(task_id, artifact_id), "application/octet-stream")


async def waiting(service: Service, caller: Caller, limit: int) -> list[WaitingTask]:
    """Of the newest tasks that wait."""
    whose = None if caller.sees_all else caller.tenant
    store = service.parts.store
    found: list[WaitingTask] = []
    for status in ("waiting", "running"):  # others of its steps may run while one waits
        for summary in await store.list_tasks(status=(status,), limit=MOST_LOOKED_AT, tenant=whose):
            if len(found) >= limit:
                return found
            found += waits(summary, await service.state(summary.task_id))
    return found[:limit]


def waits(summary: TaskSummary, state: State) -> list[WaitingTask]:
    """What a task waits for from people."""
    hashes = {one.approval_id: call_hash(one) for one in open_approvals(state)}
    return [
        WaitingTask(
            task_id=summary.task_id,
            description=summary.description,
            since=state.last_ts,
            waiting_for=one,
            hash=hashes.get(one.id),
        )
        for one in waiting_for(state)
        if one.kind in ("approval", "outcome", "intervention") and state.status not in ENDED
    ]


def preview(plan: Plan, policy: Policy, parts: Parts) -> Preview:
    effects, approvals = [], []
    for one in plan.steps:
        for name in tools_of(one):
            tool = parts.tools.resolve(name)
            if tool is None or tool.effect == "reads":
                continue
            effects.append(f"{one.step_id}: {tool.id} ({tool.effect})")
        if _asks(one, policy, parts.tools):
            approvals.append(str(one.step_id))
    return Preview(
        plan=plan.model_dump(mode="json"),
        effects=tuple(effects),
        approvals=tuple(approvals),
        tool_calls=sum(len(tools_of(one)) for one in plan.steps),
        model_calls=1 if policy.evaluation == "model" else 0,
        estimated_secs=None,
        estimated_cost_usd=None,
    )


def _asks(one: Step, policy: Policy, tools: Tools) -> bool:
    found = [tools.resolve(name) for name in tools_of(one)]
    return one.requires_approval or any(
        tool is not None and (tool.requires_approval or asks_about(policy.approval, tool)) for tool in found
    )


def tools(known: Tools) -> list[ToolView]:
    return [
        ToolView(
            id=tool.id,
            description=tool.description,
            effect=tool.effect,
            source=tool.source,
            parameters=tool.parameters,
            output_schema=tool.output_schema,
            requires_approval=tool.requires_approval,
        )
        for tool in known.specs()
    ]


async def tool_stats(service: Service, tool_id: str) -> ToolStatsView:
    tool = service.parts.tools.resolve(tool_id)
    if tool is None:
        near = service.parts.tools.nearest(tool_id)
        raise NoSuchPart(
            f"there is no tool {tool_id!r}" + (f"; did you mean {', '.join(near)}?" if near else "")
        )
    await service.parts.record.flush(service.parts.store)
    known = await service.parts.store.tool_stats()
    found = next((stats for key, stats in known.items() if key.tool_id == tool.id), None)
    return ToolStatsView(
        tool_id=tool.id,
        source=tool.source,
        calls=0 if found is None else found.calls,
        success_rate=None if found is None else found.success_rate,
        p50_secs=None if found is None else found.quantile(0.5),
        p95_secs=None if found is None else found.quantile(0.95),
        common_errors=() if found is None else tuple(found.common_errors()),
    )
