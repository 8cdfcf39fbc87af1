"""What a `Replan` has while it is open: the use cases, and the engine with the tasks that are driven here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack

from pydantic import SecretStr

from replan.core.begun import APPROVAL, begun_with, proof_of, proof_of_config
from replan.core.events import Record, TaskSubmitted
from replan.core.limits.policy import Policy
from replan.core.report.result import TaskResult
from replan.core.state.fold import fold
from replan.core.state.task import ENDED, State
from replan.core.types import JsonObject, Role
from replan.engine.local import LocalEngine
from replan.engine.procrastinate.queue import Queue
from replan.errors import InputError, ModelUnavailable, ReplanError, SecretsMissing, TaskEnded, TaskHeld
from replan.run.service.announcer import Announcer
from replan.run.service.for_workers import (
    asks_models,
    asks_on,
    begun_of_fork,
    check_asked,
    work_left,
    work_of_fork,
)
from replan.run.service.forking import Forking
from replan.run.service.submission import Submission, check_submission
from replan.run.service.tasks import Service
from replan.run.service.typed import answer_check
from replan.run.session.answer_checks import AnswerCheck
from replan.run.session.stops import HandedOver
from replan.wiring import Models, need_queue

CANCEL_SECS = 3.0
"""How long a cancelled caller waits for its task to end."""
NOT_OPEN = "Replan is not open: use `async with Replan(...) as replan:`"


class Running:
    """Submits tasks, drives them here, and waits for them."""

    def __init__(
        self,
        service: Service,
        engine: LocalEngine,
        models: Models,
        announcer: Announcer | None,
        queue: Queue | None = None,
        *,
        by_workers: bool = False,
    ) -> None:
        """`queue`: of the database, where it can have one. `by_workers`: what is submitted here waits there."""
        self._service = service
        self._engine = engine
        self._models = models
        self._announcer = announcer
        self.queue = queue
        self.by_workers = by_workers
        self.works = False
        """It takes tasks of others."""
        self._beside: set[asyncio.Task[None]] = set()
        self._closed = False
        self._process = os.getpid()

    @property
    def here(self) -> bool:
        """True in the process that has opened it: what a fork has inherited is its parent's to close."""
        return self._process == os.getpid()

    @property
    def service(self) -> Service:
        self._check()
        return self._service

    @property
    def engine(self) -> LocalEngine:
        self._check()
        return self._engine

    def _check(self) -> None:
        if self._closed:
            raise InputError(NOT_OPEN)
        if not self.here:  # threads and locks do not come along: whoever waited for them would wait for ever
            raise InputError(
                "this Replan was opened in another process, before a fork: open one in each process, after the fork"
            )

    async def aclose(self) -> None:
        """Stop driving. What is stored stays resumable."""
        self._closed = True
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._engine.aclose()

    @contextlib.contextmanager
    def beside(self, task: asyncio.Task[None]) -> Iterator[None]:
        """As long as that lasts: it ends with what is open here."""
        self._beside.add(task)
        try:
            yield
        finally:
            self._beside.discard(task)

    async def run(self, wanted: Submission, check: AnswerCheck | None) -> TaskResult:
        """Run a task to its end. If the caller is cancelled, so is the task."""
        with ExitStack() as held:
            submitting = asyncio.ensure_future(self._submit(wanted, check, held))
            try:
                return await self.wait((await asyncio.shield(submitting))[0])
            except asyncio.CancelledError:
                with contextlib.suppress(ReplanError):
                    await self._cancel_and_wait((await submitting)[0])  # it may be stored already
                raise

    async def submit(self, wanted: Submission) -> tuple[str, bool]:
        """Store a task and start it; its id, and whether it is new."""
        with ExitStack() as held:
            return await self._submit(wanted, None, held)

    async def _submit(
        self, wanted: Submission, check: AnswerCheck | None, held: ExitStack
    ) -> tuple[str, bool]:
        """`check`: what its caller asks of the answer, as long as it is `held`: from before the task is driven."""
        plan_bytes = check_submission(
            wanted
        )  # what is wrong with it goes before what is wrong with the machine
        wanted = await self._with_proof(wanted)
        if self.queue is not None and not self.by_workers and wanted.plan is None:
            ids = [spec.id for spec in self.service.parts.tools.specs()]
            wanted = wanted._replace(settings={**wanted.settings, "ids": ids})
        if self.by_workers:
            return await self._hand_in(wanted, plan_bytes)
        plans, judges = wanted.plan is None, wanted.policy.evaluation == "model"
        steps = wanted.plan is not None and asks_models(wanted.plan)
        try:
            await self._load_models(plans=plans, judges=judges, steps=steps)
            self._check_models(wanted.policy, plans=plans, judges=judges, steps=steps)
        except ModelUnavailable:
            if not await self._is_stored(wanted.task_id):
                raise
            task_id, new = await self.service.submit(wanted, plan_bytes)  # another request is refused as that
            if new:
                raise
            return task_id, False  # what was accepted stays so
        task_id, new = await self.service.submit(
            wanted, plan_bytes, check_plan=True
        )  # workers have tools of their own
        if check is not None:
            name = await self.service.name_of(task_id)
            held.enter_context(self.service.parts.answer_checks.held(name, check))
        seen = 0 if new else await self._left_at(task_id)
        if seen is not None:
            self._start(task_id, after=seen)
        return task_id, new

    async def _left_at(self, task_id: str) -> int | None:
        """How far a task is that may be driven from here; None: it is driven here, or has ended, maybe just now by another process."""
        if self.engine.driving(task_id) is not None:
            return None
        with contextlib.suppress(TaskEnded):
            return (await self.service.check_resumable(task_id)).last_seq
        return None

    async def _is_stored(self, task_id: str | None) -> bool:
        if task_id is None:
            return False
        try:
            await self.service.parts.store.summary(task_id)
        except InputError:
            return False
        return True

    async def fork(
        self, origin: str, wanted: Forking, place: tuple[int, State], *, approval: str | None = None
    ) -> tuple[str, bool]:
        """Store a task that goes on from another one's history, and start it; its id, and whether it is new.

        `approval`: which calls need a person's yes, where that was said with it."""
        _, state = place
        if self.by_workers:
            if wanted.secrets:
                raise InputError(
                    "workers read a task's secrets where its log says (env:VARIABLE, file:PATH): set them there, and fork it without"
                )
            given = None if wanted.settings is None else begun_of_fork(wanted)
            tools = None if given is None else self.service.parts.tools
            work = await work_of_fork(
                self.service.parts.store, origin, state, wanted, begun=given, tools=tools
            )
            return await self.service.fork(origin, wanted, place, work=work)
        policy = wanted.policy or state.policy
        plans, judges = wanted.plan is None and not state.given, policy.evaluation == "model"
        steps = asks_models(wanted.plan) if wanted.plan is not None else asks_on(state)
        await self._load_models(plans=plans, judges=judges, steps=steps)
        self._check_models(policy, plans=plans, judges=judges, steps=steps)
        if (plans or judges) and wanted.settings is not None and (proof := await self.proof()) is not None:
            wanted = wanted._replace(settings={**wanted.settings, "proof": proof})
        task_id, new = await self.service.fork(origin, wanted, place, driven=True)
        if new and approval is not None:
            await self.service.give_instead(task_id, {APPROVAL: approval})
        seen = (await self.service.check_resumable(task_id)).last_seq if new else await self._left_at(task_id)
        if seen is not None:
            self._start(task_id, after=seen)
        return task_id, new

    async def proof(self) -> str | None:
        """What shows in a log later that a key which somebody has then is the one that models are asked with here."""
        places = self._models.destinations()
        if not places:
            return None
        key = self._models.key
        return "" if key is None else proof_of(await self.service.parts.store.seal_key(), key, places)

    async def proof_of_config(self, config: JsonObject | None) -> str | None:
        """Where it names variables of the environment: whoever goes on fills them in for nobody else's log."""
        if config is None or "${" not in json.dumps(config):
            return None
        return proof_of_config(await self.service.parts.store.seal_key(), config)

    async def _with_proof(self, wanted: Submission) -> Submission:
        if (proof := await self.proof_of_config(wanted.settings.get("config"))) is not None:
            wanted = wanted._replace(settings={**wanted.settings, "config_proof": proof})
        asks = wanted.plan is None or wanted.policy.evaluation == "model"
        if not asks or (proof := await self.proof()) is None:
            return wanted
        return wanted._replace(settings={**wanted.settings, "proof": proof})

    async def _hand_in(self, wanted: Submission, plan_bytes: int) -> tuple[str, bool]:
        """Store a task for the workers; its wake-up is stored with it."""
        task_id, new = await self.service.submit(wanted, plan_bytes)
        if not new:
            summary = await self.service.parts.store.summary(task_id)
            if summary.status not in ENDED and not summary.held:
                await self._wake(task_id)
        return task_id, new

    async def _wake(self, task_id: str) -> None:
        """Have a worker drive the task: it waits as it was submitted to, or by what its log says."""
        assert self.queue is not None
        if (await self.service.parts.store.summary(task_id)).queue:
            await self.queue.wake(task_id)
            return
        records = await self.service.parts.store.read(task_id)
        await self.queue.wake(task_id, work_left(fold(records), begun_with(records)))

    async def hand_on(
        self,
        task_id: str,
        secrets: Mapping[str, str | SecretStr] | None = None,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Have workers go on with a task that nobody drives, or that is paused."""
        if not self.by_workers:
            raise InputError(
                f'task {task_id!r}: whoever resumes a task drives it here; workers go on by themselves with [engine] kind = "procrastinate"'
            )
        if (await self.service.state(task_id)).pause is not None:
            await self.service.unpause(task_id, reason=reason, by=by)
            await self._wake(task_id)  # one that waits for no worker yet
            return
        if secrets:
            raise InputError(
                "workers read a task's secrets where its log says (env:VARIABLE, file:PATH): set them there"
            )
        summary = await self.service.parts.store.summary(task_id)
        if summary.status in ENDED:
            raise TaskEnded(f"task {task_id!r} has ended ({summary.status}); an ended task never changes")
        if summary.held:
            raise TaskHeld(f"task {task_id!r} is being driven by a worker already; wait for it or watch it")
        await self._wake(task_id)

    async def _held_to_type(self, state: State) -> ExitStack:
        """What its submitter asks of the answer, also where another process drives; `InputError` if that is not here."""
        held, checks = ExitStack(), self.service.parts.answer_checks
        first = (await self.service.parts.store.read(state.name.task_id, 0, 1))[0].event
        named = first.settings.get("answer_type") if isinstance(first, TaskSubmitted) else None
        if isinstance(named, str) and not checks.holds(state.name):
            held.enter_context(checks.held(state.name, await asyncio.to_thread(answer_check, named)))
        return held

    async def drive(self, task_id: str, begins: Callable[[State], None]) -> State | None:
        """Drive a task here for the queue, as far as it goes. `InputError` if what it goes on with is not here.

        `begins` is told what it stands at. None: it has ended before.
        """
        summary = await self.service.parts.store.summary(task_id)  # before its whole log is read
        if summary.status in ENDED:
            return None
        if summary.held and self.engine.driving(task_id) is None:
            raise TaskHeld(f"task {task_id!r} is being driven by another process")
        try:
            state = await self.service.check_resumable(task_id)
        except (
            SecretsMissing
        ):  # another one may have them: it comes back to the queue, and says why meanwhile
            await self.service.stands_without_secrets(task_id)
            raise
        await check_asked(state, self.service.parts)
        plans = state.plan is None and not (state.submitted is not None and state.submitted.plan is not None)
        judges = state.evaluation is None and state.policy.evaluation == "model"
        steps = asks_on(state)
        await self._load_models(plans=plans, judges=judges, steps=steps)
        self._check_models(state.policy, plans=plans, judges=judges, steps=steps)
        held = await self._held_to_type(state)
        begins(state)
        driving = self._start(task_id, after=state.last_seq, stays=False)
        driving.add_done_callback(lambda _: held.close())
        self.engine.let_through(task_id)  # the queue has given it a place
        try:
            left = await asyncio.shield(driving)
        except asyncio.CancelledError:
            driving.cancel()
            await asyncio.wait({driving})
            raise
        if not left.ended and left.waiting is None:
            raise HandedOver
        if left.waiting is not None and left.waiting.until is not None:
            # Before the queue is told that this is done: else a crash in between would lose the wake-up.
            secs = max(0.0, left.waiting.until - self.service.parts.clock.now())
            await need_queue(self.queue).wake_later(task_id, secs)
        return left

    async def resume(
        self, task_id: str, secrets: Mapping[str, str | SecretStr] | None, reason: str = "", by: str = ""
    ) -> TaskResult:
        """Drive on a task that nobody holds, or that is paused, to its end or until it waits."""
        if self.by_workers:
            await self.hand_on(task_id, secrets, reason, by)
            return await self.wait(task_id)
        state = await self.service.check_resumable(task_id, secrets)
        if state.pause is not None:
            await self.service.unpause(task_id, reason=reason, by=by)
            if (await self.service.parts.store.summary(task_id)).held:
                return await self.wait(task_id)  # it has not come to stand still yet
        started = await self._go_on(task_id, state)
        self.engine.awaited(task_id)
        await asyncio.shield(started)
        await self._told(task_id)
        return await self.service.result(task_id)

    async def _go_on(self, task_id: str, state: State) -> asyncio.Task[State]:
        """Drive a task here that nobody drives, from where it stands."""
        await check_asked(state, self.service.parts)
        given = state.submitted is not None and state.submitted.plan is not None
        plans = state.plan is None and not given
        judges = state.evaluation is None and state.policy.evaluation == "model"
        steps = asks_on(state)
        await self._load_models(plans=plans, judges=judges, steps=steps)
        if self.engine.driving(task_id) is not None:
            raise TaskHeld(f"task {task_id!r} is being driven here already; wait for it or watch it")
        self._check_models(state.policy, plans=plans, judges=judges, steps=steps)
        held = await self._held_to_type(state)
        started = self._start(task_id, after=state.last_seq)
        started.add_done_callback(lambda _: held.close())
        return started

    async def go_on(self, task_id: str) -> None:
        """Have a task driven that nobody drives, here or by a worker, and do not wait for it."""
        summary = await self.service.parts.store.summary(task_id)
        if summary.status in ENDED or summary.held or self.engine.driving(task_id) is not None:
            return
        if self.by_workers or summary.queue:
            if not summary.due:
                await self._wake(task_id)
            return
        with contextlib.suppress(TaskHeld, TaskEnded):  # somebody was faster
            try:
                state = await self.service.check_resumable(task_id)
            except SecretsMissing:
                await self.service.stands_without_secrets(task_id)
                raise
            await self._go_on(task_id, state)

    async def wait(self, task_id: str) -> TaskResult:
        """Wait for a task's end, whoever drives it."""
        result = await self._ended(task_id)
        await self._told(task_id)
        return result

    async def _ended(self, task_id: str) -> TaskResult:
        engine = self.engine
        if engine.within(task_id):
            raise InputError(
                f"task {task_id!r} would wait for its own end: a tool waits for other tasks only, such as it starts itself"
            )
        driving = engine.awaited(task_id)
        if driving is not None:
            try:
                return await self.service.result_from(await asyncio.shield(driving))
            except TaskHeld:
                pass  # another process drives it
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not driving.cancelled() or (task is not None and task.cancelling()):
                    raise
                raise ReplanError(
                    f"Replan was closed before task {task_id!r} had ended; it can be resumed"
                ) from None
        await self.service.ended_elsewhere(task_id)
        return await self.service.result(task_id)

    async def result(self, task_id: str) -> TaskResult:
        """What the task has come to so far. To look is not to wait: a tool may look at all that are in the queue."""
        return await self.service.result(task_id)

    def watch(self, task_id: str, after: int, *, ephemeral: bool) -> AsyncIterator[Record]:
        driving = self.engine.awaited(task_id)
        return self.service.watch(task_id, after, ephemeral=ephemeral, driving=driving)

    async def cancel(self, task_id: str, reason: str, by: str) -> None:
        await self.service.cancel(task_id, reason, by)
        self._engine.let_through(task_id)

    async def _cancel_and_wait(self, task_id: str) -> None:
        """Cancel the task of a caller that is being cancelled itself, and see it to its end if it runs here."""
        driving = self.engine.driving(task_id)
        await self.cancel(task_id, reason="its caller was cancelled", by="caller")
        if driving is not None and (await self.service.parts.store.summary(task_id)).held:
            await asyncio.wait({driving}, timeout=CANCEL_SECS)

    def _start(self, task_id: str, after: int, *, stays: bool = True) -> asyncio.Task[State]:
        driving = self.engine.start(task_id, stays=stays)
        if self._announcer is not None:
            self._announcer.follow(self.service, task_id, after, driving)
        return driving

    async def _told(self, task_id: str) -> None:
        if self._announcer is not None:
            await self._announcer.told(task_id)

    async def _load_models(self, *, plans: bool, judges: bool, steps: bool = False) -> None:
        """`steps`: a plan that is given asks models, too; one that is made may."""
        roles: dict[Role, bool] = {"planning": plans, "evaluation": judges, "step": plans or steps}
        await self._models.load(role for role, needed in roles.items() if needed)

    def _check_models(self, policy: Policy, *, plans: bool, judges: bool, steps: bool = False) -> None:
        """Open the models that a task needs before it is driven: what was never set up does not end it."""
        if plans:
            _ = self._models["planning"]
        if judges:
            _ = self._models["evaluation"]
        if policy.budget.max_cost_usd is not None and (plans or judges or steps):
            self._models.check_prices()
