"""An output without its secrets: what is kept of it, while this process still knows the rest."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING

from replan.beside import beside, seen_through
from replan.core.data.pieces import weight
from replan.core.data.preview import HEAD, TAIL
from replan.core.secrets import MASK, KnownSecrets, Pieces, may_say_secret, secrets_of_schema
from replan.core.types import ToolSpec
from replan.errors import StoreError, ToolCallError
from replan.ports import KeptOutput
from replan.run.session.outputs import Packed, Streamed, pack

if TYPE_CHECKING:
    from replan.run.session.context import Run

MOST_BYTES = 64 * 2**30
"""A stream that does not end fills no disk."""
AT_ONCE = 32_768
"""Characters that are read in the event loop; more are read beside it, piece by piece."""


class Sealed(Packed):
    """An output in which something is masked."""


def may_be_sealed(run: Run, tool: ToolSpec) -> bool:
    """False where an output of the tool surely holds no secret that is known."""
    return run.secrets.any or (tool.output_schema is not None and may_say_secret(tool.output_schema))


async def sealed(packed: Packed, run: Run, tool: ToolSpec, limit: int) -> Packed:
    """The output with every secret in it masked; the same if there is none. References still find the real values."""
    if isinstance(packed, Streamed):  # they were taken out on the way
        masked = packed.artifact is not None and packed.artifact.masked
        return Sealed(*packed) if masked else packed
    if any(file.masked for file in packed.files):
        packed = Sealed(*packed)
    known = run.secrets
    small = packed.stored is None and weight(packed.value, AT_ONCE) <= AT_ONCE
    found = secrets_of_schema(tool.output_schema, packed.value)
    if small:
        known.add_all(found)
        masked = known.masked(packed.value)
        return packed if masked is packed.value else Sealed(*packed._replace(value=masked))
    await seen_through(known.add_all, found)
    if not known:
        return packed
    made = await seen_through(_masked, known, packed, limit)
    if made.artifact is not None:
        run.kept[made.artifact.artifact_id] = made.value
    return made


def _masked(known: KnownSecrets, packed: Packed, limit: int) -> Packed:
    masked = known.masked(packed.value)
    if masked is packed.value:
        return packed
    again = pack(masked, 0 if packed.stored is not None else limit)
    if again.artifact is None or again.stored is None:
        return Sealed(*packed._replace(value=masked, artifact=None, stored=None))
    artifact = again.artifact.model_copy(update={"masked": True})
    return Sealed(*packed._replace(value=masked, artifact=artifact, stored=again.stored))


async def keep(run: Run, stream: AsyncIterable[bytes], media_type: str) -> KeptOutput:
    """Store what a tool gives piece by piece."""
    seen = _Seen(run, stream)
    try:
        content = await run.parts.store.keep(seen)
    except StoreError as error:
        if not (
            seen.broke or run.closed or run.state.ended
        ):  # whoever gives it may have had an effect: no word of what became of the call
            run.lose(error)
        raise
    return KeptOutput(content, media_type, *seen.told(), masked=seen.masked)


class _Seen:
    """The stream without secrets, and what is to be told of it."""

    def __init__(self, run: Run, stream: AsyncIterable[bytes]) -> None:
        self._stream = stream
        self._secrets = run.secrets
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._text: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self.masked = False
        self.broke = False
        """The stream itself has ended with an error."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self._cleared():
                yield data
        except Exception:
            self.broke = True
            raise

    async def _cleared(self) -> AsyncIterator[bytes]:
        clear = _Cleared(Pieces(self._secrets)) if self._secrets.any else None
        async for piece in self._stream:
            data = bytes(piece)
            if clear is not None:
                data = await beside(clear.take, data)
            if data:
                yield self._noted(data)
        if clear is not None:
            if data := clear.rest():
                yield self._noted(data)
            self.masked = clear.masked

    def _noted(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > MOST_BYTES:
            raise ToolCallError(
                f"the output is larger than {MOST_BYTES:,} bytes", kind="output", happened="unknown"
            )
        if len(self._head) < 4 * HEAD:
            self._head += data[: 4 * HEAD]
        self._tail = bytearray((self._tail + data[-4 * TAIL :])[-4 * TAIL :])
        if self._text is not None:
            try:
                self._text.decode(data)
            except UnicodeDecodeError:
                self._text = None
        return data

    def told(self) -> tuple[str, str, str]:
        """Head, tail and shape."""
        if self._text is None:
            return "", "", f"{self._size:,} bytes"
        head = self._head.decode(errors="ignore")[:HEAD]
        return head, self._tail.decode(errors="ignore")[-TAIL:], f"text of {self._size:,} bytes"


class _Cleared:
    """Bytes as text, whatever they are, so that secrets are found across pieces; and back."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.masked = False

    def take(self, data: bytes) -> bytes:
        text = self._decoder.decode(data)
        return self._told(self._pieces.take(text))

    def rest(self) -> bytes:
        text = self._decoder.decode(b"", final=True)
        return self._told(self._pieces.take(text) + self._pieces.rest())

    def _told(self, told: str) -> bytes:
        self.masked = self.masked or MASK in told
        return told.encode("utf-8", "surrogateescape")
