"""One call: retried by its effect, limited in time, kept in the ledger, never made twice by mistake."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from run_tasks import Bench, FakeSource, FakeTool, Ran, action, bench, plan, step

from replan.core.events import PlanUpdated
from replan.core.plain_calls import spelled_out
from replan.core.types import Plan
from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.run.calls.attempts import TELL_SECS
from replan.testing import MemoryStore, virtual_time

EXACT = 0.001
"""How exact times are."""


def run(tools: Any, wanted: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return await (await bench(tools)).run(wanted, **more)

    return virtual_time(main()).check()


def busy(retry_after: float | None = None, status: int = 503) -> ToolCallError:
    return ToolCallError("busy", kind="http", status=status, retry_after=retry_after)


# ── transient faults ──────────────────────────────────────────────────────────

FAULTS = {
    "refused": ConnectionRefusedError("refused"),
    "reset": ConnectionResetError("reset"),
    "timeout": TimeoutError("slow"),
    "408": busy(status=408),
    "425": busy(status=425),
    "429": busy(status=429),
    "500": busy(status=500),
    "503": busy(status=503),
}
LASTING = {"400": busy(status=400), "404": busy(status=404), "own error": ValueError("no such city")}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize(
    ("effect", "more"),
    [("reads", {}), ("repeatable", {}), ("once", {"honours_key": True})],
    ids=["reads", "repeatable", "once that honours the key"],
)
def test_a_passing_fault_is_retried_with_the_same_key(
    fault: BaseException, effect: Any, more: dict[str, Any]
) -> None:
    ran = run({"t": FakeTool(effect=effect, fail=[fault, fault], spec=more)}, plan(step("a", "t")))
    assert ran.statuses() == {"a": "succeeded"}
    assert [event.attempt for event in ran.events("call_started")] == [1, 2, 3]
    assert len({call.key for call in ran.source.calls}) == 1
    assert [call.attempt for call in ran.source.calls] == [1, 2, 3]
    assert "outcome_unknown" not in ran.types()


TURNED_AWAY = ("refused", "425", "429")


@pytest.mark.parametrize(
    "fault",
    [f for n, f in FAULTS.items() if n not in TURNED_AWAY],
    ids=[n for n in FAULTS if n not in TURNED_AWAY],
)
def test_a_once_call_that_may_have_happened_is_never_retried_by_code(fault: BaseException) -> None:
    ran = run({"t": FakeTool(effect="once", fail=[fault])}, plan(step("a", "t")))
    assert ran.source.counts["t"] == 1
    assert ran.result.status == "failed"


@pytest.mark.parametrize("name", TURNED_AWAY)
def test_a_once_call_that_was_turned_away_is_made_again(name: str) -> None:
    ran = run({"t": FakeTool(effect="once", fail=[FAULTS[name]])}, plan(step("a", "t")))
    assert ran.source.counts["t"] == 2
    assert ran.result.is_success
    assert "outcome_unknown" not in ran.types()


def test_a_tools_own_word_is_not_enough_to_make_a_once_call_again() -> None:
    ran = run({"t": FakeTool(effect="once", fail=["HTTP 429 Too Many Requests"])}, plan(step("a", "t")))
    assert ran.source.counts["t"] == 1


@pytest.mark.parametrize("fault", LASTING.values(), ids=LASTING)
@pytest.mark.parametrize("effect", ["reads", "repeatable", "once"])
def test_a_lasting_fault_is_not_retried(fault: BaseException, effect: Any) -> None:
    ran = run({"t": FakeTool(effect=effect, fail=[fault])}, plan(step("a", "t")))
    assert ran.source.counts["t"] == 1
    assert ran.statuses() == {"a": "failed"}
    assert "outcome_unknown" not in ran.types()


def test_retries_end_and_back_off_with_jitter() -> None:
    ran = run({"t": FakeTool(fail=[TimeoutError()] * 9)}, plan(step("a", "t")), max_transient_retries=5)
    waits = [event.retry_in_secs for event in ran.events("call_failed")]
    assert waits[-1] is None
    assert len(waits) == 6
    for at, wait in enumerate(waits[:-1]):
        assert 0.2 * 2**at / 2 <= wait <= 0.2 * 2**at
    assert ran.statuses() == {"a": "failed"}


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_a_tool_may_say_how_often_it_is_tried_again(retries: int) -> None:
    tools = {
        "own": FakeTool(effect="reads", fail=[TimeoutError()] * 9, spec={"max_retries": retries}),
        "other": FakeTool(effect="reads", fail=[TimeoutError()] * 9),
        "paid": FakeTool(effect="once", fail=[TimeoutError()] * 9, spec={"max_retries": retries}),
    }
    ran = run(tools, plan(*(step(name, name) for name in tools)), max_transient_retries=2)
    assert ran.source.counts == {"own": 1 + retries, "other": 3, "paid": 1}


def test_retry_after_is_honoured() -> None:
    ran = run({"t": FakeTool(fail=[busy(retry_after=42)])}, plan(step("a", "t")))
    assert ran.events("call_failed")[0].retry_in_secs == 42
    assert ran.times("step_completed")["a"] == pytest.approx(42, abs=EXACT)


def test_a_wait_past_the_deadline_is_not_begun() -> None:
    ran = run({"t": FakeTool(fail=[busy(retry_after=400)])}, plan(step("a", "t")))
    assert ran.source.counts["t"] == 1
    assert ran.result.status == "failed"
    assert ran.state.active_secs < EXACT


def test_a_call_that_waits_for_its_next_try_holds_no_place() -> None:
    ran = run(
        {"flaky": FakeTool(fail=[busy(retry_after=100)]), "t": FakeTool(delay_secs=10)},
        plan(step("a", "flaky"), step("b", "t"), step("c", "t", "b", parameters={"n": 1})),
        parallel_max_concurrent=1,
    )
    assert ran.times("step_completed")["c"] == pytest.approx(20, abs=EXACT)
    assert ran.times("step_completed")["a"] == pytest.approx(110, abs=EXACT)


# ── time limits ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("step_secs", "tool_secs", "limit"),
    [
        pytest.param(10, None, 10, id="the step's"),
        pytest.param(None, 20, 20, id="the tool's"),
        pytest.param(30, 20, 30, id="the step's before the tool's"),
        pytest.param(None, 3_600, 3_600, id="a long one"),
    ],
)
def test_a_call_ends_at_its_time_limit(step_secs: Any, tool_secs: Any, limit: float) -> None:
    tool = FakeTool(delay_secs=100_000, spec={"timeout_secs": tool_secs})
    ran = run(
        {"t": tool},
        plan(step("a", "t", timeout_secs=step_secs)),
        max_transient_retries=0,
        budget={"task_timeout_secs": 10_000},
    )
    (failed,) = ran.events("call_failed")
    assert (failed.error.kind, failed.error.message) == ("timeout", f"no answer within {limit} seconds")
    assert ran.state.active_secs == pytest.approx(limit, abs=EXACT)
    assert len(ran.source.cancelled) == 1
    assert ran.source.calls[0].deadline_secs == pytest.approx(limit - TELL_SECS, abs=EXACT)


def test_without_a_limit_of_its_own_a_call_may_take_what_is_left_of_the_tasks() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=10), "u": FakeTool()},
        plan(step("a", "t"), step("b", "u", "a")),
        budget={"task_timeout_secs": 60},
    )
    assert ran.source.calls[1].deadline_secs == pytest.approx(50 - TELL_SECS, abs=EXACT)


def deaf(secs: float) -> FakeSource:
    class Deaf(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            if call.tool_id != "deaf":
                return await super().call(call)
            while True:
                try:
                    await asyncio.sleep(secs)
                    break
                except asyncio.CancelledError:
                    continue
            return "late"

    return Deaf({"deaf": FakeTool(effect="once"), "t": "x"})


def test_the_late_answer_of_a_tool_that_does_not_listen_is_what_became_of_its_call() -> None:
    ran = run(
        deaf(100),
        plan(step("a", "deaf", timeout_secs=10), step("b", "t")),
        budget={"task_timeout_secs": 300},
    )
    assert ran.times("outcome_unknown")["a"] == pytest.approx(11, abs=EXACT)
    assert ran.times("step_completed")["a"] == pytest.approx(110, abs=EXACT)
    (settled,) = ran.events("outcome_settled")
    assert (settled.happened, settled.by, settled.output) == (True, "its late answer", "late")
    assert ran.result.is_success
    assert ran.outputs()["a"] == "late"


def test_a_tool_that_never_comes_back_is_waited_for_to_the_deadline_of_the_task() -> None:
    ran = run(
        deaf(1_000_000),
        plan(step("a", "deaf", timeout_secs=10), step("b", "t")),
        budget={"task_timeout_secs": 300},
    )
    assert ran.outputs() == {"b": "x"}
    assert ran.result.status == "timed_out"
    assert ran.result.failure is not None
    assert "took effect" in ran.result.failure.advice[0]


def test_a_tool_that_answers_when_it_is_stopped_has_answered() -> None:
    class Polite(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                return "just in time"

    ran = run(Polite({"t": FakeTool()}), plan(step("a", "t", timeout_secs=10)))
    assert ran.outputs() == {"a": "just in time"}


def test_a_once_call_that_fails_because_its_time_was_up_is_in_doubt() -> None:
    """What a tool raises when it is stopped at its limit is not its word that nothing happened."""

    class Sulky(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise ValueError("somebody stopped me") from None

    ran = run(Sulky({"pay": FakeTool(effect="once")}), plan(step("a", "pay", timeout_secs=10)))
    (failed,) = ran.events("call_failed")
    assert (failed.error.kind, failed.error.happened) == ("timeout", "unknown")
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_once_call_that_fails_because_a_budget_was_used_up_is_in_doubt() -> None:
    class Sulky(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                raise ValueError("somebody stopped me") from None

    ran = run(
        Sulky({"pay": FakeTool(effect="once")}),
        plan(step("a", "pay"), step("b", "pay", parameters={"n": 1})),
        budget={"max_tool_calls": 1, "task_timeout_secs": None},
    )
    (unknown,) = ran.events("outcome_unknown")
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "budget"
    assert unknown.call_key in ran.result.failure.advice[0]


def test_a_once_call_that_times_out_is_in_doubt_and_ends_the_task_naming_call_and_key() -> None:
    ran = run(
        {"pay": FakeTool(effect="once", delay_secs=100), "t": "x"},
        plan(step("a", "pay", timeout_secs=5), step("b", "t", "a"), step("c", "t", parameters={"n": 1})),
    )
    (unknown,) = ran.events("outcome_unknown")
    failure = ran.result.failure
    assert failure is not None
    assert failure.kind == "outcome_unknown"
    assert failure.call_key == unknown.call_key
    assert [call.key for call in ran.source.calls if call.tool_id == "pay"] == [unknown.call_key]
    assert unknown.call_key in failure.reason
    assert "'pay' in step 'a'" in failure.reason
    assert ran.statuses() == {"a": "failed", "b": "skipped", "c": "succeeded"}
    assert ran.source.counts["pay"] == 1


@pytest.mark.parametrize(
    ("fault", "doubt"),
    [
        pytest.param(ConnectionRefusedError(), False, id="refused"),
        pytest.param(busy(status=404), False, id="404"),
        pytest.param(busy(status=429), False, id="429"),
        pytest.param(ValueError("no"), False, id="its own error"),
        pytest.param(busy(status=408), True, id="408"),
        pytest.param(busy(status=500), True, id="500"),
        pytest.param(ConnectionResetError(), True, id="cut off"),
        pytest.param(TimeoutError(), True, id="timeout"),
    ],
)
def test_what_a_failed_once_call_leaves_behind(fault: BaseException, doubt: bool) -> None:
    ran = run({"pay": FakeTool(effect="once", fail=[fault] * 9)}, plan(step("a", "pay")))
    assert ("outcome_unknown" in ran.types()) is doubt
    assert ran.result.failure is not None
    assert ran.result.failure.kind == ("outcome_unknown" if doubt else "step")


def test_the_errors_of_a_tool_that_are_not_clean_leave_it_in_doubt() -> None:
    tool = FakeTool(effect="once", fail=["broke"], spec={"errors_are_clean": False})
    assert "outcome_unknown" in run({"pay": tool}, plan(step("a", "pay"))).types()


# ── the ledger ────────────────────────────────────────────────────────────────


def test_the_same_once_call_meant_twice_is_made_twice_with_different_keys() -> None:
    ran = run(
        {"pay": FakeTool(effect="once")},
        plan(step("a", "pay", repeat=True), step("b", "pay", "a", repeat=True)),
    )
    first, second = ran.source.calls
    assert first.key.rpartition(".")[0] == second.key.rpartition(".")[0]
    assert first.key != second.key
    assert not any(event.reused for event in ran.events("call_completed"))


def test_the_same_once_call_not_said_to_be_meant_is_refused_before_anything_runs() -> None:
    ran = run({"pay": FakeTool(effect="once")}, plan(step("a", "pay"), step("b", "pay", "a")))
    assert ran.source.calls == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "planning"


async def replanned(tools: dict[str, Any], first: list[dict[str, Any]], second: list[dict[str, Any]]) -> Ran:
    """A task that was stopped after `first`, got another plan, as replanning will do it, and was driven on."""
    made = await bench({**tools, "hang": FakeTool(delay_secs=10_000)})
    last = [one["step_id"] for one in first]
    task_id = await made.submit(plan(*first, step("hang", "hang", *last)), budget={"task_timeout_secs": None})
    await stopped_at(made, task_id, "hang")
    store: MemoryStore = made.store
    claim = await store.claim(task_id)
    replaced = Plan.model_validate({"plan_id": "p2", "version": 2, "steps": second})
    await store.append(claim, [PlanUpdated(plan=replaced)], ts=made.service.parts.clock.now(), round=1)
    await store.release(claim)
    return (await made.drive(task_id)).check()


async def stopped_at(made: Bench, task_id: str, tool: str) -> None:
    """Drive a task until a tool has been called, and stop driving."""
    driving = asyncio.create_task(made.service.drive(task_id))
    while not made.source.counts[tool]:  # noqa: ASYNC110 - seconds of virtual time
        await asyncio.sleep(1)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving


def again(tool: FakeTool, between: list[dict[str, Any]] | None = None) -> Ran:
    """Call `t`, do what is between, replan under new ids, call `t` the same way."""
    more = [{**one, "dependencies": ["a"]} for one in between or []]
    tools = {"t": tool, "write": FakeTool(effect="once"), "look": FakeTool(), "u": lambda p: p}
    return virtual_time(
        replanned(
            tools,
            [step("a", "t", parameters={"v": 1, "w": [1, 2]}), *more],
            [
                step("b", "t", parameters={"w": [1, 2], "v": 1}),
                step("c", "u", "b", parameters={"n": "${b.output.n}"}),
            ],
        )
    )


@pytest.mark.parametrize("effect", ["reads", "repeatable", "once"])
def test_a_call_that_succeeded_is_not_made_again_by_a_later_plan(effect: Any) -> None:
    ran = again(FakeTool(effect=effect, output={"n": 1}, spec={"output_params": ("n",)}))
    assert ran.source.counts["t"] == 1
    (completed,) = ran.events("call_completed", step_id="b")
    assert completed.reused
    assert completed.output == {"n": 1}
    assert ran.state.metadata == {"n": 1}
    assert ran.outputs()["c"] == {"n": 1}
    assert [one.step_id for one in ran.result.steps if one.reused] == ["b"]


def test_a_large_output_is_reused_with_its_metadata() -> None:
    output = {"n": 1, "rows": ["x" * 1_000] * 1_000}
    ran = again(FakeTool(effect="once", output=output, spec={"output_params": ("n",)}))
    assert ran.source.counts["t"] == 1
    assert ran.state.metadata == {"n": 1}
    assert ran.outputs()["c"] == {"n": 1}


@pytest.mark.parametrize(
    ("effect", "between", "calls"),
    [
        pytest.param("reads", "write", 2, id="a reading, after an effect"),
        pytest.param("reads", "look", 1, id="a reading, after another reading"),
        pytest.param("once", "write", 1, id="an effect, after another"),
        pytest.param(
            "repeatable", "write", 2, id="a repeatable effect, after another that may be about the same"
        ),
        pytest.param("repeatable", "look", 1, id="a repeatable effect, after a reading"),
    ],
)
def test_a_reading_is_reused_only_while_no_effect_has_happened_since(
    effect: Any, between: str, calls: int
) -> None:
    ran = again(FakeTool(effect=effect, output={"n": 1}), [step("between", between)])
    assert ran.source.counts["t"] == calls


def test_a_volatile_reading_is_never_reused() -> None:
    assert again(FakeTool(output={"n": 1}, spec={"volatile": True})).source.counts["t"] == 2


def test_a_later_plan_that_means_a_call_once_more_gets_only_that_one() -> None:
    ran = virtual_time(
        replanned(
            {"pay": FakeTool(effect="once")},
            [step("a", "pay", repeat=True), step("b", "pay", repeat=True)],
            [step(name, "pay", repeat=True) for name in ("x", "y", "z")],
        )
    )
    assert ran.source.counts["pay"] == 3
    assert [event.reused for event in ran.events("call_completed")][2:] == [True, True, False]


# ── going on after a stop ─────────────────────────────────────────────────────


def stopped_and_driven_on(tools: dict[str, Any], wanted: dict[str, Any], at: str, **more: Any) -> Ran:
    async def main() -> Ran:
        made = await bench(tools)
        task_id = await made.submit(wanted, **more)
        await stopped_at(made, task_id, at)
        tools[at].__dict__["delay_secs"] = 1
        return (await made.drive(task_id)).check()

    return virtual_time(main())


@pytest.mark.parametrize("effect", ["reads", "repeatable"])
def test_a_call_that_was_cut_off_is_made_again_with_the_same_key(effect: Any) -> None:
    cut = FakeTool(effect=effect, delay_secs=10_000)
    ran = stopped_and_driven_on(
        {"t": FakeTool(effect="once"), "cut": cut},
        plan(step("a", "t"), step("b", "cut", "a")),
        "cut",
        budget={"task_timeout_secs": None},
    )
    assert ran.source.counts == {"t": 1, "cut": 2}
    assert len({call.key for call in ran.source.calls if call.tool_id == "cut"}) == 1
    assert [event.attempt for event in ran.events("call_started", step_id="b")] == [1, 2]
    assert ran.statuses() == {"a": "succeeded", "b": "succeeded"}


def test_a_once_call_that_was_cut_off_is_never_made_again_and_the_rest_goes_on() -> None:
    ran = stopped_and_driven_on(
        {"t": FakeTool(delay_secs=20), "pay": FakeTool(effect="once", delay_secs=10_000)},
        plan(step("a", "pay"), step("b", "t"), step("c", "t", "b", parameters={"n": 1}), step("d", "t", "a")),
        "pay",
        budget={"task_timeout_secs": None},
    )
    assert ran.source.counts["pay"] == 1
    assert ran.statuses() == {"a": "failed", "b": "succeeded", "c": "succeeded", "d": "skipped"}
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_call_that_was_cut_off_is_not_made_again_once_its_tool_says_that_each_call_counts() -> None:
    async def main() -> Ran:
        store = MemoryStore()
        slow = FakeTool(effect="repeatable", delay_secs=10_000)
        made = await bench({"pay": slow}, store=store)
        task_id = await made.submit(plan(step("a", "pay")), budget={"task_timeout_secs": None})
        await stopped_at(made, task_id, "pay")
        changed = await bench({"pay": FakeTool(effect="once")}, store=store)
        return (await changed.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.source.calls == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_metadata_of_calls_that_had_ended_before_a_stop_are_not_lost() -> None:
    writer = FakeTool(effect="once", output={"token": "t"}, spec={"output_params": ("token",)})
    ran = stopped_and_driven_on(
        {"w": writer, "slow": FakeTool(delay_secs=10_000)},
        plan(step("a", actions=[action("x", "w"), action("y", "slow")])),
        "slow",
        budget={"task_timeout_secs": None},
    )
    assert ran.source.counts == {"w": 1, "slow": 2}
    assert ran.state.metadata == {"token": "t"}


def test_items_that_had_ended_before_a_stop_do_not_run_again() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(effect="repeatable", output=lambda p: p["n"], delay_secs=10)})
        wanted = plan(step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"}))
        task_id = await made.submit(wanted, metadata={"items": list(range(6))}, parallel_max_concurrent=2)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(25)
        driving.cancel()
        await asyncio.wait({driving})
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert [call.parameters["n"] for call in ran.source.calls] == [0, 1, 2, 3, 4, 5, 4, 5]
    assert ran.outputs() == {"s": [0, 1, 2, 3, 4, 5]}
    assert len({call.key for call in ran.source.calls}) == 6


def test_a_once_call_whose_parameters_have_changed_since_it_was_cut_off_is_not_made_anew() -> None:
    """The tool honours its key, but with other parameters the key is another one: that would be a second effect."""
    booking = FakeTool(effect="once", delay_secs=10_000, spec={"honours_key": True})
    seat = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}

    async def main() -> tuple[Bench, Ran]:
        before = await bench({"book": booking})
        task_id = await before.submit(
            plan(step("a", "book", parameters={})), metadata={"seat": "A"}, budget={"task_timeout_secs": None}
        )
        driving = asyncio.create_task(before.service.drive(task_id))
        await asyncio.sleep(5)
        driving.cancel()
        await asyncio.wait({driving})
        # Meanwhile the tool has come to want a seat, which the metadata gives.
        after = await bench({"book": replace(booking, parameters=seat)}, store=before.store)
        return before, (await after.drive(task_id)).check()

    before, ran = virtual_time(main())
    assert [call.parameters for call in before.source.calls] == [{}]
    assert ran.source.calls == []
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_once_call_that_was_cut_off_is_made_again_with_its_key_whatever_later_steps_wrote_meanwhile() -> (
    None
):
    """With other parameters the key would be another one, and that a second effect."""

    class Seats(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            self.counts[call.tool_id] += 1
            self.calls.append(call)
            if call.tool_id == "choose":
                await asyncio.sleep(1)
                return {"seat": "B"}
            await asyncio.sleep(10_000 if self.counts[call.tool_id] == 1 else 1)
            return "booked"

    async def main() -> Ran:
        made = await bench(
            Seats(
                {
                    "book": FakeTool(effect="once", spec={"honours_key": True}),
                    "choose": FakeTool(spec={"output_params": ("seat",)}),
                }
            )
        )
        wanted = plan(
            step("a", "book", parameters={"seat": "${metadata.seat}"}),
            step("b", "choose"),
        )
        task_id = await made.submit(wanted, metadata={"seat": "A"}, budget={"task_timeout_secs": None})
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(5)
        driving.cancel()
        await asyncio.wait({driving})
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    booked = [call for call in ran.source.calls if call.tool_id == "book"]
    assert [call.parameters for call in booked] == [{"seat": "A"}, {"seat": "A"}]
    assert len({call.key for call in booked}) == 1
    assert ran.result.is_success


@pytest.mark.parametrize("end", ["closed", "cancelled"])
def test_a_once_call_that_was_stopped_before_it_was_made_is_not_in_doubt(end: str) -> None:
    class SlowDisk(MemoryStore):
        """An append takes ten seconds once a call is in it."""

        def append(self, claim: Any, events: Any, **more: Any) -> Any:
            done = super().append(claim, events, **more)
            if not any(event.type == "call_started" for event in spelled_out(events)):
                return done
            late = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(10, lambda: late.set_result(done.result()))
            return late

    async def main() -> Ran:
        made = await bench({"pay": FakeTool(effect="once")}, store=SlowDisk())
        task_id = await made.submit(plan(step("a", "pay")))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(5)
        if end == "cancelled":
            await made.service.cancel(task_id)
        else:
            driving.cancel()
        await asyncio.wait({driving})
        assert made.source.calls == []
        if end == "closed":
            await made.drive(task_id)
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert "outcome_unknown" not in ran.types()
    assert len(ran.source.calls) == (end == "closed")
    assert ran.result.status == ("succeeded" if end == "closed" else "cancelled")


def test_a_tool_that_fails_because_it_was_stopped_has_not_failed() -> None:
    """Closing cancels it; what it makes of that is no outcome of the call."""

    class Sulky(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            self.counts[call.tool_id] += 1
            try:
                await asyncio.sleep(10_000 if self.counts[call.tool_id] == 1 else 1)
            except asyncio.CancelledError:
                raise ValueError("somebody stopped me") from None
            return "done"

    async def main() -> Ran:
        made = await bench(Sulky({"t": FakeTool(effect="repeatable")}))
        task_id = await made.submit(plan(step("a", "t")), budget={"task_timeout_secs": None})
        await stopped_at(made, task_id, "t")
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).outputs() == {"a": "done"}


def test_a_call_that_may_be_repeated_with_its_key_is_in_doubt_once_its_tries_are_used_up() -> None:
    async def main() -> Ran:
        book = FakeTool(
            effect="once", spec={"honours_key": True}, fail=[ConnectionResetError("cut off")] * 99
        )
        return await (await bench({"book": book})).run(plan(step("a", "book")))

    ran = virtual_time(main()).check()
    assert len({call.key for call in ran.source.calls}) == 1
    assert len(ran.source.calls) == 4
    assert len(ran.events("outcome_unknown")) == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_step_s_time_is_for_its_call_and_the_retries_together() -> None:
    async def main() -> Ran:
        tools = {
            "gone": FakeTool(delay_secs=0.6, fail=[ConnectionRefusedError("nobody")] * 99),
            "hangs": FakeTool(delay_secs=1_000),
            "other": FakeTool(delay_secs=0.6, fail=[ConnectionRefusedError("nobody")] * 3),
        }
        steps = (
            step("a", "gone", timeout_secs=2),
            step("b", "hangs", timeout_secs=2),
            step("c", "other"),
        )
        return await (await bench(tools)).run(plan(*steps))

    ran = virtual_time(main()).check()
    ended = ran.times("step_failed")
    assert ended["a"] <= 2.01
    assert ended["b"] == pytest.approx(2, abs=0.01)
    assert ran.source.counts["hangs"] == 1
    assert 2 <= ran.source.counts["gone"] <= 3
    assert ran.source.counts["other"] == 4, (
        "a step without a time of its own is retried as often as there is a reason"
    )
