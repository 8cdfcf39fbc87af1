"""What a person can do to a task, from any process: its driver sees it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.core.events import TERMINAL, AnyEvent
from replan.errors import InputError, TaskEnded
from replan.ports import Appended, Claim
from replan.run.service.forking import Forking
from replan.testing import MemoryStore, virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
CHAIN = plan(step("a", "read"), step("b", "read", "a"), step("c", "read", "b"))


def tools(**more: Any) -> dict[str, Any]:
    return {"read": FakeTool(delay_secs=10, output="read", **READS), **more}


async def begun(
    made: Bench, wanted: Any = CHAIN, secs: float = 5, **policy: Any
) -> tuple[str, asyncio.Task[Any]]:
    task_id = await made.submit(wanted, **policy)
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(secs)
    return task_id, driving


# ── pause and resume ──


def test_a_paused_task_lets_what_runs_end_and_starts_nothing() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id, driving = await begun(made)
        await made.service.pause(task_id, by="Ann", reason="lunch")
        paused = await made.ran(task_id, await driving)
        assert not (await made.store.summary(task_id)).held
        await made.service.unpause(task_id, by="Bob")
        return paused, (await made.drive(task_id)).check()

    paused, ran = virtual_time(main())
    assert paused.statuses() == {"a": "succeeded", "b": "pending", "c": "pending"}
    assert paused.result.status == "waiting"
    (waiting,) = paused.events("task_waiting")
    assert (waiting.reason, waiting.paused) == ("it was paused by Ann: lunch", True)
    assert ran.result.is_success
    assert ran.source.counts["read"] == 3
    assert [one.by for one in ran.events("resume_requested")] == ["Bob"]


class DeafStore(MemoryStore):
    """Nobody is told that people have written: it is seen in the log only."""

    def listen(self, task_id: str, tell: Callable[[], None]) -> Any:
        return super().listen(task_id, lambda: None)


ONE_AFTER = plan(step("a", "read"), step("b", "send", "a"), step("c", "send", "b", parameters={"to": "Bo"}))
LIST_AFTER = plan(
    step("a", "read"), step("b", "send", "a", for_each=["Ann", "Bo"], parameters={"to": "${item}"})
)


@pytest.mark.parametrize("wanted", [ONE_AFTER, LIST_AFTER], ids=["one", "list"])
@pytest.mark.parametrize("what", ["pause", "cancel", "hint"])
def test_an_effect_that_begins_after_a_pause_or_a_cancel_is_not_made_whenever_its_driver_hears_of_that(
    what: str, wanted: dict[str, Any]
) -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(send=FakeTool(output="sent", **ONCE)), store=DeafStore())
        task_id, driving = await begun(made, wanted)
        await getattr(made.service, what)(task_id, **({"text": "look twice"} if what == "hint" else {}))
        first = await made.ran(task_id, await driving)
        sent.append(made.source.counts["send"])
        if what != "pause":
            return first.check(), first
        await made.service.unpause(task_id)
        return first, (await made.drive(task_id)).check()

    sent: list[int] = []
    first, ran = virtual_time(main())
    assert first.result.status == {"pause": "waiting", "cancel": "cancelled", "hint": "succeeded"}[what]
    assert sent == [2 if what == "hint" else 0]
    assert (ran.source.counts["send"], ran.result.is_success) == (
        (0, False) if what == "cancel" else (2, True)
    )


def test_a_task_that_is_paused_now_is_cut_off_and_goes_on_as_after_a_crash() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id, driving = await begun(made)
        await made.service.pause(task_id, now=True)
        paused = await made.ran(task_id, await driving)
        await made.service.unpause(task_id)
        return paused, (await made.drive(task_id)).check()

    paused, ran = virtual_time(main())
    assert paused.statuses() == {"a": "running", "b": "pending", "c": "pending"}
    assert ran.result.is_success
    assert ran.source.counts["read"] == 4, "the one that was cut off is made again"


def test_a_paused_task_is_driven_by_nobody_until_it_is_resumed() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id = await made.submit(CHAIN)
        await made.service.pause(task_id)
        again = await made.drive(task_id)
        assert (await made.store.summary(task_id)).status == "waiting"
        await made.service.unpause(task_id)
        return again, (await made.drive(task_id)).check()

    again, ran = virtual_time(main())
    assert again.types() == ["task_submitted", "pause_requested", "task_waiting"]
    assert ran.result.is_success


def test_a_task_that_is_resumed_before_it_stands_still_goes_on() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        task_id, driving = await begun(made)
        await made.service.pause(task_id)
        await asyncio.sleep(1)
        await made.service.unpause(task_id)
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert "task_waiting" not in ran.types()
    assert ran.times("step_completed") == {"a": 10, "b": 20, "c": 30}


class SlowStore(MemoryStore):
    """A log that takes a second to say that something is in it."""

    def append(self, *args: Any, **more: Any) -> asyncio.Future[Any]:
        async def later(landing: asyncio.Future[Any]) -> Any:
            await asyncio.sleep(1)
            return await landing

        return asyncio.ensure_future(later(super().append(*args, **more)))


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("what", ["unpause", "cancel", "hint"])
def test_a_task_goes_on_whenever_a_person_speaks_while_it_comes_to_stand_still(what: str, now: bool) -> None:
    async def main(secs: float) -> Ran:
        made = await bench(tools(), store=SlowStore())
        task_id, driving = await begun(made)
        await made.service.pause(task_id, now=now)
        await asyncio.sleep(secs)
        if what == "cancel":
            await made.service.cancel(task_id)
        else:
            if what == "hint":
                await made.service.hint(task_id, "look twice")
            await made.service.unpause(task_id)
        await driving
        if (await made.store.summary(task_id)).status == "waiting":
            await made.drive(task_id)
        return (await made.ran(task_id)).check()

    for tenth in range(0, 120, 4):
        ran = virtual_time(main(tenth / 10))
        assert ran.result.status == ("cancelled" if what == "cancel" else "succeeded"), ran.result.failure


def test_a_paused_task_can_be_cancelled_and_answered() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        task_id, driving = await begun(made)
        await made.service.pause(task_id)
        await driving
        await made.service.cancel(task_id, by="Ann")
        return (await made.ran(task_id)).check()

    assert virtual_time(main()).result.status == "cancelled"


def test_a_yes_does_not_end_a_pause() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(send=FakeTool(output="sent", **ONCE)))
        wanted = plan(step("s", "send"))
        task_id, driving = await begun(made, wanted, interactive=True, approval="destructive")
        await driving
        await made.service.pause(task_id)
        await made.service.resolve_approval(task_id, approved=True)
        paused = await made.drive(task_id)
        await made.service.unpause(task_id)
        return paused, (await made.drive(task_id)).check()

    paused, ran = virtual_time(main())
    assert paused.source.counts["send"] == 1, "counted at the end"
    assert [one.paused for one in paused.events("task_waiting")] == [False, True]
    assert ran.result.is_success


def test_of_two_people_the_first_counts_and_the_other_is_told() -> None:
    async def main() -> list[str]:
        made = await bench(tools())
        task_id, driving = await begun(made)
        said = await asyncio.gather(
            made.service.pause(task_id, by="Ann"),
            made.service.pause(task_id, by="Bob"),
            return_exceptions=True,
        )
        await driving
        await made.service.unpause(task_id)
        said += await asyncio.gather(made.service.unpause(task_id, by="Cy"), return_exceptions=True)
        await made.drive(task_id)
        return [str(one) for one in said if one is not None]

    told = virtual_time(main())
    assert told == ["task 'task_1' is paused already by Ann", "task 'task_1' is not paused (waiting)"]


# ── hints ──


def test_a_hint_is_told_to_the_next_reflection() -> None:
    failing = FakeTool(output=lambda p: 1 / 0, delay_secs=10, **READS)
    answers = {
        "execution_plan": plan(step("a", "fail")),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "it will not do"}),
        "overall_reflection": overall(False),
    }

    async def main() -> Ran:
        made = await bench({"fail": failing}, answers)
        task_id, driving = await begun(made, None)
        await made.service.hint(task_id, "the door\nis open", by="Ann")
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    asked = [one.text for one in ran.events("llm_call_started") if "reflection" in one.schema_name]
    assert asked
    assert all("a hint (Ann): the door is open" in text for text in asked)
    assert [one.refused for one in ran.events("request_taken")] == [""]


# ── a step again ──


def fails_until(*, after: int) -> FakeTool:
    made: list[int] = []

    def answer(_: Any) -> str:
        made.append(1)
        if len(made) <= after:
            raise ValueError("not yet")
        return "done at last"

    return FakeTool(output=answer, delay_secs=1, effect="once")


TWO = plan(step("long", "read"), step("x", "odd"), step("y", "read", "x"), step("z", "read", "y", "long"))


def test_a_failed_step_is_tried_again_while_others_run() -> None:
    async def main() -> Ran:
        made = await bench(tools(odd=fails_until(after=1)))
        task_id, driving = await begun(made, TWO)
        await made.service.retry_step(task_id, "x", by="Ann", reason="it is up again")
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.statuses() == dict.fromkeys(["long", "x", "y", "z"], "succeeded")
    assert ran.times("step_completed") == {"long": 10, "x": 6, "y": 16, "z": 26}
    keys = {one.call_key for one in ran.events("call_started", step_id="x")}
    assert len(keys) == 1, "the same call"


def test_a_retry_that_its_driver_has_not_heard_of_comes_before_the_end_it_would_prevent() -> None:
    async def main() -> Ran:
        made = await bench(tools(odd=fails_until(after=1)), store=DeafStore())
        task_id, driving = await begun(made, TWO)
        await made.service.retry_step(task_id, "x")
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.statuses() == dict.fromkeys(["long", "x", "y", "z"], "succeeded")


class SaidAtTheEnd(MemoryStore):
    """A store to which somebody writes as the end of the task is on its way to it, and before it is there."""

    say: Callable[[], Awaitable[Any]] | None = None

    def append(self, claim: Claim, events: Sequence[AnyEvent], **more: Any) -> asyncio.Future[Appended]:
        if self.say is None or not isinstance(events[-1], TERMINAL):
            return super().append(claim, events, **more)
        say, written, self.say = self.say, super().append, None

        async def late() -> Appended:
            await say()
            await asyncio.sleep(1)
            return await written(claim, events, **more)

        return asyncio.ensure_future(late())


SAID = ["retry", "hint", "cancel", "pause", "fork"]


@pytest.mark.parametrize("what", SAID)
def test_what_is_said_while_an_end_without_success_is_on_its_way_comes_before_it(what: str) -> None:
    async def main() -> tuple[Ran, Ran]:
        store = SaidAtTheEnd()
        made = await bench(tools(odd=fails_until(after=1)), store=store)
        task_id = await made.submit(TWO)

        async def say() -> None:
            people = made.service
            await {
                "retry": lambda: people.retry_step(task_id, "x"),
                "hint": lambda: people.hint(task_id, "words"),
                "cancel": lambda: people.cancel(task_id),
                "pause": lambda: people.pause(task_id),
                "fork": lambda: people.fork(task_id, Forking(at=3)),
            }[what]()

        store.say = say
        first = await made.drive(task_id)
        if what != "pause":
            return first, first.check()
        await made.service.retry_step(task_id, "x")
        await made.service.unpause(task_id)
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    ends = {
        "retry": "succeeded",
        "hint": "failed",
        "cancel": "cancelled",
        "pause": "succeeded",
        "fork": "failed",
    }
    assert ran.result.status == ends[what]
    assert first.result.status == ("waiting" if what == "pause" else ends[what])
    assert len([one for one in ran.records if isinstance(one.event, TERMINAL)]) == 1
    if what in ("retry", "hint"):
        assert [one.refused for one in ran.events("request_taken")] == [""]


def test_a_failed_step_is_tried_again_by_whoever_drives_a_waiting_task() -> None:
    answers = {
        "execution_plan": plan(step("x", "odd"), step("y", "read", "x")),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "it will not do"}),
        "overall_reflection": overall(False),
        "evaluation": verdict(),
    }

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(odd=fails_until(after=1)), answers)
        task_id = await made.submit(interactive=True)
        waits = await made.drive(task_id)
        await made.service.retry_step(task_id, "x")
        return waits, (await made.drive(task_id)).check()

    waits, ran = virtual_time(main())
    assert waits.result.status == "waiting"
    assert ran.result.is_success


@pytest.mark.parametrize(
    ("step_id", "why"),
    [
        ("a", r"step 'a' has not failed \(running\)"),
        ("b", "has not failed"),
        ("q", "the plan has no step 'q'"),
    ],
)
def test_what_has_not_failed_is_not_tried_again(step_id: str, why: str) -> None:
    async def main() -> Ran:
        made = await bench(tools())
        task_id, driving = await begun(made)
        with pytest.raises(InputError, match=why):
            await made.service.retry_step(task_id, step_id)
        await driving
        return (await made.ran(task_id)).check()

    assert "retry_requested" not in virtual_time(main()).types()


def test_a_call_in_doubt_is_not_made_again_by_asking_for_its_step() -> None:
    async def main() -> Ran:
        made = await bench({"send": FakeTool(output=lambda p: (_ for _ in ()).throw(TimeoutError()), **ONCE)})
        task_id = await made.submit(plan(step("s", "send")), interactive=True)
        await made.drive(task_id)
        with pytest.raises(InputError, match="nobody knows whether its call of 'send' took effect"):
            await made.service.retry_step(task_id, "s")
        return await made.ran(task_id)

    assert virtual_time(main()).source.counts["send"] == 1


# ── judged again ──


def test_what_was_done_is_judged_again_without_being_done_again() -> None:
    answers = {
        "execution_plan": plan(step("a", "read")),
        "evaluation": [verdict(30), verdict(90, "fine")],
        "overall_reflection": overall(False),
    }

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(), answers)
        task_id = await made.submit(interactive=True)
        waits = await made.drive(task_id)
        await made.service.judge_again(task_id, hint="a rough answer will do", by="Ann")
        return waits, (await made.drive(task_id)).check()

    waits, ran = virtual_time(main())
    assert waits.result.status == "waiting"
    assert ran.result.is_success
    assert ran.result.final_output == "fine"
    assert ran.source.counts["read"] == 1


def test_nothing_is_judged_again_that_was_not_judged() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        task_id, driving = await begun(made)
        with pytest.raises(InputError, match="nothing of this round has been judged yet"):
            await made.service.judge_again(task_id)
        await driving
        return (await made.ran(task_id)).check()

    assert virtual_time(main()).result.is_success


# ── ended tasks ──


def test_an_ended_task_is_never_changed() -> None:
    async def main() -> tuple[list[str], list[str]]:
        made = await bench(tools())
        ran = (await made.run(CHAIN)).check()
        task_id, service = ran.result.task_id, made.service
        told = []
        for act in (
            lambda: service.pause(task_id),
            lambda: service.unpause(task_id),
            lambda: service.hint(task_id, "x"),
            lambda: service.retry_step(task_id, "a"),
            lambda: service.judge_again(task_id),
            lambda: service.cancel(task_id),
        ):
            with pytest.raises(TaskEnded) as error:
                await act()
            told.append(str(error.value))
        assert (await made.ran(task_id)).records == ran.records
        return told, [task_id]

    told, (task_id,) = virtual_time(main())
    assert {f"replan tasks fork {task_id}" in text for text in told} == {True}
    assert {"an ended task never changes" in text for text in told} == {True}
