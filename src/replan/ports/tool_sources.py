"""Where tools come from: one call as a source gets it, and what a source may tell of itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, runtime_checkable

from replan.core.references.kept import id_of, name_of
from replan.core.secrets import KnownSecrets
from replan.core.types import Artifact, Effect, JsonObject, ToolSpec
from replan.ports.contents import Content


class Progress(NamedTuple):
    message: str = ""
    progress: float | None = None
    total: float | None = None


class Question(NamedTuple):
    """What a tool asks a person while it runs. `json_schema`: of the answer, an object."""

    message: str
    json_schema: JsonObject


class KeptOutput(NamedTuple):
    """What a source gives in place of a value that it has had stored piece by piece (`ToolCall.keep`)."""

    content: Content
    media_type: str
    head: str = ""
    tail: str = ""
    shape: str = ""
    masked: bool = False
    """A secret was cut out of it."""

    @property
    def name(self) -> str:
        """What stands for it in a value that holds it (`WithFiles`)."""
        return name_of(id_of(self.content.digest))


class WithFiles(NamedTuple):
    """What a source gives whose value holds files: they stand in it by their names."""

    value: Any
    files: tuple[KeptOutput, ...]


class ToolCall(NamedTuple):
    """One call as a source gets it. `parameters` have passed the tool's schema."""

    tool_id: str
    parameters: JsonObject
    key: str
    """The idempotency key: the same for every attempt of the same call."""
    task_id: str = ""
    step_id: str = ""
    attempt: int = 1
    deadline_secs: float | None = None
    """Seconds left when the call was made."""
    report: Callable[[Progress], None] | None = None
    ask: Callable[[Question], Awaitable[JsonObject | None]] | None = None
    """Asks a person; None, or an answer of None: nobody answers, and the tool is told so."""
    effect: Effect | None = None
    """The tool's effect as the user has decided it; None: as its source says. It binds a source that sends again."""
    late: Callable[[asyncio.Future[Any] | Future[Any]], None] | None = None
    """Told of what will end as the call's work ends, by a source whose work goes on after the call was stopped."""
    keep: Callable[[AsyncIterable[bytes], str], Awaitable[KeptOutput]] | None = None
    """Stores an output that comes piece by piece, of that media type; what it gives is what the call gives."""
    open: Callable[[str], AsyncIterator[bytes]] | None = None
    """The bytes of an artifact of the task, for a parameter that stands for one (`core.references.kept`)."""
    known_file: Callable[[str], Artifact | None] | None = None
    """What is known of such an artifact: how large it is, and of which type."""
    trace: str = ""
    """Of whoever has submitted the task (32 hexadecimal digits); empty: the task's own."""
    keys_in: str | None = None
    """The memory of keys (`ToolSpec.keys_in`) that an earlier attempt of the call has relied on; empty: none. None: nobody knows."""
    retries: int | None = None
    """So many further tries the caller has, and makes itself after a fault that passes. None: a source may try again as it sees fit."""


class ToolProblem(NamedTuple):
    """Why a source, or one of its tools, cannot be used as it is."""

    message: str
    tool: str | None = None
    works: bool = False
    """All of it can be used; what is told is what cannot be counted on."""


class ToolSource(Protocol):
    """Some tools and how to call them.

    `call` returns a value that JSON can hold. It raises `ToolCallError` (or any exception, which counts as an
    error that the tool itself reports), and passes an `asyncio.CancelledError` on to the tool.
    """

    name: str

    def tools(self) -> Coroutine[Any, Any, Sequence[ToolSpec]]: ...
    def call(self, call: ToolCall) -> Coroutine[Any, Any, Any]: ...
    def aclose(self) -> Coroutine[Any, Any, None]: ...


@runtime_checkable
class Watched(Protocol):
    """A source whose list may change while it is open."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` in the event loop when the tools may be others than those last listed."""
        ...


@runtime_checkable
class Reporting(Protocol):
    """A source that can tell what it left out."""

    def problems(self) -> Sequence[ToolProblem]:
        """What went wrong with the latest listing, apart from what `tools` has raised."""
        ...


@runtime_checkable
class Sampled(Protocol):
    """A source that can tell a little of the data behind its tools."""

    async def data_sample(self) -> Any:
        """JSON of at most 2 kB; None: it has nothing to tell. It is asked after each listing."""
        ...


@runtime_checkable
class Discreet(Protocol):
    """A source that has keys or passwords of its own, which nobody may see."""

    secrets: KnownSecrets
    """What it knows, added to when it comes to know more (a token, say)."""
