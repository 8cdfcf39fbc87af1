"""Large outputs, stored beside the log that names them."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple, Protocol


class Content(NamedTuple):
    """What `Contents.keep` has stored."""

    digest: str
    """SHA-256, as hex."""
    size: int


class NewArtifact(NamedTuple):
    """A large output to be stored with the events that name it."""

    artifact_id: str
    data: bytes = b""
    kept: Content | None = None
    """It is stored already, without being a task's."""


class ArtifactStore(Protocol):
    """Large outputs, by task and id; those of the tasks that it rests on are a fork's, too."""

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        """`StoreDamaged` if it is not what was stored."""
        ...


class Contents(Protocol):
    """The same in pieces, for what no memory should have whole."""

    def pieces(self, task_id: str, artifact_id: str) -> AsyncIterator[bytes]:
        """An artifact, in order; `StoreDamaged` at its end if it is not what was stored."""
        ...

    async def part(self, task_id: str, artifact_id: str, start: int, size: int) -> bytes:
        """So many bytes from there on, less at the end. Whether it is what was stored shows only where all of it is read."""
        ...

    async def keep(self, pieces: AsyncIterable[bytes]) -> Content:
        """Store a content that a task is about to use (`NewArtifact.kept`); what is not used within the hour may be
        removed. Of one that breaks off nothing is left."""
        ...
