"""Files: outputs and parameters of functions that are bytes in pieces, and need not be in memory whole."""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from replan.core.references.binary import from_data_url
from replan.core.references.kept import TAKES_FILE, artifact_named, value_of
from replan.errors import ToolCallError
from replan.tools.bounds import MAX_RESULT_BYTES

if TYPE_CHECKING:
    from replan.ports import KeptOutput, ToolCall

_MET: ContextVar[list[File] | None] = ContextVar("files in what is written", default=None)
_TAKEN: ContextVar[list[File] | None] = ContextVar("files in what is read", default=None)
_PIECE = 1 << 20
_END = object()


class File:
    """Bytes that are read piece by piece.

    Returned by a tool, also as a part of what it returns, it is stored as it is read: `File(path)`, or a file object, an
    iterator or an async iterator of bytes. `ToolContext.keep` stores one at once, while the tool still runs.
    A parameter annotated with it is given the whole output of a step, however large; `for piece in file`, or `async for`
    in an async function, reads it, as often as one likes.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | Iterable[bytes] | AsyncIterable[bytes],
        media_type: str | None = None,
    ) -> None:
        self._source = source
        self._open: Callable[[], AsyncIterator[bytes]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._as_value: str | None = None
        self.size: int | None = len(source) if isinstance(source, bytes) else None
        """In bytes, where it is known beforehand: of a parameter it is."""
        self.kept: KeptOutput | None = None
        """Where it is stored already, as an output of this call."""
        if media_type is None and isinstance(source, str | os.PathLike):
            media_type = mimetypes.guess_type(os.fspath(source))[0]
        self.media_type = media_type or "application/octet-stream"

    @property
    def artifact(self) -> str | None:
        """Of a parameter: the artifact that it stands for."""
        return self._source.artifact_id if isinstance(self._source, _Named) else None

    def bind(self, call: ToolCall, loop: asyncio.AbstractEventLoop) -> None:
        """Where to read it from, if it stands for an artifact, and what is known of that."""
        artifact_id, opener = self.artifact, call.open
        if artifact_id is None or opener is None:
            return
        self._open, self._loop = lambda: opener(artifact_id), loop
        known = call.known_file(artifact_id) if call.known_file is not None else None
        if known is not None:
            self.size, self.media_type = known.size, known.media_type or self.media_type

    async def keep(self, keep: Callable[[AsyncIterable[bytes], str], Awaitable[KeptOutput]] | None) -> None:
        """Store it by `keep`, once; where nobody stores anything, it becomes a value. `ToolCallError` if it cannot be had, or is
        too large for a value: whoever gives it may have had an effect by then, or has it as it is read, whatever the error says."""
        if not self.is_left:
            return
        try:
            await self._keep(keep)
        except Exception as error:
            from replan.core.failures.faults import classify

            fault = classify(error)
            said = (
                str(error)
                if isinstance(error, ToolCallError)
                else f"the file cannot be kept: {fault.message}"
            )
            raise ToolCallError(
                said, kind=fault.kind, status=fault.status, retry_after=fault.retry_after, happened="unknown"
            ) from error

    async def _keep(self, keep: Callable[[AsyncIterable[bytes], str], Awaitable[KeptOutput]] | None) -> None:
        async with contextlib.aclosing(aiter(self)) as pieces:
            if keep is not None:
                self.kept = await keep(pieces, self.media_type)
                return
            data = bytearray()
            async for piece in pieces:
                data += piece
                if len(data) > MAX_RESULT_BYTES:
                    text = f"a file of more than {MAX_RESULT_BYTES:,} bytes cannot be a value, and nothing stores files here"
                    raise ToolCallError(text, kind="output", happened="unknown")
        self._as_value = value_of(bytes(data), self.media_type)

    @property
    def is_left(self) -> bool:
        """True if it is still to be kept."""
        return self.kept is None and self._as_value is None

    def __str__(self) -> str:
        """What stands for it in a value, once it is kept."""
        if self.kept is not None:
            return self.kept.name
        return repr(self) if self._as_value is None else self._as_value

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        source = self._source
        if isinstance(source, _Named):
            if self._open is None:
                raise ValueError(f"the file {source.artifact_id} can be read only while its tool is called")
            async for piece in self._open():
                yield piece
        elif isinstance(source, AsyncIterable):
            try:
                async for piece in source:
                    yield bytes(piece)
            finally:  # also where nobody reads on: what it holds is let go of now
                if (close := getattr(source, "aclose", None)) is not None:
                    await close()
        else:
            pieces = iter(self)
            while (one := await asyncio.to_thread(next, pieces, _END)) is not _END:
                yield one  # type: ignore[misc]

    def __iter__(self) -> Iterator[bytes]:
        source: Any = self._source
        if isinstance(source, _Named | AsyncIterable):
            if self._loop is None:
                raise ValueError("it comes from the event loop: read it with `async for`")
            yield from _from_loop(aiter(self), self._loop)
        elif isinstance(source, bytes | bytearray | memoryview):
            for at in range(0, len(source), _PIECE):
                yield bytes(source[at : at + _PIECE])
        elif isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece
        elif hasattr(source, "read"):
            while piece := source.read(_PIECE):
                yield bytes(piece)
        else:
            for piece in source:
                yield bytes(piece)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _of_parameter,
            serialization=core_schema.plain_serializer_function_ser_schema(
                in_json, return_schema=core_schema.str_schema(), when_used="json-unless-none"
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", TAKES_FILE: True}


class _Named:
    """An artifact of the task."""

    def __init__(self, artifact_id: str) -> None:
        self.artifact_id = artifact_id


class FilesIn:
    """`with`: the files that are met in what is written as JSON meanwhile, or made of what is read for parameters, wherever they stand."""

    __slots__ = ("_of", "_token", "found")

    def __init__(self, *, read: bool = False) -> None:
        self._of = _TAKEN if read else _MET
        self.found: list[File] = []

    def __enter__(self) -> list[File]:
        self._token = self._of.set(self.found)
        return self.found

    def __exit__(self, *_: object) -> None:
        self._of.reset(self._token)


def in_json(file: File) -> str:
    """What stands for a file in JSON: its name where it is kept, or what it holds. `TypeError` where it is neither, but for whoever
    looks for those: bytes that nobody keeps are told, and no word in their place."""
    if (met := _MET.get()) is not None:
        met.append(file)
    elif file.is_left:
        raise TypeError("a File that nobody has kept stands in it")
    return "" if file.is_left else str(file)


def _of_parameter(value: Any) -> File:
    if isinstance(value, File):
        return value
    if not isinstance(value, str):
        raise ValueError("a file is given as a reference to a step's output, a text, or a data: URL")
    if (artifact_id := artifact_named(value)) is not None:
        made = File(b"")
        made._source, made.size = _Named(artifact_id), None  # type: ignore[assignment]
        if (taken := _TAKEN.get()) is not None:
            taken.append(made)
        return made
    if (found := from_data_url(value)) is not None:
        return File(found[1], found[0])
    if value.startswith("data:") and ";base64," in value[:200]:
        raise ValueError("what stands after 'data:…;base64,' is not base64")
    return File(value.encode("utf-8", "replace"), "text/plain")


def _from_loop(pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    async def following() -> Any:
        return await anext(pieces, _END)

    while (one := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not _END:
        yield one
