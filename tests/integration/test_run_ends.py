"""How tasks are stopped: by people, by the clock, by budgets; and that nothing goes on after that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_tasks import Bench, FakeSource, FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.events import (
    TERMINAL,
    AnyEvent,
    ApprovalResolved,
    CancelRequested,
    QuestionAnswered,
    Record,
    TaskStarted,
    UnknownEvent,
)
from replan.errors import NotHeard, StoreBusy, StoreUnusable, TaskEnded
from replan.ports import Appended, Claim, ModelReply, ModelRequest, ToolCall
from replan.testing import MemoryStore, ScriptedModel, virtual_time
from replan.tools.functions.context import current
from replan.tools.functions.source import FunctionSource

EXACT = 0.001
FOREVER = 100_000.0


class Deaf(FakeSource):
    """Its tool `deaf` goes on when it is stopped, for `secs`; what it does afterwards is counted."""

    def __init__(self, tools: dict[str, FakeTool], secs: float) -> None:
        super().__init__(tools)
        self.secs = secs
        self.late = 0

    async def call(self, call: ToolCall) -> Any:
        if call.tool_id != "deaf":
            return await super().call(call)
        self.counts["deaf"] += 1
        ends = asyncio.get_running_loop().time() + self.secs
        while (left := ends - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        self.late += 1
        return "late"


class SlowModel(ScriptedModel):
    """Takes a long time; `deaf` to cancellation if asked for."""

    def __init__(self, answers: Any, *, slow: str, deaf: bool = False) -> None:
        super().__init__(answers)
        self.slow = slow
        self.deaf = deaf

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        if request.schema_name == self.slow:
            try:
                await asyncio.sleep(FOREVER)
            except asyncio.CancelledError:
                if not self.deaf:
                    raise
        return await super().ask(request, on_text)


async def cancelled(made: Bench, task_id: str, after: float) -> tuple[Ran, float]:
    """Drive a task, cancel it after some seconds; and how long its end took."""
    loop = asyncio.get_running_loop()
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(after)
    started = loop.time()
    await made.service.cancel(task_id, reason="enough", by="ann")
    driven = await driving
    return (await made.ran(task_id, driven)).check(), loop.time() - started


def check_cancelled(ran: Ran, secs: float) -> None:
    assert ran.result.status == "cancelled"
    assert ran.result.failure is not None
    assert ran.result.failure.reason == "cancelled by ann: enough"
    assert secs < 2.0


WAYS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "a step": ({"t": FakeTool(delay_secs=FOREVER)}, [step("a", "t"), step("b", "t", "a")]),
    "actions": (
        {"t": FakeTool(delay_secs=FOREVER)},
        [step("a", actions=[action("x", "t"), action("y", "t", n=1)])],
    ),
    "items": (
        {"t": FakeTool(delay_secs=FOREVER)},
        [step("a", "t", for_each="${metadata.items}", parameters={"n": "${item}"})],
    ),
    "a wait for the next try": (
        {"t": FakeTool(fail=[ConnectionResetError()] * 9, spec={})},
        [step("a", "t")],
    ),
    "many that wait for places": (
        {"t": FakeTool(delay_secs=FOREVER)},
        [step(f"s{n}", "t", parameters={"n": n}) for n in range(50)],
    ),
}


@pytest.mark.parametrize(("tools", "steps"), WAYS.values(), ids=WAYS)
def test_a_cancel_ends_the_task_within_two_seconds(
    tools: dict[str, Any], steps: list[dict[str, Any]]
) -> None:
    async def main() -> tuple[Ran, float, int]:
        made = await bench(tools)
        task_id = await made.submit(
            plan(*steps),
            metadata={"items": list(range(20))},
            budget={"task_timeout_secs": None},
            max_transient_retries=50,
        )
        ran, secs = await cancelled(made, task_id, 0.1)
        calls = len(made.source.calls)
        await asyncio.sleep(100)
        assert len(made.source.calls) == calls, "something was started after the end"
        return ran, secs, len(asyncio.all_tasks())

    ran, secs, tasks = virtual_time(main())
    check_cancelled(ran, secs)
    assert tasks == 1, "tasks were left behind"
    assert ran.source.running == 0


@pytest.mark.parametrize("effect", ["reads", "repeatable", "once"])
def test_open_calls_are_closed_with_the_task_and_effects_are_marked_in_doubt(effect: Any) -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=FOREVER, effect=effect)})
        return (
            await cancelled(
                made, await made.submit(plan(step("a", "t"), step("b", "t", "a", parameters={"n": 1}))), 10
            )
        )[0]

    ran = virtual_time(main())
    (failed,) = ran.events("call_failed")
    assert failed.error.kind == "cancelled"
    assert ran.statuses() == {"a": "failed", "b": "skipped"}
    assert ("outcome_unknown" in ran.types()) is (effect == "once")
    at = ran.types().index("call_failed")
    assert {record.ts for record in ran.records[at:]} == {ran.records[at].ts}, "not one append"
    assert ran.result.failure is not None
    assert any(failed.call_key in advice for advice in ran.result.failure.advice) is (effect == "once")


def test_what_finished_before_the_cancel_stays_finished() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(output="kept", delay_secs=1), "slow": FakeTool(delay_secs=FOREVER)})
        task_id = await made.submit(plan(step("a", "t"), step("b", "slow", "a")))
        return (await cancelled(made, task_id, 10))[0]

    assert virtual_time(main()).outputs() == {"a": "kept"}


@pytest.mark.parametrize("secs", [0.5, 60.0], ids=["ends while it is stopped", "ends long after"])
def test_a_tool_that_does_not_listen_cannot_hold_up_the_end(secs: float) -> None:
    async def main() -> tuple[Ran, float]:
        source = Deaf({"deaf": FakeTool(effect="once"), "t": FakeTool()}, 10 + secs)
        made = await bench(source)
        wanted = plan(step("a", "deaf"), step("b", "t", "a"))
        ran, took = await cancelled(made, await made.submit(wanted), 10)
        await asyncio.sleep(200)
        assert source.late == 1
        assert source.counts == {"deaf": 1}
        again = (await made.ran(ran.state.task_id)).check()
        assert len(again.records) == len(ran.records)
        assert len(asyncio.all_tasks()) == 1
        return ran, took

    ran, took = virtual_time(main())
    check_cancelled(ran, took)
    assert ("call_completed" in ran.types()) is (secs < 1)
    assert ("outcome_unknown" in ran.types()) is (secs > 1)


@pytest.mark.parametrize("deaf", [False, True], ids=["that listens", "that does not listen"])
@pytest.mark.parametrize("slow", ["execution_plan", "evaluation"])
def test_a_cancel_while_a_model_thinks_ends_the_task(slow: str, deaf: bool) -> None:
    async def main() -> tuple[Ran, float]:
        answers = {"execution_plan": plan(step("a", "t")), "evaluation": verdict()}
        made = await bench({"t": FakeTool()}, model=SlowModel(answers, slow=slow, deaf=deaf))
        found = await cancelled(made, await made.submit(), 10)
        await asyncio.sleep(100)
        assert len(asyncio.all_tasks()) == 1
        return found

    ran, took = virtual_time(main())
    check_cancelled(ran, took)
    if slow == "execution_plan":
        assert ran.source.calls == []


@pytest.mark.parametrize("slow", ["execution_plan", "evaluation"])
@pytest.mark.parametrize("deaf", [False, True], ids=["that listens", "that does not listen"])
def test_the_deadline_ends_the_task_while_a_model_thinks(slow: str, deaf: bool) -> None:
    async def main() -> Ran:
        answers = {"execution_plan": plan(step("a", "t")), "evaluation": verdict()}
        made = await bench({"t": FakeTool()}, model=SlowModel(answers, slow=slow, deaf=deaf))
        return (await made.run(budget={"task_timeout_secs": 30})).check()

    ran = virtual_time(main())
    assert ran.result.status == "timed_out"
    assert ran.state.active_secs == pytest.approx(30, abs=2)
    if slow == "execution_plan":
        assert ran.source.calls == []


@pytest.mark.anyio
async def test_a_tool_in_a_thread_is_let_go_and_told() -> None:
    started, told = threading.Event(), threading.Event()

    def blocking() -> str:
        """Blocks until it is told to stop."""
        context = current()
        started.set()
        while not context.cancelled:
            told.wait(0.005)
        told.set()
        return "late"

    source = FunctionSource([blocking])
    made = await bench(source)
    task_id = await made.submit(plan(step("a", "blocking")))
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.to_thread(started.wait, 5)
    begun = asyncio.get_running_loop().time()
    await made.service.cancel(task_id, reason="enough", by="ann")
    ran = (await made.ran(task_id, await driving)).check()
    check_cancelled(ran, asyncio.get_running_loop().time() - begun)
    await asyncio.to_thread(told.wait, 5)
    assert told.is_set()
    await source.aclose()


def test_a_task_that_nobody_drives_is_cancelled_at_once() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool()})
        task_id = await made.submit(plan(step("a", "t")))
        await made.service.cancel(task_id, reason="enough", by="ann")
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    check_cancelled(ran, 0)
    assert ran.source.calls == []
    assert "round_completed" not in ran.types()


def test_a_cancel_of_a_task_left_in_the_middle_closes_what_was_open() -> None:
    async def main() -> Ran:
        made = await bench(
            {"t": FakeTool(delay_secs=FOREVER), "pay": FakeTool(effect="once", delay_secs=FOREVER)}
        )
        task_id = await made.submit(plan(step("a", "t"), step("b", "pay")))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        driving.cancel()
        await asyncio.wait({driving})
        await made.service.cancel(task_id, reason="enough", by="ann")
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    check_cancelled(ran, 0)
    assert ran.statuses() == {"a": "failed", "b": "failed"}
    assert len(ran.events("outcome_unknown", tool_id="pay")) == 1


def test_a_cancel_written_before_the_drive_begins_is_seen() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool()})
        task_id = await made.submit(plan(step("a", "t")))
        await made.store.signal(task_id, CancelRequested(reason="enough", by="ann"), 1.0)
        return (await made.drive(task_id)).check()

    check_cancelled(virtual_time(main()), 0)


def test_an_ended_task_cannot_be_cancelled_and_two_cancels_are_one() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=FOREVER)})
        task_id = await made.submit(plan(step("a", "t")))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        await asyncio.gather(
            made.service.cancel(task_id, "enough", "ann"), made.service.cancel(task_id, "too", "bob")
        )
        driven = await driving
        with pytest.raises(TaskEnded):
            await made.service.cancel(task_id)
        return (await made.ran(task_id, driven)).check()

    check_cancelled(virtual_time(main()), 0)


class DeafToSignals(MemoryStore):
    """Its first look for signals fails, as a locked database would."""

    failures = 2

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[Record]:
        if signals_only and self.failures:
            self.failures -= 1
            raise StoreBusy("locked")
        return await super().read(task_id, after, limit, signals_only=signals_only)


def test_a_look_for_signals_that_fails_is_made_again() -> None:
    async def main() -> tuple[Ran, float]:
        made = await bench({"t": FakeTool(delay_secs=FOREVER)}, store=DeafToSignals())
        return await cancelled(made, await made.submit(plan(step("a", "t"))), 10)

    check_cancelled(*virtual_time(main()))


class SignalledWhileRead(MemoryStore):
    """Right after the log has been read, and before the reader has it, a person cancels the task."""

    async def read(
        self, task_id: str, after: int = 0, limit: int | None = None, *, signals_only: bool = False
    ) -> list[Record]:
        records = await super().read(task_id, after, limit, signals_only=signals_only)
        if not signals_only and len(records) == 1:
            await self.signal(task_id, CancelRequested(reason="enough", by="ann"), 1.0)
            await asyncio.sleep(0)
        return records


def test_a_signal_between_listening_and_the_loop_is_heard() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=FOREVER)}, store=SignalledWhileRead())
        task_id = await made.submit(plan(step("a", "t")), budget={"task_timeout_secs": 30})
        return (await made.drive(task_id)).check()

    check_cancelled(virtual_time(main()), 0)


# ── the driver's own task ─────────────────────────────────────────────────────


def test_a_task_can_be_driven_to_its_deadline_by_someone_who_is_being_cancelled() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=FOREVER)})
        task_id = await made.submit(plan(step("a", "t")), budget={"task_timeout_secs": 30})

        async def last_thing() -> Ran:
            try:
                await asyncio.sleep(FOREVER)
            except asyncio.CancelledError:
                ran = await made.drive(task_id)
                assert asyncio.current_task().cancelling() == 1  # type: ignore[union-attr]
                return ran
            raise AssertionError

        driving = asyncio.ensure_future(last_thing())
        await asyncio.sleep(1)
        driving.cancel()
        return (await driving).check()

    assert virtual_time(main()).result.status == "timed_out"


@pytest.mark.parametrize("first", ["person", "caller"])
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_a_person_and_the_caller_stop_the_drive_at_once(first: str, turns: int) -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=FOREVER)})
        task_id = await made.submit(plan(step("a", "t")))
        driving = asyncio.ensure_future(made.service.drive(task_id))
        await asyncio.sleep(1)
        if first == "caller":
            driving.cancel()
            for _ in range(turns):
                await asyncio.sleep(0)
        await made.store.signal(task_id, CancelRequested(reason="enough", by="ann"), 1.0)
        if first == "person":
            for _ in range(turns):
                await asyncio.sleep(0)
            driving.cancel()
        await asyncio.wait({driving})
        assert driving.cancelled() or first == "person"
        assert not (await made.store.summary(task_id)).held
        if not (await made.service.state(task_id)).ended:
            await made.service.drive(task_id)
        assert len(asyncio.all_tasks()) == 1
        return (await made.ran(task_id)).check()

    check_cancelled(virtual_time(main()), 0)


# ── the deadline ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect", ["reads", "once"])
def test_the_deadline_ends_the_task(effect: Any) -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=100, effect=effect), "ok": FakeTool(delay_secs=1)})
        wanted = plan(step("a", "t"), step("b", "ok"), step("c", "ok", "a", parameters={"n": 1}))
        ran = (await made.run(wanted, budget={"task_timeout_secs": 30})).check()
        await asyncio.sleep(200)
        assert len(asyncio.all_tasks()) == 1
        return ran

    ran = virtual_time(main())
    assert ran.result.status == "timed_out"
    assert ran.types()[-1] == "task_timed_out"
    assert ran.state.active_secs == pytest.approx(30, abs=EXACT)
    assert ran.result.failure is not None
    assert ran.result.failure.limit == "task_timeout_secs"
    assert "30 seconds was reached while 'a', 'c' had not finished" in ran.result.failure.reason
    assert ran.outputs() == {"b": "ok"}
    assert len(ran.source.cancelled) == 1
    assert ("outcome_unknown" in ran.types()) is (effect == "once")


def test_time_in_which_nobody_drove_the_task_does_not_count() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=20)})
        task_id = await made.submit(
            plan(step("a", "t"), step("b", "t", "a", parameters={"n": 1})), budget={"task_timeout_secs": 60}
        )
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(30)
        driving.cancel()
        await asyncio.wait({driving})
        await asyncio.sleep(1_000)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "succeeded"
    assert 40 <= ran.state.active_secs < 60


def test_the_deadline_counts_over_stops() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=50)})
        steps = [step("a", "t"), step("b", "t", "a", parameters={"n": 1})]
        task_id = await made.submit(plan(*steps), budget={"task_timeout_secs": 60})
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(55)
        driving.cancel()
        await asyncio.wait({driving})
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "timed_out"


# ── budgets ───────────────────────────────────────────────────────────────────


def limited(budget: dict[str, Any], steps: list[dict[str, Any]] | None = None, **more: Any) -> Ran:
    async def main() -> Ran:
        answers = {"execution_plan": plan(step("a", "t")), "evaluation": verdict()}
        made = await bench({"t": FakeTool(delay_secs=2), "slow": FakeTool(delay_secs=100)}, answers)
        wanted = None if steps is None else plan(*steps)
        return (await made.run(wanted, budget=budget, **more)).check()

    return virtual_time(main())


FIVE = [step(f"s{n}", "t", parameters={"n": n}) for n in range(5)]


@pytest.mark.parametrize(
    ("budget", "steps", "llm_calls", "tool_calls", "limit"),
    [
        pytest.param({"max_rounds": 0}, None, 0, 0, "max_rounds", id="no round"),
        pytest.param({"max_llm_calls": 0}, None, 0, 0, "max_llm_calls", id="no model call"),
        pytest.param({"max_llm_calls": 1}, None, 1, 1, "max_llm_calls", id="one model call"),
        pytest.param({"max_tokens": 0}, None, 0, 0, "max_tokens", id="no tokens"),
        pytest.param({"max_tokens": 10}, None, 0, 0, "max_tokens", id="fewer tokens than are asked"),
        pytest.param({"max_cost_usd": 0}, None, 0, 0, "max_cost_usd", id="no cost"),
        pytest.param({"max_tool_calls": 0}, FIVE, 0, 0, "max_tool_calls", id="no tool call"),
        pytest.param({"max_tool_calls": 3}, FIVE, 0, 3, "max_tool_calls", id="three tool calls"),
    ],
)
def test_a_budget_ends_the_task_and_is_named(
    budget: dict[str, Any], steps: Any, llm_calls: int, tool_calls: int, limit: str
) -> None:
    ran = limited(budget, steps)
    assert ran.result.status == "failed"
    failure = ran.result.failure
    assert failure is not None
    assert (failure.kind, failure.limit) == ("budget", limit)
    assert f"{limit} = {budget[limit]}" in failure.reason
    assert sum(ran.model.calls.values()) == llm_calls
    assert len(ran.source.calls) == ran.state.usage.tool_calls == tool_calls


def test_running_calls_are_let_finish_when_a_budget_is_used_up() -> None:
    ran = limited({"max_tool_calls": 3}, FIVE, parallel_max_concurrent=2)
    assert list(ran.statuses().values()).count("succeeded") == 3
    assert ran.source.cancelled == []


def test_running_calls_have_a_short_grace_only() -> None:
    ran = limited(
        {"max_tool_calls": 2}, [step("a", "slow"), step("b", "t"), step("c", "t", "b", parameters={"n": 1})]
    )
    assert ran.statuses() == {"a": "failed", "b": "succeeded", "c": "skipped"}
    assert ran.state.active_secs == pytest.approx(7, abs=EXACT)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "budget"


def test_every_attempt_is_charged() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(fail=[ConnectionResetError()] * 9)})
        return (await made.run(plan(step("a", "t")), budget={"max_tool_calls": 2})).check()

    ran = virtual_time(main())
    assert ran.source.counts["t"] == 2
    assert ran.result.failure is not None
    assert ran.result.failure.limit == "max_tool_calls"


@pytest.mark.parametrize("limit", range(1, 5))
def test_a_budget_for_items_is_never_passed(limit: int) -> None:
    ran = limited(
        {"max_tool_calls": limit},
        [step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})],
        metadata={"items": list(range(9))},
        parallel_max_concurrent=2,
    )
    assert len(ran.source.calls) == limit
    assert len(ran.events("call_completed")) == limit


@pytest.mark.parametrize("effect", ["once", "reads"])
@pytest.mark.parametrize("given", [True, False])
def test_a_task_without_any_time_begins_nothing(effect: Any, given: bool) -> None:
    wanted = plan(step("a", "t"))

    async def main() -> Ran:
        made = await bench(
            {"t": FakeTool(effect=effect)}, {"execution_plan": wanted, "evaluation": verdict()}
        )
        return (await made.run(wanted if given else None, budget={"task_timeout_secs": 0})).check()

    ran = virtual_time(main())
    assert ran.result.status == "timed_out"
    assert ran.source.calls == []
    assert ran.model.requests == []


# ── most of a limit is used ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("steps", "allowed", "told"),
    [
        pytest.param(10, 10, [("max_tool_calls", 8, 10)], id="all of it"),
        pytest.param(9, 10, [("max_tool_calls", 8, 10)], id="most of it"),
        pytest.param(7, 10, [], id="less"),
        pytest.param(3, None, [], id="no limit"),
        pytest.param(1, 1, [("max_tool_calls", 1, 1)], id="the only one"),
    ],
)
@pytest.mark.parametrize("chain", [True, False])
def test_calls_of_tools_are_told_when_most_of_them_are_used(
    steps: int, allowed: int | None, told: Any, chain: bool
) -> None:
    needs = [(f"s{at - 1}",) if chain and at else () for at in range(steps)]
    wanted = [step(f"s{at}", "t", *needs[at], parameters={"x": at}) for at in range(steps)]
    ran = limited({"max_tool_calls": allowed}, wanted)
    assert [(one.limit, one.used, one.allowed) for one in ran.events("budget_warning")] == told


class SpokenInto(MemoryStore):
    """A store whose first end of a task is on its way for a while, and a person writes meanwhile."""

    spoken = False

    def append(self, claim: Claim, events: Sequence[AnyEvent], **more: Any) -> asyncio.Future[Appended]:
        if not isinstance(events[-1], TERMINAL) or self.spoken:
            return super().append(claim, events, **more)
        self.spoken = True
        written = super().append
        landed: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        async def land() -> None:
            for said in (
                ApprovalResolved(approval_id="apr_1", approved=True),
                QuestionAnswered(question_id="q_1", answer="yes"),
            ):
                await self.signal(claim.task_id, said, more["ts"])
            await asyncio.sleep(0.01)
            try:
                landed.set_result(written(claim, events, **more).result())
            except NotHeard as error:
                landed.set_exception(error)

        self.landing = asyncio.get_running_loop().create_task(land())
        return landed


def test_who_drives_and_the_log_agree_on_the_end_where_somebody_answers_as_it_lands() -> None:
    async def main() -> None:
        b = await bench({"t": FakeTool(output=1, effect="reads")}, store=SpokenInto())
        task_id = await b.submit(plan(step("a", "t")))
        own = await b.service.result_from(await b.service.drive(task_id))
        assert (own.status, own.is_success) == ("succeeded", True)
        logged = await b.service.result(task_id)
        assert (own.status, own.final_output) == (logged.status, logged.final_output)

    virtual_time(main())


@pytest.mark.parametrize(
    ("kind", "data", "driven"),
    [
        ("call_started", {"step_id": "a", "tool_id": "t", "effect": "once_a_day", "parameters": {}}, False),
        ("plan_generated", {"plan": {"steps": "many"}}, False),
        ("task_completed", {"final_output": 1, "score": "good"}, False),
        ("llm_token", {"text": 5}, True),
        ("budget_warning", {}, True),
        ("step_dreamt", {"step_id": "a"}, False),
        ("step_dreamt", {"step_id": "a", "optional": "yes"}, False),
        ("step_dreamt", {"step_id": "a", "optional": True}, True),
    ],
)
def test_a_log_that_cannot_be_read_where_it_matters_is_not_driven(
    kind: str, data: dict[str, Any], driven: bool
) -> None:
    async def main() -> None:
        tool = FakeTool(output=1, effect="once")
        b = await bench({"t": tool})
        task_id = await b.submit(plan(step("a", "t")))
        claim = await b.store.claim(task_id)
        await b.store.append(
            claim, [TaskStarted(version="9.1"), UnknownEvent(type=kind, data=data)], ts=1.0, round=0
        )  # type: ignore[arg-type]
        await b.store.release(claim)
        if driven:
            assert (await b.service.drive(task_id)).status == "succeeded"
            return
        for _ in range(2):  # it was given back
            with pytest.raises(
                StoreUnusable, match=rf"number 3 of its log \({kind}\) cannot be read.* Replan 9.1"
            ):
                await b.service.drive(task_id)
        assert (await b.service.history(task_id))[-1].type == kind

    virtual_time(main())
