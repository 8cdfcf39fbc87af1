"""The log as files of JSON lines, which are rotated: one line an event, as `replan run --events` prints it, or as an audit record."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from replan.core.events import Record
from replan.core.types import JsonObject
from replan.errors import InputError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


class JsonLines:
    """A consumer that writes `path`, and moves it to `path.1`, `path.2`… where it would get larger than `max_bytes`.

    What was delivered is on disk before the cursor moves. `keep`: so many older files are kept; None keeps all. `form`: what a line says of an
    event; nothing is written of one of which it says None.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "json-lines",
        max_bytes: int = 100_000_000,
        keep: int | None = None,
        form: Callable[[Record], JsonObject | None] = Record.wire,
    ) -> None:
        if max_bytes < 1:
            raise InputError(f"max_bytes: at least 1 byte, found {max_bytes}")
        if keep is not None and keep < 0:
            raise InputError(f"keep: at least 0 files, found {keep}")
        self.name = name
        self._path = Path(path).absolute()
        self._max_bytes = max_bytes
        self._keep = keep
        self._form = form

    async def deliver(self, records: Sequence[Record]) -> None:
        await asyncio.to_thread(self._write, records)

    def _write(self, records: Sequence[Record]) -> None:
        lines = [_line(said) for record in records if (said := self._form(record)) is not None]
        if not lines:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        at = 0
        while at < len(lines):
            file = os.open(self._path, _FLAGS, 0o600)
            try:
                size = _whole_lines(file)
                some: list[bytes] = []
                room = self._max_bytes - size
                while at < len(lines) and (len(lines[at]) <= room or (size == 0 and not some)):
                    some.append(lines[at])
                    room -= len(lines[at])
                    at += 1
                if some:
                    _append(file, b"".join(some), size)
                    if size == 0:
                        _sync_folder(self._path.parent)
            finally:
                os.close(file)
            if at < len(lines):
                self._rotate()

    def _rotate(self) -> None:
        older = sorted(
            (int(path.name[len(self._path.name) + 1 :]), path)
            for path in self._path.parent.glob(f"{_literal(self._path.name)}.*")
            if path.name[len(self._path.name) + 1 :].isdecimal()
        )
        for number, path in reversed(older):
            if self._keep is not None and number >= self._keep:
                path.unlink(missing_ok=True)
            else:
                path.rename(self._path.with_name(f"{self._path.name}.{number + 1}"))
        if self._keep == 0:
            self._path.unlink(missing_ok=True)
        else:
            self._path.rename(self._path.with_name(f"{self._path.name}.1"))


def _line(said: JsonObject) -> bytes:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


def _whole_lines(file: int) -> int:
    """How large the file is without a line that was cut off, which is taken away: its events come again."""
    size = end = os.fstat(file).st_size
    while end > 0:
        start = max(0, end - 65_536)
        os.lseek(file, start, os.SEEK_SET)
        found = os.read(file, end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
    return end


def _append(file: int, data: bytes, size: int) -> None:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        with contextlib.suppress(OSError):  # a full disk: nothing of it stays
            os.ftruncate(file, size)
        raise


def _sync_folder(folder: Path) -> None:
    """That there is a new file, on disk too, where folders can be brought there."""
    with contextlib.suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _literal(name: str) -> str:
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)
