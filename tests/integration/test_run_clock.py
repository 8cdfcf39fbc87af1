"""The machine's clock is set while a task runs (a laptop that slept, a correction): no time limit and no wait is counted by that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step
from test_run_verifiers import World, at, pays, rule, tools

from replan.cli.live.picture import PictureState
from replan.core.events import StepReady, TaskSubmitted
from replan.errors import StaleWriter
from replan.run.session.opening import Claimed
from replan.testing import MemoryStore, VirtualClock, virtual_time

JUMPS = [7_200.0, -7_200.0, 31_536_000.0]
CHAIN = plan(step("a", "t"), step("b", "t", "a", parameters={"n": 1}))


class SetClock(VirtualClock):
    """A clock that somebody sets."""

    off = 0.0

    def now(self) -> float:
        return super().now() + self.off

    def set_in(self, secs: float, by: float) -> None:
        asyncio.get_running_loop().call_later(secs, self._set, by)

    def _set(self, by: float) -> None:
        self.off += by


async def crash(made: Bench, task_id: str, driving: asyncio.Future[Any]) -> None:
    """End it with nothing recorded any more."""
    claim = await made.store.claim(task_id, steal=True)  # what it writes from now on is refused
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    await made.store.release(claim)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_while_a_call_runs_spends_no_time_limit(jump: float) -> None:
    async def main() -> Ran:
        clock = SetClock()
        made = await bench({"t": FakeTool(delay_secs=20)}, clock=clock)
        clock.set_in(10, jump)
        return (await made.run(CHAIN, budget={"task_timeout_secs": 60})).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs == pytest.approx(40, abs=0.1)
    assert [one.duration_secs for one in ran.result.steps] == [pytest.approx(20, abs=0.1)] * 2
    assert ran.driven is not None
    assert ran.state.active_secs == ran.driven.active_secs, "the log says so too"


@pytest.mark.parametrize("jump", JUMPS)
def test_a_task_that_is_taken_up_again_has_the_time_left_that_it_had_when_the_clock_was_set(
    jump: float,
) -> None:
    async def main() -> Ran:
        clock = SetClock()
        made = await bench({"t": FakeTool(delay_secs=20)}, clock=clock)
        task_id = await made.submit(CHAIN, budget={"task_timeout_secs": 60})
        clock.set_in(10, jump)
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(30)  # in the middle of the second step
        await crash(made, task_id, driving)
        clock.set_in(1, -2 * jump)
        await asyncio.sleep(5)
        clock.set_in(10, jump)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs == pytest.approx(40, abs=0.1), "20 before the crash, 20 after it"


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_while_a_person_is_waited_for_spends_no_time_limit(jump: float) -> None:
    async def main() -> Ran:
        clock = SetClock()
        made = await bench({"t": FakeTool(delay_secs=20, effect="once")}, clock=clock)
        task_id = await made.submit(CHAIN, budget={"task_timeout_secs": 60}, interactive=True, approval="all")
        for _ in range(2):
            clock.set_in(10, jump)
            await made.drive(task_id)
            clock.set_in(10, jump)
            await asyncio.sleep(1_000)
            await made.service.resolve_approval(task_id, approved=True)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.result.total_duration_secs == pytest.approx(40, abs=0.1)


@pytest.mark.parametrize("jump", [7_200.0, -7_200.0])
def test_what_was_under_way_is_given_its_time_however_the_clock_is_set(jump: float) -> None:
    """That a payment is not to be found counts only once it would have arrived."""

    async def main() -> Ran:
        clock = SetClock()
        made = await bench(tools(world), store=MemoryStore(), rules=rule(after_secs=100), clock=clock)
        clock.set_in(20, jump)
        return (await made.run(pays("o-1"), budget={"task_timeout_secs": 1_000})).check()

    world = World(60.0)
    ran = virtual_time(main())
    assert ran.result.is_success
    assert len(world.payments) == len(world.calls) == 1
    assert [one.happened for one in ran.events("outcome_settled")] == [True]
    assert at(ran, "outcome_settled")[0] == pytest.approx(60, abs=15)


def test_a_clock_that_was_set_back_between_two_drives_makes_nobody_wait_longer_than_once_more() -> None:
    async def main() -> tuple[Ran, float]:
        clock = SetClock()
        made = await bench(tools(world), store=MemoryStore(), rules=rule(after_secs=100), clock=clock)
        task_id = await made.submit(pays("o-1"), budget={"task_timeout_secs": 1_000})
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(50)  # nobody can tell yet
        driving.cancel()
        await asyncio.wait({driving})
        clock.off -= 86_400
        again = asyncio.get_running_loop().time()
        return (await made.drive(task_id)).check(), asyncio.get_running_loop().time() - again

    world = World(None)
    ran, waited = virtual_time(main())
    assert ran.result.is_success
    assert len(world.calls) == 2, "the first has had no effect, and that is known now"
    assert waited <= 100 + 15


@pytest.mark.parametrize("away", [0.0, 86_400.0, -86_400.0], ids=["at once", "set forward", "set back"])
@pytest.mark.parametrize("crashes", [1, 2])
@pytest.mark.parametrize("lag", [60.0, None], ids=["it arrives late", "it never arrives"])
def test_what_was_under_way_is_given_its_time_also_where_the_process_dies_meanwhile(
    away: float, crashes: int, lag: float | None
) -> None:
    """How long nobody drove the task a log does not know: the clock may have been set."""

    async def main() -> tuple[Ran, float]:
        clock = SetClock()
        made = await bench(tools(world), store=MemoryStore(), rules=rule(after_secs=100), clock=clock)
        task_id = await made.submit(pays("o-1"), budget={"task_timeout_secs": 1_000})
        began = asyncio.get_running_loop().time()
        for _ in range(crashes):
            driving = asyncio.ensure_future(made.drive(task_id))
            await asyncio.sleep(15)
            await crash(made, task_id, driving)
            clock.off += away
        ran = (await made.drive(task_id)).check()
        return ran, asyncio.get_running_loop().time() - began

    world = World(lag)
    ran, took = virtual_time(main())
    assert ran.result.is_success
    assert len(world.payments) == 1
    assert len(world.calls) == (1 if lag else 2)
    if lag is None:
        assert 100 <= took <= 100 + 15 * crashes + 1, "what is left of it is waited for, and no more"


def test_times_of_the_log_are_unix_seconds_of_the_clock_that_the_drive_began_with() -> None:
    async def main() -> tuple[Ran, float]:
        clock = SetClock()
        made = await bench({"t": FakeTool(delay_secs=20)}, clock=clock)
        task_id = await made.submit(CHAIN)
        clock.off = 500.0
        began = clock.now()
        return (await made.drive(task_id)).check(), began

    ran, began = virtual_time(main())
    times: dict[str, Any] = {one.type: one.ts for one in ran.records}
    assert times["task_started"] == pytest.approx(began, abs=0.1)
    assert times["task_completed"] == pytest.approx(began + 40, abs=0.1)


@pytest.mark.parametrize("away", [1_000.0, -5_000.0, 0.0], ids=["down for long", "clock set back", "at once"])
def test_a_step_whose_process_died_took_no_longer_than_it_was_driven(away: float) -> None:
    async def main() -> Ran:
        clock = SetClock()
        made = await bench({"long": FakeTool(delay_secs=20), "short": FakeTool(delay_secs=5)}, clock=clock)
        task_id = await made.submit(plan(step("a", "long"), step("b", "short"), step("c", "short", "a")))
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(10)
        await crash(made, task_id, driving)
        clock.off = away
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    took = {one.step_id: one.duration_secs for one in ran.result.steps}
    assert took["b"] == pytest.approx(5, abs=0.1)
    assert took["a"] == pytest.approx(25, abs=0.1), (
        "5 up to what was recorded last, and all of the second time"
    )
    shown = PictureState.of(ran.records)
    assert {name: one.secs(0.0) for name, one in shown.steps.items()} == {
        name: pytest.approx(secs, abs=0.001) for name, secs in took.items()
    }
    assert ran.result.total_duration_secs == pytest.approx(
        ran.records[-1].ts - ran.records[0].ts - shown.idle, abs=0.001
    )


def test_a_person_who_is_waited_for_in_the_middle_of_a_step_takes_none_of_its_time() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=5, effect="once")})
        actions = [action("x", "t", n=1), action("y", "t", n=2)]
        wanted = plan({"step_id": "a", "actions": actions, "dependencies": []})
        task_id = await made.submit(wanted, interactive=True, approval="all")
        while (await made.drive(task_id)).result.status != "succeeded":
            await asyncio.sleep(500)
            for one in (await made.service.result(task_id)).waiting_for:
                await made.service.resolve_approval(task_id, one.id, approved=True)
        return (await made.ran(task_id)).check()

    (a,) = virtual_time(main()).result.steps
    assert a.duration_secs < 20


@pytest.mark.parametrize("stood", [0.5, 20.0, -7_200.0])
def test_a_call_is_not_made_whose_start_is_old_and_whose_task_is_another_s_by_now(stood: float) -> None:
    """Whatever held the process up between the two: a commit, a file, a frozen process."""

    async def main() -> None:
        clock, store = SetClock(), MemoryStore()
        made = await bench({"t": FakeTool()}, clock=clock, store=store)
        await store.create("t", TaskSubmitted(description="Do it"), clock.now())
        async with Claimed("t", made.service.parts) as run:
            batch = run.record(StepReady(step_id="s"))
            await run.durable(batch)
            clock._set(stood)
            await run.still_ours(batch)
            await store.claim("t", steal=True)
            if stood == 0.5:
                await run.still_ours(batch)  # so soon nobody is taken for dead
            else:
                with pytest.raises(StaleWriter):
                    await run.still_ours(batch)

    virtual_time(main())
