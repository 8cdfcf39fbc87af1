"""One plan of up to ten thousand steps: what each part of its life costs a step, and whether that stays so."""

from __future__ import annotations

import asyncio
import io
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.scale.measure import cpu_of, row
from bench.scale.shapes import SHAPES, nothing, plan_of
from replan import Replan
from replan.cli.commands.history import tell
from replan.cli.live.draw import render
from replan.cli.live.picture import PictureState
from replan.cli.live.plain import PlainLines
from replan.cli.terminal.terminal import Out
from replan.core.decide import decide
from replan.core.events import Record
from replan.core.state.fold import apply, fold
from replan.core.state.task import State
from replan.run.service.results import result_of

SIZES = (1_000, 3_000, 10_000)
LONG = 1e6
"""Seconds: no task here ends by its deadline."""


@contextmanager
def timed(into: dict[str, float], name: str) -> Iterator[None]:
    begun = time.process_time()
    yield
    into[name] = time.process_time() - begun


async def one_size(needs: list[list[int]], folder: Path) -> dict[str, float]:
    """CPU seconds of each part for one plan."""
    spent: dict[str, float] = {}
    given = plan_of(needs)
    async with Replan(tools=[nothing], db=folder / "log.db", evaluation="steps") as replan:
        await replan.run("warm up", plan=plan_of([[]]))
        with timed(spent, "read and check"):
            await replan.plan("nothing", plan=given)
        with timed(spent, "run, all of it"):
            result = await replan.run("nothing", plan=given, timeout=LONG)
        assert result.succeeded, result.failure
        assert len(result.steps) == len(needs)
        with timed(spent, "run, watched"):
            task_id = await replan.submit("nothing", plan=given, timeout=LONG)
            seen = [record async for record in replan.watch(task_id, ephemeral=True)]
            watched = await replan.wait(task_id)
        assert watched.succeeded, watched.failure
        with timed(spent, "read the log"):
            records = await replan.history(result.task_id)
        assert len(seen) == len(records)
        spent |= parts_of(records)
        state = fold(records)
        with timed(spent, "result"):
            again = await result_of(state, replan.service.parts.store)
        assert again.steps == result.steps
    return spent


def parts_of(records: list[Record]) -> dict[str, float]:
    """CPU seconds of what is read from the log."""
    spent: dict[str, float] = {}
    many = 3 if len(records) < 20_000 else 1
    spent["fold"], state = cpu_of(lambda: fold(records), many)
    assert state.ended
    spent["decide at every event"], _ = cpu_of(lambda: decide_each(records), many)
    spent["picture, every record"], view = cpu_of(lambda: PictureState.of(records), many)
    spent["plain lines"], _ = cpu_of(lambda: lines_of(records), many)
    spent["tasks show"], _ = cpu_of(lambda: tell(Out(io.StringIO()), records), many)
    # These are per frame and per call, not per step: they should not grow at all.
    half = PictureState.of(records[: len(records) // 2])
    spent["one frame"], _ = cpu_of(lambda: frame_of(half), 25)
    spent["one frame at the end"], _ = cpu_of(lambda: frame_of(view), 25)
    spent["one decision"], _ = cpu_of(lambda: decide(state), 25)
    return spent


def decide_each(records: list[Record]) -> None:
    state = State()
    for record in records:
        apply(state, record.event, record.ts, record.round, record.seq)
        decide(state)


def lines_of(records: list[Record]) -> int:
    view = PictureState()
    plain = PlainLines(view)
    told = 0
    for record in records:
        view.apply(record)
        told += plain.line(record) is not None
    return told


def frame_of(view: PictureState) -> None:
    console = Console(file=io.StringIO(), width=100, height=40, force_terminal=True)
    console.print(render(view, time.time(), 100, rows=39))


ONCE = ("one frame", "one frame at the end", "one decision")


async def main() -> None:
    for shape, needs_of in SHAPES.items():
        found: list[dict[str, Any]] = []
        for size in SIZES:
            with tempfile.TemporaryDirectory() as name:
                found.append(await one_size(needs_of(size), Path(name)))
        row(f"{shape}: CPU ms a step", [*(f"{size:,}" for size in SIZES), "10k / 1k"])
        for part in found[0]:
            if part not in ONCE:
                each = [of[part] / size * 1e3 for of, size in zip(found, SIZES, strict=True)]
                row(f"  {part}", [*each, f"{each[-1] / max(each[0], 1e-9):.2f}"])
        row(f"{shape}: CPU ms", [f"{size:,}" for size in SIZES])
        for part in ONCE:
            row(f"  {part}", [of[part] * 1e3 for of in found])


def run() -> None:
    asyncio.run(main())
