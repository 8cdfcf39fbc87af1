"""`Replan`: what programs and the command call, with all keywords written out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from pydantic import SecretStr

from replan.app.arguments import Arguments, Ask, Evaluation, RunArguments, Tools
from replan.app.beginning import begun_of
from replan.app.checked import checked
from replan.app.delivering import configured_names, deliver, outbox_of, telling
from replan.app.intervening import Intervening
from replan.app.keeping import Keeping
from replan.app.opening import opened
from replan.app.running import NOT_OPEN, Running
from replan.app.serving import Serving
from replan.app.submitting import Form, form_of, submission_of
from replan.app.working import GRACE_SECS, hand_of, work_off
from replan.config import Settings, may_hold_secrets
from replan.config.options import Options, listed, mapping, policy_with, text_of
from replan.config.whoever import whoever
from replan.core.begun import Begun
from replan.core.drawing.shown import TaskDrawing
from replan.core.events import Record
from replan.core.kinds.scene import Scene
from replan.core.kinds.workflow import Workflow
from replan.core.report.held_plan import HeldPlan
from replan.core.report.result import TaskResult, WaitingFor
from replan.core.secrets import KnownSecrets, secrets_of_settings, secrets_of_text
from replan.core.tools.stats import ToolKey, ToolStats
from replan.core.types import Plan, ToolSpec
from replan.core.words import some
from replan.engine.procrastinate.queue import Line, Worker
from replan.errors import InputError
from replan.ports import Consumer, ConsumerState, TaskSummary, Warmable
from replan.reasoning.prompting.prompts import check_all, load
from replan.run.service.announcer import Announcer, OnEvent
from replan.run.service.drawn import graph_of_log
from replan.run.service.for_workers import for_workers
from replan.run.service.notebook import shown
from replan.run.service.pruning import is_gone_by
from replan.run.service.results import agreed, reviewed
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.service.typed import answer_problems, name_of_type, typed_result
from replan.run.session.library_logs import keep_from_logs
from replan.tools.catalog.direct import call_directly
from replan.wiring import (
    ModelChoice,
    Models,
    Paths,
    Ulids,
    database,
    discovery_of,
    need_queue,
    open_kinds,
    open_tools,
)

T = TypeVar("T")


class Replan(Keeping, Intervening):
    """Turns tasks into finished and checked results with your tools.

    `model`: `provider:model`, `local`, a model object, or one of these a role; None takes the settings, and
    without any the built-in local model. `tools`: functions, SPECs (`"tools.py"`, `"package.module"`,
    `"module:name"`) and tool sources, any number together. `db`: a path or URL; None keeps the log in the
    user's state folder. Further keyword arguments are the options of `config.toml`, with the same names and bounds
    (`success_threshold=70`, `max_cost_usd=1.5`, …; `InputError` says what would be right).

    `ask`: an async function `(task_id, step_id, question)` that puts a question of a running tool to a person (MCP
    elicitation), and gives the answer, or None; without it such questions are declined.

    `on_event`: a function, async or not, that is told every stored event of each task that is driven here, in order.
    What it raises is logged (logger `replan`), and the task goes on.

    `scenes`, `workflows`: files and folders with guidance for kinds of task, and with plans that are written beforehand, before those
    of `[scenes]`. They are read when they are needed, and again once they have changed.

    Use it as `async with Replan(...) as replan:`. Leaving the block stops what runs; stored tasks can be
    resumed.
    """

    @checked
    def __init__(
        self,
        model: ModelChoice = None,
        tools: Tools = (),
        *,
        db: str | Path | None = None,
        settings: Settings | None = None,
        endpoint: str | None = None,
        api_key: str | SecretStr | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
        ask: Ask | None = None,
        on_event: OnEvent | None = None,
        scenes: Paths = (),
        workflows: Paths = (),
        **options: Unpack[Options],
    ) -> None:
        if settings is not None and not isinstance(settings, Settings):
            raise InputError(
                f"settings has to be Settings (of replan.config), not {type(settings).__name__}; "
                "arguments of Replan are given by their own names"
            )
        self.settings = settings or Settings()
        self._policy = policy_with(self.settings.policy(), options, beside=Arguments.__annotations__)
        tools = listed(tools)
        self.discovery = discovery_of(self.settings)
        """The services whose instances are looked for."""
        self._catalog = open_tools(tools, self.settings, self.discovery)
        self._models = Models(
            self.settings,
            model=model,
            endpoint=endpoint,
            api_key=api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key,
            record=None if record is None else Path(record).absolute(),
            replay=None if replay is None else Path(replay).absolute(),
            discovery=self.discovery,
        )
        specs = [tool for tool in tools if isinstance(tool, str)]
        self.secrets = KnownSecrets(self._catalog.secrets, self._models.secrets)
        self.secrets.add_all(secrets_of_settings([may_hold_secrets(self.settings), specs]))
        self._begun = begun_of(tools, self.settings, self._models)
        keep_from_logs(self.secrets)
        self._record_in_prompts = (
            record is None and replay is None
        )  # a replay finds only what was asked alike
        self._ask = ask
        self._kinds = open_kinds(self.settings, scenes, workflows)
        self._announcer = None if on_event is None else Announcer(on_event)
        if db is not None and not isinstance(db, Path):
            db = text_of("db", db)
        self.secrets.add_all(list(secrets_of_text(str(db or ""))))
        self._db = database(db if db is not None else self.settings.database_service.connection_string)
        self._running: Running | None = None
        self._closing = contextlib.AsyncExitStack()
        """What closes the parts of the one that is open."""

    # ── life ──

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Open the store and list the tools."""
        if self._running is not None:
            return
        check_all()
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self.discovery.aclose)
            self._running = await opened(
                closing, self._db, self.settings, self._catalog, self._models, self._announcer,
                ask=self._ask, record_tells=self._record_in_prompts, secrets=self.secrets, approval=self._policy.approval,
                kinds=self._kinds,
            )  # fmt: skip
            self._closing = closing.pop_all()

    async def aclose(self) -> None:
        """Stop driving, close tools, models and store. What is stored stays resumable."""
        running, self._running = self._running, None
        if running is not None and running.here:
            await self._closing.aclose()

    @property
    def service(self) -> Service:
        """The use cases that every front end calls."""
        return self._open.service

    @property
    def _open(self) -> Running:
        if self._running is None:
            raise InputError(NOT_OPEN)
        return self._running

    def warm(self) -> None:
        """Load the built-in model in the background, so that the first task does not wait for it."""
        model = self._models["planning"]
        if isinstance(model, Warmable):
            model.warm(load("plan", model.style).instructions)

    # ── tasks ──

    @overload
    async def run(
        self,
        text: str = "",
        *,
        output_type: type[T],
        **task: Unpack[RunArguments],
    ) -> TaskResult[T]: ...

    @overload
    async def run(
        self,
        text: str = "",
        *,
        output_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **task: Unpack[RunArguments],
    ) -> TaskResult[Any]: ...

    @checked
    async def run(
        self,
        text: str = "",
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        workflow: str | None = None,
        slots: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> TaskResult[Any]:
        """Run a task to its end, or a workflow with its slots (the text is then its description, if none is given). `output_type`: a type that `.output` will be, a Pydantic model for instance.

        `secrets`: metadata that no log, prompt or recording shows, by name: `"env:VARIABLE"`, `"file:PATH"`, or a
        `SecretStr`. `previous_task_id`: the task that this one follows: what that has done and given can be used.
        `session_id`: the same of the last tasks with the same one.

        What its validators refuse goes back to the model once; then the task has failed. If the caller is cancelled,
        so is the task.
        """
        adapter, output_schema = form_of(output_type, output_schema)
        check = None if adapter is None else partial(answer_problems, adapter)
        wanted = await self._built(
            text,
            metadata=metadata,
            context=context,
            session_id=session_id,
            previous_task_id=previous_task_id,
            task_id=task_id,
            timeout=timeout,
            plan=plan,
            evaluation=evaluation,
            output_schema=output_schema,
            secrets=secrets,
            workflow=workflow,
            slots=slots,
        )
        if adapter is not None and (named := name_of_type(output_type)):
            wanted = wanted._replace(settings={**wanted.settings, "answer_type": named})
        result = await self._open.run(self._placed(wanted), check)
        return result if adapter is None else typed_result(result, adapter, output_type)

    @checked
    async def submit(
        self,
        text: str = "",
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        workflow: str | None = None,
        slots: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> str:
        """Store a task and start it; its id. The same id with the same request is the same task.

        Where workers take tasks (`[engine] kind = "procrastinate"`) it waits in `queue` (`"default"`), behind those of a
        higher `priority` (0).
        """
        wanted = await self._built(
            text,
            metadata=metadata,
            context=context,
            session_id=session_id,
            previous_task_id=previous_task_id,
            task_id=task_id,
            timeout=timeout,
            plan=plan,
            evaluation=evaluation,
            output_schema=output_schema,
            secrets=secrets,
            workflow=workflow,
            slots=slots,
        )
        return (await self._open.submit(self._placed(wanted, queue, priority)))[0]

    async def work(
        self,
        *,
        concurrency: int | None = None,
        queues: Sequence[str] = (),
        grace_secs: float = GRACE_SECS,
        stop: asyncio.Event | None = None,
        ready: Callable[[], None] | None = None,
    ) -> None:
        """Take tasks from the queue and drive them here, so many at a time, until `stop` is set.

        What runs then may end for `grace_secs`; the rest is handed over to other workers. `queues`: only tasks of these.
        Tasks that need a tool or a model that is not here are left to others.
        """
        hand = hand_of(self.settings, queues, concurrency)
        async with self.auditing():
            await work_off(
                self._open, self._catalog, self._models, hand, self.settings.engine.takeover_secs,
                grace_secs=grace_secs, stop=stop, ready=ready,
            )  # fmt: skip

    @checked
    async def wait(self, task_id: str) -> TaskResult:
        """Wait for a task's end, whoever drives it; its result. Raises what stopped the driving, if that did."""
        return await self._open.wait(task_id)

    @checked
    def watch(self, task_id: str, after: int = 0, *, ephemeral: bool = False) -> AsyncIterator[Record]:
        """Every event after `after`, live, to the task's end. `ReplanError` after the last of one that nobody drives.

        `ephemeral`: also what is not stored (tokens, progress), as records with seq 0.
        """
        return self._open.watch(task_id, after, ephemeral=ephemeral)

    @checked
    async def result(self, task_id: str) -> TaskResult:
        """What the task has come to so far."""
        return await self._open.result(task_id)

    @checked
    async def cancel(self, task_id: str, reason: str = "", by: str | None = None) -> None:
        """Ask for the task's end; `TaskEnded` if it has ended. `by`: who does; None: the user of this process."""
        await self._open.cancel(task_id, reason, whoever(by))

    @checked
    async def approve(
        self,
        task_id: str,
        approval_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        by: str = "",
    ) -> WaitingFor:
        """Agree to a call that waits, with `parameters` laid over those shown. None: the only approval that is open.

        The call that was agreed to, as it will be made. A task that nobody drives meanwhile goes on with `resume`.
        """
        given = None if parameters is None else mapping("parameters", parameters, {"amount": 10})
        return agreed(
            await self.service.resolve_approval(task_id, approval_id, approved=True, parameters=given, by=by)
        )

    @checked
    async def approval(
        self,
        task_id: str,
        approval_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> WaitingFor:
        """A call that waits, in full (large values whole, secrets masked), or as it would be with other `parameters`."""
        given = None if parameters is None else mapping("parameters", parameters, {"amount": 10})
        return agreed(await self.service.approval(task_id, approval_id, parameters=given))

    @checked
    async def reject(
        self, task_id: str, approval_id: str | None = None, reason: str = "", by: str = ""
    ) -> None:
        """Do not agree to a call that waits; the reason is reflected on."""
        await self.service.resolve_approval(task_id, approval_id, approved=False, reason=reason, by=by)

    @checked
    async def answer(
        self, task_id: str, text: Any, question_id: str | None = None, output: Any = None, by: str = ""
    ) -> None:
        """Answer a question of a waiting task. Whether a call took effect: yes (with its `output`), no, or cannot tell.

        A step's question (`ask_user`) is answered with a value that fits it, in words (`"yes"`, `"12.5"`, `"2026-03-01"`) or as it is;
        `question_id` may be the id of the step. An `InputError` says what would be right.
        """
        is_value = not (text is None or isinstance(text, str)) and output is None
        words, value = ("", text) if is_value else (text, output)
        await self.service.answer(task_id, text_of("the answer", words), question_id, output=value, by=by)

    @checked
    async def held_plan(self, task_id: str) -> HeldPlan:
        """The plan that waits for a person's yes: its steps, what it would do, and what it changes of the plan before it."""
        return await self.service.held_plan(task_id)

    @checked
    async def review(
        self,
        task_id: str,
        approved: bool = True,
        *,
        plan: Mapping[str, Any] | Plan | None = None,
        reason: str = "",
        by: str = "",
    ) -> WaitingFor:
        """Agree to the plan that waits (`review_plan`), or not; with `plan`, to that one in its place.

        `PlanInvalid` with all that is wrong with the plan that is given: nothing of it is kept then. After a no the task is planned anew
        with its `reason`. A task that nobody drives meanwhile goes on with `resume`.
        """
        given = plan.model_dump(mode="json") if isinstance(plan, Plan) else plan
        given = None if given is None else mapping("plan", given, {"steps": []})
        return reviewed(
            await self.service.review(task_id, approved=approved, reason=reason, plan=given, by=by)
        )

    @checked
    async def signal(self, task_id: str, token: str, data: Any = None, by: str = "") -> bool:
        """Tell a task that something outside has happened, by the token that its `create_callback` has given out.

        `data` is what its `wait_for_callback` gives. It may come before the task waits for it; of several the first counts:
        the same again gives False, other data is an `InputError`. A task that nobody drives goes on with `resume`.
        """
        return await self.service.signal(task_id, text_of("the token", token), data, by)

    @checked
    async def resume(
        self,
        task_id: str,
        *,
        secrets: Mapping[str, str | SecretStr] | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> TaskResult:
        """Drive on a task that nobody holds, or that is paused, to its end or until it waits. `TaskHeld` if somebody does, `TaskEnded` if it has ended.

        `InputError` or `ModelUnavailable` if a tool, a secret or a model that it goes on with is not here; it stays as it
        is. `secrets`: those of its secret metadata that its log names no source of, or another source.
        """
        return await self._open.resume(task_id, secrets, reason, whoever(by))

    @checked
    async def plan(
        self,
        text: str = "",
        *,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        workflow: str | None = None,
        slots: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> Plan:
        """A checked plan for the task, which is neither stored nor run; with `plan`, that one checked; with `workflow`, what that comes to."""
        wanted = await self._built(
            text, metadata=metadata, session_id=session_id, previous_task_id=previous_task_id, plan=plan,
            evaluation=evaluation, secrets=secrets, workflow=workflow, slots=slots,
        )  # fmt: skip
        return await self.service.plan_only(wanted)

    @checked
    async def tasks(
        self, status: Sequence[str] = (), limit: int = 100, *, session_id: str | None = None
    ) -> list[TaskSummary]:
        """The stored tasks, newest first; `session_id`: of that session alone."""
        return await self.service.parts.store.list_tasks(status=status, limit=limit, session=session_id)

    @checked
    async def summary(self, task_id: str) -> TaskSummary:
        """The task's row in the list."""
        return await self.service.parts.store.summary(task_id)

    def drives(self, task_id: str) -> bool:
        """Whether the task is driven here, and not by a worker or another process."""
        return self._open.engine.driving(task_id) is not None

    @checked
    async def why_waiting(self, task_id: str) -> str:
        """Why no worker takes the task: what it needs that none of them has. Empty where one may, or where none has to."""
        queue = self._open.queue
        if queue is None or not (await self.summary(task_id)).lacks_worker:
            return ""
        return await queue.why_waiting(task_id)

    async def workers(self) -> list[Worker]:
        """The workers of this database: those that live, and those that were lost in the last day."""
        return await need_queue(self._open.queue).workers()

    async def waiting_lines(self) -> list[Line]:
        """Where tasks wait for a worker now, and why where nobody takes them."""
        return await need_queue(self._open.queue).lines()

    def serving(self) -> Serving:
        """What drives tasks for the service; `UseCases(replan.service, replan.serving())` is what its front ends call."""
        return Serving(self._open, self._policy, self._begun, self.settings, self._placed)

    @checked
    async def deliver(self, consumer: Consumer, *, from_now: bool = False) -> None:
        """Deliver every stored event of every task to it, in order per task and at least once, until this is cancelled.

        How far it is stands in the database under `consumer.name`: whoever delivers next goes on from there. One process
        at a time does; a second one waits, and takes over. `from_now`: a new consumer gets what is stored from now on, not what is there.
        """
        await deliver(self._open, consumer, from_now=from_now)

    def auditing(self) -> AbstractAsyncContextManager[None]:
        """Deliver meanwhile to whom `[kafka_service]`, `[audit]` and `[webhooks]` name, if any."""
        return telling(self._open, self.settings)

    @property
    def audited(self) -> tuple[str, ...]:
        """The names of these, as consumers of the log."""
        return configured_names(self.settings)

    async def consumers(self) -> list[ConsumerState]:
        """Who is delivered the log, and how far each is behind."""
        return await outbox_of(self._open).consumers()

    @checked
    async def forget_consumer(self, name: str) -> bool:
        """Keep no cursor for it any more; False if there was none. Under the same name it would begin anew."""
        return await outbox_of(self._open).forget(name)

    @checked
    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        """Remove a task with its log. The same id given again is a new task, whose effects are made again.

        `TaskHeld` while somebody drives it; unless `unfinished`, `InputError` for one that has not ended, or is a fork that others of
        its family go by.
        """
        if not unfinished and (family := await is_gone_by(self.service.parts.store, task_id)):
            raise InputError(
                f"task {task_id!r} has had effects, and the tasks that share its history ({some(family, 3)}) go by what it has done: what it "
                "undid would stand as done for them. `replan tasks prune` removes all of them together; `replan tasks delete --force` "
                "(library: unfinished=True) deletes it all the same"
            )
        await self.service.parts.store.delete(task_id, unfinished=unfinished)

    @checked
    async def history(self, task_id: str) -> list[Record]:
        """The task's whole log."""
        return await self.service.history(task_id)

    @checked
    async def drawing(self, task_id: str, version: int | None = None) -> TaskDrawing:
        """Its plan as a graph, with how each step stands and the critical path; `version`: an earlier plan."""
        return TaskDrawing(graph_of_log(await self.service.history(task_id), time.time(), version))

    @checked
    async def show(self, task_id: str) -> TaskResult:
        """`wait`; in a notebook the task's graph is shown meanwhile, and changes as the task goes on."""
        return await shown(self.watch(task_id), self._open.wait(task_id))

    @checked
    async def output(self, task_id: str, step_id: str, *, item: int | None = None) -> Any:
        """The whole output of a step of any plan, what is kept apart included; `item`: of one item, from 1."""
        return await self.service.output(task_id, step_id, item)

    async def begun(self) -> Begun:
        """What tasks are begun with here, as their logs have it."""
        proofs = {
            "proof": await self._open.proof(),
            "config_proof": await self._open.proof_of_config(self._begun.config),
        }
        return self._begun.model_copy(update=proofs)

    # ── tools ──

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        """How tools have done so far, in every task of this database."""
        await self.service.parts.record.flush(self.service.parts.store)
        return await self.service.parts.store.tool_stats()

    async def tools(self) -> list[ToolSpec]:
        """Every tool that tasks may use."""
        _ = self._open  # before that none is listed
        return self._catalog.specs()

    async def scenes(self) -> list[Scene]:
        """The kinds of tasks for which there is guidance now. What is wrong with their files goes to the logger `replan`."""
        return (await self._kinds.current()).every_scene

    async def workflows(self) -> list[Workflow]:
        """The plans that are written beforehand, as they are now; likewise."""
        return list((await self._kinds.current()).workflows.values())

    @property
    def tool_problems(self) -> list[str]:
        """Sources and tools that could not be used, each with the reason."""
        return [str(problem) for problem in self._catalog.problems]

    @checked
    async def call(self, tool_id: str, parameters: Mapping[str, Any]) -> Any:
        """Call one tool directly, within its limits. Its parameters are checked; nothing is recorded."""
        return await call_directly(
            self._catalog, tool_id, parameters, key=Ulids().new("call"), secrets=self.secrets
        )

    # ── inside ──

    def _placed(
        self, wanted: Submission, queue: str | None = None, priority: int | None = None
    ) -> Submission:
        """The submission with its place among those that wait for workers, if it waits for one."""
        if not self._open.by_workers:
            if queue is not None or priority is not None:
                raise InputError(
                    'queue and priority are for tasks that workers take: set [engine] kind = "procrastinate"'
                )
            return wanted
        if self._models.has_own_key or not self._record_in_prompts:
            raise InputError(
                "a worker asks models with its own key, and records nothing: leave api_key, record and replay out"
            )
        return for_workers(
            wanted, self._catalog, self._models.named(), self._models.endpoint,
            queue=queue, priority=0 if priority is None else priority,
        )  # fmt: skip

    async def _built(self, text: str, **asked: Unpack[Form]) -> Submission:
        """The submission, with the plan of its workflow if it names one."""
        return await self.service.built(submission_of(text, self._policy, self._begun, **asked))
