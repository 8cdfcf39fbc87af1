"""The world outside: a server that writes down every effect, and loses some questions and some answers.

Run as a program, it serves the socket `FOLDER/outside`. An effect is a line of `FOLDER/journal`, on disk before it is
answered; it knows nothing of what came before, but for effects that come with a key which it is told to honour.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

LOSES = 0.01
"""The part of all questions that get lost on the way, and of all answers that do."""


def journal_of(folder: Path) -> Counter[tuple[str, str]]:
    """How often each effect was had: task and what."""
    path = folder / "journal"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return Counter((said["task"], said["what"]) for said in map(json.loads, lines))


async def ask(folder: Path, **question: Any) -> Any:
    """What the outside answers; `ConnectionResetError` if there is no answer."""
    reader, writer = await asyncio.open_unix_connection(folder / "outside")
    try:
        writer.write(json.dumps(question).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionResetError("the outside has hung up")
    return json.loads(line)


def start(folder: Path, seed: int) -> subprocess.Popen[bytes]:
    made = subprocess.Popen([sys.executable, "-m", "bench.chaos.outside", str(folder), str(seed)])
    until = time.monotonic() + 30
    while not (folder / "outside").exists():
        if made.poll() is not None or time.monotonic() > until:
            raise RuntimeError("the outside does not begin")
        time.sleep(0.01)
    return made


class Outside:
    """The server's side."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = random.Random(f"{seed} outside")
        self._file = (folder / "journal").open("ab", buffering=0)
        self._seen: Counter[tuple[str, str]] = Counter()
        self._keys: set[str] = set()
        self._syncing: asyncio.Future[None] | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            said = json.loads(await reader.readline())
            looks = "look" in said
            if not looks and self._chance.random() < LOSES:
                return
            answer = self._look(said) if looks else await self._do(said)
            if not looks and self._chance.random() < LOSES:
                return
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # who asked is gone
        finally:
            writer.close()

    def _look(self, said: Any) -> int:
        return self._seen[said["task"], said["look"]]

    async def _do(self, said: Any) -> str:
        if (key := said.get("key")) is not None:
            if key in self._keys:
                return str(said["what"])
            self._keys.add(key)
        self._file.write(json.dumps(said).encode() + b"\n")
        self._seen[said["task"], said["what"]] += 1
        await asyncio.to_thread(os.fsync, self._file.fileno())
        return str(said["what"])


async def main(folder: Path, seed: int) -> None:
    outside = Outside(folder, seed)
    server = await asyncio.start_unix_server(outside.serve, folder / "outside", backlog=1_000)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
