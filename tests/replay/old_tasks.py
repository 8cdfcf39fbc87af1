"""The tasks of the saved databases: their tools, their model, and how they were written.

    git worktree add ../old COMMIT
    PYTHONPATH=../old/src python tests/replay/old_tasks.py partN.sql N

Each task runs in a process of its own, which some tools kill in the midst of a call. Only what the
releases have is used, so that the same lines write the databases with an old one and go on with them in today's. `N`:
the release's number; the first had neither people nor repairs.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from replan import Replan, tool
from replan.config import Settings
from replan.testing import ScriptedModel

INLINE_BYTES = 1024


class World:
    """The tools, and what was really done with them. `deadly`: calls that take the process with them."""

    def __init__(self, deadly: tuple[str, ...] = ()) -> None:
        self.done: list[str] = []
        self._deadly = deadly

    def _do(self, what: str) -> str:
        if what in self._deadly:
            os._exit(9)
        self.done.append(what)
        return what

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def book(seat: int) -> dict[str, Any]:
            """Book a seat."""
            self._do(f"book {seat}")
            return {"seat": seat, "ticket": f"T{seat}"}

        @tool(effect="repeatable")
        async def send(ticket: str) -> str:
            """Send a ticket."""
            return self._do(f"send {ticket}")

        @tool(effect="reads")
        async def find(name: str) -> dict[str, Any]:
            """Find a person by the full name."""
            self._do(f"find {name}")
            if " " not in name:
                raise ValueError(f"{name}: give the full name")
            return {"name": name, "ticket": "T7"}

        @tool(effect="reads")
        async def report(pages: int) -> str:
            """Write a long report."""
            return self._do(f"report {pages}") * 300

        @tool(effect="reads")
        async def free(row: int) -> list[int]:
            """The free seats of a row."""
            self._do(f"free {row}")
            return [10 * row + seat for seat in (4, 5, 6)]

        @tool(effect="reads")
        async def length(text: str) -> int:
            """How long a text is."""
            self._do("length")
            return len(text)

        return [book, send, find, report, free, length]


def step(step_id: str, tool_id: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool_id, "parameters": parameters, "dependencies": list(needs)}


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(steps)}


SEATS = plan(
    step("a", "book", seat=1),
    step("b", "book", seat=2),
    step("c", "send", "a", ticket="${a.output.ticket}"),
    step("d", "send", "b", ticket="${b.output.ticket}"),
)
ITEMS = plan(
    step("seats", "free", row=1),
    {**step("each", "book", "seats", seat="${item}"), "for_each": "${seats.output}"},
)
REPORT = plan(step("long", "report", pages=3), step("count", "length", "long", text="${long.output}"))
ASKED = plan(step("a", "report", pages=1), {**step("b", "book", "a", seat=3), "requires_approval": True})
PERSON = plan(step("who", "find", name="Ada"), step("post", "send", "who", ticket="${who.output.ticket}"))
VERDICT = {
    "overall_score": 95,
    "is_successful": True,
    "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 95, "reliability": 95},
    "final_output": "Ada Byron has ticket T7",
}
REFLECTION = {
    "root_cause_category": "parameter_error",
    "is_recoverable": True,
    "confidence": 90,
    "suggested_action": {"type": "retry_with_params", "data": {"name": "Ada Byron"}},
}


class Task:
    """One saved task: how it was asked for, and which call killed the process (none: it came to an end, or waits)."""

    def __init__(
        self, given: dict[str, Any] | None, *, deadly: str = "", since: int = 1, asks: bool = False
    ) -> None:
        self.plan = given
        self.deadly = (deadly,) if deadly else ()
        self.since = since
        self.asks = asks

    def model(self) -> ScriptedModel | None:
        if self.plan is not None:
            return None
        return ScriptedModel({"execution_plan": PERSON, "step_reflection": REFLECTION, "evaluation": VERDICT})

    def replan(self, world: World, db: Path) -> Replan:
        settings = Settings.model_validate({"store": {"max_output_bytes": INLINE_BYTES}})
        policy: dict[str, Any] = {} if self.plan is None else {"evaluation": "steps"}
        if self.asks:
            policy["interactive"] = True
        return Replan(self.model(), world.tools(), db=db, settings=settings, **policy)


TASKS: dict[str, Task] = {
    "done": Task(SEATS),
    "cut": Task(SEATS, deadly="send T2"),
    "doubt": Task(SEATS, deadly="book 2"),
    "items": Task(ITEMS, deadly="book 15"),
    "report": Task(REPORT),
    "report-cut": Task(REPORT, deadly="length"),
    "failed": Task(
        plan(step("who", "find", name="Ada"), step("post", "send", "who", ticket="${who.output.ticket}"))
    ),
    "asked": Task(ASKED, since=2, asks=True),
    "mended": Task(None, since=2),
    "mended-cut": Task(None, deadly="send T7", since=2),
    "reflecting": Task(None, deadly="find Ada Byron", since=2),
}


async def write(name: str, db: Path) -> None:
    """Run one task to its end, or to that of the process, or until it waits for a person."""
    task = TASKS[name]
    async with task.replan(World(task.deadly), db) as replan:
        await replan.submit(name, plan=task.plan, task_id=name)
        async for record in replan.watch(name):
            if record.type in ("task_waiting", "task_completed", "task_failed"):
                break


def main(out: Path, release: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "old.db"
        for name, task in TASKS.items():
            if task.since <= release:
                ran = subprocess.run([sys.executable, __file__, name, str(db)], check=False)
                assert ran.returncode == (9 if task.deadly else 0), (name, ran.returncode)
        with sqlite3.connect(db) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            lines = [f"PRAGMA user_version = {version};", *connection.iterdump()]
    out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    if sys.argv[1].endswith(".sql"):
        main(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        asyncio.run(write(sys.argv[1], Path(sys.argv[2])))
