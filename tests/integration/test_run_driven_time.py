"""What counts against a time limit is the time in which somebody drove the task, whatever people say while nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_recovery import READS

from replan.core.events import Record, TaskWaiting
from replan.core.state.fold import fold
from replan.core.state.task import ENDED
from replan.run.service.forking import Forking
from replan.testing import virtual_time

STEPS = 5
CHAIN = plan(
    step("s0", "read"), *(step(f"s{n}", "read", f"s{n - 1}", parameters={"n": n}) for n in range(1, STEPS))
)
LIMIT = {"task_timeout_secs": 100}
AWAY = 100_000.0


async def left(made: Bench, how: str, secs: float = 15, **policy: Any) -> str:
    """A task that was driven for so long, and that nobody drives any more."""
    task_id = await made.submit(CHAIN, budget=LIMIT, **policy)
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(secs)
    if how == "crash":
        driving.cancel()  # nothing is recorded any more
    else:
        made.parts.leaving.set()
    await asyncio.wait({driving})
    made.parts.leaving.now = False
    return task_id


async def paused(made: Bench, task_id: str) -> str:
    await made.service.pause(task_id)
    await asyncio.sleep(AWAY)
    await made.service.unpause(task_id)
    return task_id


async def paused_now_and_again(made: Bench, task_id: str) -> str:
    for now in (True, False):
        await made.service.pause(task_id, now=now)
        await asyncio.sleep(AWAY)
        await made.service.unpause(task_id)
        await asyncio.sleep(AWAY)
    return task_id


async def hinted_and_paused(made: Bench, task_id: str) -> str:
    await made.service.hint(task_id, "take your time")
    await asyncio.sleep(AWAY)
    return await paused(made, task_id)


async def forked_and_paused(made: Bench, task_id: str) -> str:
    fork, _ = await made.service.fork(task_id, Forking())
    await asyncio.sleep(AWAY)
    return await paused(made, fork)


async def paused_and_forked(made: Bench, task_id: str) -> str:
    await made.service.pause(task_id)
    await asyncio.sleep(AWAY)
    fork, _ = await made.service.fork(task_id, Forking())
    await asyncio.sleep(AWAY)
    return fork


async def hinted(made: Bench, task_id: str) -> str:
    await made.service.hint(task_id, "take your time")
    return task_id


SAID: list[Callable[[Bench, str], Awaitable[str]]] = [
    paused, paused_now_and_again, hinted, hinted_and_paused, forked_and_paused, paused_and_forked,
]  # fmt: skip


@pytest.mark.parametrize("how", ["crash", "handed over"])
@pytest.mark.parametrize("said", SAID)
def test_what_is_said_to_a_task_that_nobody_drives_spends_nothing_of_its_time(
    said: Callable[[Bench, str], Awaitable[str]], how: str
) -> None:
    async def main() -> Ran:
        made = await bench({"read": FakeTool(delay_secs=10, **READS)})
        task_id = await left(made, how)
        await asyncio.sleep(AWAY)
        task_id = await said(made, task_id)
        await asyncio.sleep(AWAY)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert 30 <= ran.result.total_duration_secs <= 60
    assert all(one.duration_secs is not None and one.duration_secs <= 20 for one in ran.result.steps)


@pytest.mark.parametrize("first", ["paused", "at once"])
def test_a_cancelled_task_says_how_long_it_was_driven(first: str) -> None:
    async def main() -> Ran:
        made = await bench({"read": FakeTool(delay_secs=10, **READS)})
        task_id = await left(made, "crash")
        await asyncio.sleep(AWAY)
        if first == "paused":
            await made.service.pause(task_id)
            await asyncio.sleep(AWAY)
        await made.service.cancel(task_id)
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "cancelled"
    assert ran.result.total_duration_secs == pytest.approx(10, abs=6)


def test_a_task_whose_answer_came_before_it_was_paused_has_the_time_that_it_had() -> None:
    async def main() -> Ran:
        made = await bench({"read": FakeTool(delay_secs=10, effect="once")})
        task_id = await made.submit(CHAIN, budget=LIMIT, interactive=True, approval="all")
        for _ in range(STEPS):
            await made.drive(task_id)
            await asyncio.sleep(AWAY)
            await made.service.resolve_approval(task_id, approved=True)
            await asyncio.sleep(AWAY)
            await paused(made, task_id)
            await asyncio.sleep(AWAY)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs == pytest.approx(10 * STEPS, abs=0.1)


def test_what_ran_until_a_pause_cut_it_off_counts() -> None:
    async def main() -> Ran:
        made = await bench({"read": FakeTool(delay_secs=10, **READS)})
        task_id = await made.submit(CHAIN, budget=LIMIT)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(9)
        await made.service.pause(task_id, now=True)
        await driving
        return await made.ran(task_id)

    assert virtual_time(main()).state.active_secs == pytest.approx(9, abs=0.1)


def test_a_task_that_an_older_release_has_paused_after_a_crash_is_not_out_of_time() -> None:
    async def main() -> Ran:
        made = await bench({"read": FakeTool(delay_secs=10, **READS)})
        task_id = await left(made, "crash")
        await asyncio.sleep(AWAY)
        await made.service.pause(task_id)
        return await made.ran(task_id)

    records = [_as_it_was(one) for one in virtual_time(main()).records]
    assert records[-1].event == TaskWaiting(reason="it was paused", paused=True)
    assert fold(records).active_secs == pytest.approx(10, abs=6)


def _as_it_was(one: Record) -> Record:
    event = one.event
    return (
        one._replace(event=event.model_copy(update={"driven": None}))
        if isinstance(event, TaskWaiting)
        else one
    )


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["drive", "drive", "pause", "pause now", "resume", "hint", "fork", "nothing"]),
        st.sampled_from([0.0, 3.0, 14.0]),
        st.sampled_from(["crash", "handed over"]),
    ),
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(DEEDS)
def test_a_task_is_never_out_of_time_before_it_was_driven_for_so_long(
    deeds: Sequence[tuple[str, float, str]],
) -> None:
    async def main() -> tuple[Ran, float]:
        made = await bench({"read": FakeTool(delay_secs=10, **READS)})
        task_id, driven = await made.submit(CHAIN, budget={"task_timeout_secs": 1_000}), 0.0
        for what, secs, how in deeds:
            if (await made.store.summary(task_id)).status in ENDED:
                break
            is_paused = (await made.service.state(task_id)).pause is not None
            match what:
                case "drive":
                    before = asyncio.get_running_loop().time()
                    driving = asyncio.create_task(made.service.drive(task_id))
                    await asyncio.wait({driving}, timeout=secs)
                    if how == "crash":
                        driving.cancel()
                    made.parts.leaving.set()
                    await asyncio.wait({driving})
                    made.parts.leaving.now = False
                    driven += asyncio.get_running_loop().time() - before
                case "pause" | "pause now" if not is_paused:
                    await made.service.pause(task_id, now=what == "pause now")
                case "resume" if is_paused:
                    await made.service.unpause(task_id)
                case "hint":
                    await made.service.hint(task_id, "well done")
                case "fork":
                    task_id, driven = (await made.service.fork(task_id, Forking()))[0], 0.0
            await asyncio.sleep(AWAY)
        if (await made.service.state(task_id)).pause is not None:
            await made.service.unpause(task_id)
        before = asyncio.get_running_loop().time()
        ran = (await made.drive(task_id)).check()
        return ran, driven + asyncio.get_running_loop().time() - before

    ran, driven = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs <= driven + 0.1
