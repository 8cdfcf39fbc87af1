"""What was under way at the event that a fork begins at: settled by the log of the other task, wherever the loop stands there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import at_of, forked
from test_run_recovery import READS, overall, reflection

from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

NAMED: dict[str, Any] = {
    "effect": "once",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}


class Desk:
    """Slow letters, and payments of which the first is refused."""

    def __init__(self, *, letter: Any = "sent") -> None:
        self.done: list[tuple[str, str]] = []
        self.refused = False
        self.letter = letter

    def _pay(self, parameters: Any) -> str:
        if not self.refused:
            self.refused = True
            raise ValueError("the desk is closed")
        self.done.append(("pay", parameters["to"]))
        return "paid"

    def _bill(self, parameters: Any) -> str:
        self.done.append(("bill", parameters["to"]))
        return "billed"

    def _refund(self, parameters: Any) -> str:
        self.done.append(("refund", parameters["to"]))
        return "back"

    def _write(self, parameters: Any) -> Any:
        if isinstance(self.letter, Exception):
            raise self.letter
        self.done.append(("write", parameters["to"]))
        return self.letter

    def tools(self) -> dict[str, Any]:
        letters = FakeTool(
            output=lambda _: [{"to": to} for what, to in self.done if what == "write"], **READS
        )
        return {
            "pay": FakeTool(output=self._pay, delay_secs=1, **NAMED),
            "write": FakeTool(output=self._write, delay_secs=60, **NAMED),
            "bill": FakeTool(output=self._bill, **NAMED),
            "refund": FakeTool(output=self._refund, **NAMED),
            "letters": letters,
        }


BOTH = plan(step("w", "write", parameters={"to": "ann"}), step("p", "pay", parameters={"to": "bob"}))
AGAIN = plan(step("p2", "pay", parameters={"to": "bob"}), step("b2", "bill", "p2", parameters={"to": "bob"}))
ANEW = {"replanning_strategy": {"type": "full_replan"}}


def answers(*plans: Any) -> dict[str, Any]:
    return {
        "execution_plan": [*plans],
        "evaluation": verdict(),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "closed"}, "tool_error"),
        "overall_reflection": overall(should=True, **ANEW),
    }


async def fork_at(made: Bench, origin: Ran, kind: str, **wanted: Any) -> Ran:
    at = at_of(origin, kind, **wanted)
    return (await made.drive(await forked(made, origin.result.task_id, at=at))).check()


UNDER_WAY = [
    ("call_failed", {"tool_id": "pay"}),
    ("step_reflected", {"step_id": "p"}),
    ("overall_reflection_triggered", {}),
    ("step_failed", {"step_id": "p"}),
]


@pytest.mark.parametrize(("kind", "wanted"), UNDER_WAY, ids=[kind for kind, _ in UNDER_WAY])
def test_a_call_under_way_is_settled_wherever_the_fork_begins(kind: str, wanted: dict[str, Any]) -> None:
    desk = Desk()

    async def main() -> tuple[Ran, Ran]:
        made = await bench(desk.tools(), answers(BOTH, AGAIN, AGAIN))
        ran = (await made.run()).check()
        return ran, await fork_at(made, ran, kind, **wanted)

    ran, fork = virtual_time(main())
    assert ran.result.is_success
    (settled,) = fork.events("outcome_settled")
    assert (settled.tool_id, settled.happened, settled.output) == ("write", True, "sent")
    assert settled.by == f"task {ran.result.task_id!r}"
    assert fork.events("step_completed", step_id="w"), "it goes on to its end before a plan is made anew"
    assert fork.result.is_success
    assert desk.done == [("write", "ann"), ("pay", "bob"), ("bill", "bob")]


@pytest.mark.parametrize(("kind", "wanted"), UNDER_WAY[2:], ids=["called for", "failed"])
def test_a_call_under_way_that_failed_there_is_no_doubt_here(kind: str, wanted: dict[str, Any]) -> None:
    desk = Desk(letter=ValueError("no stamps"))

    async def main() -> Ran:
        made = await bench(desk.tools(), answers(BOTH, *[AGAIN] * 8))
        ran = (await made.run()).check()
        assert not ran.events("outcome_unknown")
        return await fork_at(made, ran, kind, **wanted)

    fork = virtual_time(main())
    (settled,) = fork.events("outcome_settled")
    assert (settled.tool_id, settled.happened) == ("write", False)
    assert fork.events("plan_updated"), "whoever plans goes on"
    assert desk.done == [("pay", "bob"), ("bill", "bob")]


def test_a_call_in_doubt_there_is_one_here_once_and_ends_the_fork() -> None:
    desk = Desk(letter=TimeoutError("no answer"))

    async def main() -> Ran:
        made = await bench(desk.tools(), answers(BOTH))
        ran = (await made.run()).check()
        return await fork_at(made, ran, "step_failed", step_id="p")

    fork = virtual_time(main())
    assert fork.result.failure is not None
    assert fork.result.failure.kind == "outcome_unknown"
    assert "has made this very call" in fork.events("outcome_unknown")[-1].reason
    assert len(fork.events("outcome_unknown")) == 2
    assert fork.source.counts["write"] == 1


@pytest.mark.parametrize("said", ["yes", "no"])
def test_what_a_person_said_there_of_a_doubt_of_a_step_that_had_failed_counts(said: str) -> None:
    desk = Desk(letter=TimeoutError("no answer"))
    alone = plan(step("w", "write", parameters={"to": "ann"}))

    async def main() -> Ran:
        made = await bench(desk.tools())
        ran = await made.run(alone, interactive=True)
        assert ran.result.status == "waiting"
        desk.letter = "sent"
        await made.service.answer(ran.result.task_id, said)
        await made.drive(ran.result.task_id)
        return await fork_at(made, ran, "step_failed", step_id="w")

    fork = virtual_time(main())
    assert fork.result.is_success
    assert not fork.events("question_asked"), "nobody is asked what is known"
    assert desk.done == [("write", "ann")][: said == "no"], "made by the one, and by the one alone"


def test_a_task_that_was_cut_off_reads_what_became_of_its_call_before_it_plans_anew() -> None:
    """The same without a fork: a declared verifier is asked though another step has called for a new plan."""
    desk = Desk()
    reads = Verifier(tool="letters", happened="output[?to == call.parameters.to]", after_secs=1)
    rules = ToolRules(rules=(("write", ToolRule(verify=reads)),))

    async def main() -> Ran:
        made = await bench(desk.tools(), answers(BOTH, AGAIN), rules=rules)
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(30)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        assert (await made.ran(task_id)).types().count("overall_reflection_triggered") == 1
        desk.done.append(("write", "ann"))  # it has gone through
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    (settled,) = ran.events("outcome_settled")
    assert (settled.happened, settled.by) == (True, "the verifier of 'write'")
    assert ran.result.is_success
    assert desk.done == [("write", "ann"), ("pay", "bob"), ("bill", "bob")]


@pytest.mark.parametrize("leaves_out", [False, True])
def test_a_call_that_a_later_plan_has_made_is_had_and_goes_to_whoever_plans(leaves_out: bool) -> None:
    """Refused at the event, made by another plan, and billed since: it is no doubt, and does not stand for the step."""
    desk = Desk()
    anew = plan(step("b3", "bill", parameters={"to": "bob"})) if leaves_out else AGAIN

    async def main() -> tuple[Ran, Ran]:
        made = await bench(desk.tools(), answers(BOTH, AGAIN, anew))
        ran = (await made.run()).check()
        return ran, await fork_at(made, ran, "call_started", tool_id="pay")

    ran, fork = virtual_time(main())
    assert ran.result.is_success
    settled = next(one for one in fork.events("outcome_settled") if one.tool_id == "pay")
    assert settled.happened
    assert "which is no part of this task" in fork.events("step_failed", step_id="p")[0].error.message
    assert fork.events("plan_updated"), "whoever plans says what is to become of it"
    assert fork.result.is_success
    assert desk.done == [("write", "ann"), ("pay", "bob"), ("bill", "bob")]


def test_a_call_that_was_made_and_taken_back_there_is_not_taken_for_done_by_a_new_plan_here() -> None:
    desk = Desk()
    pays = step("p2", "pay", parameters={"to": "bob"})
    back = plan(pays, step("r2", "refund", "p2", parameters={"to": "bob"}))
    again = plan(step("p3", "pay", parameters={"to": "bob"}))

    async def main() -> Ran:
        made = await bench(desk.tools(), answers(BOTH, back, *[again] * 8))
        ran = (await made.run()).check()
        assert ran.result.is_success
        return await fork_at(made, ran, "call_started", tool_id="pay")

    fork = virtual_time(main())
    assert not fork.result.is_success, "nobody is paid by now"
    assert fork.result.failure is not None
    assert fork.result.failure.kind != "outcome_unknown"
    assert desk.done == [("write", "ann"), ("pay", "bob"), ("refund", "bob")]


@pytest.mark.parametrize("listed", [False, True], ids=["alone", "of a list"])
def test_a_kill_right_after_it_was_known_to_be_had_and_not_to_stand_makes_nothing_of_it(
    *, listed: bool
) -> None:
    """Killed while the failure is thought about: whoever goes on knows that it does not stand for its step."""
    desk = Desk()
    first = BOTH
    if listed:
        pays = step("p", "pay", for_each=["bob"], parameters={"to": "${item}"})
        first = plan(step("w", "write", parameters={"to": "ann"}), pays)

    class Hanging(ScriptedModel):
        hangs = False

        async def ask(
            self, request: ModelRequest, on_text: Callable[[str], None] | None = None
        ) -> ModelReply:
            if self.hangs and request.schema_name == "step_reflection":
                await asyncio.sleep(10_000)
            return await super().ask(request, on_text)

    async def main() -> tuple[Ran, Ran]:
        model = Hanging(answers(first, AGAIN, AGAIN))
        made = await bench(desk.tools(), model=model)
        ran = (await made.run()).check()
        fork = await forked(made, ran.result.task_id, at=at_of(ran, "call_started", tool_id="pay"))
        model.hangs = True
        driving = asyncio.create_task(made.service.drive(fork))
        await asyncio.sleep(30)
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        cut = await made.ran(fork)
        model.hangs = False
        return cut, (await made.drive(fork)).check()

    cut, fork = virtual_time(main())
    assert [one.happened for one in cut.events("outcome_settled", tool_id="pay")] == [True]
    assert not cut.events("step_failed", step_id="p")
    assert not fork.events("step_completed", step_id="p")
    assert "which is no part of this task" in fork.events("step_failed", step_id="p")[0].error.message
    assert desk.done == [("write", "ann"), ("pay", "bob"), ("bill", "bob")]
