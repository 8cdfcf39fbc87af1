"""A `Replan` as the service has it: it drives what callers submit, and takes up what was left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, get_args

from pydantic import SecretStr

from replan.app.checked import form
from replan.app.intervening import changed_policy
from replan.app.keeping_up import KeepingUp
from replan.app.running import Running
from replan.config import Settings
from replan.core.begun import Begun
from replan.core.events import TaskWaiting
from replan.core.limits.policy import Policy, stricter_approval
from replan.core.state.task import ENDED, State, TaskStatus
from replan.core.words import one_line
from replan.engine.due import Due
from replan.errors import (
    InputError,
    ReplanError,
    SecretsMissing,
    StoreError,
    TaskEnded,
    TaskHeld,
    TaskNotFound,
)
from replan.ports import TaskSummary
from replan.run.access.ports import Load
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.service.asleep import MOST_BACK
from replan.run.service.forking import Forking
from replan.run.service.submission import Submission

Place = Callable[[Submission, str | None, int | None], Submission]
log = logging.getLogger("replan")

_UNFINISHED = tuple(status for status in get_args(TaskStatus) if status not in ENDED)
_DRIVEN = tuple(status for status in _UNFINISHED if status != "waiting")
_LOOK = 1 / 3
"""Of `takeover_secs`: a task is taken over at the second look that finds it left."""
_PAGE = 200
_LIMITS = ("max_llm_calls", "max_tokens", "max_cost_usd", "max_tool_calls", "max_rounds")


class Serving:
    """`run.access.ports.Driver` over what is open here."""

    def __init__(
        self, running: Running, policy: Policy, begun: Begun, settings: Settings, place: Place
    ) -> None:
        """`place`: gives a submission its place among those that wait for workers."""
        self._running = running
        self._policy = policy
        self._begun = begun
        self._settings = settings
        self._place = place
        self._keeping_up = KeepingUp(
            running.go_on, self.take_up, self.take_over, settings.engine.takeover_secs * _LOOK
        )
        self._seen: set[str] = set()
        """Tasks that nobody had at the last look."""
        self._waits: dict[str, tuple[int, float | None]] = {}
        """Of each that waits, as its log was: when it goes on by itself."""
        self._told: dict[str, str] = {}
        """Why tasks that are looked at again and again do not go on here: it is said once."""
        self._due_later = Due()
        """Tasks that wait for a person, and only so long."""

    async def request(self, wanted: SubmitRequest, *, tenant: str, by: str) -> Submission:
        options = wanted.options
        made = Submission(
            description=wanted.task_description,
            policy=chosen(self._policy, options),
            metadata=wanted.metadata,
            context=wanted.context.model_dump(mode="json", exclude_none=True),
            task_id=wanted.task_id,
            plan=options.plan,
            workflow=options.workflow,
            slots=options.slots,
            tools=self._begun.tools,
            settings=self._begun.settings,
            secrets=dict(wanted.secrets),
            tenant=tenant,
            by=by,
        )
        made = await self._running.service.built(made)
        return self._place(made, options.queue, options.priority)

    async def submit(self, wanted: Submission) -> tuple[str, bool]:
        return await self._running.submit(wanted)

    async def fork(self, origin: str, wanted: Forking, options: SubmitOptions) -> tuple[str, bool]:
        if options.plan is not None:
            raise InputError("give the plan of a fork beside its options, as `plan`")
        if options.workflow is not None or options.slots:
            raise InputError("a fork goes on from a plan: a workflow begins a task of its own")
        wanted = wanted._replace(tools=self._begun.tools, settings=self._begun.settings)
        place = await self._running.service.fork_place(origin, wanted)
        policy = changed_policy(place[1].policy, wanted, None, {})
        set_ = options.model_fields_set - {"interactive"}
        if set_:
            policy = chosen(policy or place[1].policy, options, interactive=None)
        return await self._running.fork(origin, wanted._replace(policy=policy), place)

    async def go_on(self, task_id: str) -> None:
        """What keeps it from going on here is told in the log: what a person has said stands."""
        try:
            await self._running.go_on(task_id)
        except ReplanError as error:
            log.warning("task %s does not go on here: %s", task_id, one_line(str(error)))
            self._keeping_up.lost(task_id, error)

    async def cancel(self, task_id: str, reason: str, by: str) -> None:
        await self._running.cancel(task_id, reason, by)

    async def unpause(
        self, task_id: str, reason: str, by: str, secrets: Mapping[str, SecretStr] | None = None
    ) -> None:
        service = self._running.service
        summary = await service.parts.store.summary(task_id)
        by_workers = self._running.by_workers or bool(summary.queue)
        if secrets and by_workers:
            raise InputError(
                "workers read a task's secrets where its log says (env:VARIABLE, file:PATH): set them there, and resume it without"
            )
        if (await service.state(task_id)).pause is not None:
            if secrets:
                await service.check_resumable(task_id, secrets)
            await service.unpause(task_id, reason=reason, by=by)
        elif summary.held:
            raise TaskHeld(f"task {task_id!r} is not paused, and somebody drives it")
        elif by_workers:
            await service.check_unfinished(task_id)
        else:
            await service.check_resumable(task_id, secrets)
        with contextlib.suppress(SecretsMissing):  # what it waits for now says its log
            await self._running.go_on(task_id)

    async def ended(self, task_id: str) -> None:
        driving = self._running.engine.driving(task_id)
        if driving is not None:  # however many wait for it, its log is not followed
            await asyncio.wait({driving})
            if not driving.cancelled() and driving.exception() is None:
                return
        await self._running.service.ended_elsewhere(task_id, driven=False)

    def load(self) -> Load:
        engine = self._running.engine
        return Load(
            running=engine.running,
            queued=engine.queued,
            places=engine.places,
            most_queued=self._settings.server.max_queued_tasks,
        )

    async def drain(self, secs: float) -> int:
        """Let what runs here come to its end, for so long; how many tasks are left."""
        engine = self._running.engine
        going = {task for task_id in engine.going() if (task := engine.driving(task_id)) is not None}
        left = (await asyncio.wait(going, timeout=secs))[1] if going else set()
        return len(left)

    async def keep_up(self) -> None:
        """Drive on what an earlier process has left, and what the store has kept from being driven; until it is cancelled."""
        engine = self._running.engine
        engine.broken, engine.let_go = self._keeping_up.lost, self._wakes_later
        waking = asyncio.create_task(self._wake())
        try:
            await self._keeping_up.run()
        finally:
            engine.broken = engine.let_go = None
            self._due_later.close()
            waking.cancel()

    def _wakes_later(self, left: State) -> None:
        """A task that was let go of while a person is asked goes on once that has lasted long enough: its time is noticed at once."""
        if not left.ended and left.waiting is not None and left.waiting.until is not None:
            self._due_later.at(left.task_id, left.waiting.until - self._running.service.parts.clock.now())

    async def _wake(self) -> None:
        while True:
            task_id = await self._due_later.come()
            try:
                await self._woken(task_id)
            except TaskNotFound:
                continue
            except StoreError as error:  # it is found again, as one that nobody has taken up
                log.warning("task %s cannot be taken up yet: %s", task_id, one_line(str(error)))

    async def _woken(self, task_id: str) -> None:
        """Drive it on, if it still waits and its time has come: people may have spoken, and clocks been set."""
        store, clock = self._running.service.parts.store, self._running.service.parts.clock
        summary = await store.summary(task_id)
        if summary.status != "waiting" or summary.held or self._running.engine.driving(task_id) is not None:
            return
        _, until = (await self._due([summary]))[task_id]
        if until is None:
            return
        if (left := until - clock.now()) > 0:
            self._due_later.at(task_id, left)
        else:
            await self._taken(task_id)

    async def take_up(self) -> int:
        """Drive on every unfinished task that nobody has and that can go on here; how many those are."""
        taken = 0
        async for summary in self._unfinished(_UNFINISHED):
            taken += await self._taken(summary.task_id)
        return taken

    async def take_over(self) -> int:
        """Drive on what another process has left in the midst, or before it was begun: it is gone. The claim says which of several services
        that look does so. What was let go of, by a person or by a service that was stopped, is left to whoever resumes it, or to a start. So
        is what waits, until its time has come: whoever slept on it would have it by now."""
        left = {one.task_id async for one in self._unfinished(_DRIVEN) if await self._is_left(one)}
        driving = self._running.engine.driving
        waiting = [one async for one in self._unfinished(("waiting",)) if driving(one.task_id) is None]
        self._waits = await self._due(waiting)
        now = self._running.service.parts.clock.now()
        left |= {task_id for task_id, (_, until) in self._waits.items() if until is not None and until < now}
        due, self._seen = left & self._seen, left
        return sum([await self._taken(task_id) for task_id in sorted(due)])

    async def _due(self, waiting: Sequence[TaskSummary]) -> dict[str, tuple[int, float | None]]:
        """When each goes on by itself, or has waited for a person long enough, with how far its log was read: read once, however often it is asked."""
        found, unread = dict[str, tuple[int, float | None]](), dict[str, TaskSummary]()
        for one in waiting:
            known = self._waits.get(one.task_id)
            if known is not None and known[0] == one.last_seq:
                found[one.task_id] = known
            else:
                unread[one.task_id] = one
        store, names = self._running.service.parts.store, list(unread)
        for first in range(0, len(names), _PAGE):
            after = {name: max(0, unread[name].last_seq - MOST_BACK) for name in names[first : first + _PAGE]}
            read = await store.picked(after, ["task_waiting"])
            for name in after:
                said = [one.event for one in read.get(name, ()) if isinstance(one.event, TaskWaiting)]
                found[name] = (unread[name].last_seq, said[-1].until if said else None)
        return found

    async def _is_left(self, summary: TaskSummary) -> bool:
        task_id = summary.task_id
        if self._running.engine.driving(task_id) is not None:
            return False
        if summary.left or summary.status != "queued":
            return summary.left
        # Nobody has ever had it: whoever it waits for a place with is one of those that have the database open.
        store = self._running.service.parts.store
        with contextlib.suppress(TaskNotFound):
            return (await store.summary(task_id)).status == "queued" and not store.others()
        return False

    async def _unfinished(self, statuses: Sequence[str]) -> AsyncIterator[TaskSummary]:
        """Those of these statuses that nobody has, and no worker is to take."""
        store, before = self._running.service.parts.store, None
        while not self._running.by_workers:
            try:
                page = await store.list_tasks(status=statuses, limit=_PAGE, before=before)
            except TaskNotFound:  # deleted meanwhile: anew, and what is driven by now is passed over
                before = None
                continue
            for summary in page:
                if not (summary.held or summary.queue or summary.given_away):
                    yield summary
            if not page:
                return
            before = page[-1].task_id

    async def _taken(self, task_id: str) -> bool:
        try:
            await self._running.go_on(task_id)
        except (TaskHeld, TaskEnded, TaskNotFound):
            return False
        except ReplanError as error:
            if self._told.get(task_id) != (why := one_line(str(error))):
                log.warning("task %s stays as it is: %s", task_id, why)
                self._told[task_id] = why
            self._keeping_up.lost(task_id, error)
            return False
        self._told.pop(task_id, None)
        return True


def chosen(policy: Policy, options: SubmitOptions, *, interactive: bool | None = True) -> Policy:
    """The policy of a task: limits of the caller only lower those that are set, approvals are the stricter of the two."""
    budget: dict[str, Any] = {}
    for name in _LIMITS:
        asked, allowed = getattr(options, name), getattr(policy.budget, name)
        if asked is not None:
            budget[name] = asked if allowed is None else min(asked, allowed)
    if options.timeout_secs is not None:
        allowed = policy.budget.task_timeout_secs
        budget["task_timeout_secs"] = min(options.timeout_secs, allowed) if allowed else options.timeout_secs
    changes: dict[str, Any] = {"budget": policy.budget.model_copy(update=budget)}
    if options.approval is not None and stricter_approval(options.approval, policy.approval):
        changes["approval"] = options.approval
    if options.review_plan:
        changes["review_plan"] = True
    form("output_schema", options.output_schema)
    for name in ("evaluation", "success_threshold", "output_schema"):
        if (value := getattr(options, name)) is not None:
            changes[name] = value
    if interactive is not None:
        changes["interactive"] = options.interactive
    return policy.model_copy(update=changes)
