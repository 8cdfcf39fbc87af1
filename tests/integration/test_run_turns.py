"""Tasks of which something may end the process are driven one after the other, and nobody pays for it that is not to blame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, bench, plan, step

from replan.core.events import ExecutionMode, TaskResumed
from replan.core.limits.policy import Budget, Policy
from replan.core.state.progress import ALONE_AFTER
from replan.ports import ToolCall
from replan.run.orchestrator import MOST_FRUITLESS
from replan.run.service.forking import Forking
from replan.run.service.submission import Submission
from replan.run.turns import Turns
from replan.testing import FakeSource, virtual_time

LENT_AFTER = 30.0


def call(name: str, secs: float, **of: Any) -> dict[str, Any]:
    return step(name, "nap", parameters={"secs": secs, **of})


class Naps(FakeSource):
    """A call takes as long as it says, or as the other task does that it waits for."""

    other: Callable[[str], Any]

    async def call(self, call: ToolCall) -> Any:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            if (name := call.parameters.get("task")) is not None:
                return await self.other(name)
            await asyncio.sleep(call.parameters["secs"])
        finally:
            self.running -= 1
        return await super().call(call)


async def naps() -> Bench:
    """Tools that take their time, on a process that has come up just now."""
    source = Naps({"nap": FakeTool(effect="reads")})
    on = await bench(source)

    async def other(name: str) -> str:
        return str((await on.drive(name)).result.status)

    source.other = other
    come_up(on)
    return on


def come_up(on: Bench) -> None:
    on.parts.turns = Turns()
    on.parts.turns.still = on.parts.under_way.still_secs
    on.parts.turns.lend_after = lambda _: LENT_AFTER


async def process(on: Bench, *names: str, dies_after: float) -> None:
    """Drive these tasks at once in a process that is killed after so long."""
    drives = [asyncio.create_task(on.service.drive(name)) for name in names]
    await asyncio.sleep(dies_after)
    on.store.crash()
    for drive in drives:
        drive.cancel()
    await asyncio.gather(*drives, return_exceptions=True)
    come_up(on)


async def all_of(on: Bench, *names: str) -> list[Ran]:
    return list(await asyncio.gather(*(on.drive(name) for name in names)))


def resumptions(ran: Ran) -> int:
    return sum(isinstance(record.event, TaskResumed) for record in ran.records)


def test_a_task_that_waits_for_its_turn_uses_up_none_of_its_time() -> None:
    async def main() -> list[Ran]:
        on = await naps()
        await on.submit(plan(call("a", 20)), task_id="long")
        for name in ("x", "y", "z"):
            await on.submit(plan(call("a", 1.5)), task_id=name, budget={"task_timeout_secs": 4})
        for _ in range(ALONE_AFTER):
            await process(on, "long", "x", "y", "z", dies_after=0.5)
        return await all_of(on, "long", "x", "y", "z")

    long, *others = virtual_time(main())
    assert [ran.result.status for ran in (long, *others)] == ["succeeded"] * 4
    assert all(ran.state.active_secs == pytest.approx(1.5) for ran in others)


def test_a_process_that_ends_is_held_against_the_task_alone_whose_turn_it_was() -> None:
    async def main() -> tuple[list[list[int]], list[Ran]]:
        on, names = await naps(), ("x", "y", "z")
        for name in names:
            await on.submit(plan(call("a", 5)), task_id=name)
        counts = []
        for _ in range(ALONE_AFTER + len(names)):
            await process(on, *names, dies_after=1)
            counts.append([resumptions(await on.ran(name)) for name in names])
        return counts, await all_of(on, *names)

    counts, found = virtual_time(main())
    assert counts == [[0, 0, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1], [2, 2, 2]]
    assert [ran.result.status for ran in found] == ["succeeded"] * 3


def test_the_first_end_of_a_call_opens_all_places_and_ends_the_turn() -> None:
    async def main() -> tuple[list[Ran], float]:
        on = await naps()
        for name in ("x", "y"):
            await on.submit(plan(*(call(f"s{n}", 1, n=n) for n in range(17))), task_id=name)
        for _ in range(ALONE_AFTER):
            await process(on, "x", "y", dies_after=0.5)
        begun = asyncio.get_running_loop().time()
        found = await all_of(on, "x", "y")
        return found, asyncio.get_running_loop().time() - begun

    (x, y), took = virtual_time(main())
    assert (x.result.status, y.result.status) == ("succeeded", "succeeded")
    assert took == pytest.approx(1 + 1 + 2)  # a call of the one, a call of the other, two rows of eight


def test_a_tool_may_wait_for_another_task_of_which_something_may_end_the_process() -> None:
    async def main() -> list[Ran]:
        on = await naps()
        await on.submit(plan(step("o", "nap", parameters={"task": "inner"})), task_id="outer")
        await on.submit(plan(call("a", 5)), task_id="inner")
        for _ in range(ALONE_AFTER):
            await process(on, "outer", dies_after=1)
        return [await on.drive("outer"), await on.ran("inner")]

    outer, inner = virtual_time(main())
    assert (outer.result.status, outer.result.steps[0].output) == ("succeeded", "succeeded")
    assert inner.result.status == "succeeded"
    assert [event.beside for event in events(outer, ExecutionMode)][-1], (
        "the log says that another went on beside it"
    )
    assert events(inner, TaskResumed)[-1].beside


def events(ran: Ran, kind: type) -> list[Any]:
    return [record.event for record in ran.records if isinstance(record.event, kind)]


def test_a_call_that_went_on_beside_another_such_task_is_not_what_ends_the_process() -> None:
    async def main() -> list[Ran]:
        on = await naps()
        for name in ("x", "y"):
            await on.submit(plan(call("a", 100)), task_id=name)
        for _ in range(ALONE_AFTER):
            await process(on, "x", "y", dies_after=1)
        for _ in range(3):
            await process(on, "x", "y", dies_after=LENT_AFTER + 5)
        return await all_of(on, "x", "y")

    assert [ran.result.status for ran in virtual_time(main())] == ["succeeded", "succeeded"]


def test_nobody_is_blamed_for_what_ends_beside_a_task_that_was_taken_up_again_just_now() -> None:
    async def main() -> list[Ran]:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="old")
        for _ in range(ALONE_AFTER):
            await process(on, "old", dies_after=1)
        for name in ("k1", "k2", "k3"):
            await on.submit(plan(call("a", 50)), task_id=name)
            await process(on, name, dies_after=1)
            await process(on, "old", name, dies_after=1)  # its second time
        return await all_of(on, "old")

    assert virtual_time(main())[0].result.status == "succeeded"


@pytest.mark.parametrize("now", [False, True])
def test_a_task_that_is_paused_as_it_waits_for_its_turn_begins_nothing(now: bool) -> None:
    async def main() -> tuple[Ran, Ran, int]:
        on = await naps()
        await on.submit(plan(call("a", 20)), task_id="long")
        await on.submit(plan(call("a", 1), call("b", 1)), task_id="x")
        for _ in range(ALONE_AFTER):
            await process(on, "long", "x", dies_after=0.5)
        long, x = asyncio.create_task(on.drive("long")), asyncio.create_task(on.drive("x"))
        await asyncio.sleep(1)
        before = on.source.counts["nap"]
        await on.service.pause("x", now=now)
        paused = await x
        begun = on.source.counts["nap"] - before
        await long
        await on.service.unpause("x")
        return paused, await on.drive("x"), begun

    paused, went_on, begun = virtual_time(main())
    assert (paused.result.status, begun) == ("waiting", 0)
    assert went_on.result.status == "succeeded"
    assert went_on.state.active_secs < 4


def test_a_task_that_is_cancelled_or_hears_a_hint_as_it_waits_for_its_turn_heeds_it() -> None:
    async def main() -> tuple[Ran, Ran]:
        on = await naps()
        for name in ("long", "x", "y"):
            await on.submit(plan(call("a", 20)), task_id=name)
        for _ in range(ALONE_AFTER):
            await process(on, "long", "x", "y", dies_after=0.5)
        long, x, y = (asyncio.create_task(on.drive(name)) for name in ("long", "x", "y"))
        await asyncio.sleep(1)
        await on.service.hint("y", "take care")
        await on.service.cancel("x", "enough")
        cancelled = await x
        assert not long.done()
        return cancelled, await y

    cancelled, hinted = virtual_time(main())
    assert (cancelled.result.status, hinted.result.status) == ("cancelled", "succeeded")
    assert [said.answer for said in hinted.state.mending().said] == ["take care"]


def test_a_process_that_is_about_to_end_lets_go_of_a_task_that_waits_for_its_turn() -> None:
    async def main() -> tuple[Ran, int]:
        on = await naps()
        for name in ("long", "x"):
            await on.submit(plan(call("a", 20)), task_id=name)
        for _ in range(ALONE_AFTER):
            await process(on, "long", "x", dies_after=0.5)
        before = len((await on.ran("x")).records)
        long, x = asyncio.create_task(on.drive("long")), asyncio.create_task(on.drive("x"))
        await asyncio.sleep(1)
        on.parts.leaving.set()
        ran = await x
        await long
        return ran, len(ran.records) - before

    ran, written = virtual_time(main())
    assert (ran.state.ended, written) == (False, 0)


# ── what counts as taken up for nothing ──


def test_answers_are_no_ends_of_a_process() -> None:
    async def main() -> Ran:
        on = await bench({"pay": FakeTool(effect="once")})
        steps = [step(f"p{n}", "pay", parameters={"to": f"c{n}"}) for n in range(12)]
        policy = Policy(interactive=True, evaluation="steps", approval="all", budget=Budget())
        await on.service.submit(Submission("pay", policy=policy, plan=plan(*steps), task_id="t"))
        ran = await on.drive("t")
        while (known := ran.state.recovery) is not None and (open_ := known.open_approvals()):
            assert len(open_) == 12 - len(known.approvals), ran.result.reason
            await on.service.resolve_approval("t", open_[0].approval_id, approved=False, reason="no")
            ran = await on.drive("t")
            assert ran.state.fruitless <= 0
        return ran

    assert virtual_time(main()).result.status == "failed"


def test_a_process_has_to_end_twice_more_after_a_pause_before_a_task_stands_in_line() -> None:
    async def main() -> list[int]:
        on = await naps()
        await on.submit(plan(call("a", 50)), task_id="t")
        found = []
        for _ in range(2):
            await on.service.pause("t", now=True)
            await on.drive("t")
            await on.service.unpause("t")
            for _ in range(2):
                await process(on, "t", dies_after=1)
                found.append((await on.ran("t")).state.fruitless)
        return found

    assert virtual_time(main()) == [0, 1, 0, 1]


def test_a_fork_of_a_task_whose_process_has_ended_each_time_is_driven_as_any() -> None:
    async def main() -> tuple[Ran, Ran]:
        on = await naps()
        for name in ("x", "y"):
            await on.submit(plan(call("a", 100)), task_id=name)
        for _ in range(MOST_FRUITLESS):
            await process(on, "x", "y", dies_after=LENT_AFTER + 5)
        waiting = await on.drive("x")
        fork, _ = await on.service.fork("x", Forking())
        return waiting, await on.drive(fork)

    waiting, fork = virtual_time(main())
    assert waiting.state.waiting is not None
    assert waiting.state.waiting.because == "process"
    assert fork.result.status == "succeeded"


def test_whoever_had_the_fewest_turns_comes_first_also_where_it_asks_later() -> None:
    async def main() -> list[str]:
        turns, came = Turns(), []
        asked = [turns.ask("a", had=3), turns.ask("b", had=1)]
        await asyncio.sleep(0.1)
        asked += [turns.ask("c"), turns.ask("d", had=2), turns.ask("e", had=1)]
        while len(came) < len(asked):
            (now,) = [turn for turn in asked if turn.come.done() and turn.task_id not in came]
            came.append(now.task_id)
            now.over()
            await asyncio.sleep(0)
        return came

    assert virtual_time(main()) == ["c", "b", "e", "d", "a"]


@given(st.lists(st.sampled_from(["ask", "take", "give", "lend"]), max_size=40))
def test_whoever_asks_for_a_turn_gets_it_in_their_order_and_one_at_a_time(moves: list[str]) -> None:
    async def main() -> None:
        turns, asked, having, lent = Turns(), [], [], 0
        still = 0.0
        turns.still, turns.lend_after = (lambda _: still), (lambda _: 10.0)
        for n, move in enumerate(moves):
            if move in ("ask", "take"):
                turn = turns.ask(str(n), waits=move == "ask")
                assert turn.come.done() or (move == "ask" and having)
                (having if turn.come.done() else asked).append(turn)
            elif move == "give" and having:
                having.pop(0).over()
            elif move == "lend":
                still = 1e9
                await asyncio.sleep(10.0 * 2.0 ** len(having) + 1)
                still = 0.0
                await asyncio.sleep(0)
            came = [turn for turn in asked if turn.come.done()]
            assert came == asked[: len(came)]
            assert move in ("give", "lend") or not came
            asked = asked[len(came) :]
            having += came
            assert having or not asked
            lent += len(came)
        for turn in asked:
            turn.over()
        for turn in having:
            turn.over()
        assert turns.ask("last").come.done()

    virtual_time(main())


def test_whoever_gives_up_waiting_is_passed_over() -> None:
    async def main() -> list[str]:
        on = await naps()
        for name in ("x", "y", "z"):
            await on.submit(plan(call("a", 5)), task_id=name)
        for _ in range(ALONE_AFTER):
            await process(on, "x", "y", "z", dies_after=1)
        x, y, z = (asyncio.create_task(on.drive(name)) for name in ("x", "y", "z"))
        await asyncio.sleep(1)
        y.cancel()
        with pytest.raises(asyncio.CancelledError):
            await y
        return [(await one).result.status for one in (x, z)] + [(await on.drive("y")).result.status]

    assert virtual_time(main()) == ["succeeded"] * 3


def test_the_next_goes_on_beside_one_that_waits_for_another_task() -> None:
    async def main() -> None:
        turns = Turns()
        a, b, c, d = (turns.ask(name) for name in "abcd")
        assert [one.come.done() for one in (a, b, c, d)] == [True, False, False, False]
        with turns.waiting_for_another("a"):
            assert [one.come.done() for one in (b, c)] == [True, False], "one, and that begins"
            assert a.beside
            assert b.beside
            with turns.waiting_for_another("b"), turns.waiting_for_another("b"):
                assert [one.come.done() for one in (c, d)] == [True, False]
            c.over()
            assert not d.come.done(), "b gets on again"
            b.over()
            assert d.come.done(), "only one is left that waits for another"
        last = turns.ask("e")
        assert not last.come.done()
        a.over()
        d.over()
        assert last.come.done()

    virtual_time(main())


def test_one_that_asks_while_all_wait_for_others_has_its_turn_at_once() -> None:
    async def main() -> None:
        turns = Turns()
        turns.ask("a")
        with turns.waiting_for_another("a"):
            assert turns.ask("b", had=3).come.done()
        assert not turns.ask("c").come.done()

    virtual_time(main())
