"""Nothing is left of a task: no asyncio task, thread, file or socket, whatever stopped it and whenever."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
from leak_cases import LIMITS, drawn, run
from leak_real import NOTHING, beyond, first_run, held, held_at_rest, some_runs

from replan.core.limits.policy import Budget

pytestmark = pytest.mark.usefixtures("young_garbage")
BYTES_A_RUN = 1_000
"""What a run may add to the memory at most, on average: far less than its own log, and room for what is cached."""
BYTES_AT_ALL = 300_000


def test_every_limit_of_a_task_is_drawn() -> None:
    assert {*LIMITS, "task_timeout_secs"} == Budget.model_fields.keys()


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(1_000), marks=pytest.mark.prove)], ids=len)
def test_nothing_is_left_of_a_disturbed_task(seeds: range, tmp_path: Path) -> None:
    ends: Counter[str] = Counter()
    for seed in seeds:
        folder = tmp_path / str(seed)
        try:
            ends[run(drawn(seed), folder)] += 1
        except BaseException as error:
            error.add_note(f"in the case {seed}: {drawn(seed)}")
            raise
    assert set(ends) == {"succeeded", "failed", "cancelled", "timed_out"}, ends


@pytest.mark.parametrize(
    ("replans", "runs"), [(5, 10), pytest.param(40, 25, marks=pytest.mark.prove)], ids=["50", "1000"]
)
def test_nothing_is_held_once_replan_is_closed(replans: int, runs: int, tmp_path: Path) -> None:
    """Real time, real threads, files and sockets; exactly what there was before, after each `Replan`."""
    said: list[str] = []
    ends: Counter[str] = Counter()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: said.append(str(what)))
        others = set(threading.enumerate())
        at_first = held()
        await first_run(tmp_path / "first.db")
        await some_runs(10, 0, tmp_path / "second.db")
        before = await held_at_rest(others)
        assert beyond(before, at_first).objects == ()
        for n in range(1, replans + 1):
            ends.update(await some_runs(runs, n, tmp_path / f"{n}.db"))
            assert beyond(await held_at_rest(others), before) == NOTHING, f"after {n} of {replans}"

    asyncio.run(main())
    assert said == []
    assert sum(ends.values()) == replans * runs
    assert len(ends) > 3, ends


@pytest.mark.parametrize(
    ("early", "late"), [(25, 50), pytest.param(200, 1_000, marks=pytest.mark.prove)], ids=["50", "1000"]
)
def test_memory_does_not_grow_run_by_run(early: int, late: int, tmp_path: Path) -> None:
    """Within one `Replan`, as a service has it."""
    at: dict[int, int] = {}

    def weigh(runs: int) -> None:
        if runs in (early, late):
            gc.collect()
            at[runs] = tracemalloc.get_traced_memory()[0]

    async def main() -> None:
        await first_run(tmp_path / "first.db")
        tracemalloc.start(1)
        try:
            # A request that hangs is kept by the endpoint of the test.
            await some_runs(late, 1, tmp_path / "r.db", weigh, faults=("status", "cut", "drop", "garbage"))
        finally:
            tracemalloc.stop()

    asyncio.run(main())
    grown = at[late] - at[early]
    assert grown < BYTES_AT_ALL + BYTES_A_RUN * (late - early), at
