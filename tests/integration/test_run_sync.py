"""`run_sync` for code that is not async, and the callback that is told the events."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from run_tasks import bench, step
from run_tasks import plan as planned

from replan import Record, Replan, run_sync, tool
from replan.errors import InputError, NoSuchPart
from replan.run.service.announcer import Announcer
from replan.testing import ScriptedEndpoint, ScriptedModel, virtual_time


@tool(effect="reads")
def double(n: int) -> int:
    """Twice the number."""
    return 2 * n


class Twice(BaseModel):
    n: int


PLAN: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "double", "parameters": {"n": 4}}]}
SCORES = {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90}


def _judgement(answer: Any) -> dict[str, Any]:
    return {
        "overall_score": 93, "is_successful": True, "dimensions": SCORES, "successes": ["done"], "failures": [],
        "improvement_suggestions": [], "final_output": answer,
    }  # fmt: skip


def test_it_takes_what_replan_and_run_take(tmp_path: Path) -> None:
    told: list[str] = []
    with ScriptedEndpoint({"execution_plan": PLAN, "evaluation": _judgement({"n": 8})}) as endpoint:
        result = run_sync(
            "Double four",
            [double],
            endpoint=endpoint.url,
            api_key="k",
            db=tmp_path / "r.db",
            output_type=Twice,
            success_threshold=70,
            timeout=30,
            metadata={"project": "P"},
            on_event=lambda record: told.append(record.type),
        )
    assert result.raise_for_failure().output == Twice(n=8)
    assert result.reason == ""
    assert told[0] == "task_submitted"
    assert told[-1] == "task_completed"


def test_a_misspelt_argument_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'endpoint'"):
        run_sync("x", endpont="http://localhost:1")  # type: ignore[call-overload]


@pytest.mark.anyio
async def test_in_a_running_loop_it_runs_in_a_thread_of_its_own(tmp_path: Path) -> None:
    threads: set[str] = set()
    result = run_sync(
        "Double four",
        [double],
        plan=PLAN,
        evaluation="steps",
        db=tmp_path / "r.db",
        on_event=lambda _: threads.add(threading.current_thread().name),
    )
    assert result.output == 8
    assert threads == {"replan-run-sync"}
    with pytest.raises(InputError, match="the task is empty"):
        run_sync(" ", db=tmp_path / "r.db")


@pytest.mark.anyio
async def test_a_callback_is_told_every_event_in_order_whatever_it_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Record] = []

    async def tell(record: Record) -> None:
        told.append(record)
        await asyncio.sleep(0)
        if record.type == "step_started":
            raise ValueError("the callback is broken")

    async with Replan(tools=[double], db=tmp_path / "r.db", on_event=tell) as replan:
        first = await replan.run("Double four", plan=PLAN, evaluation="steps")
        assert told == await replan.history(first.task_id)
        told.clear()
        again = await replan.submit("Double four", plan=PLAN, evaluation="steps", task_id="two")
        await replan.wait(again)
        assert told == await replan.history("two")
    assert "the callback is broken" in caplog.text
    assert "step_started" in caplog.text


@pytest.mark.anyio
async def test_a_callback_hears_of_a_resumed_task_only_what_is_new(tmp_path: Path) -> None:
    seqs: list[int] = []
    calls: list[int] = []

    @tool(effect="once")
    def pay(n: int) -> int:
        """Pay."""
        calls.append(n)
        return n

    plan = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"n": 1}}]}
    model = ScriptedModel({})
    async with Replan(
        model, tools=[pay], db=tmp_path / "r.db", interactive=True, approval="all",
        on_event=lambda record: seqs.append(record.seq),
    ) as replan:  # fmt: skip
        result = await replan.run("Pay", plan=plan, evaluation="steps")
        assert result.status == "waiting"
        await replan.approve(result.task_id)
        result = await replan.resume(result.task_id)
        assert result.succeeded
        assert seqs == [record.seq for record in await replan.history(result.task_id)]
    assert calls == [1]


# ── a callback that hangs or asks for its own end ─────────────────────────────


@pytest.mark.parametrize("what", ["hangs", "waits for itself", "exits", "cancels", "is slow"])
def test_a_task_ends_whatever_its_callback_does(what: str) -> None:
    told: list[str] = []

    async def main() -> None:
        made = await bench({"t": "x"})
        task_id = await made.submit(planned(step("a", "t")))

        async def tell(record: Record) -> None:
            told.append(record.type)
            match what:
                case "hangs":
                    await asyncio.Event().wait()
                case "waits for itself":
                    await announcer.told(task_id)
                case "exits":
                    raise SystemExit(3)
                case "cancels":
                    raise asyncio.CancelledError
                case "is slow":
                    await asyncio.sleep(4)

        announcer = Announcer(tell)
        driving = asyncio.get_running_loop().create_task(made.service.drive(task_id))
        announcer.follow(made.service, task_id, 0, driving)
        await driving
        await announcer.told(task_id)
        assert (await made.service.result(task_id)).is_success
        await announcer.aclose()

    virtual_time(main())
    assert (told[-1] == "task_completed") is (what != "hangs")
    assert what != "hangs" or len(told) == 1


# ── what people say, in the form that the documents show ──────────────────────


@pytest.mark.anyio
async def test_what_people_say_may_be_given_by_position_and_is_checked(tmp_path: Path) -> None:
    @tool(effect="once")
    def pay(n: int) -> int:
        """Pay."""
        return n

    wanted = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"n": 1}}]}
    async with Replan(
        ScriptedModel({}), tools=[pay], db=tmp_path / "r.db", interactive=True, approval="all"
    ) as replan:
        waiting = await replan.run("Pay", plan=wanted, evaluation="steps")
        (asked,) = waiting.waiting_for
        assert (await replan.approval(waiting.task_id, asked.id, {"n": 2})).parameters == {"n": 2}
        for bad in ("x", [1], 5):
            with pytest.raises(InputError, match="parameters: expected a mapping like"):
                await replan.approve(waiting.task_id, asked.id, bad)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="parameters cannot be kept as JSON: NaN at n"):
            await replan.approve(waiting.task_id, asked.id, {"n": math.nan})
        for nothing in ("", "  "):
            with pytest.raises(InputError, match="the answer is empty"):
                await replan.answer(waiting.task_id, nothing)
        for strange in ((None,), (5, None, 7)):
            with pytest.raises(InputError, match="the answer: expected a text"):
                await replan.answer(waiting.task_id, *strange)
        with pytest.raises(NoSuchPart, match="no open question"):
            await replan.answer(waiting.task_id, 5)
        await replan.approve(waiting.task_id, asked.id, {"n": 2}, "Ann")
        assert (await replan.resume(waiting.task_id)).output == 2


# ── another process, another loop ─────────────────────────────────────────────


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_is_told_that_its_replan_is_its_parents(tmp_path: Path) -> None:
    async def main() -> str:
        async with Replan(ScriptedModel({}), tools=[double], db=tmp_path / "r.db") as replan:
            reading, writing = os.pipe()
            if (child := os.fork()) == 0:
                said = []
                for wanted in (replan.wait("t"), replan.result("t"), replan.history("t")):
                    try:
                        with contextlib.suppress(StopIteration):
                            wanted.send(None)
                    except InputError as error:
                        said.append(str(error))
                os.write(writing, "|".join(said).encode())
                os._exit(0)
            await asyncio.to_thread(os.waitpid, child, 0)
            said = os.read(reading, 4096).decode()
            assert (await replan.run("Double four", plan=PLAN, evaluation="steps")).output == 8
            return said

    assert asyncio.run(main()).count("opened in another process, before a fork") == 3


def test_a_replan_may_be_used_and_closed_in_one_loop_after_another(tmp_path: Path) -> None:
    replan = Replan(ScriptedModel({}), tools=[double], db=tmp_path / "r.db")

    async def run() -> Any:
        await replan.open()
        return (await replan.run("Double four", plan=PLAN, evaluation="steps")).output

    assert [asyncio.run(run()) for _ in range(3)] == [8, 8, 8]
    asyncio.run(replan.aclose())


def test_run_sync_takes_secrets_as_run_does(tmp_path: Path) -> None:
    heard: list[str] = []

    @tool(effect="once")
    def enter(pin: SecretStr) -> str:
        """Enter."""
        heard.append(pin.get_secret_value())
        return "in"

    steps = {"steps": [{"step_id": "a", "tool": "enter", "parameters": {"pin": "${metadata.pin}"}}]}
    result = run_sync(
        "enter",
        [enter],
        plan=steps,
        evaluation="steps",
        db=tmp_path / "log.db",
        secrets={"pin": SecretStr("7-7-7-7-7")},
    )
    assert result.is_success
    assert heard == ["7-7-7-7-7"]
