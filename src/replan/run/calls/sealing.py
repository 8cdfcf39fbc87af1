"""An output without its secrets: what is kept of it, while this process still knows the rest."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING

from replan.beside import beside, seen_through
from replan.core.data.pieces import weight
from replan.core.data.preview import HEAD, TAIL
from replan.core.secrets import KnownSecrets, Pieces, may_say_secret, secrets_of_schema
from replan.core.types import ToolSpec
from replan.errors import StoreError, ToolCallError
from replan.ports import KeptOutput
from replan.run.session.outputs import Packed, Sealed, Streamed, pack

if TYPE_CHECKING:
    from replan.run.session.context import Run

MOST_BYTES = 64 * 2**30
"""A stream that does not end fills no disk."""
AT_ONCE = 32_768
"""Characters that are read in the event loop; more are read beside it, piece by piece."""


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
    made = await seen_through(masked_in, known, packed, limit)
    if made.artifact is not None:
        run.kept[made.artifact.artifact_id] = made.value
    return made


def masked_in(known: KnownSecrets, packed: Packed, limit: int) -> Packed:
    """The same of what has been read already."""
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
        clear = Cleared(self._secrets)
        async for piece in self._stream:
            data = bytes(piece)
            data = await beside(clear.take, data) if self._secrets.any else clear.take(data)
            if data:
                yield self._noted(data)
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


class Cleared:
    """Bytes without the secrets that are known, wherever they are cut. What surely holds none goes on as it is."""

    def __init__(self, known: KnownSecrets) -> None:
        self._known = known
        self._kept = b""
        self._before = b""
        self._pieces: Pieces | None = None
        """The rest as text, whatever it is, from where something was found that may be a secret."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    @property
    def masked(self) -> bool:
        return self._pieces is not None and self._pieces.masked

    def take(self, data: bytes) -> bytes:
        if self._pieces is not None:
            return _as_bytes(self._pieces.take(self._decoder.decode(data)))
        data = self._kept + data if self._kept else data
        if self._known.may_stand_in(data):
            self._kept = b""
            self._pieces = Pieces(self._known, before=self._before.decode("ascii", "ignore"))
            return self.take(data)
        upto = max(0, len(data) - _WIDEST * self._known.reach())
        self._kept, told = data[upto:], data[:upto]
        self._before = told[-1:] or self._before
        return told

    def rest(self) -> bytes:
        if self._pieces is None:
            return self._kept
        text = self._decoder.decode(b"", final=True)
        return _as_bytes(self._pieces.take(text) + self._pieces.rest())


_WIDEST = 4
"""Bytes of one sign in UTF-8, at the most."""


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
