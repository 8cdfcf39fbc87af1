"""A process is killed in the middle of a task; another one goes on from the log, and repeats nothing.

    python examples/resume.py

No model is needed: the plan is given, and the steps' success is the verdict. The journal that it prints tells
which process did what. Parcel and invoice are made exactly once; the courier, called when the process died, is
called again, because calling twice does no harm (`effect="repeatable"`).
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replan import Replan, tool

TASK_ID = "task_parcel"
PLAN: dict[str, Any] = {
    "task_description": "Pack order 17, have it picked up, and send the invoice",
    "steps": [
        {"step_id": "parcel", "tool": "pack", "parameters": {"order": 17}},
        {"step_id": "label", "tool": "print_label", "parameters": {"parcel": "${parcel.output}"}},
        {"step_id": "pickup", "tool": "call_courier", "parameters": {"label": "${label.output}"}},
        {
            "step_id": "bill",
            "tool": "send_invoice",
            "parameters": {"order": 17, "tracking": "${pickup.output}"},
        },
    ],
}


def tools(folder: Path) -> list[Callable[..., Any]]:
    """Tools that note in a journal who called them."""

    def note(what: str) -> None:
        with (folder / "journal.txt").open("a", encoding="utf-8") as journal:
            journal.write(f"{os.getpid()} {what}\n")

    @tool  # without a word on its effect, a tool is taken to be `once`: never called twice
    def pack(order: int) -> str:
        note("pack")
        return f"parcel-{order}"

    @tool
    def print_label(parcel: str) -> str:
        note("print_label")
        return f"label for {parcel}"

    @tool(effect="repeatable")
    async def call_courier(label: str) -> str:
        note("call_courier")
        while not (folder / "courier_is_here").exists():  # noqa: ASYNC110  (made by another process)
            await asyncio.sleep(0.02)
        return f"tracking number of the {label}"

    @tool
    def send_invoice(order: int, tracking: str) -> str:
        note("send_invoice")
        return f"invoice for order {order} with the {tracking}"

    return [pack, print_label, call_courier, send_invoice]


def open_replan(folder: Path) -> Replan:
    # The database is all that the two processes share.
    return Replan(tools=tools(folder), db=folder / "replan.db")


async def work(folder: Path) -> None:
    """The first process: starts the task, and will not live to see its end."""
    async with open_replan(folder) as replan:
        await replan.run(PLAN["task_description"], plan=PLAN, evaluation="steps", task_id=TASK_ID)


async def kill_and_resume(folder: Path) -> tuple[int, list[str]]:
    """Kill the first process while it waits for the courier, then finish the task here."""
    async with open_replan(folder) as replan:
        worker = subprocess.Popen([sys.executable, __file__, "--worker", str(folder)])  # noqa: ASYNC220
        try:
            # Anybody may follow a task's log, from any process, while another one drives it.
            while not await replan.tasks():  # noqa: ASYNC110  (the other process makes it)
                await asyncio.sleep(0.02)
            async for record in replan.watch(TASK_ID):
                if record.type == "call_started" and getattr(record.event, "step_id", "") == "pickup":
                    break
        finally:
            worker.kill()
            worker.wait()
        (folder / "courier_is_here").touch()
        result = await replan.resume(TASK_ID)
    if not result.succeeded:
        raise SystemExit(f"the task was not finished: {result.failure}")
    print(result.output)
    return worker.pid, (folder / "journal.txt").read_text(encoding="utf-8").splitlines()


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        asyncio.run(work(Path(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory() as folder:
        killed, journal = asyncio.run(kill_and_resume(Path(folder)))
    for line in journal:
        pid, _, what = line.partition(" ")
        print(f"{'the killed process' if int(pid) == killed else 'the second process'}: {what}")


if __name__ == "__main__":
    main()
