"""A process that ends in good order is not held against the tasks that it lets go of."""

from __future__ import annotations

import asyncio

from run_tasks import Bench, Ran, plan
from test_run_turns import call, come_up, naps, process

from replan.core.events import TaskLeft, dump, load, misread
from replan.core.state.fold_task import MOST_LEFT
from replan.core.state.progress import ALONE_AFTER
from replan.run.orchestrator import MOST_FRUITLESS
from replan.testing import virtual_time


async def redeployed(on: Bench, name: str, *, after: float = 1.0, times: int = 1) -> None:
    """Drive the task in processes that each end in good order after so long, in the middle of its call."""
    for _ in range(times):
        driving = asyncio.create_task(on.service.drive(name))
        await asyncio.sleep(after)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        come_up(on)


def test_many_redeploys_during_one_long_call_make_no_task_wait() -> None:
    async def main() -> Ran:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="t", budget={"task_timeout_secs": 1_000})
        await redeployed(on, "t", times=3 * MOST_FRUITLESS)
        return await on.drive("t")

    ran = virtual_time(main()).check()
    assert ran.result.status == "succeeded"
    assert ran.types().count("task_left") == 3 * MOST_FRUITLESS
    assert not any(one.reason for one in ran.events("task_resumed")), (
        "nothing was taken for what ends its process"
    )


def test_crashes_count_as_before_however_many_redeploys_are_between() -> None:
    async def main() -> Ran:
        on = await naps()
        await on.submit(plan(call("a", 500)), task_id="t", budget={"task_timeout_secs": 5_000})
        for _ in range(MOST_FRUITLESS):
            await redeployed(on, "t", times=2)
            await process(on, "t", dies_after=40)
        return await on.drive("t")

    ran = virtual_time(main())
    assert [one.error.kind for one in ran.events("call_failed")] == ["process_ended"]


def test_a_call_that_is_cut_off_in_good_order_is_not_what_ends_its_process() -> None:
    async def main() -> Ran:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="t", budget={"task_timeout_secs": 1_000})
        for _ in range(ALONE_AFTER):
            await process(on, "t", dies_after=1)
        await redeployed(on, "t", times=MOST_FRUITLESS)
        return await on.drive("t")

    ran = virtual_time(main()).check()
    assert ran.result.status == "succeeded"
    assert ran.events("call_failed") == []


def test_a_task_that_ends_each_of_its_processes_in_good_order_waits_at_last() -> None:
    async def main() -> Ran:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="t", budget={"task_timeout_secs": 1e6})
        await redeployed(on, "t", after=0.1, times=MOST_LEFT + MOST_FRUITLESS + 1)
        return await on.ran("t")

    state = virtual_time(main()).state
    assert state.fruitless > 0 or state.waiting is not None
    assert state.left == MOST_LEFT


def test_the_time_until_it_was_let_go_of_is_the_tasks_own() -> None:
    async def main() -> Ran:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="t", budget={"task_timeout_secs": 60})
        await redeployed(on, "t", after=40)
        return await on.drive("t")

    assert virtual_time(main()).check().result.status == "timed_out"


def test_a_release_that_does_not_know_of_it_goes_on() -> None:
    written = dump(TaskLeft(driver="d"))
    assert not misread(load("task_left_of_a_newer_release", written))
    assert load("task_left", written) == TaskLeft(driver="d")
