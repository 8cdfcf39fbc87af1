"""Bodies of requests that hold files of the task: sent piece by piece, never in memory whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from replan.core.references.kept import artifact_named
from replan.core.types import Artifact

Known = Callable[[str], Artifact | None]
Open = Callable[[str], AsyncIterator[bytes]]


class Upload(NamedTuple):
    """A body: bytes and files, one after the other."""

    parts: tuple[bytes | Artifact, ...]

    @property
    def size(self) -> int:
        return sum(len(part) if isinstance(part, bytes) else part.size for part in self.parts)

    async def pieces(self, opened: Open) -> AsyncIterator[bytes]:
        for part in self.parts:
            if isinstance(part, bytes):
                yield part
                continue
            async for piece in opened(part.artifact_id):
                yield piece


def file_of(value: object, known: Known | None) -> Artifact | None:
    """The file of the task that the value is the name of."""
    if known is None or not isinstance(value, str) or (artifact_id := artifact_named(value)) is None:
        return None
    return known(artifact_id)


def joined(parts: list[bytes | Artifact]) -> bytes | Upload:
    """The parts in one: bytes where there is no file among them."""
    if all(isinstance(part, bytes) for part in parts):
        return b"".join(part for part in parts if isinstance(part, bytes))
    return Upload(tuple(parts))
