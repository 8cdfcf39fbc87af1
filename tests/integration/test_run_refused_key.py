"""A model that refuses its key, or cannot be reached, in the middle of a task: the task waits, and goes on when it is resumed."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.errors import ModelUnavailable
from replan.testing import virtual_time

REFUSED = ModelUnavailable("https://models.test refuses access (status 401)", setup=True, refused=True)
AWAY = ModelUnavailable("https://models.test cannot be reached (connection refused)", transient=True)
FAULTS = {"key": REFUSED, "model": AWAY}
PAY: dict[str, Any] = {"effect": "once"}
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error")
ANEW = overall(True, "tools", replanning_strategy={"type": "full_replan"})
ASK = {"steps": [], "ask_first": "Pay whom?"}
PAID = plan(step("p", "pay"), step("l", "look", "p"))
POOR = verdict(30, success=False)


def answered(status: int) -> httpx2.HTTPStatusError:
    """What a client library raises of an answer of this status."""
    asked = httpx2.Request("POST", "http://models.test")
    return httpx2.HTTPStatusError(
        f"status {status}", request=asked, response=httpx2.Response(status, request=asked)
    )


def tools(**fails: Any) -> dict[str, Any]:
    return {
        "pay": FakeTool(output="paid", **PAY),
        "look": FakeTool(output="seen", fail=fails.get("look", ()), **READS),
    }


STAGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "judging": ({}, {"execution_plan": PAID, "evaluation": [REFUSED, verdict()]}, "evaluation"),
    "reflecting": (
        {},
        {"execution_plan": [PAID, plan(step("m", "look", parameters={"n": 2}))], "evaluation": [POOR, verdict()],
         "overall_reflection": [REFUSED, ANEW]},
        "overall_reflection",
    ),
    "planning anew": (
        {},
        {"execution_plan": [PAID, REFUSED, plan(step("m", "look", parameters={"n": 2}))],
         "evaluation": [POOR, verdict()], "overall_reflection": ANEW},
        "execution_plan",
    ),
    "a failed step": (
        {"look": ["gone"]},
        {"execution_plan": [PAID, plan(step("m", "look", parameters={"n": 2}))], "evaluation": verdict(),
         "step_reflection": [REFUSED, GIVE_UP], "overall_reflection": ANEW},
        "step_reflection",
    ),
}  # fmt: skip


def run(stage: str, fault: Exception, *, again: int = 1, **policy: Any) -> list[Ran]:
    fails, given, _ = STAGES[stage]

    def faulty(answer: Any) -> Any:
        return (
            [faulty(one) for one in answer]
            if isinstance(answer, list)
            else answer
            if answer is not REFUSED
            else fault
        )

    answers = {name: faulty(answer) for name, answer in given.items()}

    async def main() -> list[Ran]:
        made = await bench(tools(**fails), answers)
        task_id = await made.submit(**policy)
        return [await made.drive(task_id) for _ in range(1 + again)]

    return virtual_time(main())


HALTS = [(stage, kind) for stage in STAGES for kind in FAULTS if (stage, kind) != ("judging", "model")]


@pytest.mark.parametrize(("stage", "kind"), HALTS)
@pytest.mark.parametrize("interactive", [True, False])
def test_the_task_waits_says_why_and_goes_on_where_it_was(stage: str, interactive: bool, kind: str) -> None:
    fault = FAULTS[kind]
    first, last = run(stage, fault, interactive=interactive)
    assert first.result.status == "waiting"
    (wanted,) = first.result.waiting_for
    assert (wanted.kind, wanted.id, wanted.text) == (kind, "", str(fault))
    assert first.result.reason == f"the task is waiting: {fault}"
    assert not first.events("evaluation_completed", evaluation=None)
    last.check()
    assert last.result.is_success
    assert last.source.counts["pay"] == 1, "what was done stays done"
    asked = [len(ran.events("llm_call_started", schema_name=STAGES[stage][2])) for ran in (first, last)]
    assert asked[1] == asked[0] + 1, "only what was not answered is asked again"


@pytest.mark.parametrize("stage", ["reflecting", "planning anew", "a failed step"])
@pytest.mark.parametrize(
    "fault",
    [
        ConnectionError("down"),
        ConnectionRefusedError("no"),
        TimeoutError("late"),
        httpx2.ConnectError("off"),
        pytest.param(answered(503), id="status 503"),
        pytest.param(answered(429), id="status 429"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_model_of_ones_own_that_cannot_be_reached_is_waited_for_as_an_endpoint_is(
    fault: Exception, stage: str
) -> None:
    first, last = run(stage, fault)
    assert first.result.status == "waiting"
    assert [one.kind for one in first.result.waiting_for] == ["model"]
    assert type(fault).__name__ in first.result.reason
    assert last.check().result.is_success


@pytest.mark.parametrize(
    "fault",
    [ValueError("no such model"), answered(404), answered(501)],
    ids=["an error", "status 404", "status 501"],
)
def test_one_that_fails_otherwise_ends_it(fault: Exception) -> None:
    (first,) = run("planning anew", fault, again=0)
    assert first.result.status == "failed"


def test_where_nothing_has_changed_it_waits_again_and_is_asked_once_each_time() -> None:
    async def main() -> tuple[Ran, int]:
        made = await bench(tools(), {"execution_plan": PAID, "evaluation": REFUSED})
        task_id = await made.submit()
        for _ in range(3):
            ran = await made.drive(task_id)
        await made.service.cancel(task_id)
        return await made.drive(task_id), ran.model.calls["evaluation"]

    ran, asked = virtual_time(main())
    assert asked == 3
    assert ran.check().result.status == "cancelled"


@pytest.mark.parametrize(
    "fault",
    [
        ModelUnavailable("no such model", setup=True),
        ModelUnavailable("status 400"),
        AWAY,
    ],
    ids=["not set up", "a bad request", "away for longer than its retries"],
)
def test_other_faults_of_a_judge_end_the_task_as_before(fault: ModelUnavailable) -> None:
    async def main() -> Ran:
        made = await bench(tools(), {"execution_plan": PAID, "evaluation": fault})
        return (await made.run()).check()

    ran = virtual_time(main())
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "unjudged"


@pytest.mark.parametrize("kind", FAULTS)
def test_before_there_is_a_plan_it_ends_the_task(kind: str) -> None:
    async def main() -> Ran:
        return (await (await bench(tools(), {"execution_plan": FAULTS[kind]})).run()).check()

    ran = virtual_time(main())
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "model"


@pytest.mark.parametrize("kind", FAULTS)
def test_after_a_persons_answer_it_waits_though_there_is_no_plan_yet(kind: str) -> None:
    async def main() -> list[Ran]:
        answers = {"execution_plan": [ASK, FAULTS[kind], PAID], "evaluation": verdict()}
        made = await bench(tools(), answers)
        task_id = await made.submit(interactive=True)
        asked = await made.drive(task_id)
        await made.service.answer(task_id, "pay and look")
        return [asked, await made.drive(task_id), await made.drive(task_id)]

    asked, halted, last = virtual_time(main())
    assert not asked.events("plan_generated")
    assert [one.kind for one in halted.result.waiting_for] == [kind]
    assert last.check().result.is_success


def test_what_was_paid_before_the_model_went_away_is_paid_once_however_long_it_is_away() -> None:
    async def main() -> list[Ran]:
        answers = {
            "execution_plan": PAID, "evaluation": [POOR, verdict()],
            "overall_reflection": [*[AWAY] * 4, {**ANEW, "should_replan": False, "ask": "Is that enough?"}],
        }  # fmt: skip
        made = await bench(tools(), answers)
        task_id = await made.submit()
        return [await made.drive(task_id) for _ in range(5)]

    *waits, last = virtual_time(main())
    assert {ran.result.status for ran in waits} == {"waiting"}
    assert last.source.counts["pay"] == 1


# ── a script without an answer ────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answers", [{"execution_plan": PAID}, {"execution_plan": PAID, "evaluation": []}, {}]
)
def test_a_script_that_has_no_answer_is_no_fault_of_ours(answers: dict[str, Any]) -> None:
    async def main() -> Ran:
        return await (await bench(tools(), answers)).run()

    failure = virtual_time(main()).result.failure
    assert failure is not None
    assert failure.reason.startswith("asked for '")
    assert "fault of Replan" not in f"{failure}"
    assert "report it" not in f"{failure}"


def test_nor_is_one_without_an_answer_for_a_failed_step() -> None:
    async def main() -> Ran:
        failing = {**tools(look=["gone"]), "pay": FakeTool(output="paid", **PAY)}
        return await (await bench(failing, {"execution_plan": PAID})).run()

    ran = virtual_time(main())
    assert "fault of Replan" not in str([record.event for record in ran.records])
