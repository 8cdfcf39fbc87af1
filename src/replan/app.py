"""The library: `Replan` puts the parts together and is what programs and the command use."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypedDict, TypeVar, Unpack, overload

from pydantic import SecretStr, TypeAdapter

from replan.config import Settings
from replan.config.options import Options, listed, mapping, policy_with, text_of
from replan.core.events import Record
from replan.core.limits.policy import Policy, within
from replan.core.report.result import TaskResult, WaitingFor
from replan.core.secrets import KnownSecrets, secrets_of_settings
from replan.core.state.task import State
from replan.core.tools.stats import ToolKey, ToolStats
from replan.core.types import JsonObject, Plan, ToolSpec
from replan.engine.local import LocalEngine
from replan.errors import InputError, ReplanError, StoreError, TaskHeld
from replan.ports import Question, Store, TaskSummary, ToolSource, Warmable
from replan.reasoning.prompting.prompts import check_all, load
from replan.run.service.announcer import Announcer, OnEvent
from replan.run.service.results import agreed
from replan.run.service.sync import run_to_end
from replan.run.service.tasks import Service, Submission, check_submission
from replan.run.service.typed import answer_problems, typed_result
from replan.run.session.answer_checks import AnswerCheck
from replan.run.session.dependencies import Parts
from replan.run.session.library_logs import keep_from_logs
from replan.run.session.shielding import see_through
from replan.run.session.tool_record import ToolRecord
from replan.tools.catalog.direct import call_directly
from replan.wiring import (
    ModelChoice,
    Models,
    SystemClock,
    Ulids,
    database_path,
    driver_name,
    open_store,
    open_tools,
)

T = TypeVar("T")
Evaluation: TypeAlias = Literal["model", "steps"]
Tools: TypeAlias = Sequence[Callable[..., Any] | ToolSource | str]
Ask: TypeAlias = Callable[[str, str, Question], Awaitable[JsonObject | None]]
CANCEL_SECS = 3.0
"""How long a cancelled caller waits for its task to end."""


class Replan:
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

    Use it as `async with Replan(...) as replan:`. Leaving the block stops what runs; stored tasks can be
    resumed.
    """

    def __init__(
        self,
        model: ModelChoice = None,
        tools: Tools = (),
        *,
        db: str | Path | None = None,
        settings: Settings | None = None,
        endpoint: str | None = None,
        api_key: str | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
        ask: Ask | None = None,
        on_event: OnEvent | None = None,
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
        self._tool_names = tuple(tool for tool in tools if isinstance(tool, str))
        self._catalog = open_tools(tools, self.settings)
        self._models = Models(
            self.settings,
            model=model,
            endpoint=endpoint,
            api_key=api_key,
            record=None if record is None else Path(record).absolute(),
            replay=None if replay is None else Path(replay).absolute(),
        )
        self.secrets = KnownSecrets(self._catalog.secrets, self._models.secrets)
        self.secrets.add_all(secrets_of_settings([self.settings.model_dump(mode="json"), self._tool_names]))
        keep_from_logs(self.secrets)
        self._record_in_prompts = (
            record is None and replay is None
        )  # a replay finds only what was asked alike
        self._ask = ask
        self._announcer = None if on_event is None else Announcer(on_event)
        if db is not None and not isinstance(db, Path):
            db = text_of("db", db)
        self._db = database_path(db if db is not None else self.settings.database_service.connection_string)
        self._service: Service | None = None
        self._engine: LocalEngine | None = None
        self._process = os.getpid()

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
        if self._service is not None:
            return
        check_all()
        store = open_store(self._db, self.settings)
        try:
            self._catalog.remembered = dict(await store.remembered_tools())
            await self._catalog.open()
            await self._remember(store)
            record = ToolRecord(tells=self._record_in_prompts)
            await record.load(store)
        except BaseException:
            await self._catalog.aclose()  # sources that are tried again would go on with that
            await store.aclose()
            raise
        parts = Parts(
            store,
            self._catalog,
            self._models,
            SystemClock(),
            Ulids(),
            driver=driver_name(),
            record=record,
            ask=self._ask,
            secrets=self.secrets,
        )
        self._service = Service(parts)
        most = self.settings.orchestrator.max_concurrent_tasks
        self._process = os.getpid()
        self._engine = LocalEngine(self._service.drive, most, self._service.hear_cancel)

    async def _remember(self, store: Store) -> None:
        """Keep the names that the sources have, where they are others than before."""
        with contextlib.suppress(StoreError):
            if self._catalog.remembered != await store.remembered_tools():
                await store.remember_tools(self._catalog.remembered)

    async def aclose(self) -> None:
        """Stop driving, close tools, models and store. What is stored stays resumable."""
        service, engine = self._service, self._engine
        self._service = self._engine = None
        if service is None or engine is None or self._process != os.getpid():
            return  # what a fork has inherited is its parent's to close
        async with (
            contextlib.AsyncExitStack() as closing
        ):  # last in, first out; each whatever becomes of the others
            closing.push_async_callback(see_through, service.parts.store.aclose())  # files are not left open
            closing.push_async_callback(service.parts.record.flush, service.parts.store)
            closing.push_async_callback(self._remember, service.parts.store)  # of sources that came late
            closing.push_async_callback(self._catalog.aclose)
            closing.push_async_callback(self._models.aclose)
            if self._announcer is not None:
                closing.push_async_callback(self._announcer.aclose)
            closing.push_async_callback(engine.aclose)

    @property
    def service(self) -> Service:
        """The use cases that every front end calls."""
        if self._service is None:
            raise InputError("Replan is not open: use `async with Replan(...) as replan:`")
        self._check_process()
        return self._service

    def warm(self) -> None:
        """Load the built-in model in the background, so that the first task does not wait for it."""
        model = self._models["planning"]
        if isinstance(model, Warmable):
            model.warm(load("plan", model.style).instructions)

    # ── tasks ──

    @overload
    async def run(
        self,
        text: str,
        *,
        output_type: type[T],
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
    ) -> TaskResult[T]: ...

    @overload
    async def run(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        output_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> TaskResult[Any]: ...

    async def run(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        output_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> TaskResult[Any]:
        """Run a task to its end. `output_type`: a type that `.output` will be, a Pydantic model for instance.

        `secrets`: metadata that no log, prompt or recording shows, by name: `"env:VARIABLE"`, `"file:PATH"`, or a
        `SecretStr`.

        What its validators refuse goes back to the model once; then the task has failed. If the caller is cancelled,
        so is the task.
        """
        adapter, output_schema = _typed(output_type, output_schema)
        check = None if adapter is None else partial(answer_problems, adapter)
        wanted = self._submission(
            text, metadata, context, task_id, timeout, plan, evaluation, output_schema, secrets
        )
        submitting = asyncio.ensure_future(self._submit(wanted, check))
        try:
            task_id = await asyncio.shield(submitting)
            result = await self.wait(task_id)
        except asyncio.CancelledError:
            with contextlib.suppress(ReplanError):
                task_id = await submitting  # it may be stored already
                await self._cancel_and_wait(task_id)
            raise
        finally:
            if check is not None and task_id is not None and self._service is not None:
                self._service.parts.answer_checks.release(task_id, check)
        return result if adapter is None else typed_result(result, adapter, output_type)

    async def submit(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        output_schema: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> str:
        """Store a task and start it; its id. The same id with the same request is the same task."""
        wanted = self._submission(
            text, metadata, context, task_id, timeout, plan, evaluation, output_schema, secrets
        )
        return await self._submit(wanted)

    async def _submit(self, wanted: Submission, check: AnswerCheck | None = None) -> str:
        """`check`: what its caller asks of the answer; it holds from before the task is driven."""
        plan_bytes = check_submission(
            wanted
        )  # what is wrong with the request goes before what is wrong with the machine
        self._check_models(
            wanted.policy, plans=wanted.plan is None, judges=wanted.policy.evaluation == "model"
        )
        engine = self._engine_now()
        task_id, new = await self.service.submit(wanted, plan_bytes)
        if check is not None:
            self.service.parts.answer_checks.hold(task_id, check)
        seen = 0
        if not new:
            if (await self.service.state(task_id)).ended or engine.driving(task_id) is not None:
                return task_id
            seen = (await self.service.check_resumable(task_id)).last_seq
        self._start(task_id, after=seen)
        return task_id

    async def wait(self, task_id: str) -> TaskResult:
        """Wait for a task's end, whoever drives it; its result. Raises what stopped the driving, if that did."""
        result = await self._ended(task_id)
        if self._announcer is not None:
            await self._announcer.told(task_id)
        return result

    async def _ended(self, task_id: str) -> TaskResult:
        engine = self._engine_now()
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

    def watch(self, task_id: str, after: int = 0, *, ephemeral: bool = False) -> AsyncIterator[Record]:
        """Every event after `after`, live, to the task's end.

        `ephemeral`: also what is not stored (tokens, progress), as records with seq 0.
        """
        if not isinstance(after, int) or isinstance(after, bool) or after < 0:
            raise InputError(
                f"watch: after={after!r:.80} is no place in the log; give the `seq` of the last record that you have, or 0 for all"
            )
        driving = self._engine_now().awaited(task_id)
        return self.service.watch(task_id, after, ephemeral=ephemeral, driving=driving)

    async def result(self, task_id: str) -> TaskResult:
        """What the task has come to so far."""
        return await self.service.result(task_id)

    async def cancel(self, task_id: str, reason: str = "", by: str = "") -> None:
        """Ask for the task's end; `TaskEnded` if it has ended."""
        await self.service.cancel(task_id, reason, by)
        if self._engine is not None:
            self._engine.let_through(task_id)

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

    async def approval(
        self,
        task_id: str,
        approval_id: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> WaitingFor:
        """A call that waits, in full (large values whole, secrets masked), or as it would be with other `parameters`."""
        given = None if parameters is None else mapping("parameters", parameters, {"amount": 10})
        return agreed(await self.service.approval(task_id, approval_id, parameters=given))

    async def reject(
        self, task_id: str, approval_id: str | None = None, reason: str = "", by: str = ""
    ) -> None:
        """Do not agree to a call that waits; the reason is reflected on."""
        await self.service.resolve_approval(task_id, approval_id, approved=False, reason=reason, by=by)

    async def answer(
        self, task_id: str, text: str, question_id: str | None = None, output: Any = None, by: str = ""
    ) -> None:
        """Answer a question of a waiting task. Whether a call took effect: yes (with its `output`), no, or cannot tell."""
        await self.service.answer(task_id, text_of("the answer", text), question_id, output=output, by=by)

    async def resume(
        self, task_id: str, *, secrets: Mapping[str, str | SecretStr] | None = None
    ) -> TaskResult:
        """Drive on a task that nobody holds, to its end or until it waits. `TaskHeld` if somebody does, `TaskEnded` if it has ended.

        `InputError` or `ModelUnavailable` if a tool, a secret or a model that it goes on with is not here; it stays as it
        is. `secrets`: those of its secret metadata that its log names no source of, or another source.
        """
        state = await self.service.check_resumable(task_id, secrets)
        engine = self._engine_now()
        if engine.driving(task_id) is not None:
            raise TaskHeld(f"task {task_id!r} is being driven here already; wait for it or watch it")
        given = state.submitted is not None and state.submitted.plan is not None
        self._check_models(
            state.policy,
            plans=state.plan is None and not given,
            judges=state.evaluation is None and state.policy.evaluation == "model",
        )
        started = self._start(task_id, after=state.last_seq)
        engine.awaited(task_id)
        await asyncio.shield(started)
        if self._announcer is not None:
            await self._announcer.told(task_id)
        return await self.service.result(task_id)

    async def plan(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | None = None,
        evaluation: Evaluation | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
    ) -> Plan:
        """A checked plan for the task, which is neither stored nor run; with `plan`, that one checked."""
        wanted = self._submission(text, metadata, None, None, None, plan, evaluation, None, secrets)
        return await self.service.plan_only(wanted)

    async def tasks(self, status: Sequence[str] = (), limit: int = 100) -> list[TaskSummary]:
        """The stored tasks, newest first."""
        return await self.service.parts.store.list_tasks(status=status, limit=limit)

    async def summary(self, task_id: str) -> TaskSummary:
        """The task's row in the list."""
        return await self.service.parts.store.summary(task_id)

    async def delete(self, task_id: str, *, unfinished: bool = False) -> None:
        """Remove a task with its log. The same id given again is a new task, whose effects are made again.

        `TaskHeld` while somebody drives it, `InputError` for one that has not ended, unless `unfinished`.
        """
        await self.service.parts.store.delete(task_id, unfinished=unfinished)

    async def history(self, task_id: str) -> list[Record]:
        """The task's whole log."""
        return await self.service.history(task_id)

    async def output(self, task_id: str, step_id: str, *, item: int | None = None) -> Any:
        """The whole output of a step of any plan, what is kept apart included; `item`: of one item, from 1."""
        return await self.service.output(task_id, step_id, item)

    # ── tools ──

    async def tool_stats(self) -> dict[ToolKey, ToolStats]:
        """How tools have done so far, in every task of this database."""
        await self.service.parts.record.flush(self.service.parts.store)
        return await self.service.parts.store.tool_stats()

    async def tools(self) -> list[ToolSpec]:
        """Every tool that tasks may use."""
        return self._catalog.specs()

    @property
    def tool_problems(self) -> list[str]:
        """Sources and tools that could not be used, each with the reason."""
        return [str(problem) for problem in self._catalog.problems]

    async def call(self, tool_id: str, parameters: Mapping[str, Any]) -> Any:
        """Call one tool directly, within its limits. Its parameters are checked; nothing is recorded."""
        return await call_directly(
            self._catalog, tool_id, parameters, key=Ulids().new("call"), secrets=self.secrets
        )

    # ── inside ──

    async def _cancel_and_wait(self, task_id: str) -> None:
        """Cancel the task of a caller that is being cancelled itself, and see it to its end if it runs here."""
        driving = self._engine_now().driving(task_id)
        await self.cancel(task_id, reason="its caller was cancelled", by="caller")
        if driving is not None and (await self.service.parts.store.summary(task_id)).held:
            await asyncio.wait({driving}, timeout=CANCEL_SECS)

    def _start(self, task_id: str, after: int) -> asyncio.Task[State]:
        driving = self._engine_now().start(task_id)
        if self._announcer is not None:
            self._announcer.follow(self.service, task_id, after, driving)
        return driving

    def _engine_now(self) -> LocalEngine:
        if self._engine is None:
            raise InputError("Replan is not open: use `async with Replan(...) as replan:`")
        self._check_process()
        return self._engine

    def _check_process(self) -> None:
        """Threads and locks do not come along into a fork: whoever waited for them would wait for ever."""
        if self._process != os.getpid():
            raise InputError(
                "this Replan was opened in another process, before a fork: open one in each process, after the fork"
            )

    def _submission(
        self,
        text: str,
        metadata: Mapping[str, Any] | None,
        context: Mapping[str, Any] | None,
        task_id: str | None,
        timeout: float | None,
        plan: Mapping[str, Any] | None,
        evaluation: Evaluation | None,
        output_schema: Mapping[str, Any] | None,
        secrets: Mapping[str, str | SecretStr] | None,
    ) -> Submission:
        changes: Options = {}
        if timeout is not None:
            changes["budget"] = within(self._policy.budget, timeout)
        if evaluation is not None:
            changes["evaluation"] = evaluation
        if output_schema is not None:
            changes["output_schema"] = mapping("output_schema", output_schema, {"type": "object"})
        settings: JsonObject = {"models": self._models.named()}
        if endpoint := self._models.endpoint:
            settings["endpoint"] = endpoint
            if self._models.endpoint_has_password:
                settings["endpoint_has_password"] = True
        if self._models.has_own_key:
            settings["key_was_given"] = True
        return Submission(
            description=text_of("the task", text),
            policy=policy_with(self._policy, changes),
            metadata=mapping("metadata", {} if metadata is None else metadata, {"project": "P-7"}),
            context=mapping("context", {} if context is None else context, {"session_id": "s-1"}),
            task_id=None if task_id is None else text_of("task_id", task_id),
            plan=None if plan is None else mapping("plan", plan, {"steps": []}),
            tools=self._tool_names,
            settings=settings,
            secrets=dict(secrets or {}),
        )

    def _check_models(self, policy: Policy, *, plans: bool, judges: bool) -> None:
        """Open the models that a task needs before it is driven: what was never set up does not end it."""
        if plans:
            _ = self._models["planning"]
        if judges:
            _ = self._models["evaluation"]
        if policy.budget.max_cost_usd is not None and (plans or judges):
            self._models.check_prices()


def _typed(
    output_type: Any, schema: Mapping[str, Any] | None
) -> tuple[TypeAdapter[Any] | None, Mapping[str, Any] | None]:
    if output_type is None:
        return None, schema
    if schema is not None:
        raise InputError("give output_type or output_schema, not both")
    adapter = TypeAdapter(output_type)
    return adapter, adapter.json_schema()


class TaskArguments(TypedDict, total=False):
    """What `Replan.run` takes beside the task's text and the form of its answer."""

    metadata: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    task_id: str | None
    timeout: float | None
    plan: Mapping[str, Any] | None
    secrets: Mapping[str, Any] | None


class Arguments(Options, TaskArguments, total=False):
    """What `Replan` and `Replan.run` take together."""

    model: ModelChoice
    db: str | Path | None
    settings: Settings | None
    endpoint: str | None
    api_key: str | None
    record: str | Path | None
    replay: str | Path | None
    ask: Ask | None
    on_event: OnEvent | None


@overload
def run_sync(
    text: str, tools: Tools = (), *, output_type: type[T], **arguments: Unpack[Arguments]
) -> TaskResult[T]: ...


@overload
def run_sync(
    text: str, tools: Tools = (), *, output_type: Any = None, **arguments: Unpack[Arguments]
) -> TaskResult[Any]: ...


def run_sync(
    text: str, tools: Tools = (), *, output_type: Any = None, **arguments: Unpack[Arguments]
) -> TaskResult[Any]:
    """Run one task from code that is not async; takes what `Replan` and `Replan.run` take, by the same names.

    Where an event loop runs already (a notebook), the task runs in a thread with a loop of its own.
    """
    given = dict(arguments)
    task: dict[str, Any] = {name: given.pop(name) for name in TaskArguments.__annotations__ if name in given}
    more: dict[str, Any] = given

    async def main() -> TaskResult[Any]:
        async with Replan(tools=tools, **more) as replan:
            return await replan.run(text, output_type=output_type, **task)

    return run_to_end(main)
