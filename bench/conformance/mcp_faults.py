"""C23: an agent whose tools come from an MCP server, which refuses, never answers, or is killed in mid-call."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from bench.conformance.agents import Asked, Script
from bench.conformance.case import Cases, Facts, ended

DEADLINE_SECS = 2
"""Of a call, by the peer's own option."""
GIVE_UP_SECS = 20.0
NEXT_SECS = 8.0
LOOKS = 600
FAULTS = {"401": "pay", "504": "pay", "hung": "hung", "killed": "pay"}
"""The call in which each happens."""


class Session(Protocol):
    """An agent that is connected with the server; each run is a conversation of its own."""

    async def run(self) -> Any: ...


Connect = Callable[[str, Script], AbstractAsyncContextManager[Session]]
"""Connects a peer's agent with the server at an address; a call's deadline is `DEADLINE_SECS`."""


class Shop:
    """The server in a process of its own: killed hard, and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def paid(self) -> int:
        return self.calls().count("pay")

    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().split() if file.exists() else []

    async def start(self) -> None:
        command = [sys.executable, "-m", "bench.conformance.mcp_server", str(self.port), str(self.folder)]
        nothing = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(*command, stdout=nothing, stderr=nothing)
        for _ in range(LOOKS):
            await asyncio.sleep(0.05)
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                continue
            return
        raise RuntimeError("the server did not start")

    async def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    async def killed_in_mid_call(self) -> float:
        """Kill the server as soon as `pay` has taken effect; when that was."""
        for _ in range(LOOKS):
            if self.paid:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)
        await self.kill()
        at = time.perf_counter()
        (self.folder / "slow").unlink()
        await self.start()
        return at

    def begin(self, fault: str) -> None:
        if fault.isdigit():
            (self.folder / "status").write_text(fault)
        elif fault == "killed":
            (self.folder / "slow").touch()

    def end(self) -> None:
        (self.folder / "status").unlink(missing_ok=True)


def words_of(error: BaseException | None) -> str:
    """All that an error says, with what it holds and came from."""
    said: list[str] = []
    found: list[BaseException | None] = [error]
    while found:
        one = found.pop()
        if one is None or len(said) > 20:
            continue
        said.append(f"{type(one).__name__}: {one}")
        found += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
    return " / ".join(said)


def kind_of(words: str, died: str, fault: str) -> str:
    """What is told: the status, a timeout, a lost connection, a cancellation, nothing, or just an error."""
    text = words.lower()
    if died == "no end":
        return "nothing"
    if fault.isdigit() and re.search(rf"\b{fault}\b", text):
        return fault
    if died == "CancelledError":
        return "a cancellation"
    if re.search(r"time[ds]? ?-?out|in time|deadline|no answer", text):
        return "a timeout"
    if re.search(r"connect|closed|stream ended|disconnect|terminated|unreachable|refused", text):
        return "a lost connection"
    if "cancel" in text:
        return "a cancellation"
    return "an error"


async def one_fault(connect: Connect, fault: str) -> Facts:
    """First a call that works, then the fault, then a call when all is well again."""
    with tempfile.TemporaryDirectory() as name:
        shop = Shop(Path(name))
        await shop.start()
        facts: Facts = {"warm": False, "secs": None, "died": "", "told": "", "later": 0, "paid": 0}
        results: list[str] = []
        stage = {"name": "warm", "calls": ["look"]}

        def script(asked: Asked) -> str | list[str]:
            results[:] = asked.results
            calls: Any = stage["calls"]
            return [calls.pop(0)] if calls else "done"

        async def use() -> None:
            async with connect(shop.url, script) as agent:
                _, died = await ended(agent.run(), NEXT_SECS)
                facts["warm"] = any("all well" in text for text in results)
                if not facts["warm"]:
                    facts["told"] = died or " ".join(results)
                    return
                await faulty(agent)
                shop.end()
                facts["later"], facts["later_said"] = 0, []
                for nth in (1, 2):
                    results.clear()
                    stage["calls"] = ["look"]
                    well, _, words = await outcome(agent.run(), NEXT_SECS)
                    if well and results and "all well" in results[-1]:
                        facts["later"] = nth
                        return
                    facts["later_said"].append((words or " ".join(results[-1:]))[:300] or "no answer")

        async def faulty(agent: Session) -> None:
            shop.begin(fault)
            results.clear()
            stage["calls"] = [FAULTS[fault]]
            killer = asyncio.ensure_future(shop.killed_in_mid_call()) if fault == "killed" else None
            since = time.perf_counter()
            went_on, died, words = await outcome(agent.run(), GIVE_UP_SECS)
            ended_at = time.perf_counter()
            if killer is not None:
                since = await asyncio.wait_for(killer, 30)
            facts["secs"] = round(max(0.0, ended_at - since), 2)
            facts["died"] = died
            said = (results[-1] if results else "") if went_on else words
            facts["said"] = said[:300]
            facts["told"] = kind_of(said, died, fault)

        _, died = await ended(use(), GIVE_UP_SECS + 3 * NEXT_SECS)
        if died and not facts["told"]:  # the owner of the session is cancelled, not only the run
            facts["died"], facts["told"] = died, kind_of("", died, fault)
        facts["outside"] = died
        facts["paid"] = shop.paid
        await shop.kill()
        return facts


async def outcome(running: Awaitable[Any], secs: float) -> tuple[bool, str, str]:
    """Whether a run ended well, what it died of, and what the error says."""
    task = asyncio.ensure_future(running)
    done, _ = await asyncio.wait({task}, timeout=secs)
    if not done:
        return False, "no end", ""
    if task.cancelled():
        return False, "CancelledError", ""
    error = task.exception()
    return error is None, type(error).__name__ if error else "", words_of(error) if error else ""


async def all_faults(connect: Connect) -> Facts:
    faults = {fault: await one_fault(connect, fault) for fault in FAULTS}
    return {"faults": faults, "exercised": all(one["warm"] for one in faults.values())}


def register(cases: Cases, connect: Connect, option: str = "") -> None:
    """Put C23 among the peer's cases."""

    async def mcp_faults() -> Facts:
        return await all_faults(connect)

    mcp_faults.__name__ += f"/{option}"
    cases("C23", option=option)(mcp_faults)
