"""Every use case of the service, each with its caller first: scope, tenant and limits are checked here and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from pydantic import SecretStr

from replan.core.events import Record
from replan.core.report.result import TaskResult
from replan.core.state.task import ENDED, State
from replan.core.trace import SETTING as TRACE
from replan.core.types import Usage
from replan.errors import (
    InputError,
    NotAllowed,
    NotBuilt,
    Overtaken,
    TaskExists,
    TaskGoneFrom,
    TaskNotDone,
    TaskNotFound,
    TooMany,
)
from replan.ports import TaskSummary
from replan.run.access import acting, catalogue, outputs, people, previewing, reading, submitting
from replan.run.access.callers import Caller, Scope, need, reader
from replan.run.access.carrying import Carrying, act
from replan.run.access.ports import Driver
from replan.run.access.requests import (
    ApprovalAnswer,
    ForkRequest,
    HintRequest,
    JudgeRequest,
    PauseRequest,
    PlanReview,
    QuestionAnswer,
    SettleRequest,
    SignalRequest,
    SubmitOptions,
    SubmitRequest,
)
from replan.run.access.states import States
from replan.run.access.tenants.limits import Leave, Quotas
from replan.run.access.views import (
    OutputPiece,
    Page,
    PlanView,
    Preview,
    SceneView,
    StepView,
    Submitted,
    TaskRow,
    TaskView,
    ToolStatsView,
    ToolView,
    WaitingTask,
    WorkflowView,
)
from replan.run.service.results import step_of
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service

MOST_AT_ONCE = 500
"""Rows of a page."""
MOST_WAIT_SECS = 300.0
RETRY_AFTER_SECS = 2.0
MOST_OVERTAKEN = 20
"""So often is counted again before a task of a tenant is let in."""


class UseCases:
    """What front ends call."""

    def __init__(self, service: Service, driver: Driver, quotas: Quotas | None = None) -> None:
        """`quotas`: what tenants may use; none: as the service may."""
        self._service = service
        self._driver = driver
        self._quotas = quotas
        self._states = States(service.parts.store)
        self.carrying = Carrying()
        """Acts that have begun."""
        self._coming = 0
        """Tasks that are let in, and wait for no place yet."""

    # ── begin ──

    @act
    async def submit(
        self, caller: Caller, request: SubmitRequest, *, idempotency_key: str | None = None
    ) -> Submitted:
        """Store a task and have it driven. The same id or key with the same request is the same task; else `TaskExists`."""
        need(caller, "run")
        if request.dry_run:
            raise InputError("dry_run plans and stores nothing: it is answered by `preview`")
        request = await submitting.named(caller, request, idempotency_key, self._has(caller))

        async def store(leave: Leave) -> tuple[str, bool]:
            wanted = (await self._wanted(caller, request))._replace(turn=leave.turn)
            if caller.traceparent:
                wanted = wanted._replace(settings={**wanted.settings, TRACE: caller.traceparent})
            wanted = submitting.lowered(wanted, leave.options)
            try:
                return await self._driver.submit(wanted)
            except TaskExists:
                if not wanted.asked:
                    raise
            return await self._driver.submit(wanted._replace(asked={}))  # as it was stored before

        try:
            task_id, new = await self._let_in(caller, request.task_id, request.options, store)
        except TaskExists as error:
            if idempotency_key is None or isinstance(error, TaskGoneFrom):
                raise
            raise TaskExists(str(request.task_id), idempotency_key) from None
        if new:  # as it was stored just now
            return Submitted(task_id=task_id, status="queued", new=True)
        summary = await self._service.parts.store.summary(task_id)
        return Submitted(task_id=task_id, status=summary.status, new=False)

    async def preview(
        self, caller: Caller, request: SubmitRequest, *, idempotency_key: str | None = None
    ) -> Preview:
        """What the task would do: a checked plan, its effects and approvals, and what it may cost. Nothing is stored."""
        need(caller, "run")
        if idempotency_key is not None:
            raise InputError(
                "an Idempotency-Key names a task that is stored, and a dry run stores none: leave it out"
            )
        if self._quotas is None:
            return await self._planned(caller, request)
        async with self._quotas.planning(caller.tenant, request.options) as leave:
            request = request.model_copy(update={"options": leave.options})
            return await self._planned(caller, request, leave.spent)

    @act
    async def fork(self, caller: Caller, task_id: str, request: ForkRequest) -> Submitted:
        task_id = await self._name(caller, task_id, "run")
        name = await submitting.chosen_name(caller, request.task_id, self._has(caller))
        request = request.model_copy(update={"task_id": name})
        wanted = acting.forking(request, caller.who)

        def store(leave: Leave) -> Awaitable[tuple[str, bool]]:
            return self._driver.fork(task_id, wanted._replace(turn=leave.turn), leave.options)

        forked, new = await self._let_in(caller, request.task_id, request.options, store)
        summary = await self._service.parts.store.summary(forked)
        return Submitted(task_id=forked, status=summary.status, new=new)

    # ── look ──

    async def tasks(
        self,
        caller: Caller,
        *,
        status: Sequence[str] = (),
        session_id: str | None = None,
        tenant: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[TaskRow]:
        """The tasks of the caller's tenant, newest first. `tenant`: of another one, for whoever sees all."""
        need(caller, "read")
        return await reading.rows(
            self._service.parts.store, caller, status=status, session_id=session_id, tenant=tenant,
            cursor=cursor, limit=_at_once(limit),
        )  # fmt: skip

    async def task(self, caller: Caller, task_id: str) -> TaskView:
        summary = await self._own(caller, task_id, "read")
        return reading.task_view(summary, await self._state(summary.task_id, summary), caller)

    async def result(
        self,
        caller: Caller,
        task_id: str,
        *,
        wait_secs: float = 0.0,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> TaskResult:
        """What the task has come to. `TaskNotDone` if it has not ended, also after so many seconds.

        `begin`: waited for once it has ended, before what may be large is read.
        """
        summary = await self._own(caller, task_id, "read")
        if summary.status not in ENDED and wait_secs > 0:
            secs = min(wait_secs, MOST_WAIT_SECS)
            await reading.until_it_ends(self._service, self._driver, summary.task_id, secs)
            summary = await self._service.parts.store.summary(summary.task_id)
        if summary.status not in ENDED:
            raise TaskNotDone(summary.task_id, summary.status)
        if begin is not None:
            await begin()
        state = await self._state(summary.task_id, summary)
        return await self._service.result(summary.task_id, state)

    async def events(self, caller: Caller, task_id: str, *, after: int = 0, limit: int = 100) -> list[Record]:
        """A page of the log, as it may be shown."""
        task_id = await self._name(caller, task_id, "read")
        return await reading.events(self._service, task_id, min(max(after, 0), 2**53), _at_once(limit))

    async def may_watch(self, caller: Caller, task_id: str) -> TaskSummary:
        """The task's row, for whoever is about to be shown its events."""
        return await self._own(caller, task_id, "read")

    async def plans(self, caller: Caller, task_id: str) -> list[PlanView]:
        task_id = await self._name(caller, task_id, "read")
        return await reading.plans(self._service, task_id, await self._states.places(task_id))

    async def plan(self, caller: Caller, task_id: str, version: int) -> PlanView:
        task_id = await self._name(caller, task_id, "read")
        return await reading.plan(self._service, task_id, await self._states.places(task_id), version)

    async def step(self, caller: Caller, task_id: str, step_id: str) -> StepView:
        task_id = await self._name(caller, task_id, "read")
        state = await self._state(task_id)
        return await reading.step(self._service, state, step_id, await self._states.places(task_id))

    async def output(
        self, caller: Caller, task_id: str, step_id: str, *, item: int | None = None, offset: int = 0
    ) -> OutputPiece:
        """A piece of a step's output, as JSON text or as the text of a file; `item`: of one item of a `for_each`, from 1."""
        task_id = await self._name(caller, task_id, "read")
        return await outputs.output(self._service, await self._state(task_id), step_id, item, offset)

    async def artifact(self, caller: Caller, task_id: str, artifact_id: str) -> outputs.Content:
        """A large output or a file as it is kept, in pieces."""
        task_id = await self._name(caller, task_id, "read")
        return await outputs.artifact(self._service, await self._state(task_id), artifact_id)

    async def waiting(
        self, caller: Caller, *, cursor: str | None = None, limit: int = 100
    ) -> Page[WaitingTask]:
        """What waits for people, over all tasks of the tenant, newest first. A page may be short although more come after it."""
        need(caller, "read")
        return await people.waiting(
            self._service.parts.store, self._state, caller, cursor=cursor, limit=_at_once(limit)
        )

    async def waits(self, caller: Caller, task_id: str) -> list[WaitingTask]:
        """What one task waits for from people."""
        summary = await self._own(caller, task_id, "read")
        state = await self._state(summary.task_id, summary)
        found = people.of_people(summary, state)
        return await people.with_plans(found, state, lambda: self._last_plan(summary.task_id))

    async def approval(self, caller: Caller, task_id: str, approval_id: str) -> WaitingTask:
        """A call that waits for a yes, its large values whole."""
        summary = await self._own(caller, task_id, "read")
        state = await self._state(summary.task_id, summary)
        return await people.approval(self._service, summary, state, approval_id)

    # ── act ──

    @act
    async def cancel(self, caller: Caller, task_id: str, reason: str = "") -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        await self._driver.cancel(task_id, reason, caller.who)
        return await self.task(reader(caller), task_id)

    @act
    async def pause(self, caller: Caller, task_id: str, request: PauseRequest) -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        await self._service.pause(task_id, reason=request.reason, by=caller.who, now=request.now)
        return await self.task(reader(caller), task_id)

    @act
    async def resume(
        self, caller: Caller, task_id: str, reason: str = "", secrets: Mapping[str, SecretStr] | None = None
    ) -> TaskView:
        """`secrets`: of its request, where a process has to be given them again."""
        task_id = await self._name(caller, task_id, "run")
        await self._driver.unpause(task_id, reason, caller.who, secrets)
        return await self.task(reader(caller), task_id)

    @act
    async def hint(self, caller: Caller, task_id: str, request: HintRequest) -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        await self._service.hint(task_id, request.text, by=caller.who)
        return await self._gone_on(caller, task_id)

    @act
    async def retry(self, caller: Caller, task_id: str, step_id: str, reason: str = "") -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        step_of(await self._state(task_id), step_id)
        await self._service.retry_step(task_id, step_id, reason=reason, by=caller.who)
        return await self._gone_on(caller, task_id)

    @act
    async def judge(self, caller: Caller, task_id: str, request: JudgeRequest) -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        await self._service.judge_again(task_id, hint=request.hint, by=caller.who)
        return await self._gone_on(caller, task_id)

    async def skip(self, caller: Caller, task_id: str, step_id: str) -> TaskView:
        task_id = await self._name(caller, task_id, "run")
        raise NotBuilt("a step cannot be skipped by a person yet; give a hint, or fork with another plan")

    @act
    async def settle(self, caller: Caller, task_id: str, step_id: str, request: SettleRequest) -> TaskView:
        """Say what became of the step's call that is in doubt: it answers a question, as `answer` does."""
        task_id = await self._name(caller, task_id, "approve")
        await acting.settle(self._service, await self._state(task_id), step_id, request, caller.who)
        return await self._gone_on(caller, task_id)

    @act
    async def approve(
        self, caller: Caller, task_id: str, approval_id: str, request: ApprovalAnswer
    ) -> TaskView:
        """Yes or no to a call. A yes gives the hash of what was shown; `AnsweredBefore` says who was faster."""
        task_id = await self._name(caller, task_id, "approve")
        await acting.approve(self._service, await self._state(task_id), approval_id, request, caller.who)
        return await self._gone_on(caller, task_id)

    @act
    async def answer(
        self, caller: Caller, task_id: str, question_id: str, request: QuestionAnswer
    ) -> TaskView:
        task_id = await self._name(caller, task_id, "approve")
        await self._service.answer(task_id, request.text, question_id, output=request.output, by=caller.who)
        return await self._gone_on(caller, task_id)

    @act
    async def signal(self, caller: Caller, task_id: str, request: SignalRequest) -> bool:
        """Tell a task what it waits for from outside; False if it knew that."""
        task_id = await self._name(caller, task_id, "run")
        told = await self._service.signal(task_id, request.token, request.data, caller.who)
        await self._driver.go_on(task_id)
        return told

    @act
    async def review(self, caller: Caller, task_id: str, version: int, request: PlanReview) -> TaskView:
        """Yes or no to a plan that waits, or another plan in its place; `AnsweredBefore` says who was faster."""
        task_id = await self._name(caller, task_id, "approve")
        places = await self._states.places(task_id)
        await acting.review(self._service, await self._state(task_id), places, version, request, caller.who)
        return await self._gone_on(caller, task_id)

    # ── catalogue ──

    async def tools(self, caller: Caller, *, stats: bool = False) -> list[ToolView]:
        """`stats`: with how each has done so far, which is one look at the store."""
        need(caller, "read")
        return await catalogue.tools(self._service, stats=stats)

    async def tool_stats(self, caller: Caller, tool_id: str) -> ToolStatsView:
        need(caller, "read")
        return await catalogue.tool_stats(self._service, tool_id)

    async def workflows(self, caller: Caller) -> list[WorkflowView]:
        """The plans that are written beforehand, by id."""
        need(caller, "read")
        known, tools = await self._service.parts.kinds.current(), self._service.parts.tools
        return [catalogue.workflow(one, tools) for _, one in sorted(known.workflows.items())]

    async def scenes(self, caller: Caller) -> list[SceneView]:
        """The kinds of tasks for which there is guidance, by name."""
        need(caller, "read")
        return [catalogue.scene(one) for one in (await self._service.parts.kinds.current()).every_scene]

    async def may_measure(self, caller: Caller) -> None:
        """`NotAllowed` to whoever is of a tenant: metrics tell of the tasks of all."""
        need(caller, "read")
        if caller.tenant:
            raise NotAllowed("metrics tell of the tasks of all tenants: they need a key that is of none")

    # ── inside ──

    async def _last_plan(self, task_id: str) -> PlanView:
        places = await self._states.places(task_id)
        return await reading.plan(self._service, task_id, places, len(places.plans))

    async def _own(self, caller: Caller, task_id: str, scope: Scope) -> TaskSummary:
        """The task's row. One of another tenant is not there, word for word."""
        need(caller, scope)
        return await reading.own(self._service.parts.store, caller, task_id)

    async def _name(self, caller: Caller, task_id: str, scope: Scope) -> str:
        """Its id, where the caller may name it in short."""
        return (await self._own(caller, task_id, scope)).task_id

    async def _gone_on(self, caller: Caller, task_id: str) -> TaskView:
        await self._driver.go_on(task_id)
        return await self.task(reader(caller), task_id)

    async def _wanted(self, caller: Caller, request: SubmitRequest) -> Submission:
        context = request.context
        if context.previous_task_id is not None:
            earlier = await self._earlier(caller, context.previous_task_id, request.task_id)
            context = context.model_copy(update={"previous_task_id": earlier})
            request = request.model_copy(update={"context": context})
        return await self._driver.request(request, tenant=caller.tenant, by=caller.who)

    async def _earlier(self, caller: Caller, given: str, task_id: str | None) -> str:
        """The id of the task that another one follows; as it was accepted, where that is there already and the earlier one is gone."""
        try:
            return await self._name(caller, given, "run")
        except TaskNotFound:
            if task_id is None or not await self._is_there(caller, task_id):
                raise
            known = await submitting.followed(self._service.parts.store, task_id)
            if known not in (given, submitting.own_name(caller, given)):
                raise
            return known

    async def _let_in(
        self,
        caller: Caller,
        task_id: str | None,
        options: SubmitOptions,
        store: Callable[[Leave], Awaitable[tuple[str, bool]]],
    ) -> tuple[str, bool]:
        """Store a task that there is room for; counted once more where another process has let in one of the tenant meanwhile."""
        overtaken: int | None = None
        async with self._queue(caller, task_id):
            for _ in range(MOST_OVERTAKEN):
                try:
                    async with self._room(caller, task_id, options, overtaken) as leave:
                        return await store(leave)
                except Overtaken as error:
                    overtaken = error.seen
        raise TooMany(
            "other processes let in tasks of the tenant faster than they are counted: try again later",
            retry_after=RETRY_AFTER_SECS,
        )

    @contextlib.asynccontextmanager
    async def _room(
        self, caller: Caller, task_id: str | None, options: SubmitOptions, overtaken: int | None
    ) -> AsyncIterator[Leave]:
        """A place for a task more in what the tenant may use, and the options within that. One that is there has its place."""
        if self._quotas is None or not await self._quotas.bind(caller.tenant):
            yield Leave(options)
        elif await self._is_there(caller, task_id):
            yield Leave(await self._quotas.within(caller.tenant, options))
        else:
            async with self._quotas.place(caller.tenant, options, overtaken) as leave:
                yield leave

    @contextlib.asynccontextmanager
    async def _queue(self, caller: Caller, task_id: str | None) -> AsyncIterator[None]:
        """Room for one task more among those that wait for a place here, else `TooMany`. One that is there has its own."""
        load = self._driver.load()
        room = load.most_queued + max(0, load.places - load.running)
        if load.queued + self._coming >= room and not await self._is_there(caller, task_id):
            raise TooMany(
                f"{load.queued} tasks wait for a place here, and no more may: try again later",
                retry_after=RETRY_AFTER_SECS,
            )
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def _planned(
        self, caller: Caller, request: SubmitRequest, spent: Callable[[Usage], None] | None = None
    ) -> Preview:
        wanted = await self._wanted(caller, request)
        return await previewing.preview(await self._service.planned(wanted, spent), self._service.parts)

    def _has(self, caller: Caller) -> submitting.IsThere:
        """Whether there is a task of the caller's tenant of just that id."""

        async def is_there(task_id: str) -> bool:
            with contextlib.suppress(TaskNotFound):
                return (await self._service.parts.store.summary(task_id)).tenant == caller.tenant
            return False

        return is_there

    async def _is_there(self, caller: Caller, task_id: str | None) -> bool:
        if task_id is None:
            return False
        try:
            await self._own(caller, task_id, "run")
        except TaskNotFound:
            return False
        return True

    async def _state(self, task_id: str, summary: TaskSummary | None = None) -> State:
        return await self._states.state(task_id, summary)


def _at_once(limit: int) -> int:
    return min(max(limit, 1), MOST_AT_ONCE)
