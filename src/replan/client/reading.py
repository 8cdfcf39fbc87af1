"""What a client reads of tasks and tools."""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, TypeVar

import httpx2
from pydantic import TypeAdapter, ValidationError

from replan.client.connection import Connection, Refused, quoted, task_path, unreachable
from replan.client.events import follow, record_of
from replan.core.drawing.shown import TaskDrawing
from replan.core.events import Record
from replan.core.references.binary import as_bytes
from replan.core.references.kept import MOST_VALUE, value_of
from replan.core.report.result import TaskResult, WaitingFor
from replan.core.state.fold import fold
from replan.core.state.task import ENDED
from replan.errors import InputError, ReplanError, ServiceError, TaskNotDone
from replan.ports import TaskSummary
from replan.run.access.views import (
    Health,
    OutputPiece,
    Page,
    PlanView,
    Ready,
    SceneView,
    StepView,
    TaskRow,
    TaskView,
    ToolStatsView,
    ToolView,
    WaitingTask,
    WorkflowView,
)
from replan.run.service.drawn import graph_of_log
from replan.run.service.notebook import shown
from replan.run.service.results import part_at, result_of

T = TypeVar("T")
WAIT_SECS = 30.0
"""How long one request waits for a task's end."""
ANSWERED_SECS = 10.0
"""So long it may take a task to go on that has got its answer."""
LEAST_SECS = 0.5
PAGE = 200
_JSON = "application/json"


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


