"""The library on a real database: submit, watch, resume, cancel, close; typed results."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import math
import os
from collections.abc import AsyncIterator, Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from run_tasks import plan, step, verdict

from replan import Replan, tool
from replan.config import Settings
from replan.core.events import CancelRequested, Record, TaskCompleted
from replan.errors import (
    InputError,
    ModelUnavailable,
    PlanInvalid,
    ReplanError,
    StaleWriter,
    TaskEnded,
    TaskExists,
    TaskHeld,
    TaskNotFound,
    ToolCallError,
)
from replan.ports import ModelReply, ModelRequest, Price
from replan.store.sqlite import SqliteStore
from replan.testing import FakeSource, FakeTool, ScriptedModel, fake_source

pytestmark = pytest.mark.anyio

ONE = plan(step("a", "t"))
TWO = plan(step("a", "t"), step("b", "hold", "a"))


class Held(FakeSource):
    """Its tool `hold` waits until it is let go."""

    def __init__(self, tools: dict[str, Any] | None = None) -> None:
        super().__init__({"t": FakeTool(), "hold": FakeTool(effect="repeatable"), **(tools or {})})
        self.entered = asyncio.Event()
        self.let_go = asyncio.Event()
        self.inside = 0

    async def call(self, call: Any) -> Any:
        if call.tool_id == "hold":
            self.inside += 1
            self.entered.set()
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled.append(call)
                raise
        return await super().call(call)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "replan.db"


@contextlib.asynccontextmanager
async def opened(db: Path, source: Any = None, answers: Any = None, **policy: Any) -> AsyncIterator[Replan]:
    model = answers if isinstance(answers, ScriptedModel) else ScriptedModel(answers or {})
    async with Replan(model, [source or fake_source({"t": FakeTool()})], db=db, **policy) as replan:
        yield replan


async def history(replan: Replan, task_id: str) -> list[str]:
    return [record.type for record in await replan.history(task_id)]


# ── submitting ────────────────────────────────────────────────────────────────


async def test_a_run_is_stored_and_its_result_can_be_read_later(db: Path) -> None:
    async with opened(db, answers={"execution_plan": ONE, "evaluation": verdict(output="yes")}) as replan:
        result = await replan.run("do it", task_id="mine")
        assert (result.succeeded, result.output, result.score, result.rounds) == (True, "yes", 95, 1)
    async with opened(db) as again:
        assert await again.result("mine") == result
        assert [one.task_id for one in await again.tasks()] == ["mine"]


async def test_a_task_is_in_the_store_when_it_is_accepted(db: Path) -> None:
    async with opened(db, Held()) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        other = SqliteStore(db)
        (first, *_) = await other.read(task_id)
        assert first.type == "task_submitted"
        await other.aclose()


async def test_a_task_that_cannot_be_stored_is_not_accepted(db: Path) -> None:
    async with opened(db) as replan:
        await replan.service.parts.store.aclose()
        with pytest.raises(ReplanError):
            await replan.submit("do it", plan=ONE, evaluation="steps")


async def test_the_same_id_with_the_same_request_is_the_same_task(db: Path) -> None:
    source = fake_source({"t": FakeTool(effect="once")})
    async with opened(db, source) as replan:
        first = await replan.run("do it", task_id="x", plan=ONE, evaluation="steps")
        second = await replan.run("do it", task_id="x", plan=ONE, evaluation="steps")
        assert first == second
        assert source.counts["t"] == 1


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"text": "do that"}, id="another text"),
        pytest.param({"metadata": {"a": 1}}, id="other metadata"),
        pytest.param({"plan": TWO}, id="another plan"),
        pytest.param({"timeout": 7.0}, id="another limit"),
    ],
)
async def test_the_same_id_with_another_request_is_refused(db: Path, other: dict[str, Any]) -> None:
    async with opened(db, Held()) as replan:
        request = {"text": "do it", "plan": ONE, "evaluation": "steps", "task_id": "x"}
        await replan.run(**request)
        with pytest.raises(TaskExists):
            await replan.run(**{**request, **other})


async def test_two_callers_of_one_id_share_one_task(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        runs = [
            asyncio.create_task(replan.run("do it", task_id="x", plan=TWO, evaluation="steps")) for _ in "12"
        ]
        await source.entered.wait()
        source.let_go.set()
        first, second = await asyncio.gather(*runs)
        assert first == second
        assert source.counts == {"t": 1, "hold": 1}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        pytest.param({"text": "  "}, "the task is empty", id="no text"),
        pytest.param({"text": "x" * 200_001}, "at most 200000", id="a text too long"),
        pytest.param({"text": "half \ud83d"}, "no text", id="half a character"),
        pytest.param({"task_id": "a b"}, "not a valid task id", id="a bad id"),
        pytest.param({"metadata": {"a": 10**5000}}, "metadata cannot be kept as JSON", id="a long number"),
        pytest.param({"metadata": {"a": _nested(230)}}, "metadata cannot be kept as JSON", id="deep"),
        pytest.param({"metadata": {"a": object()}}, "metadata cannot be kept as JSON", id="metadata that are no JSON"),
        pytest.param({"metadata": {"a": [1, math.nan]}}, r"metadata .*: NaN at a\[1\] is no number", id="NaN"),
        pytest.param({"context": {"session_id": math.inf}}, "context .*: Infinity at session_id", id="an infinity"),
        pytest.param({"metadata": {"a": {"caf\udce9": 1}}}, "metadata .* at a is no text", id="a key that is no text"),
        pytest.param({"metadata": {"a": {"b": [object()]}}}, r"type object at a.b\[0\] has no form", id="what is no JSON inside"),
        pytest.param({"metadata": {"a": {1: "a", "1": "b"}}}, "two keys", id="keys alike"),
        pytest.param(
            {"plan": {"steps": [{"step_id": "a", "tool": "t", "parameters": {"x": -math.inf}}]}},
            r"plan .*: -Infinity at steps\[0\].parameters.x",
            id="an infinity in a plan",
        ),
        pytest.param({"metadata": {"a": "x" * 2_000_000}}, "at most 1000000", id="large metadata"),
        pytest.param({"output_schema": {"type": "nonsense"}}, "output_schema", id="a bad schema"),
        pytest.param({"output_schema": {"$ref": "#/nope"}}, "output_schema: .*'/nope' does not exist", id="a reference to nothing"),
        pytest.param(
            {"output_schema": {"properties": {"a": {"$ref": "#/$defs/x"}}}}, "output_schema: .*defs/x", id="one inside"
        ),
        pytest.param({"timeout": 0}, "above 0", id="no time"),
        pytest.param({"evaluation": "dice"}, "evaluation", id="an unknown way to judge"),
    ],
)  # fmt: skip
async def test_a_bad_request_is_refused_with_what_is_wrong(
    db: Path, request_: dict[str, Any], words: str
) -> None:
    async with opened(db) as replan:
        with pytest.raises(InputError, match=words):
            await replan.submit(**{"text": "do it", "plan": ONE, **request_})
        assert await replan.tasks() == []


@pytest.mark.parametrize("known", [True, False])
async def test_a_limit_in_dollars_needs_the_price_of_a_model_object_too(db: Path, known: bool) -> None:
    price = Price(input=1, output=2) if known else None
    model = ScriptedModel({"execution_plan": ONE, "evaluation": verdict()}, price=price)
    async with opened(db, answers=model, max_cost_usd=1.0) as replan:
        if known:
            assert (await replan.run("do it")).usage.cost_usd > 0
            return
        with pytest.raises(InputError, match=r"price of scripted .* is not known: .* by a method `price"):
            await replan.run("do it")
        assert await replan.tasks() == []


async def test_a_task_whose_steps_ask_models_goes_on_only_where_their_price_is_known(db: Path) -> None:
    asks = {"question": "Which?"}
    steps = [
        {"step_id": "q", "tool": "ask_user", "parameters": asks},
        {"step_id": "m", "tool": "model", "parameters": {"instruction": "Say it.", "input": "${q.output}"}},
    ]
    said = {"step_answer": [{"answer": "blue"}]}
    options: dict[str, Any] = {"evaluation": "steps", "interactive": True, "max_cost_usd": 1.0}
    priced = Price(input=1, output=2)
    async with opened(db, answers=ScriptedModel(said, price=priced), **options) as replan:
        waits = await replan.run("do it", plan={"steps": steps})
        assert waits.status == "waiting"
        await replan.answer(waits.task_id, "blue")
    async with opened(db, answers=ScriptedModel(said, price=None), **options) as replan:
        with pytest.raises(
            InputError, match=r"max_cost_usd is set, and the price of scripted .* is not known"
        ):
            await replan.resume(waits.task_id)
    async with opened(db, answers=ScriptedModel(said, price=priced), **options) as replan:
        assert (await replan.resume(waits.task_id)).usage.cost_usd > 0


async def test_an_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(InputError, match="success_threshold"):
        Replan(ScriptedModel({}), success_treshold=70)


# ── queueing ──────────────────────────────────────────────────────────────────


async def test_tasks_past_the_limit_wait_in_the_order_they_came(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        names = [f"n{n}" for n in range(13)]
        for name in names:
            await replan.submit("do it", plan=TWO, evaluation="steps", task_id=name)
        await source.entered.wait()
        while source.counts["t"] < 10:  # noqa: ASYNC110 - what it waits for is on the way
            await asyncio.sleep(0.001)
        statuses = {one.task_id: one.status for one in await replan.tasks()}
        assert [name for name in names if statuses[name] == "queued"] == names[10:]
        await replan.cancel("n11", "not needed")
        assert (await replan.result("n11")).status == "cancelled"
        source.let_go.set()
        results = [await replan.wait(name) for name in names]
        assert [one.status for one in results] == ["succeeded"] * 11 + ["cancelled"] + ["succeeded"]
        assert [call.task_id for call in source.calls if call.tool_id == "t"][-2:] == ["n10", "n12"]


# ── cancelling ────────────────────────────────────────────────────────────────


async def test_a_cancelled_caller_cancels_its_task(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        running = asyncio.create_task(replan.run("do it", plan=TWO, evaluation="steps", task_id="x"))
        await source.entered.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        result = await replan.result("x")
        assert result.status == "cancelled"
        assert len(source.cancelled) == 1
        assert result.failure is not None
        assert "its caller was cancelled" in result.failure.reason


async def test_a_cancelled_caller_that_closes_at_once_leaves_an_ended_task(db: Path) -> None:
    source = Held()

    async def whole() -> None:
        async with opened(db, source) as replan:
            await replan.run("do it", plan=TWO, evaluation="steps", task_id="x")

    running = asyncio.create_task(whole())
    await source.entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with opened(db) as again:
        assert (await again.result("x")).status == "cancelled"


async def test_a_cancel_from_another_process_is_seen_within_two_seconds(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        await source.entered.wait()
        other = SqliteStore(db)
        started = asyncio.get_running_loop().time()
        await other.signal(task_id, CancelRequested(reason="from afar"), 1.0)
        result = await replan.wait(task_id)
        assert asyncio.get_running_loop().time() - started < 2
        await other.aclose()
        assert result.status == "cancelled"


# ── closing and going on ──────────────────────────────────────────────────────


async def test_closing_leaves_tasks_that_can_be_resumed(db: Path) -> None:
    source = Held({"pay": FakeTool(effect="once")})
    wanted = plan(step("a", "pay"), step("b", "hold", "a"), step("c", "t", "b"))
    async with opened(db, source) as replan:
        await replan.submit("do it", plan=wanted, evaluation="steps", task_id="x")
        await replan.submit("do it", plan=wanted, evaluation="steps", task_id="y")
        while source.inside < 2:  # noqa: ASYNC110 - what it waits for is on the way
            await asyncio.sleep(0.001)
    source.let_go.set()
    async with opened(db, source) as again:
        assert (await again.result("x")).status == "executing"
        assert (await again.resume("x")).succeeded
        assert (await again.resume("y")).succeeded
        types = await history(again, "x")
        assert types.count("task_resumed") == 1
        assert source.counts["pay"] == 2


async def test_a_waiter_is_told_when_everything_is_closed(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        waiting = asyncio.create_task(replan.wait(task_id))
        await source.entered.wait()
    with pytest.raises(ReplanError, match="can be resumed"):
        await waiting


async def test_an_ended_or_running_task_is_not_resumed(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        done = await replan.run("do it", plan=ONE, evaluation="steps")
        with pytest.raises(TaskEnded):
            await replan.resume(done.task_id)
        running = await replan.submit("do it", plan=TWO, evaluation="steps")
        await source.entered.wait()
        with pytest.raises(TaskHeld):
            await replan.resume(running)
        with pytest.raises(InputError, match="no task"):
            await replan.resume("nobody")


async def test_a_task_is_not_resumed_without_what_it_goes_on_with(db: Path) -> None:
    """It would only fail, for good."""
    source = Held()
    async with opened(db, source) as replan:
        await replan.submit("do it", plan=TWO, evaluation="steps", task_id="x")
        await source.entered.wait()
    source.let_go.set()
    async with opened(db) as poorer:
        with pytest.raises(InputError, match=r"goes on with 'hold'"):
            await poorer.resume("x")
        assert "task_resumed" not in await history(poorer, "x")
    async with opened(db, source) as again:
        assert (await again.resume("x")).succeeded


async def test_a_task_is_not_resumed_without_its_judge(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    source = Held()
    async with opened(db, source) as replan:
        await replan.submit("do it", plan=TWO, task_id="x")
        await source.entered.wait()
    source.let_go.set()
    async with Replan("openai:some-model", [source], db=db) as keyless:
        with pytest.raises(ReplanError):
            await keyless.resume("x")
        assert "task_resumed" not in await history(keyless, "x")
    async with opened(db, source, answers={"evaluation": verdict()}) as again:
        assert (await again.resume("x")).succeeded


async def test_a_task_that_another_driver_holds_is_waited_for(db: Path) -> None:
    """Submitted again with its id, as a second process would, while the first drives it."""
    source = Held()
    async with opened(db, source) as first:
        await first.submit("do it", plan=TWO, evaluation="steps", task_id="x")
        await source.entered.wait()
        async with opened(db, source) as second:
            waiting = asyncio.create_task(second.run("do it", plan=TWO, evaluation="steps", task_id="x"))
            while not second.service.parts.store._watchers.waiting("x"):  # type: ignore[attr-defined]  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            source.let_go.set()
            assert (await waiting).succeeded
        assert source.counts == {"t": 1, "hold": 1}


async def test_nothing_works_before_it_is_opened_and_after_it_is_closed(db: Path) -> None:
    replan = Replan(ScriptedModel({}), [fake_source({})], db=db)
    with pytest.raises(InputError, match="not open"):
        await replan.run("do it")
    async with replan:
        pass
    with pytest.raises(InputError, match="not open"):
        await replan.submit("do it")


# ── watching ──────────────────────────────────────────────────────────────────


class Talkative(ScriptedModel):
    """Gives the watcher time to listen before it says anything."""

    def __init__(self, answers: Any, ready: asyncio.Event) -> None:
        super().__init__(answers)
        self._ready = ready

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        await self._ready.wait()
        return await super().ask(request, on_text)


async def test_a_watcher_sees_every_stored_event_in_order_with_tokens_and_progress_between(db: Path) -> None:
    ready = asyncio.Event()
    model = Talkative({"execution_plan": ONE, "evaluation": verdict()}, ready)
    source = fake_source({"t": FakeTool(progress=["half", "whole"])})
    async with opened(db, source, model) as replan:
        task_id = await replan.submit("do it")
        seen = []
        async for record in replan.watch(task_id, ephemeral=True):
            seen.append(record)
            ready.set()
        stored = [record for record in seen if record.seq]
        assert stored == await replan.history(task_id)
        news = [record for record in seen if not record.seq]
        assert {record.type for record in news} == {"llm_token", "step_progress"}
        said = "".join(r.event.text for r in news if r.type == "llm_token" and r.event.role == "planning")  # type: ignore[union-attr]
        assert said == json.dumps(ONE, ensure_ascii=False)
        assert [r.event.message for r in news if r.type == "step_progress"] == ["half", "whole"]  # type: ignore[union-attr]


async def test_a_watch_can_begin_anywhere(db: Path) -> None:
    async with opened(db) as replan:
        done = await replan.run("do it", plan=ONE, evaluation="steps")
        whole = [record async for record in replan.watch(done.task_id)]
        for after in (0, 3, len(whole) - 1):
            assert [record async for record in replan.watch(done.task_id, after)] == whole[after:]


@pytest.mark.parametrize("ephemeral", [False, True])
async def test_a_watch_after_the_end_of_an_ended_task_ends_at_once(db: Path, ephemeral: bool) -> None:
    async with opened(db) as replan:
        done = await replan.run("do it", plan=ONE, evaluation="steps")
        last = (await replan.history(done.task_id))[-1].seq
        async with asyncio.timeout(5):
            assert [record async for record in replan.watch(done.task_id, last, ephemeral=ephemeral)] == []


async def test_a_watcher_that_leaves_disturbs_nobody(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        async for record in replan.watch(task_id, ephemeral=True):
            if record.type == "call_started":
                break
        source.let_go.set()
        assert (await replan.wait(task_id)).succeeded


async def rest_of(watching: AsyncIterator[Record]) -> list[Record]:
    return [record async for record in watching]


async def test_a_watch_ends_with_the_error_that_broke_the_drive(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        await source.entered.wait()
        thief = SqliteStore(db)
        await thief.claim(task_id, steal=True)
        watching = replan.watch(task_id)
        assert (await anext(watching)).type == "task_submitted"
        waiting = asyncio.create_task(replan.wait(task_id))
        await asyncio.sleep(0)
        source.let_go.set()
        with pytest.raises(StaleWriter):
            await asyncio.wait_for(rest_of(watching), 5)
        with pytest.raises(StaleWriter):
            await waiting
        await thief.aclose()


async def test_a_watch_ends_when_everything_is_closed(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        watching = replan.watch(task_id, ephemeral=True)
        seen = [await anext(watching)]
        await source.entered.wait()
    async with asyncio.timeout(5):
        seen += [record async for record in watching]
    assert not isinstance(seen[-1].event, TaskCompleted)


# ── answers ───────────────────────────────────────────────────────────────────


class Colour(Enum):
    RED = "red"


class Report(BaseModel):
    title: str
    day: dt.date
    colour: Colour
    parts: tuple[int, ...] = ()


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("it is odd")
        return n


async def test_an_output_type_gives_the_typed_object(db: Path) -> None:
    answer = {"title": "x", "day": "2026-01-02", "colour": "red", "parts": [1, 2]}
    async with opened(db, answers={"execution_plan": ONE, "evaluation": verdict(output=answer)}) as replan:
        result = await replan.run("do it", output_type=Report)
        assert result.output == Report(title="x", day=dt.date(2026, 1, 2), colour=Colour.RED, parts=(1, 2))
        assert (await replan.result(result.task_id)).output == answer
        numbers = await replan.run("do it", output_type=list[int], plan=ONE, evaluation="steps")
        assert not numbers.succeeded


@pytest.mark.parametrize(("second", "output"), [(4, Even(n=4)), (5, None)])
async def test_what_the_validators_of_a_type_refuse_goes_back_once_and_then_the_task_has_failed(
    db: Path, second: int, output: Even | None
) -> None:
    judged = [verdict(output={"n": 3}), verdict(output={"n": second})]
    async with opened(
        db, answers={"execution_plan": ONE, "evaluation": judged}, enable_auto_reflection=False
    ) as replan:
        result = await replan.run("do it", output_type=Even, task_id="x")
        assert (result.succeeded, result.output) == (output is not None, output)
        assert (await replan.result("x")).succeeded == result.succeeded, "the log says the same"
        asked = [record.event for record in await replan.history("x") if record.type == "llm_call_started"]
        assert "it is odd" in asked[-1].text  # type: ignore[union-attr]
        assert result.succeeded or "it is odd" in str(result.failure)


async def test_a_task_that_ended_without_the_validators_is_no_success_for_who_asks_for_the_type(
    db: Path,
) -> None:
    schema = Even.model_json_schema()
    async with opened(db, answers={"execution_plan": ONE, "evaluation": verdict(output={"n": 3})}) as replan:
        assert (await replan.run("do it", output_schema=schema, task_id="x")).succeeded
        result = await replan.run("do it", output_type=Even, task_id="x")
        assert (result.succeeded, result.output, result.status) == (False, None, "failed")
        assert "it is odd" in result.failure.reason  # type: ignore[union-attr]
        assert (await replan.result("x")).output == {"n": 3}


class Positive(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def positive(cls, n: int) -> int:
        if n < 0:
            raise ValueError("it is negative")
        return n


GIVEN: dict[str, Any] = {"task_id": "x", "plan": plan(step("a", "hold")), "evaluation": "steps"}


def held(output: Any) -> Held:
    return Held({"hold": FakeTool(effect="repeatable", output=output)})


async def test_another_request_with_a_tasks_id_leaves_the_check_of_its_answer_alone(db: Path) -> None:
    source = held({"n": 3})
    async with opened(db, source, answers={}) as replan:
        first = asyncio.create_task(replan.run("one thing", output_type=Even, **GIVEN))
        await source.entered.wait()
        with pytest.raises(TaskExists):
            await replan.run("another thing", output_type=Positive, **GIVEN)
        source.let_go.set()
        result = await first
        assert (result.status, result.output) == ("failed", None)
        assert (await replan.result("x")).status == "failed", "who asks later is told the same"


async def test_the_check_holds_before_the_task_is_driven_and_with_an_id_that_replan_makes(db: Path) -> None:
    async with opened(db, fake_source({"t": FakeTool(output={"n": 3})})) as replan:
        result = await replan.run("do it", output_type=Even, plan=ONE, evaluation="steps")
        assert (await replan.result(result.task_id)).status == result.status == "failed"


async def test_a_plan_given_and_judged_by_steps_is_held_to_the_validators_too(db: Path) -> None:
    async with opened(db, answers={}) as replan:
        result = await replan.run("do it", output_type=Even, plan=ONE, evaluation="steps")
        assert (result.succeeded, result.output) == (False, None)


class Broken(FakeSource):
    async def tools(self) -> Any:
        raise ReplanError("it asks for a token")


async def test_a_plan_whose_tool_is_not_there_is_told_which_source_cannot_be_used(db: Path) -> None:
    async with Replan(
        ScriptedModel({}), [Broken({}, name="far"), fake_source({"t": FakeTool()})], db=db
    ) as replan:
        with pytest.raises(
            PlanInvalid, match=r"(?s)'nope' does not exist.*cannot be used: far: .*it asks for a token"
        ):
            await replan.plan("do it", plan=plan(step("a", "nope")))
        assert [one.tool for one in (await replan.plan("do it", plan=ONE, evaluation="steps")).steps] == ["t"]


async def test_a_plan_can_be_had_without_a_task(db: Path) -> None:
    async with opened(db, answers={"execution_plan": ONE}) as replan:
        assert [one.tool for one in (await replan.plan("do it")).steps] == ["t"]
        with pytest.raises(PlanInvalid):
            await replan.plan("do it", plan=plan(step("a", "nope")))
        assert await replan.tasks() == []


async def test_functions_are_tools(db: Path) -> None:
    @tool(effect="reads")
    def weather(city: str) -> dict[str, Any]:
        """The weather in a city."""
        return {"city": city, "degrees": 21}

    async def mean(values: list[float]) -> float:
        """The mean of some numbers."""
        return sum(values) / len(values)

    wanted = plan(
        step("rome", "weather", parameters={"city": "Rome"}),
        step("oslo", "weather", parameters={"city": "Oslo"}),
        step("both", "mean", parameters={"values": ["${rome.output.degrees}", "${oslo.output.degrees}"]}),
    )
    async with Replan(ScriptedModel({}), [weather, mean], db=db) as replan:
        result = await replan.run("compare", plan=wanted, evaluation="steps")
        assert result.output == 21
        assert await replan.call("mean", {"values": [1, 2]}) == 1.5
        with pytest.raises(InputError, match="the nearest of 2: weather"):
            await replan.call("wether", {})
        with pytest.raises(InputError, match="do not fit"):
            await replan.call("weather", {"town": "Rome"})


class Odd(BaseException):
    """What no `except Exception` sees."""


@pytest.mark.parametrize("raised", [GeneratorExit, Odd])
@pytest.mark.parametrize("timeout", [None, 5.0], ids=["no limit", "a limit"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_tool_that_raises_what_is_no_error_ends_its_call(
    db: Path, kind: str, timeout: float | None, raised: type[BaseException]
) -> None:
    @tool(effect="reads", timeout=timeout)
    def now() -> str:
        raise raised("done")

    @tool(effect="reads", timeout=timeout)
    async def later() -> str:
        raise raised("done")

    async with Replan(ScriptedModel({}), [now, later], db=db) as replan:
        with pytest.raises(ToolCallError, match=f"raised {raised.__name__}"):
            await replan.call("now" if kind == "sync" else "later", {})


@pytest.mark.parametrize("after", ["x", "1", -1, 1.5, True, None])
async def test_a_place_in_the_log_that_is_none_is_refused_in_words(db: Path, after: Any) -> None:
    async with opened(db) as replan:
        task_id = await replan.submit("do it", plan=ONE, evaluation="steps")
        with pytest.raises(InputError, match=r"after: .* is no place in the log"):
            replan.watch(task_id, after)


@pytest.mark.parametrize("wanted", [Callable[[int], str], Callable, object(), "Nowhere"])
async def test_a_type_that_no_answer_can_have_is_refused_by_name(db: Path, wanted: Any) -> None:
    async with Replan(ScriptedModel({}), [], db=db) as replan:
        with pytest.raises(InputError, match=r"output_type: .* cannot be the form of an answer"):
            await replan.run("do it", output_type=wanted)
        assert await replan.tasks() == []


async def test_whoever_waits_for_a_task_that_lost_its_driver_is_told(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool(effect="reads")
    async def hang() -> str:
        """Never answer."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    plan = {"steps": [{"step_id": "step_1", "tool": "hang"}]}
    async with Replan(tools=[hang], db=tmp_path / "log.db", evaluation="steps") as waiting:
        async with Replan(tools=[hang], db=tmp_path / "log.db", evaluation="steps") as driving:
            task_id = await driving.submit("hang", plan=plan)
            await begun.wait()
            told = asyncio.create_task(waiting.wait(task_id))
            watching = asyncio.create_task(rest_of(waiting.watch(task_id)))
        with pytest.raises(ReplanError, match="nobody drives task"):
            await told
        with pytest.raises(ReplanError, match="nobody drives task"):
            await watching


