"""Whether a task gets on by itself, or only waits for its tools: what the lending of places goes by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, bench, plan, step

from replan import RetryLater
from replan.core.tools.rules import ToolRule, ToolRules
from replan.testing import virtual_time

SLOW = FakeTool(delay_secs=100)
BUSY = FakeTool(fail=[RetryLater("all desks are busy", 60)])


def stillness(
    wanted: Any,
    tools: Mapping[str, FakeTool],
    at: float = 30,
    *,
    answers: Any = None,
    limits: ToolRule | None = None,
    **more: Any,
) -> float:
    """For how long the task does nothing but wait for its tools, so many seconds after its start."""

    async def main() -> float:
        rules = None if limits is None else ToolRules(rules=(("slow", limits),))
        made = await bench(tools, answers, rules=rules)
        task_id = await made.submit(wanted, **more)
        driven = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(at)
        found = made.parts.under_way.still_secs([task_id])
        await driven
        return found

    return virtual_time(main())


def test_a_task_whose_tool_has_not_come_back_is_still() -> None:
    assert stillness(plan(step("a", "slow")), {"slow": SLOW}) == pytest.approx(30, abs=1)


def test_nobody_is_still_where_nobody_is_driven() -> None:
    async def main() -> tuple[float, float]:
        made = await bench({})
        return made.parts.under_way.still_secs([]), made.parts.under_way.still_secs(["x"])

    assert virtual_time(main()) == (0.0, 0.0)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "while a tool of it runs"])
def test_a_task_that_waits_until_a_call_is_made_again_gets_on_by_itself(beside: bool) -> None:
    steps = [step("b", "busy"), *([step("a", "slow")] if beside else [])]
    assert stillness(plan(*steps), {"slow": SLOW, "busy": BUSY}) == 0.0


def test_it_is_still_again_once_the_delay_is_over() -> None:
    steps = plan(step("b", "busy"), step("a", "slow"))
    assert stillness(steps, {"slow": SLOW, "busy": BUSY}, at=90) == pytest.approx(30, abs=1)


def test_a_task_that_waits_for_a_rate_to_let_it_in_gets_on_by_itself() -> None:
    calls = plan(step("a", "slow", parameters={"n": 1}), step("b", "slow", parameters={"n": 2}))
    assert stillness(calls, {"slow": SLOW}, limits=ToolRule(rate="1/60s")) == 0.0


def test_a_task_that_waits_for_a_call_inside_to_end_does_not() -> None:
    calls = plan(step("a", "slow", parameters={"n": 1}), step("b", "slow", parameters={"n": 2}))
    still = stillness(calls, {"slow": SLOW}, limits=ToolRule(max_concurrent=1))
    assert still == pytest.approx(30, abs=1)


def test_two_tasks_are_still_only_where_neither_gets_on() -> None:
    async def main() -> list[float]:
        made: Bench = await bench({"slow": SLOW, "busy": BUSY})
        names = [await made.submit(plan(step("a", tool))) for tool in ("slow", "busy")]
        driven = [asyncio.ensure_future(made.drive(name)) for name in names]
        await asyncio.sleep(30)
        found = [made.parts.under_way.still_secs(some) for some in (names[:1], names[1:], names)]
        await asyncio.gather(*driven)
        return found

    assert virtual_time(main()) == [pytest.approx(30, abs=1), 0.0, 0.0]


def test_the_shortest_time_limit_of_those_that_are_driven_is_known() -> None:
    async def main() -> list[float]:
        made: Bench = await bench({"slow": SLOW})
        limits = (200, 150)
        names = [
            await made.submit(plan(step("a", "slow")), budget={"task_timeout_secs": secs}) for secs in limits
        ]
        driven = [asyncio.ensure_future(made.drive(name)) for name in names]
        await asyncio.sleep(1)
        of = made.parts.under_way.shortest_limit
        found = [of(names[:1]), of(names), of(["gone"])]
        await asyncio.gather(*driven)
        return found

    assert virtual_time(main()) == [200, 150, math.inf]
