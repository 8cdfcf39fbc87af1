"""Record the examples that need a model anew, with the built-in one: the tests replay what it answered.

    python -m examples.record            all of them
    python -m examples.record first_run  only those whose name begins so

Needed after a change to a prompt, a tool or a task, since a replay wants the very same requests. A run whose
answer does not fit the data keeps its old recording, and the exit code is 1. Takes minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal

from bench.planning.local import Measured
from bench.planning.plans import fits, plan_one, read_lines
from examples.first_run.__main__ import TASK, TIMEOUT_SECS, TOOLS
from examples.first_run.check import answer_from_data, check

from examples import typed_answer
from replan import Replan, ReplanError
from replan.core.events import LlmCallCompleted, PlanGenerated, PlanRejected
from replan.core.types import ToolSpec
from replan.llm.local.model import LocalModel
from replan.llm.recorder import RecordingModel
from replan.ports import Model, ModelReply, ModelRequest

RECORDINGS = Path(__file__).with_name("recordings")

FIRST_RUN = {
    "first_run": TASK,
    "first_run_orders": (
        "Get the sales and the sales target of March 2025 and the US dollar rate. Compare revenue and target, "
        "convert the revenue to dollars, and write the results into the logbook."
    ),
    "first_run_polite": (
        "Please look up what revenue we made in March 2025, what our sales target was, and the US dollar rate. Then "
        "note in the logbook how revenue and target compare, and the revenue in euros and in dollars."
    ),
}
"""The task of the first run, and the same said in other words."""

TASKS = Path(__file__).with_name("tasks.jsonl")
RECORDED_TASKS = ("rooms", "overdue", "lager", "audit", "releases")
"""Tasks of the measure `bench.planning` whose plans are recorded."""


class Kept:
    """The built-in model, not let go after each run: what it has read once it need not read again."""

    style: Literal["standard", "small"] = "small"

    def __init__(self) -> None:
        self._model = LocalModel()
        self.name = self._model.name

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return await self._model.ask(request, on_text)

    async def aclose(self) -> None:
        """Used again."""


async def first_run(task: str, model: Model, folder: Path) -> str:
    """Run it; what is wrong with the answer, or nothing."""
    os.environ["SHOP_LOGBOOK"] = str(folder / "logbook.md")
    async with Replan(model, [str(TOOLS)], db=folder / "replan.db") as replan:
        result = await replan.run(task, timeout=TIMEOUT_SECS)
        for record in await replan.history(result.task_id):
            _tell(record.event)
    print(result.output)
    if not result.succeeded:
        return str(result.failure)
    return "; ".join(str(value) for value in check(result.output, answer_from_data()) if not value.right)


def _tell(event: object) -> None:
    """What one wants to know of a model: its plans, and how long it took."""
    match event:
        case LlmCallCompleted():
            used = event.usage
            tokens = f"{used.input_tokens} + {used.output_tokens} tokens"
            print(f"  {event.role}: {event.duration_secs:.0f} s, {tokens}")
        case PlanRejected():
            print("  refused: " + "; ".join(event.violations))
        case PlanGenerated():
            for step in event.plan.steps:
                print(f"  {step.step_id} {step.tool} {json.dumps(step.parameters, ensure_ascii=False)}")
        case _:
            pass


async def typed(model: Model, folder: Path) -> str:
    """Run it; what is wrong with the answer, or nothing."""
    trip = await typed_answer.trip("Rome", "Oslo", model=model, db=folder / "replan.db")
    print(trip)
    start, end = await typed_answer.locate("Rome"), await typed_answer.locate("Oslo")
    km = await typed_answer.distance_km(start.latitude, start.longitude, end.latitude, end.longitude)
    return "" if trip.km == km else f"{trip.km} km is not {km} km"


async def planned(model: Model, folder: Path) -> str:
    """Plan some tasks of the measure; those whose plan is not as expected, or nothing."""
    wrong = []
    for case in read_lines(TASKS, RECORDED_TASKS):
        tools = [ToolSpec.model_validate(tool) for tool in case["tools"]]
        plan, refused = await plan_one(Measured(model), case["task"], tools, corrections=0)
        if not fits(plan, case):
            wrong.append(f"{case['id']} is not planned rightly ({'; '.join(refused)})")
    return "; ".join(wrong)


async def record(name: str, run: Callable[[Model, Path], Awaitable[str]], model: Model) -> bool:
    """Record one run; it takes the old one's place only if its answer is right."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "recording.jsonl"
        try:
            wrong = await run(RecordingModel(model, fresh), Path(folder))
        except (ReplanError, SystemExit) as error:
            wrong = str(error)
        if not wrong:
            RECORDINGS.mkdir(exist_ok=True)
            (RECORDINGS / f"{name}.jsonl").write_bytes(fresh.read_bytes())
    print(f"{name}: {wrong or 'recorded'} ({time.monotonic() - began:.0f} s)", flush=True)
    return not wrong


async def main(beginnings: list[str]) -> int:
    model = Kept()
    runs: dict[str, Callable[[Model, Path], Awaitable[str]]] = {
        name: partial(first_run, task) for name, task in FIRST_RUN.items()
    }
    runs["typed_answer"] = typed
    runs["tasks"] = planned
    done = [
        await record(name, run, model)
        for name, run in runs.items()
        if not beginnings or any(name.startswith(beginning) for beginning in beginnings)
    ]
    return 0 if done and all(done) else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(sys.argv[1:])))
