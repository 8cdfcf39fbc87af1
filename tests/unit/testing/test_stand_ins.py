"""The stand-ins keep the promises of what they stand in for."""

from __future__ import annotations

import asyncio
import time

import pytest

from replan.core.events import CancelRequested, LlmToken, StepReady, TaskCompleted, TaskStarted, TaskSubmitted
from replan.errors import (
    InputError,
    StaleWriter,
    TaskEnded,
    TaskExists,
    TaskHeld,
    TaskNotFound,
    ToolCallError,
)
from replan.ports import ModelRequest, NewArtifact, Progress, Store, ToolCall, ToolSource, Turn
from replan.testing import (
    FakeTool,
    ManualIds,
    MemoryStore,
    ScriptedModel,
    ScriptError,
    VirtualClock,
    VirtualTimeLoop,
    fake_source,
    virtual_time,
)

pytestmark = pytest.mark.anyio

TASK = TaskSubmitted(description="Compare 罗马 and Oslo")


def asked(schema_name: str = "evaluation") -> ModelRequest:
    return ModelRequest(
        role="evaluation",
        schema_name=schema_name,
        json_schema={},
        instructions="",
        turns=(Turn(role="user", text="?"),),
    )


# ── the scripted model ────────────────────────────────────────────────────────


async def test_a_list_is_used_up_in_order_and_running_out_is_told() -> None:
    model = ScriptedModel({"evaluation": [{"n": 1}, "text", lambda request: {"asked": request.schema_name}]})
    replies = [(await model.ask(asked())).text for _ in range(3)]
    assert replies == ['{"n": 1}', "text", '{"asked": "evaluation"}']
    with pytest.raises(ScriptError, match="'evaluation' 4 times, but the script has 3 answers"):
        await model.ask(asked())
    assert model.calls["evaluation"] == 4


async def test_one_answer_serves_every_time_and_an_error_is_raised() -> None:
    model = ScriptedModel({"evaluation": {"n": 1}, "execution_plan": ValueError("as scripted")})
    assert (await model.ask(asked())).text == (await model.ask(asked())).text
    with pytest.raises(ValueError, match="as scripted"):
        await model.ask(asked("execution_plan"))
    with pytest.raises(
        ScriptError, match="'step_repair', but the script has answers for evaluation, execution_plan"
    ):
        await model.ask(asked("step_repair"))


# ── virtual time ──────────────────────────────────────────────────────────────


def test_waiting_takes_no_time_and_ends_in_the_right_order() -> None:
    async def main() -> tuple[list[str], float]:
        clock, order = VirtualClock(start=1000.0), list[str]()
        clock.now()

        async def nap(name: str, secs: float) -> None:
            await clock.sleep(secs)
            order.append(name)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7200):
                await asyncio.gather(nap("long", 3600), nap("short", 60), nap("never", 10_000))
        return order, clock.now()

    began = time.monotonic()
    order, now = virtual_time(main())
    assert order == ["short", "long"]
    assert now == pytest.approx(1000 + 7200, abs=1)
    assert time.monotonic() - began < 5


def test_time_does_not_jump_while_a_thread_owes_a_result() -> None:
    async def main() -> str:
        async with asyncio.timeout(60):
            return await asyncio.to_thread(lambda: time.sleep(0.05) or "done")

    assert virtual_time(main()) == "done"


class CountedLoop(VirtualTimeLoop):
    """Raises where a timer that is due is never run and the loop turns without end."""

    looks = 0

    def time(self) -> float:
        self.looks += 1
        if self.looks == 100_000:
            raise AssertionError("the loop does not end")
        return super().time()


@pytest.mark.parametrize("secs", [2e7, 2e7 + 0.1, 4e8])
def test_two_long_waits_one_after_the_other_end_when_they_are_due(secs: float) -> None:
    async def main() -> float:
        clock = VirtualClock()
        began = clock.now()
        await clock.sleep(secs)
        await clock.sleep(secs)
        return clock.now() - began

    with asyncio.Runner(loop_factory=CountedLoop) as runner:  # `virtual_time`, but with an end
        assert runner.run(main()) == pytest.approx(2 * secs, abs=1e-5)
    assert virtual_time(main()) == pytest.approx(2 * secs, abs=1e-5)


def test_ids_count_by_prefix() -> None:
    ids = ManualIds()
    assert [ids.new("task"), ids.new("call"), ids.new("task")] == ["task_1", "call_1", "task_2"]


# ── fake tools ────────────────────────────────────────────────────────────────


def call(tool_id: str, **parameters: object) -> ToolCall:
    return ToolCall(tool_id=tool_id, parameters=parameters, key="k")


async def test_fake_tools_answer_fail_and_count() -> None:
    source: ToolSource = (
        fake := fake_source(
            {
                "add": lambda p: p["a"] + p["b"],
                "flaky": FakeTool(
                    {"ok": True}, fail=[ConnectionResetError("gone"), "bad input"], effect="once"
                ),
            }
        )
    )
    assert [(spec.id, spec.effect, spec.source) for spec in await source.tools()] == [
        ("add", "reads", "fake"),
        ("flaky", "once", "fake"),
    ]
    assert await source.call(call("add", a=1, b=2)) == 3
    with pytest.raises(ConnectionResetError):
        await source.call(call("flaky"))
    with pytest.raises(ToolCallError, match="bad input"):
        await source.call(call("flaky"))
    assert await source.call(call("flaky")) == {"ok": True}
    assert (fake.counts["flaky"], len(fake.effects), fake.running) == (3, 1, 0)
    with pytest.raises(ToolCallError, match="no tool 'ad'"):
        await source.call(call("ad"))


