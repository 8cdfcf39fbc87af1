"""Faults in every layer: whatever breaks, a task has exactly one end, and what was done is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_tasks import FakeSource, FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.events import TERMINAL, AnyEvent
from replan.errors import ModelUnavailable, StoreBusy, StoreError, StoreFull
from replan.ports import Appended, Claim, ModelReply, ModelRequest, NewArtifact, ToolCall
from replan.testing import MemoryStore, ScriptedModel, virtual_time


class FailingStore(MemoryStore):
    """Its `nth` append fails: before anything is written, or after all was."""

    def __init__(self, nth: int, *, written: bool) -> None:
        super().__init__()
        self.nth = nth
        self.written = written
        self.appends = 0

    def append(
        self,
        claim: Claim,
        events: Sequence[AnyEvent],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
        heard: int | None = None,
    ) -> asyncio.Future[Appended]:
        self.appends += 1
        if self.appends != self.nth:
            return super().append(claim, events, ts=ts, round=round, artifacts=artifacts)
        if self.written:
            super().append(claim, events, ts=ts, round=round, artifacts=artifacts)
        failed: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        failed.set_exception(StoreFull("no space left"))
        return failed


class NoFutureStore(MemoryStore):
    """Breaks its word: it writes, and gives nothing to wait for."""

    def append(self, *given: Any, **more: Any) -> Any:
        super().append(*given, **more)


def test_a_store_that_gives_no_future_for_an_append_ends_the_drive() -> None:
    async def main() -> None:
        made = await bench(TOOLS, ANSWERS, store=NoFutureStore())
        await made.service.drive(await made.submit())

    with pytest.raises(StoreError, match="could not take"):
        virtual_time(asyncio.wait_for(main(), 1_000))


TOOLS: dict[str, Any] = {
    "read": FakeTool(delay_secs=10),
    "pay": FakeTool(effect="once", delay_secs=5, output={"id": 1}),
    "bad": FakeTool(fail=["broken"] * 50),
}
STEPS = plan(
    step("a", "read"),
    step("b", "pay"),
    step("c", actions=[action("x", "pay", n=1), action("y", "read", n=2)]),
    step("d", "read", parameters={"id": "${b.output.id}", "c": "${c.actions.x.output}"}),
    step("e", "bad"),
    step("f", "read", "e"),
)
ANSWERS = {"execution_plan": STEPS, "evaluation": verdict(70)}


def appends_of_a_whole_run() -> int:
    async def main() -> int:
        store = FailingStore(-1, written=False)
        await (await bench(TOOLS, ANSWERS, store=store)).run()
        return store.appends

    return virtual_time(main())


@pytest.mark.parametrize("written", [False, True], ids=["before it is written", "after it was written"])
def test_an_append_that_fails_ends_the_drive_and_the_next_one_ends_the_task_once(written: bool) -> None:
    async def broken_at(nth: int) -> None:
        store = FailingStore(nth, written=written)
        made = await bench(TOOLS, ANSWERS, store=store)
        task_id = await made.submit()
        try:
            await made.service.drive(task_id)
        except StoreError:
            before = await store.read(task_id)
            ended = sum(isinstance(record.event, TERMINAL) for record in before)
            assert ended == (written and isinstance(before[-1].event, TERMINAL))
        await asyncio.sleep(1_000)
        ran = await made.drive(task_id)
        ran.check()
        assert made.source.counts["pay"] <= 2, "an effect was repeated"
        assert (
            len({call.key for call in made.source.calls if call.tool_id == "pay"})
            == made.source.counts["pay"]
        )
        assert len(asyncio.all_tasks()) == 1
        assert not (await store.summary(task_id)).held

    async def main() -> None:
        for nth in range(1, count + 1):
            await broken_at(nth)

    count = appends_of_a_whole_run()
    assert count > 8
    virtual_time(main())


class Brutal(BaseException):
    """What no tool should raise."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


RAISED: dict[str, BaseException] = {
    "an error": ValueError("no"),
    "a half sign": ValueError("\ud83d"),
    "an assertion": AssertionError(),
    "a key error": KeyError("x"),
    "stop iteration": StopAsyncIteration(),
    "recursion": RecursionError("deep"),
    "no memory": MemoryError(),
    "a timeout": TimeoutError(),
    "cut off": ConnectionResetError(),
    "a cancellation nobody asked for": asyncio.CancelledError(),
    "an exit": SystemExit(3),
    "a base exception": Brutal("rude"),
    "an error without words": Unprintable(),
    "a group": ExceptionGroup("several", [ValueError("a"), ValueError("b")]),
    "a store error": StoreError("not ours"),
}


