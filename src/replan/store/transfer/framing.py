"""The file: a tar archive of plain files, written and read as a stream.

It is not compressed, so that what is read is never more than what was given. Of tar only what we write is read: regular
files with names that are expected, no links, no folders, no extended headers.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import AsyncIterable, AsyncIterator

from replan.errors import InputError

BLOCK = 512
_END = bytes(2 * BLOCK)
_READ = 1 << 20


def header(name: str, size: int) -> bytes:
    """What stands before a file; the same whenever and wherever it is written."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    return info.tobuf(tarfile.GNU_FORMAT)


class Frames:
    """Writes: `file` for what is at hand, `head` and then the bytes for what is not; `end` at last."""

    def __init__(self) -> None:
        self.count = 0
        self._hashed = hashlib.sha256()

    def file(self, name: str, data: bytes) -> bytes:
        return self.head(name, len(data)) + self.body(data) + self.tail(len(data))

    def head(self, name: str, size: int) -> bytes:
        self.count += 1
        return self.body(header(name, size))

    def body(self, data: bytes) -> bytes:
        self._hashed.update(data)
        return data

    def tail(self, size: int) -> bytes:
        return self.body(bytes(-size % BLOCK))

    @property
    def digest(self) -> str:
        """Of all that was written so far."""
        return self._hashed.hexdigest()

    def end(self) -> bytes:
        return _END


class Cut(InputError):
    """The file is not whole."""

    def __init__(self) -> None:
        super().__init__("it is cut off: the end of it is missing; copy it once more")


class Unframed:
    """Reads: `next` gives a file's name and size, `body` its bytes, all of which have to be read before the next."""

    def __init__(self, stream: AsyncIterable[bytes]) -> None:
        self._stream = aiter(stream)
        self._held = bytearray()
        self._hashed = hashlib.sha256()
        self.count = 0
        self.before = ""
        """The digest of all before the file that was opened last."""
        self.begins = 0
        """Where that begins."""
        self.last = ""
        """Its name."""
        self._read = 0

    async def next(self) -> tuple[str, int]:
        self.before, self.begins = self._hashed.hexdigest(), self._read
        try:
            block = await self._exactly(BLOCK)
        except Cut:
            if self.count:
                raise
            raise InputError(
                "it is nothing that `replan tasks export` has written, or cut off in its beginning"
            ) from None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError) as error:
            if block == bytes(BLOCK):
                raise Cut from None
            what = "nothing that `replan tasks export` has written" if not self.count else "damaged"
            raise InputError(f"it is {what} ({error})") from None
        if info.type != tarfile.REGTYPE or info.size < 0 or info.linkname:
            raise InputError(
                f"it holds {info.name[:100]!r}, which is no plain file: no export of ours has such"
            )
        self.count += 1
        self.last = info.name
        return info.name, info.size

    async def body(self, size: int) -> AsyncIterator[bytes]:
        left = size
        while left:
            piece = await self._some(min(left, _READ))
            left -= len(piece)
            yield piece
        if any(await self._exactly(-size % BLOCK)):
            raise InputError("it is damaged: there is something between two of its files")

    async def end(self) -> None:
        """`InputError` if anything but blocks of zeros comes after what was read: another file, perhaps, that nobody would take in."""
        if await self._exactly(len(_END)) != _END:
            raise InputError("there is something behind its end: give each export by itself")
        while not any(self._held):
            self._held.clear()
            try:
                self._held += _bytes(await anext(self._stream))
            except StopAsyncIteration:
                return
        raise InputError("there is something behind its end: give each export by itself")

    async def whole(self, name: str, size: int, most: int) -> bytes:
        if size > most:
            raise InputError(f"its {name!r} has {size:,} bytes; at most {most:,} are read")
        return b"".join([piece async for piece in self.body(size)])

    async def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            parts += await self._some(size - len(parts))
        return bytes(parts)

    async def _some(self, most: int) -> bytes:
        """At least one byte."""
        while not self._held:
            try:
                self._held += _bytes(await anext(self._stream))
            except StopAsyncIteration:
                raise Cut from None
        piece = bytes(self._held[:most])
        del self._held[:most]
        self._hashed.update(piece)
        self._read += len(piece)
        return piece


def _bytes(piece: object) -> bytes:
    if not isinstance(piece, bytes | bytearray | memoryview):
        raise InputError(f"it is read as {type(piece).__name__}, not as bytes: open it in binary form")
    return bytes(piece)