class Reading:
    """A part of `Client`."""

    @property
    @abstractmethod
    def _connection(self) -> Connection: ...

    async def _get(self, path: str, form: type[T], wait_secs: float = 0.0, **params: Any) -> T:
        found: T = formed(form, await self._connection.ask("GET", path, params=params, wait_secs=wait_secs))
        return found

    # ── tasks ──

    async def tasks(
        self,
        status: str | Sequence[str] = (),
        limit: int = 100,
        *,
        session_id: str | None = None,
        tenant: str | None = None,
    ) -> list[TaskSummary]:
        """The tasks, newest first. `tenant`: of another one, for whoever sees those of all."""
        wanted = (status,) if isinstance(status, str) else tuple(status)
        found: list[TaskSummary] = []
        cursor: str | None = None
        while len(found) < limit:
            page: Page[TaskRow] = await self._get(
                "/tasks", Page[TaskRow], status=wanted, session_id=session_id, tenant=tenant,
                cursor=cursor, limit=min(PAGE, limit - len(found)),
            )  # fmt: skip
            found += map(_summary, page.items)
            if (cursor := page.next_cursor) is None:
                break
        return found

    async def task(self, task_id: str) -> TaskView:
        """How the task stands."""
        return await self._get(task_path(task_id), TaskView)

    async def summary(self, task_id: str) -> TaskSummary:
        """The task's row in the list."""
        return _summary(await self.task(task_id))

    async def result(self, task_id: str) -> TaskResult:
        """What the task has come to so far; `status` says whether it has ended."""
        try:
            return await self._get(f"{task_path(task_id)}/result", TaskResult[Any])
        except TaskNotDone:
            return await self._so_far(task_id)

    async def _so_far(self, task_id: str) -> TaskResult:
        """Of a task that has not ended: read from its log."""
        state = fold(await self.history(task_id))
        return await result_of(state, _Nothing())

    async def wait(self, task_id: str) -> TaskResult:
        """Wait for the task's end, or until it waits for a person; its result."""
        path = f"{task_path(task_id)}/result"
        now = asyncio.get_running_loop().time
        while True:
            begun = now()
            try:
                return await self._get(path, TaskResult[Any], WAIT_SECS, wait=WAIT_SECS)
            except TaskNotDone:
                view = await self.task(task_id)
            if view.status == "waiting":
                answered = not view.waiting_for  # it is about to go on
                secs = None if goes_on_by_itself(view.waiting_for) else ANSWERED_SECS if answered else 0.0
                if not await self._goes_on(task_id, view.last_seq, secs):
                    return await self._so_far(task_id)
            elif now() - begun < LEAST_SECS:  # a service that does not wait for it
                await asyncio.sleep(LEAST_SECS)

    async def _goes_on(self, task_id: str, last_seq: int, secs: float | None) -> bool:
        """Whether anything happens in the task after that event, in so many seconds; None: however long it takes."""
        if secs == 0:
            return False
        records = self.watch(task_id, last_seq)
        try:
            async with asyncio.timeout(secs):
                async for _ in records:
                    break
        except TimeoutError:
            return False
        finally:
            if (close := getattr(records, "aclose", None)) is not None:
                await close()
        return True

    def watch(self, task_id: str, after: int = 0, *, ephemeral: bool = False) -> AsyncIterator[Record]:
        """Every event after `after`, live, to the task's end, whatever becomes of connections, and of the service in between.

        `ephemeral`: also what is not stored (tokens, progress), as records with seq 0.
        """
        return follow(self._connection, task_id, after, ephemeral=ephemeral)

    async def drawing(self, task_id: str, version: int | None = None) -> TaskDrawing:
        """Its plan as a graph, with how each step stands and the critical path; `version`: an earlier plan."""
        return TaskDrawing(graph_of_log(await self.history(task_id), time.time(), version))

    async def show(self, task_id: str) -> TaskResult:
        """`wait`; in a notebook the task's graph is shown meanwhile, and changes as the task goes on."""
        return await shown(self.watch(task_id), self.wait(task_id))

    async def history(self, task_id: str, after: int = 0) -> list[Record]:
        """The task's log so far."""
        found: list[Record] = []
        while True:
            page = await self._connection.ask(
                "GET", f"{task_path(task_id)}/events", params={"after": after, "limit": PAGE}
            )
            try:
                records = [record_of(one) for one in page["items"]]
                more = page.get("next_after")
            except (KeyError, TypeError, AttributeError):
                raise ServiceError("what came from the service is no page of events") from None
            found += records
            if more is None or not records:
                return found
            after = int(more)

    async def plans(self, task_id: str) -> list[PlanView]:
        """Every plan that the task has had, the first one first."""
        return await self._get(f"{task_path(task_id)}/plans", list[PlanView])

    async def step(self, task_id: str, step_id: str) -> StepView:
        """A step with its calls, and what was said about its failures."""
        return await self._get(f"{task_path(task_id)}/steps/{quoted(step_id)}", StepView)

    # ── outputs ──

    async def output(self, task_id: str, step_id: str, *, item: int | None = None) -> Any:
        """The whole output of a step of any plan; `item`: of one item of a `for_each`, from 1."""
        piece = await self._piece(task_id, step_id, item, 0)
        if piece.media_type != _JSON and piece.artifact_id is not None:
            if piece.total > MOST_VALUE:
                raise InputError(
                    f"the output of step {step_id!r} is too large for a value: read it piece by piece (output_pieces)"
                )
            data = b"".join([one async for one in self.artifact(task_id, piece.artifact_id)])
            return value_of(data, piece.media_type)
        text = [piece.text]
        while piece.next_offset is not None:
            piece = await self._piece(task_id, step_id, item, piece.next_offset)
            text.append(piece.text)
        return json.loads("".join(text))

    async def output_pieces(
        self, task_id: str, step_id: str, *, item: int | None = None, path: str | None = None
    ) -> AsyncIterator[bytes]:
        """The output of a step as bytes, piece by piece: as they are where it is a file, text as text, all else as JSON.

        `path`: a part of it (JMESPath).
        """
        piece = await self._piece(task_id, step_id, item, 0)
        if piece.media_type != _JSON and piece.artifact_id is not None and path is None:
            async for data in self.artifact(task_id, piece.artifact_id):
                yield data
            return
        value = await self.output(task_id, step_id, item=item)
        if path is not None:
            value = part_at(value, path)
        yield as_bytes(value)

    async def _piece(self, task_id: str, step_id: str, item: int | None, offset: int) -> OutputPiece:
        where = f"{task_path(task_id)}/steps/{quoted(step_id)}/output"
        return await self._get(where, OutputPiece, item=item, offset=offset)

    async def artifact(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        """What is kept apart under that id, piece by piece, as it is."""
        path = f"{task_path(task_id)}/artifacts/{quoted(artifact_id)}"
        pauses = self._connection.pauses()
        given = 0
        while True:
            problem: ReplanError
            least = None
            try:
                async with self._connection.streamed(path) as response:
                    passed = 0
                    async for piece in response.aiter_bytes():
                        fresh = piece[max(0, given - passed) :]  # what came before the connection broke
                        passed += len(piece)
                        if fresh:
                            given += len(fresh)
                            pauses.succeeded()
                            yield fresh
                    return
            except httpx2.TransportError as error:
                problem = unreachable(self._connection, error)
            except Refused as refused:
                if not refused.passes:
                    raise refused.error from None
                problem, least = refused.error, refused.retry_after
            await pauses.pause(problem, least)

    # ── people ──

    async def waiting(self, limit: int = 100) -> list[WaitingTask]:
        """What waits for people, over all tasks, newest first; an approval with the hash of the call that is shown."""
        found: list[WaitingTask] = []
        cursor: str | None = None
        while len(found) < limit:
            page: Page[WaitingTask] = await self._get(
                "/waiting", Page[WaitingTask], cursor=cursor, limit=min(PAGE, limit - len(found))
            )
            found += page.items
            if (cursor := page.next_cursor) is None:
                break
        return found[:limit]

    async def waits(self, task_id: str) -> list[WaitingTask]:
        """What the task waits for from people."""
        return await self._get(f"{task_path(task_id)}/waiting", list[WaitingTask])

    # ── tools and the service ──

    async def tools(self) -> list[ToolView]:
        """Every tool that tasks may use."""
        return await self._get("/tools", list[ToolView])

    async def tool_stats(self, tool_id: str | None = None) -> list[ToolStatsView]:
        """How tools have done so far; None: each of those that there are."""
        names = [tool_id] if tool_id is not None else [tool.id for tool in await self.tools()]
        return [await self._get(f"/tools/{quoted(name)}/stats", ToolStatsView) for name in names]

    async def workflows(self) -> list[WorkflowView]:
        """The plans that are written beforehand."""
        return await self._get("/workflows", list[WorkflowView])

    async def scenes(self) -> list[SceneView]:
        """The kinds of tasks for which there is guidance."""
        return await self._get("/scenes", list[SceneView])

    async def health(self) -> Health:
        """That it is alive."""
        return await self._get("/health", Health)

    async def ready(self) -> Ready:
        """Whether the service can take tasks, with each thing that it stands on."""
        return formed(Ready, await self._connection.ask("GET", "/ready", fine=(503,)))


def formed(form: type[T], value: Any) -> T:
    """The answer as what it is; `ServiceError` where it is not."""
    try:
        adapter = _ADAPTERS.get(repr(form)) or _ADAPTERS.setdefault(repr(form), TypeAdapter(form))
        found: T = adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise ServiceError(
            f"the service answered something else than a client of this release knows: {where}: {first['msg']}"
        ) from None
    return found


def goes_on_by_itself(waits: Sequence[WaitingFor]) -> bool:
    """Whether it waits for a time, and for nobody to resume it."""
    kinds = {one.kind for one in waits}
    return "time" in kinds and not kinds & {"pause", "key", "model", "process"}


def _summary(row: TaskRow | TaskView) -> TaskSummary:
    given: Mapping[str, Any] = row.__dict__
    answered = row.status == "waiting" and given.get("waiting_for") == ()  # the service goes on with it
    return TaskSummary(
        task_id=row.task_id,
        status=row.status,
        description=row.description,
        created=row.created,
        updated=row.updated,
        last_seq=row.last_seq,
        held=row.status not in ENDED and (row.status != "waiting" or answered),
        queue=given.get("queue") or "",
        tenant=row.tenant or "",
        session=row.session_id or "",
    )


class _Nothing:
    """Where nothing is kept apart: what has not ended has no answer yet."""

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        raise ServiceError(f"artifact {artifact_id!r} was to be read beside the service")
