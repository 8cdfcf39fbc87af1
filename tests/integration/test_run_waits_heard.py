"""A wait does not run out over what was said before its end is written, however late its driver would have noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step

from replan.core.events import (
    AnyEvent,
    CallbackReceived,
    CallFailed,
    CancelRequested,
    HintGiven,
    PauseRequested,
)
from replan.ports import Appended, Claim
from replan.testing import MemoryStore, virtual_time

TOKEN = "cb_known"
LIMIT = {"token": "${hook.output.token}", "limit_secs": 500}
CALLBACK = plan(
    step("hook", "create_callback"),
    step("done", "wait_for_callback", "hook", parameters=LIMIT),
    step("use", "note", "done", parameters={"n": "${done.output}"}),
)
CONDITION = plan(
    step(
        "done",
        "wait_for_condition",
        parameters={"tool": "job", "parameters": {}, "condition": "output == 'done'", "limit_secs": 500},
    ),
    step("use", "note", "done"),
)


class LastWord(MemoryStore):
    """A store where something is said at the last moment before a wait runs out: in the log, and nobody has been told."""

    def __init__(self, *said: AnyEvent) -> None:
        super().__init__()
        self.said = [*said]
        self.token = ""

    def append(self, claim: Claim, events: Sequence[Any], **more: Any) -> asyncio.Future[Appended]:
        for one in events:
            output = getattr(one, "output", None)
            if isinstance(output, dict) and "token" in output:
                self.token = output["token"]
        last = events[-1]
        if not (self.said and isinstance(last, CallFailed) and last.error.kind == "limit"):
            return super().append(claim, events, **more)
        said, written = self.said.pop(0), super().append
        if isinstance(said, CallbackReceived) and said.token == TOKEN:
            said = said.model_copy(update={"token": self.token})

        async def late() -> Appended:
            await self.signal(claim.task_id, said, more["ts"])
            return await written(claim, events, **more)

        return asyncio.ensure_future(late())


async def made(store: LastWord) -> Bench:
    tools = {"note": FakeTool(output=lambda given: given), "job": FakeTool(output="runs")}
    return await bench(tools, store=store)


def ran(wanted: Any, *said: AnyEvent) -> Ran:
    async def main() -> Ran:
        here = await made(LastWord(*said))
        return await here.drive_on(await here.submit(wanted))

    return virtual_time(main())


def used(data: Any, token: str = TOKEN) -> CallbackReceived:
    return CallbackReceived(token=token, data=data, by="the bank")


def test_a_callback_that_is_used_at_the_last_moment_counts() -> None:
    found = ran(CALLBACK, used({"n": 7})).check()
    assert found.result.is_success
    assert found.outputs()["use"] == {"n": {"n": 7}}
    assert not found.events("call_failed")


def test_whatever_else_is_said_comes_in_first_and_the_wait_runs_out_all_the_same() -> None:
    found = ran(CALLBACK, HintGiven(request_id="r", hint="x"), HintGiven(request_id="s", hint="y")).check()
    assert found.statuses()["done"] == "failed"
    (failed,) = found.events("call_failed")
    assert "nobody has used the callback within 500 s" in failed.error.message
    kinds = found.types()
    assert kinds.count("request_taken") == 2
    assert kinds.index("request_taken") < kinds.index("call_failed")
    assert found.times("step_failed") == {"done": 500}


def test_a_hint_before_the_callback_does_not_hide_it() -> None:
    found = ran(CALLBACK, HintGiven(request_id="r", hint="x"), used("late")).check()
    assert found.outputs()["done"] == "late"


@pytest.mark.parametrize("wanted", [CALLBACK, CONDITION])
def test_a_cancel_at_the_last_moment_is_the_end(wanted: Any) -> None:
    found = ran(wanted, CancelRequested(by="ann", reason="enough")).check()
    assert found.result.status == "cancelled"
    assert not [one for one in found.events("call_failed") if one.error.kind == "limit"]


@pytest.mark.parametrize("wanted", [CALLBACK, CONDITION])
def test_a_wait_does_not_run_out_under_a_pause(wanted: Any) -> None:
    found = ran(wanted, PauseRequested(by="ann"))
    assert found.state.waiting is not None
    assert found.state.waiting.paused
    assert not found.events("call_failed")


def test_what_comes_during_a_pause_counts_as_the_task_goes_on() -> None:
    async def main() -> Ran:
        store = LastWord(PauseRequested(by="ann"))
        here = await made(store)
        task_id = await here.submit(CALLBACK)
        await here.drive_on(task_id)
        await asyncio.sleep(1000)
        await here.service.signal(task_id, store.token, "ok")
        await here.service.unpause(task_id)
        return (await here.drive(task_id)).check()

    found = virtual_time(main())
    assert found.outputs()["done"] == "ok"


def test_of_two_that_run_out_together_the_one_that_is_used_goes_on() -> None:
    wanted = plan(
        step("hook", "create_callback"),
        step("done", "wait_for_callback", "hook", parameters=LIMIT),
        step("poll", "wait_for_condition", "hook", parameters=CONDITION["steps"][0]["parameters"]),
        step("use", "note", "done", parameters={"n": "${done.output}"}),
    )
    found = ran(wanted, used("ok")).check()
    assert found.outputs() == {
        "hook": found.outputs()["hook"],
        "done": "ok",
        "use": {"n": "ok"},
    }
    assert found.statuses()["poll"] == "failed"
    assert len(found.events("call_failed", call_key=found.state.steps["poll"].calls.popitem()[1].key)) == 1
