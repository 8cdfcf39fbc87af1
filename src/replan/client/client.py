"""`Client`: a service of Replan by the names of `Replan`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets as random_secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from pydantic import SecretStr, TypeAdapter

from replan.client.acting import Acting
from replan.client.connection import Connection, Key
from replan.client.options import TaskOptions, as_json, in_clear
from replan.client.reading import Reading, formed
from replan.core.report.result import TaskResult
from replan.core.types import Plan
from replan.errors import InputError, ReplanError
from replan.run.access.views import Preview, Submitted
from replan.run.following.wanted import with_names
from replan.run.service.typed import typed_result

T = TypeVar("T")
PATIENCE_SECS = 60.0
CANCEL_SECS = 5.0
"""How long a caller that was cancelled tries to have its task cancelled, too."""


class Client(Reading, Acting):
    """A service of Replan, by the names of `Replan`.

    `url`: its address, `http://HOST:PORT`; None takes `REPLAN_SERVER`. `api_key`: a key of the service or a token, as
    `env:VARIABLE`, `file:PATH`, itself, or a function that gives it for each request; None takes `REPLAN_API_KEY`.
    `patience_secs`: how long a service that does not answer is tried again; a service that is started anew within it is not
    noticed, also by whoever watches.

    Use it as `async with Client(...) as client:`, or call `aclose`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: Key | None = None,
        patience_secs: float = PATIENCE_SECS,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._to = Connection(url, api_key, patience_secs=patience_secs, headers=headers)

    @property
    def _connection(self) -> Connection:
        return self._to

    @property
    def url(self) -> str:
        """Where calls go."""
        return self._to.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. Tasks go on."""
        await self._to.aclose()

    # ── begin ──

    @overload
    async def run(
        self,
        text: str,
        *,
        output_type: type[T],
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> TaskResult[T]: ...

    @overload
    async def run(
        self,
        text: str,
        *,
        output_type: Any = None,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> TaskResult[Any]: ...

    async def run(
        self,
        text: str,
        *,
        output_type: Any = None,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> TaskResult[Any]:
        """Run a task to its end, or until it waits for a person. `output_type`: a type that `.output` will be.

        `previous_task_id`: the task that this one follows: what that has done and given can be used. `session_id`: the
        same of the last tasks with the same one. If the caller is cancelled, so is the task.
        """
        adapter: TypeAdapter[Any] | None = None
        if output_type is not None:
            if options.get("output_schema") is not None:
                raise InputError("give output_type or output_schema, not both")
            adapter = TypeAdapter(output_type)
            options["output_schema"] = adapter.json_schema()
        submitting = asyncio.ensure_future(
            self.submit(
                text, metadata=metadata, context=with_names(context, session_id, previous_task_id), task_id=task_id, timeout=timeout, plan=plan,
                secrets=secrets, **options,
            )
        )  # fmt: skip
        try:
            result = await self.wait(await asyncio.shield(submitting))
        except asyncio.CancelledError:
            with contextlib.suppress(ReplanError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECS):  # it may be stored already
                    await self.cancel(await submitting, reason="its caller was cancelled")
            raise
        if adapter is None or result.status == "waiting":
            return result
        return typed_result(result, adapter, output_type)

    async def submit(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        queue: str | None = None,
        priority: int | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[TaskOptions],
    ) -> str:
        """Store a task and have it driven; its id. The same id, or key, with the same request is the same task.

        It may be sent several times where connections break, and is one task all the same.
        """
        context = with_names(context, session_id, previous_task_id)
        body = _request(text, metadata, context, timeout, plan, secrets, options)
        body = as_json({**body, "task_id": task_id})
        if queue is not None or priority is not None:
            body["options"] = as_json({**body.get("options", {}), "queue": queue, "priority": priority})
        headers = {}
        if task_id is None:
            headers["idempotency-key"] = idempotency_key or random_secrets.token_hex(16)
        elif idempotency_key is not None:
            raise InputError("give task_id or idempotency_key, not both: either names the task")
        made = await self._to.ask("POST", "/tasks", body=body, headers=headers, again=True)
        return formed(Submitted, made).task_id

    async def preview(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        timeout: float | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> Preview:
        """What the task would do: a checked plan, its effects and approvals, what it may take and cost. Nothing is stored or run."""
        context = with_names(context, session_id, previous_task_id)
        body = {**_request(text, metadata, context, timeout, plan, secrets, options), "dry_run": True}
        made = await self._to.ask("POST", "/tasks", body=as_json(body), again=True, wait_secs=300.0)
        return formed(Preview, made)

    async def plan(
        self,
        text: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        previous_task_id: str | None = None,
        plan: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str | SecretStr] | None = None,
        **options: Unpack[TaskOptions],
    ) -> Plan:
        """A checked plan for the task, which is neither stored nor run; with `plan`, that one checked."""
        context = with_names(None, session_id, previous_task_id)
        seen = await self.preview(
            text, metadata=metadata, context=context, plan=plan, secrets=secrets, **options
        )
        return formed(Plan, seen.plan)


def _request(
    text: str,
    metadata: Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
    timeout: float | None,
    plan: Mapping[str, Any] | None,
    secrets: Mapping[str, str | SecretStr] | None,
    options: TaskOptions,
) -> dict[str, Any]:
    return {
        "task_description": text,
        "metadata": metadata or None,
        "context": context or None,
        "secrets": in_clear(secrets) or None,
        "options": {**options, "timeout_secs": timeout, "plan": plan},
    }
