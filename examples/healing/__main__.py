"""Two tasks that heal: a tool refuses a parameter, and a tool is gone for good. Planned, mended and judged offline.

    python -m examples.healing             with the built-in model: minutes
    python -m examples.healing --replay    what it did when it was recorded: seconds, no model needed
    python -m examples.healing --record    with the built-in model, recorded anew

Prints what failed, what was thought of it and what was done, then compares the answer with the data. Exit code 0 only
if both tasks succeed and both answers are right.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from examples.first_run.check import numbers
from examples.healing.tools import CLIMATE, RATES

from replan import Replan, TaskResult
from replan.core.events import CallCompleted, CallFailed, CallStarted, StepReflected

TOOLS = Path(__file__).with_name("tools.py")
RECORDINGS = Path(__file__).parents[1] / "recordings" / "healing"
TIMEOUT_SECS = 1800
"""Plenty: a machine that is busy with other things may need minutes to read the first prompt."""


class Healed(NamedTuple):
    task: str
    expected: float
    """What the answer has to say, from the data and not from the tools."""

    def is_right(self, result: TaskResult) -> bool:
        return result.succeeded and self.expected in map(float, numbers(str(result.output)))


TASKS = {
    "wrong_parameter": Healed(
        "How many inches of rain does Napoli usually have in April?",
        round(CLIMATE["Naples"]["April"][0] / 25.4, 2),
    ),
    "dead_tool": Healed(
        "How many Danish kroner are 80 euros at today's exchange rate?", round(80 * RATES["DKK"], 2)
    ),
}


async def run(name: str, mode: str, folder: Path) -> bool:
    """Run one of them and tell its story; whether its answer is right."""
    healed, recording = TASKS[name], RECORDINGS / f"example_{name}.jsonl"
    fresh = folder / recording.name
    async with Replan(
        tools=[str(TOOLS)],
        db=folder / f"{name}.db",
        replay=recording if mode == "--replay" else None,
        record=fresh if mode == "--record" else None,
    ) as replan:
        print(f"\nTask: {healed.task}", flush=True)
        task_id = await replan.submit(healed.task, timeout=TIMEOUT_SECS)
        async for record in replan.watch(task_id):
            if told := tell(record.event):
                print(told, flush=True)
        result = await replan.wait(task_id)
    print(f"Answer: {result.output if result.succeeded else result.failure}")
    right = healed.is_right(result)
    print(
        f"{healed.expected:g} {'equals the data' if right else 'is NOT in the answer, and the data say so'}"
    )
    if right and mode == "--record":
        RECORDINGS.mkdir(exist_ok=True)
        recording.write_bytes(fresh.read_bytes())
    return right


def tell(event: object) -> str:
    """A line about a call, or about what is done when one fails; empty for all else."""
    match event:
        case CallStarted():
            return f"  call      {event.tool_id} {json.dumps(event.parameters, ensure_ascii=False)}"
        case CallCompleted():
            return f"  gave      {json.dumps(event.output, ensure_ascii=False)}"
        case CallFailed():
            return f"  failed    {event.error.message}"
        case StepReflected():
            cause = event.proposal.root_cause if event.proposal is not None else event.reason
            data = json.dumps(event.action.data, ensure_ascii=False)
            return f"  diagnosis {cause}\n  remedy    {event.action.type} {data}"
        case _:
            return ""


async def main(arguments: list[str]) -> int:
    mode = arguments[0] if arguments else ""
    if mode not in ("", "--replay", "--record") or len(arguments) > 1:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        right = [await run(name, mode, Path(folder)) for name in TASKS]
    return 0 if all(right) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(sys.argv[1:])))