async def test_a_watch_tells_what_is_stored_before_it_says_that_nobody_drives_the_task(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        await source.entered.wait()
    seen: list[Record] = []

    async def watch(replan: Replan) -> None:
        async for record in replan.watch(task_id, ephemeral=True):
            seen.append(record)  # noqa: PERF401 - also what came before an error

    async with opened(db) as replan:
        with pytest.raises(ReplanError, match="nobody drives task"):
            await watch(replan)
        assert seen == await replan.history(task_id)


async def test_a_watch_goes_on_over_a_change_of_drivers_and_while_a_task_waits_for_a_person(db: Path) -> None:
    asks = {"steps": [{"step_id": "pay", "tool": "t"}]}
    async with opened(db, approval="all", interactive=True) as replan:
        task_id = await replan.submit("do it", plan=asks, evaluation="steps")
        assert (await replan.wait(task_id)).status == "waiting"
        watching = asyncio.create_task(rest_of(replan.watch(task_id)))
        await replan.approve(task_id)
        await replan.resume(task_id)
        assert isinstance((await watching)[-1].event, TaskCompleted)


async def test_a_watch_of_a_task_that_is_deleted_meanwhile_says_so(db: Path) -> None:
    source = Held()
    async with opened(db, source) as replan:
        task_id = await replan.submit("do it", plan=TWO, evaluation="steps")
        await source.entered.wait()
    async with opened(db) as replan:
        watching = replan.watch(task_id)
        assert (await anext(watching)).type == "task_submitted"
        await replan.delete(task_id, unfinished=True)
        with pytest.raises(TaskNotFound, match=task_id):
            await rest_of(watching)


@pytest.mark.parametrize("stays", [True, False], ids=["its turn comes", "its process has ended"])
async def test_a_task_that_waits_its_turn_is_waited_for_as_long_as_somebody_may_begin_it(
    tmp_path: Path, stays: bool
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(effect="reads")
    async def wait_for_it() -> str:
        """Wait for a sign."""
        begun.set()
        await go.wait()
        return "there"

    plan = {"steps": [{"step_id": "step_1", "tool": "wait_for_it"}]}
    one = Settings.model_validate({"orchestrator": {"max_concurrent_tasks": 1}})
    options: dict[str, Any] = {"tools": [wait_for_it], "db": tmp_path / "log.db", "evaluation": "steps"}
    async with Replan(**options) as waiting:
        async with Replan(**options, settings=one) as driving:
            await driving.submit("one", plan=plan)
            second = await driving.submit("two", plan=plan)
            await begun.wait()
            assert (await waiting.summary(second)).status == "queued"
            told = asyncio.create_task(waiting.wait(second))
            if stays:
                go.set()
                assert (await told).is_success
        if not stays:
            with pytest.raises(ReplanError, match="nobody drives task"):
                await told


async def test_the_same_id_given_again_without_its_tools_does_not_end_the_task(tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool(effect="reads")
    async def hang() -> str:
        """Never answer."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    plan = {"steps": [{"step_id": "step_1", "tool": "hang"}]}
    async with Replan(tools=[hang], db=tmp_path / "log.db", evaluation="steps") as first:
        await first.submit("hang", plan=plan, task_id="mine")
        await begun.wait()
    async with Replan(db=tmp_path / "log.db", evaluation="steps") as second:
        with pytest.raises(InputError, match="goes on with 'hang'"):
            await second.submit("hang", plan=plan, task_id="mine")
        assert (await second.result("mine")).status == "executing"


async def test_an_opening_that_is_cut_off_leaves_nothing_behind(db: Path) -> None:
    class Silent(FakeSource):
        async def tools(self) -> Any:
            asked.set()
            await asyncio.Event().wait()

    class Down(FakeSource):
        async def tools(self) -> Any:
            raise ConnectionRefusedError

    asked = asyncio.Event()
    sources = [Silent({}, name="silent"), Down({}, name="down")]
    before = asyncio.all_tasks()
    opening = asyncio.ensure_future(Replan(tools=sources, db=db).open())
    await asked.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [source.closed for source in sources] == [True, True]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("recorded", [False, True])
async def test_a_tool_that_has_failed_often_is_shown_with_that_word_unless_answers_are_recorded(
    recorded: bool, db: Path, tmp_path: Path
) -> None:
    """When tools are selected, when steps are planned, and when a failed one is reflected upon."""
    idle = {f"t{n}": FakeTool() for n in range(12)}
    async with opened(db, fake_source({**idle, "t": FakeTool(fail=["it is closed"] * 5)})) as replan:
        for _ in range(5):
            assert not (await replan.run("do it", plan=ONE, evaluation="steps")).succeeded
    shown: dict[str, bool] = {}

    def answer(request: ModelRequest) -> Any:
        texts = [request.instructions, *(turn.text for turn in request.turns)]
        shown.setdefault(request.schema_name, any("failed 5 of its last 5 calls" in text for text in texts))
        if request.schema_name == "tool_selection":
            return {"tools": [{"tool_id": "t", "score": 100}]}
        return ONE if request.schema_name == "execution_plan" else ModelUnavailable("nobody is asked further")

    record = tmp_path / "answers.jsonl" if recorded else None
    sources = [fake_source({**idle, "t": FakeTool(fail=["it is closed"])})]
    async with Replan(ScriptedModel(answer), sources, db=db, record=record) as replan:
        await replan.run("do it")
    assert shown.keys() >= {"tool_selection", "execution_plan", "step_reflection"}
    if recorded:
        assert not any(shown.values())
    else:
        assert shown["tool_selection"] and shown["execution_plan"]  # noqa: PT018


@pytest.mark.parametrize("plan", [{}, {"steps": []}, {"task_description": "nothing", "steps": []}])
async def test_a_given_plan_without_steps_is_refused_before_there_is_a_task(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    async with Replan(db=tmp_path / "log.db", evaluation="steps") as replan:
        with pytest.raises(InputError, match="plan that is given has no steps"):
            await replan.run("do nothing", plan=plan)
        assert await replan.tasks() == []


async def test_a_change_of_folder_leaves_the_database_and_the_recording_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(here)

    @tool(effect="reads")
    def leave() -> str:
        os.chdir(elsewhere)
        return "left"

    model = ScriptedModel({"execution_plan": plan(step("a", "leave")), "evaluation": verdict(95)})
    for db in ("tasks.db", "sqlite:///tasks.db", Path("tasks.db")):
        monkeypatch.chdir(here)
        replan = Replan(model, [leave], db=db, record="calls.jsonl")
        os.chdir(elsewhere)  # before it is opened
        async with replan:
            os.chdir(here)
            result = await replan.run("leave")  # and in the middle of a task
            assert result.status == "succeeded"
            assert (await replan.result(result.task_id)).status == "succeeded"
    assert list(elsewhere.iterdir()) == []
    assert {"tasks.db", "calls.jsonl"} <= {each.name for each in here.iterdir()}


async def test_a_store_that_is_opened_by_a_relative_path_stays_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path("tasks.db"))
    monkeypatch.chdir(tmp_path.parent)
    try:
        assert store.path == tmp_path / "tasks.db"
        assert await store.list_tasks() == []
    finally:
        await store.aclose()
