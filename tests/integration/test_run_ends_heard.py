"""However a task ends, it does not end over what people have said meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.core.events import TERMINAL, AnyEvent, CancelRequested, HintGiven, PauseRequested, Record
from replan.ports import Appended, Claim
from replan.testing import MemoryStore, virtual_time

ENDS: dict[str, tuple[str, dict[str, FakeTool], dict[str, Any]]] = {
    "success": ("succeeded", {"t": FakeTool(output=1)}, {}),
    "failed steps": ("failed", {"t": FakeTool(fail=[ValueError("no")] * 9)}, {}),
    "a limit": ("failed", {"t": FakeTool(output=1)}, {"budget": {"max_tool_calls": 0}}),
    "its time": ("timed_out", {"t": FakeTool(delay_secs=100.0)}, {"budget": {"task_timeout_secs": 5}}),
}


class Said(MemoryStore):
    """A store where somebody says something at the last moment before the first end of a task is written."""

    def __init__(self, said: AnyEvent) -> None:
        super().__init__()
        self.said: AnyEvent | None = said

    def append(self, claim: Claim, events: Sequence[AnyEvent], **more: Any) -> asyncio.Future[Appended]:
        said = self.said
        if said is None or not isinstance(events[-1], TERMINAL):
            return super().append(claim, events, **more)
        self.said, written = None, super().append

        async def late() -> Appended:
            await self.signal(claim.task_id, said, more["ts"])
            return await written(claim, events, **more)

        return asyncio.ensure_future(late())


def ended(how: str, said: AnyEvent, **more: Any) -> Ran:
    _, tools, policy = ENDS[how]

    async def main() -> Ran:
        made = await bench(tools, {"evaluation": [verdict()] * 9}, store=Said(said))
        return await made.run(plan(step("a", "t")), **{**policy, **more})

    return virtual_time(main())


def at(ran: Ran, kind: str) -> int:
    return next(record.seq for record in ran.records if record.type == kind)


@pytest.mark.parametrize("how", ENDS)
def test_a_cancel_that_comes_before_the_end_is_the_end(how: str) -> None:
    ran = ended(how, CancelRequested(by="ann", reason="enough")).check()
    assert ran.result.status == "cancelled"
    assert ran.result.failure is not None
    assert ran.result.failure.reason == "cancelled by ann: enough"


@pytest.mark.parametrize("how", ENDS)
def test_a_hint_is_heard_before_the_end(how: str) -> None:
    ran = ended(how, HintGiven(request_id="r", hint="use the other account")).check()
    assert ran.result.status == ENDS[how][0]
    assert at(ran, "hint_given") < at(ran, "request_taken")
    assert ran.types().count("call_started") <= 1, "nothing was done again"


@pytest.mark.parametrize("how", ENDS)
def test_a_pause_that_comes_before_the_end_is_kept(how: str) -> None:
    ran = ended(how, PauseRequested(by="ann"))
    assert ran.state.waiting is not None
    assert ran.state.waiting.paused
    assert not ran.state.ended


def test_what_was_recorded_before_an_end_that_is_refused_is_in_the_log_once() -> None:
    ran = ended("success", HintGiven(request_id="r", hint="x")).check()
    for kind in ("call_completed", "step_completed", "evaluation_completed", "round_completed"):
        assert ran.types().count(kind) == 1, kind


def test_two_words_in_a_row_are_both_heard() -> None:
    class Twice(Said):
        async def signal(self, task_id: str, event: AnyEvent, ts: float) -> Record:
            found = await super().signal(task_id, event, ts)
            if isinstance(event, HintGiven):
                self.said = CancelRequested(by="ann")
            return found

    async def main() -> Ran:
        store = Twice(HintGiven(request_id="r", hint="x"))
        made = await bench({"t": FakeTool(output=1)}, store=store)
        return await made.run(plan(step("a", "t")))

    ran = virtual_time(main()).check()
    assert ran.result.status == "cancelled"
    assert "request_taken" in ran.types()
