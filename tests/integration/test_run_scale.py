"""A plan of four times the steps takes four times the work to run and to show. Counted in calls, not in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import bench, plan, step

from counting import MORE, calls_in
from replan.testing import virtual_time

FEW, MANY = 60, 240


def flat(n: int) -> list[str]:
    return []


def chain(n: int) -> list[str]:
    return [f"s{n - 1}"] if n else []


def layered(n: int) -> list[str]:
    layer = n // 10
    return sorted({f"s{(layer - 1) * 10 + (n * k) % 10}" for k in (3, 7)}) if layer else []


def look(parameters: dict[str, Any]) -> Any:
    return parameters["q"]


def run_one(count: int, needs: Callable[[int], list[str]], *, watched: bool = False) -> None:
    async def whole() -> None:
        table = await bench({"look": look})
        wanted = plan(
            *(
                step(
                    f"s{n}",
                    "look",
                    *needs(n),
                    parameters={"q": [n, f"${{{needs(n)[0]}}}" if n % 2 and needs(n) else n]},
                )
                for n in range(count)
            )
        )
        task_id = await table.submit(wanted, budget={"task_timeout_secs": None})
        ended = await table.service.drive(task_id)
        assert ended.status == "succeeded"
        result = await table.service.result_from(ended)
        assert len(result.steps) == count
        if watched:
            kinds = Counter([record.type async for record in table.service.watch(task_id)])
            assert kinds["step_completed"] == count

    virtual_time(whole())


@pytest.mark.parametrize("needs", [flat, chain, layered])
def test_running_a_plan(needs: Callable[[int], list[str]]) -> None:
    run_one(FEW, needs)  # what is made once and kept
    few, many = (calls_in(lambda count=count: run_one(count, needs)) for count in (FEW, MANY))  # type: ignore[misc]
    assert many <= MORE * MANY / FEW * few


def test_watching_a_task() -> None:
    run_one(FEW, flat, watched=True)
    few, many = (calls_in(lambda count=count: run_one(count, flat, watched=True)) for count in (FEW, MANY))  # type: ignore[misc]
    assert many <= MORE * MANY / FEW * few
