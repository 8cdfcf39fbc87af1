"""Chaos, as `make chaos` makes it: whatever befalls workers, database and ways, tasks end, and nothing is had twice."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from postgres_server import missing

sys.path.append(str(Path(__file__).parents[2]))  # the measures are no package of the tests
from bench.chaos.run import Size, run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs fork, pidfd and SIGSTOP"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
SAMPLE = Size(
    tasks=30, blows=5, secs=3.0,
    only=("worker killed", "worker told to end", "connections cut", "slow answers", "server's child killed"),
)  # fmt: skip
TWO_MINUTES = Size(tasks=600, blows=60, secs=90.0)


@pytest.mark.parametrize(
    ("size", "seed"),
    [
        pytest.param(SAMPLE, 7, id="sample"),
        pytest.param(TWO_MINUTES, 11, id="two minutes", marks=pytest.mark.prove),
    ],
)
async def test_no_task_is_lost_or_stuck_and_no_effect_had_twice_in_chaos(size: Size, seed: int) -> None:
    said: list[str] = []
    outcome = await run(size, seed, said.append)
    assert outcome.found.wrong() == {}, said
    assert outcome.jobs_left == ""
    assert sum(outcome.found.statuses.values()) == size.tasks
    assert sum(outcome.blows.values()) >= size.blows
