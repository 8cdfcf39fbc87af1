"""A service as commands have it: in place of a `Replan`, by the same names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from replan.cli.terminal.terminal import say, secrets
from replan.client import Client
from replan.core.events import ForkMade, Record, TaskForked
from replan.core.report.result import WaitingFor
from replan.core.types import Plan, ToolSpec
from replan.core.words import in_digits
from replan.errors import ReplanError
from replan.run.service.forking import Kin

if TYPE_CHECKING:
    from replan.app import Replan

PATIENCE_SECS = 30.0
FIRST_SECS = 5.0
"""A service that has never answered is most likely not there, or is started anew just now."""


class Served(Client):
    """`by` is taken and left alone: the service names who calls."""

    is_service = True
    tool_problems: tuple[str, ...] = ()

    def __init__(self, url: str, **options: Any) -> None:
        """`options`: of every task that is submitted here."""
        super().__init__(url, patience_secs=PATIENCE_SECS)
        self._to.first_secs = FIRST_SECS
        self._to.told = _tell
        if key := self._to.key():
            secrets().add(key)
        self._options = {name: value for name, value in options.items() if value is not None}

    @property
    def shown(self) -> str:
        return f"the service at {self.url.removesuffix('/api/v1')}"

    def drives(self, task_id: str) -> bool:
        """Not here."""
        return False

    async def why_waiting(self, task_id: str) -> str:
        """That is the service's affair."""
        return ""

    async def submit(self, text: str, **request: Any) -> str:
        return await super().submit(text, **{**self._options, **request})

    async def plan(self, text: str, **request: Any) -> Plan:
        return await super().plan(text, **{**self._options, **request})

    async def tools(self) -> Any:
        return [
            ToolSpec(
                id=one.id, name=one.id, description=one.description, effect=one.effect, source=one.source,
                parameters=one.parameters, output_schema=one.output_schema, requires_approval=one.requires_approval,
            )
            for one in await super().tools()
        ]  # fmt: skip

    # ── what people do ──

    async def approve(self, task_id: str, approval_id: str | None = None, parameters: Any = None, by: str = "", **more: Any) -> WaitingFor:  # fmt: skip
        return await super().approve(task_id, approval_id, parameters, **more)

    async def reject(
        self, task_id: str, approval_id: str | None = None, reason: str = "", by: str = ""
    ) -> None:
        await super().reject(task_id, approval_id, reason)

    async def answer(self, task_id: str, text: Any, question_id: str | None = None, output: Any = None, by: str = "") -> None:  # fmt: skip
        await super().answer(task_id, text, question_id, output)

    async def review(self, task_id: str, approved: bool = True, *, plan: Any = None, reason: str = "", by: str = "", **more: Any) -> WaitingFor:  # fmt: skip
        return await super().review(task_id, approved, plan=plan, reason=reason, **more)

    async def signal(self, task_id: str, token: str, data: Any = None, by: str = "") -> bool:
        return await super().signal(task_id, token, data)

    async def cancel(self, task_id: str, reason: str = "", by: str | None = None) -> None:
        await super().cancel(task_id, reason)

    async def pause(
        self, task_id: str, reason: str = "", by: str | None = None, *, now: bool = False
    ) -> None:
        await super().pause(task_id, reason, now=now)

    async def hand_on(
        self, task_id: str, reason: str = "", by: str | None = None, *, secrets: Any = None
    ) -> None:
        await super().hand_on(task_id, reason, secrets=secrets)

    async def hint(self, task_id: str, text: str, by: str | None = None) -> None:
        await super().hint(task_id, text)

    async def retry_step(self, task_id: str, step_id: str, reason: str = "", by: str | None = None) -> None:
        await super().retry_step(task_id, step_id, reason)

    async def judge_again(self, task_id: str, hint: str = "", by: str | None = None) -> None:
        await super().judge_again(task_id, hint)

    # ── what commands look at beside ──

    @contextlib.contextmanager
    def end_of(self, task_id: str) -> Iterator[asyncio.Event]:
        """Set by whoever has seen the end."""
        yield asyncio.Event()

    async def is_paused(self, task_id: str) -> bool:
        return any(one.kind == "pause" for one in (await self.task(task_id)).waiting_for)

    def kin_of(self, records: list[Record]) -> Kin:
        """Where the task was forked from, and the forks that its log tells of."""
        own = [one.event for one in records if isinstance(one.event, TaskForked)]
        at = own[-1].at if own else 0
        forks = {
            one.event.fork: one.event.at
            for one in records
            if isinstance(one.event, ForkMade) and one.seq > at
        }
        return Kin(own[-1].origin if own else None, at, forks)

    async def is_file(self, task_id: str, step_id: str, item: int | None) -> bool:
        """Whether the output of the step is a file."""
        piece = await self._piece(task_id, step_id, item, 0)
        return piece.artifact_id is not None and piece.media_type != "application/json"


def _tell(error: ReplanError, left: float) -> None:
    say(f"{error}; tried again for {in_digits(round(left))} s")


def as_replan(address: str, **options: Any) -> Replan:
    """The service under the type that commands know: they use names that both have."""
    return cast("Replan", Served(address, **options))


def stats_rows(stats: list[Any]) -> list[dict[str, Any]]:
    """Rows as those of a database, the most called tool first."""
    called = [one for one in stats if one.calls]
    return [
        {
            "tool": one.tool_id,
            "source": one.source,
            "calls": one.calls,
            "failures": round(one.calls * (1 - (one.success_rate or 0.0))),
            "success_rate": one.success_rate,
            "p50_secs": one.p50_secs,
            "p95_secs": one.p95_secs,
            "errors": [{"error": words, "count": count} for words, count in one.common_errors],
        }
        for one in sorted(called, key=lambda each: (-each.calls, each.source, each.tool_id))
    ]
