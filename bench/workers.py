"""Workers as real processes that a measure may kill, forked from one that has imported everything.

Run as a program, this file is that process: it forks a worker for each line of JSON that it reads, `{"folder", "address",
"tools": "module:function", "concurrency", "queues", "grace", "engine": {…}}`, and says its number at once.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # the tests are not a package

END_SECS = 30.0


class Worker:
    """One of them, seen from outside."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._folder = folder
        self._handle: int | None = None
        with suppress(ProcessLookupError):  # it may have ended by itself already
            self._handle = os.pidfd_open(pid)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, how)

    def has_ended(self, secs: float = 0.0) -> bool:
        return self._handle is None or bool(select.select([self._handle], [], [], secs)[0])

    @property
    def is_ready(self) -> bool:
        return (self._folder / f"ready.{self.pid}").exists()

    def wait_ready(self, secs: float = END_SECS) -> None:
        until = time.monotonic() + secs
        while not self.is_ready:
            if time.monotonic() > until or self.has_ended(0.01):
                raise RuntimeError(f"worker {self.pid} does not begin: {self.traceback() or 'no word'}")

    def traceback(self) -> str:
        """What ended it by itself."""
        path = self._folder / f"traceback.{self.pid}"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        self.kill(signal.SIGKILL)
        self.kill(signal.SIGCONT)
        if self._handle is not None:
            select.select([self._handle], [], [], END_SECS)
            os.close(self._handle)
            self._handle = None


class Workers:
    """Starts workers, each with what all of them have and what it has for itself."""

    def __init__(self, folder: Path, **common: Any) -> None:
        self._folder = folder
        self._common = {"folder": str(folder), **common}
        self._all: list[Worker] = []
        self._turn = threading.Lock()
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "bench.workers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, **options: Any) -> Worker:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        with self._turn:
            self._nursery.stdin.write(json.dumps({**self._common, **options}) + "\n")
            self._nursery.stdin.flush()
            made = Worker(json.loads(self._nursery.stdout.readline()), self._folder)
            self._all.append(made)
            return made

    def start_all(self, count: int, **options: Any) -> list[Worker]:
        """So many, all at work."""
        made = [self.start(**options) for _ in range(count)]
        for worker in made:
            worker.wait_ready()
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._all:
            worker.close()
        self._nursery.communicate(timeout=END_SECS)


def named(name: str) -> Any:
    """The function that is called `module:function`."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


async def work(spec: dict[str, Any]) -> None:
    from replan import Replan
    from replan.config import Settings

    folder = Path(spec["folder"])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings.model_validate({"engine": {"kind": "procrastinate", **spec.get("engine", {})}})
    tools = named(spec["tools"])(folder)
    async with Replan(
        tools=tools, db=spec["address"], settings=settings, evaluation="steps", interactive=True
    ) as replan:
        await replan.work(
            concurrency=spec.get("concurrency", 4),
            queues=spec.get("queues", ()),
            grace_secs=spec.get("grace", 20.0),
            stop=stop,
            ready=(folder / f"ready.{os.getpid()}").touch,
        )


def main() -> None:
    import replan.app
    import replan.engine.procrastinate.worker
    import replan.store.postgres.store  # noqa: F401 - imported once, here

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody has to be waited for
    for line in sys.stdin:
        spec = json.loads(line)
        named(spec["tools"])
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            continue
        os.close(1)
        os.dup2(2, 1)  # what a worker prints is no answer
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            asyncio.run(work(spec))
        except BaseException:  # noqa: BLE001 - whatever it is, it has to be seen
            Path(spec["folder"], f"traceback.{os.getpid()}").write_text(traceback.format_exc())
        finally:
            os._exit(0)


if __name__ == "__main__":
    main()
