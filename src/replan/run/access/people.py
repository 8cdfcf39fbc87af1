"""What tasks wait for from people, and what one of them is shown before it agrees."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from replan.core.calls.site import slot_of
from replan.core.events import ApprovalRequested, PlanReviewRequested
from replan.core.ids import canonical, digest
from replan.core.references.refs import references
from replan.core.report.result import WaitingFor
from replan.core.state.task import ENDED, State
from replan.errors import TaskNotFound
from replan.ports import Store, TaskSummary
from replan.run.access.callers import Caller
from replan.run.access.reading import check_cursor
from replan.run.access.views import Page, PlanView, ReviewView, WaitingTask
from replan.run.service.people.answering import open_approval
from replan.run.service.results import agreed, open_approvals, waiting_for
from replan.run.service.tasks import Service

ASKED = ("approval", "review", "outcome", "intervention", "question", "key", "model", "process")
"""What a person has to do something about; a pause is somebody's own doing."""
LOOKED_AT = 200
"""Tasks of a page: many of them may wait for a time, or for nothing."""

StateOf = Callable[[str, TaskSummary], Coroutine[Any, Any, State]]


def call_hash(asked: ApprovalRequested) -> str:
    """What stands for a call as it is shown: the approval, its tool, and the key, the seals and the looks of its parameters."""
    return digest(
        canonical([asked.approval_id, asked.tool_id, asked.call_key, dict(asked.seals), asked.parameters])
    )


def plan_hash(asked: PlanReviewRequested) -> str:
    """What stands for a plan as it is shown: the request, which is about one version of it and no other."""
    return digest(canonical([asked.review_id, asked.plan_version]))


async def waiting(
    store: Store, state_of: StateOf, caller: Caller, *, cursor: str | None, limit: int
) -> Page[WaitingTask]:
    """Of the tasks after the cursor, newest first. A page may have none although there are more: it looks at so many tasks."""
    if cursor is not None:
        await check_cursor(store, caller, cursor)
    whose = None if caller.sees_all else caller.tenant
    found: list[WaitingTask] = []
    looked = await store.list_tasks(
        status=("waiting", "executing"),  # others of its steps may run while one waits
        limit=LOOKED_AT + 1, before=cursor, tenant=whose,
    )  # fmt: skip
    for n, summary in enumerate(looked[:LOOKED_AT]):
        with contextlib.suppress(TaskNotFound):  # deleted just now
            found += of_people(summary, await state_of(summary.task_id, summary))
        if len(found) >= limit and n + 1 < len(looked):  # all of one task: the cursor is behind it
            return Page(items=found, next_cursor=summary.task_id)
    more = len(looked) > LOOKED_AT
    return Page(items=found, next_cursor=looked[LOOKED_AT - 1].task_id if more else None)


def of_people(summary: TaskSummary, state: State) -> list[WaitingTask]:
    if state.status in ENDED:
        return []
    asked = {one.approval_id: one for one in open_approvals(state)}
    return [_shown(summary, state, one, asked.get(one.id)) for one in waiting_for(state) if one.kind in ASKED]


async def with_plans(
    found: list[WaitingTask], state: State, look: Callable[[], Coroutine[Any, Any, PlanView]]
) -> list[WaitingTask]:
    """With the plan itself, where a person is asked about one. `look`: reads the last plan of the task."""
    asked = state.open_review()
    if asked is None or not any(one.waiting_for.kind == "review" for one in found):
        return found
    seen = await look()
    review = ReviewView(
        version=seen.version,
        plan=seen.plan,
        outlook=asked.outlook,
        changes=seen.changes,
        problems=asked.problems,
    )
    return [
        one.model_copy(update={"review": review}) if one.waiting_for.kind == "review" else one
        for one in found
    ]


def _shown(
    summary: TaskSummary, state: State, one: WaitingFor, asked: ApprovalRequested | None
) -> WaitingTask:
    review = state.open_review() if one.kind == "review" else None
    return WaitingTask(
        task_id=summary.task_id,
        description=summary.description,
        since=state.last_ts,
        waiting_for=one,
        hash=call_hash(asked) if asked is not None else plan_hash(review) if review is not None else None,
        expires=one.expires,
        sources={} if asked is None else sources(state, asked),
    )


def sources(state: State, asked: ApprovalRequested) -> dict[str, list[str]]:
    """Where the values of the call come from, by parameter: the references in the plan; empty for one that the plan itself says."""
    step = state.steps.get(asked.step_id)
    if step is None:
        return {}
    slot = slot_of(asked.action_id, asked.index)
    written = step.step.parameters if slot.action_id is None else step.action(slot.action_id).parameters
    return {
        name: list(dict.fromkeys(one.raw for one in references(written.get(name))))
        for name in asked.parameters
    }


async def approval(service: Service, summary: TaskSummary, state: State, approval_id: str) -> WaitingTask:
    """A call that waits for a yes, with its values whole."""
    asked = open_approval(state, approval_id)
    whole = await service.approval(summary.task_id, approval_id)
    return _shown(summary, state, agreed(whole), asked)