def test_fake_tools_take_time_report_progress_and_can_be_stopped() -> None:
    async def main() -> None:
        source = fake_source({"slow": FakeTool(delay_secs=100, progress=["half", "whole"])})
        told: list[Progress] = []
        running = [
            asyncio.create_task(source.call(call("slow")._replace(report=told.append))) for _ in range(3)
        ]
        await asyncio.sleep(50)
        running[0].cancel()
        results = await asyncio.gather(*running, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert results[1:] == ["ok", "ok"]
        assert (source.most_running, len(source.cancelled), len(told)) == (3, 1, 6)

    virtual_time(main())


# ── the store in memory ───────────────────────────────────────────────────────


async def test_a_task_is_created_once_and_its_records_have_no_gaps() -> None:
    store: Store = MemoryStore()
    assert await store.create("t", TASK, 1.0)
    assert not await store.create("t", TASK, 2.0)
    with pytest.raises(TaskExists):
        await store.create("t", TaskSubmitted(description="other"), 3.0)
    claim = await store.claim("t")
    token = LlmToken(call_id="c", role="planning", text="not stored")
    appended = await store.append(claim, [TaskStarted(), token, StepReady(step_id="a")], ts=4.0, round=1)
    assert (appended.first, appended.last) == (2, 3)
    signal = await store.signal("t", CancelRequested(reason="bored"), 5.0)
    assert (await store.append(claim, [StepReady(step_id="b")], ts=6.0, round=1)).first == signal.seq + 1
    records = await store.read("t")
    assert [record.seq for record in records] == [1, 2, 3, 4, 5]
    assert [record.event for record in records[:2]] == [TASK, TaskStarted()]
    assert [record.seq for record in await store.read("t", after=2, limit=2)] == [3, 4]


async def test_a_newer_claim_fences_the_older_one_out() -> None:
    store = MemoryStore()
    await store.create("t", TASK, 1.0)
    old = await store.claim("t")
    with pytest.raises(TaskHeld):
        await store.claim("t")
    new = await store.claim("t", steal=True)
    with pytest.raises(StaleWriter):
        await store.append(old, [TaskStarted()], ts=2.0, round=1)
    await store.release(old)
    assert (await store.summary("t")).held
    await store.append(new, [TaskStarted()], ts=2.0, round=1)
    store.crash()
    with pytest.raises(StaleWriter):
        await store.append(new, [TaskStarted()], ts=2.0, round=1)
    assert (await store.claim("t")).fence > new.fence


async def test_nothing_is_written_to_a_task_that_has_ended() -> None:
    store = MemoryStore()
    await store.create("t", TASK, 1.0)
    claim = await store.claim("t")
    await store.append(claim, [TaskCompleted(final_output=1)], ts=2.0, round=1)
    with pytest.raises(TaskEnded):
        await store.signal("t", CancelRequested(), 3.0)
    with pytest.raises(TaskEnded):
        await store.append(claim, [TaskStarted()], ts=3.0, round=1)
    assert (await store.summary("t")).status == "succeeded"


async def test_a_follower_gets_every_record_and_ends_with_the_task() -> None:
    store = MemoryStore()
    await store.create("t", TASK, 1.0)

    async def follow(after: int) -> list[int]:
        return [record.seq async for record in store.follow("t", after)]

    followers = [asyncio.create_task(follow(after)) for after in (0, 2)]
    claim = await store.claim("t")
    for _ in range(5):
        await store.append(claim, [StepReady(step_id="a")], ts=2.0, round=1)
        await asyncio.sleep(0)
    await store.append(claim, [TaskCompleted()], ts=3.0, round=1)
    assert [await follower for follower in followers] == [[1, 2, 3, 4, 5, 6, 7], [3, 4, 5, 6, 7]]
    assert await follow(5) == [6, 7]


async def test_artifacts_come_with_the_events_that_name_them() -> None:
    store = MemoryStore()
    await store.create("t", TASK, 1.0)
    claim = await store.claim("t")
    await store.append(
        claim, [StepReady(step_id="a")], ts=1.0, round=1, artifacts=[NewArtifact("x", b"\x00big")]
    )
    assert await store.artifact("t", "x") == b"\x00big"
    with pytest.raises(InputError, match="no artifact 'y'"):
        await store.artifact("t", "y")
    with pytest.raises(TaskNotFound):
        await store.artifact("u", "x")


async def test_tasks_are_listed_newest_first() -> None:
    store = MemoryStore()
    for number in range(5):
        await store.create(f"t{number}", TASK, float(number))
    claim = await store.claim("t2")
    await store.append(claim, [TaskStarted(), TaskCompleted()], ts=9.0, round=1)
    assert [task.task_id for task in await store.list_tasks(limit=2)] == ["t4", "t3"]
    assert [task.task_id for task in await store.list_tasks(before="t3")] == ["t2", "t1", "t0"]
    assert [task.task_id for task in await store.list_tasks(status=["succeeded"])] == ["t2"]
