"""Files: outputs and parameters of functions that are bytes in pieces, and never in memory whole."""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from replan.core.references.kept import TAKES_FILE, artifact_named
from replan.tools.binary import from_data_url

_PIECE = 1 << 20
_END = object()


class File:
    """Bytes that are read piece by piece.

    Returned by a tool, it is stored as it is read: `File(path)`, or a file object, an iterator or an async iterator of bytes.
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
        if media_type is None and isinstance(source, str | os.PathLike):
            media_type = mimetypes.guess_type(os.fspath(source))[0]
        self.media_type = media_type or "application/octet-stream"

    @property
    def artifact(self) -> str | None:
        """Of a parameter: the artifact that it stands for."""
        return self._source.artifact_id if isinstance(self._source, _Named) else None

    def bind(self, opener: Callable[[str], AsyncIterator[bytes]], loop: asyncio.AbstractEventLoop) -> None:
        """Where to read it from, if it stands for an artifact."""
        if (artifact_id := self.artifact) is not None:
            self._open, self._loop = lambda: opener(artifact_id), loop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        source = self._source
        if isinstance(source, _Named):
            if self._open is None:
                raise ValueError(f"the file {source.artifact_id} can be read only while its tool is called")
            async for piece in self._open():
                yield piece
        elif isinstance(source, AsyncIterable):
            async for piece in source:
                yield bytes(piece)
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
            _of_parameter, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        return {"type": "string", TAKES_FILE: True}


class _Named:
    """An artifact of the task."""

    def __init__(self, artifact_id: str) -> None:
        self.artifact_id = artifact_id


def _of_parameter(value: Any) -> File:
    if isinstance(value, File):
        return value
    if not isinstance(value, str):
        raise ValueError("a file is given as a reference to a step's output, a text, or a data: URL")
    if (artifact_id := artifact_named(value)) is not None:
        made = File(b"")
        made._source = _Named(artifact_id)  # type: ignore[assignment]
        return made
    if (found := from_data_url(value)) is not None:
        return File(found[1], found[0])
    return File(value.encode("utf-8", "replace"), "text/plain")


def _from_loop(pieces: AsyncIterator[bytes], loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    async def following() -> Any:
        return await anext(pieces, _END)

    while (one := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not _END:
        yield one