@pytest.mark.parametrize("effect", ["reads", "once"])
@pytest.mark.parametrize("raised", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param([step("a", "t"), step("b", "ok"), step("c", "ok", "a", parameters={"n": 1})], id="in a step"),
        pytest.param([step("a", actions=[action("x", "t"), action("y", "ok")]), step("b", "ok", parameters={"n": 1})], id="in an action"),
        pytest.param([step("a", "t", for_each="${metadata.items}", parameters={"n": "${item}"}), step("b", "ok")], id="in an item"),
        pytest.param([step("a", "t", timeout_secs=30), step("b", "ok")], id="in a step with a limit"),
    ],
)  # fmt: skip
def test_whatever_a_tool_raises_its_step_fails_and_the_rest_goes_on(
    raised: BaseException, effect: Any, wanted: list[dict[str, Any]]
) -> None:
    class Source(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            if call.tool_id == "t":
                self.counts["t"] += 1
                await asyncio.sleep(1)
                raise raised
            return await super().call(call)

    async def main() -> Ran:
        made = await bench(Source({"t": FakeTool(effect=effect), "ok": FakeTool(delay_secs=100)}))
        ran = await made.run(plan(*wanted), metadata={"items": [1, 2]}, max_transient_retries=1)
        assert len(asyncio.all_tasks()) == 1
        return ran.check()

    ran = virtual_time(main())
    assert ran.statuses()["a"] == "failed"
    assert ran.statuses()["b"] == "succeeded"
    assert ran.result.status == "failed"
    assert "internal" not in ran.result.failure.kind  # type: ignore[union-attr]
    assert len(ran.events("execution_mode")) == 1, "the scheduler broke"
    if effect == "once":
        assert ran.source.counts["t"] == (2 if wanted[0].get("for_each") else 1)


MODEL_FAULTS: dict[str, BaseException] = {
    "unavailable": ModelUnavailable("down"),
    "an error": RuntimeError("bug"),
    "a timeout": TimeoutError(),
    "a cancellation nobody asked for": asyncio.CancelledError(),
    "an exit": SystemExit(3),
    "a base exception": Brutal("rude"),
}


@pytest.mark.parametrize("schema", ["tool_selection", "execution_plan", "evaluation"])
@pytest.mark.parametrize("raised", MODEL_FAULTS.values(), ids=MODEL_FAULTS)
def test_whatever_a_model_raises_the_task_has_one_end(raised: BaseException, schema: str) -> None:
    class Model(ScriptedModel):
        async def ask(
            self, request: ModelRequest, on_text: Callable[[str], None] | None = None
        ) -> ModelReply:
            if request.schema_name == schema:
                raise raised
            return await super().ask(request, on_text)

    async def main() -> Ran:
        chosen = {"tools": [{"tool_id": "t0", "score": 100}]}
        answers = {"tool_selection": chosen, "execution_plan": plan(step("a", "t0")), "evaluation": verdict()}
        made = await bench({f"t{n}": FakeTool() for n in range(12)}, model=Model(answers))
        return (await made.run()).check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert ran.result.failure.kind == ("unjudged" if schema == "evaluation" else "model")
    assert len(ran.events("llm_call_started")) == len(ran.events("llm_call_completed"))


def test_a_source_that_hangs_for_ever_ends_at_the_deadline() -> None:
    class Hangs(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            await asyncio.get_running_loop().create_future()

    async def main() -> Ran:
        return (await (await bench(Hangs({"t": FakeTool()}))).run(plan(step("a", "t")))).check()

    assert virtual_time(main()).result.status == "timed_out"


def test_a_tool_that_vanished_after_planning_is_answered_with_what_there_is() -> None:
    async def main() -> Ran:
        made = await bench({"weather": FakeTool(), "other": FakeTool()})
        task_id = await made.submit(plan(step("a", "weather"), step("b", "other")))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(0)
        driving.cancel()
        await asyncio.wait({driving})
        fewer = await bench({"wether": FakeTool(), "other": FakeTool()}, store=made.store)
        return (await fewer.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert "'weather' does not exist" in str(ran.result.failure)
    assert "wether" in str(ran.result.failure)


class UnreadableArtifacts(MemoryStore):
    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        raise StoreBusy("locked")


class DamagedOnce(MemoryStore):
    """The first artifact that is read comes back cut."""

    whole = False

    async def artifact(self, task_id: str, artifact_id: str) -> bytes:
        found = await super().artifact(task_id, artifact_id)
        whole, self.whole = self.whole, True
        return found if whole else found[:10]


LARGE = plan(step("a", "give"), step("b", "t", "c", parameters={"v": "${a.output.x}"}), step("c", "t"))


def test_an_artifact_that_cannot_be_read_now_leaves_the_task_to_be_driven_on() -> None:
    async def main() -> None:
        store = UnreadableArtifacts()
        made = await bench(
            {"give": FakeTool(output={"x": "y" * 999}), "t": FakeTool(delay_secs=10)}, store=store
        )
        task_id = await made.submit(LARGE, max_output_bytes=100)
        with pytest.raises(StoreBusy):
            await made.service.drive(task_id)
        store.__class__ = MemoryStore  # type: ignore[assignment]
        ran = (await made.drive(task_id)).check()
        assert ran.statuses() == {"a": "succeeded", "b": "succeeded", "c": "succeeded"}
        assert ran.source.counts["give"] == 1

    virtual_time(main())


def test_an_artifact_that_is_damaged_fails_the_step_that_needs_it() -> None:
    async def main() -> Ran:
        made = await bench(
            {"give": FakeTool(output={"x": "y" * 999}), "t": FakeTool(delay_secs=10)}, store=DamagedOnce()
        )
        return (await made.run(LARGE, max_output_bytes=900)).check()

    ran = virtual_time(main())
    assert ran.statuses() == {"a": "succeeded", "b": "failed", "c": "succeeded"}
