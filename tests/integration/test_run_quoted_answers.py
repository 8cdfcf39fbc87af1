"""A model that quotes what it refuses, or only thinks of it, has not answered with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PAY: dict[str, Any] = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"amount": 5}}]}
PLAN = json.dumps(PAY)
CALL = '<tool_call>{"name": "pay", "arguments": {"amount": 5}}</tool_call>'
CANNOT = {"steps": [], "cannot": "it is an attack"}
LONG = "The plan reads the amount from the task and pays it to the one whom the task names, and then it is done, as I see it."


def verdict(success: bool = True) -> dict[str, Any]:
    score = 95 if success else 10
    parts = dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), score)
    return {"overall_score": score, "is_successful": success, "dimensions": parts, "final_output": "done"}


async def run(db: Path, **answers: Any) -> tuple[list[int], Any, ScriptedModel]:
    paid: list[int] = []

    @tool(effect="once")
    def pay(amount: int) -> int:
        "Pay an amount."
        paid.append(amount)
        return amount

    nothing = {
        "problem_nature": "external",
        "should_replan": False,
        "reflection_text": "x",
        "root_causes": [],
    }
    model = ScriptedModel({"evaluation": verdict(), "overall_reflection": nothing, **answers})
    async with Replan(model, [pay], db=f"{db}.db") as replan:
        return paid, await replan.run("pay 5"), model


@pytest.mark.parametrize(
    "refusal",
    [
        f"I will not do this. The mail said {CALL} but that is an attack.",
        f"I must not run this plan: {PLAN}. It is an attack, so I decline.",
        f"<think>{PLAN}</think>I refuse.",
        f"<think>maybe {PLAN} no, dangerous",
        f"> {PLAN}\n\nI refuse",
        json.dumps({"cannot": "it is an attack", "plan": PAY}),
        json.dumps({"cannot": ["it is an attack"], **PAY}),
        json.dumps(
            {"ask_first": {"question": "May I?"}, "tool_calls": [{"name": "pay", "arguments": {"amount": 5}}]}
        ),
    ],
)
async def test_a_quoted_plan_is_sent_back_and_not_run(tmp_path: Path, refusal: str) -> None:
    paid, result, model = await run(tmp_path, execution_plan=[refusal, json.dumps(CANNOT)])
    assert paid == []
    assert result.status == "failed"
    assert "it is an attack" in result.reason
    assert model.calls["execution_plan"] == 2


async def test_no_number_of_quotations_is_a_plan(tmp_path: Path) -> None:
    paid, result, _ = await run(tmp_path, execution_plan=[f"They want {PLAN}, but I decline."] * 6)
    assert paid == []
    assert "say so in it (`cannot`" in result.reason


async def test_a_plan_with_many_words_below_it_is_asked_for_once_more_and_then_taken(tmp_path: Path) -> None:
    paid, result, model = await run(tmp_path, execution_plan=[f"{PLAN}\n{LONG}"] * 2)
    assert (paid, result.status, model.calls["execution_plan"]) == ([5], "succeeded", 2)


@pytest.mark.parametrize(
    "chatty",
    [
        "Sure, I will pay Nora now:\n{}",
        "I have read the mail and made the plan:\n```json\n{}\n```\nThis plan pays 5 to Nora, then the task is over.",
        "计划付款：\n{}",
        "<think>Nora gets 5:\n{}</think>",
    ],
)
async def test_a_chatty_model_is_asked_once_more_and_gets_its_work_done(tmp_path: Path, chatty: str) -> None:
    paid, result, model = await run(tmp_path, execution_plan=[chatty.replace("{}", PLAN)] * 6)
    assert (paid, result.status, model.calls["execution_plan"]) == ([5], "succeeded", 2)


async def test_a_chatty_planner_of_readings_is_asked_once(tmp_path: Path) -> None:
    @tool(effect="reads")
    def look() -> str:
        "Look it up."
        return "here"

    plan = 'I think this looks it up:\n{"steps": [{"step_id": "a", "tool": "look", "parameters": {}}]}\nNo more is needed.'
    model = ScriptedModel({"execution_plan": [plan] * 3, "evaluation": verdict()})
    async with Replan(model, [look], db=tmp_path / "t.db") as replan:
        result = await replan.run("look it up")
    assert (result.status, model.calls["execution_plan"]) == ("succeeded", 1)


@pytest.mark.parametrize(
    "refusal",
    [
        f"I refuse to run this plan:\n{PLAN}",
        f"我不能执行这个计划：{PLAN}",
        f"{CALL}\nNo wait, do not do that.",
        f"<tool_response>{CALL}</tool_response>",
        f"Do not run this:\n```json\n{PLAN}\n```",
        f"// rejected\n{PLAN}",
        json.dumps({"bad_plan": PAY}),
        json.dumps({"rejected_plan": PAY, "reason": "it is an attack"}),
        json.dumps({"example": PAY}),
        json.dumps({"plan": PAY, "status": "rejected"}),
        json.dumps({"plan": PAY, "approved": False}),
        json.dumps({"tool_calls": [{"name": "pay", "arguments": {"amount": 5}}], "dry_run": True}),
        json.dumps([PAY, {"cannot": "it is an attack"}]),
        json.dumps({**PAY, "requires_approval": True}),
        json.dumps({"plan": f"{PLAN} is an attack"}),
    ],
)
async def test_no_number_of_refusals_is_a_plan(tmp_path: Path, refusal: str) -> None:
    paid, result, model = await run(tmp_path, execution_plan=[refusal] * 6)
    assert (paid, result.status) == ([], "failed")
    assert model.calls["execution_plan"] <= 4
    paid, result, _ = await run(tmp_path / "again", execution_plan=[refusal, PLAN])
    assert (paid, result.status) == ([5], "succeeded")


@pytest.mark.parametrize("said", [["Which account?"], {"question": "Which account?"}, "Which account?"])
async def test_a_question_is_read_in_any_form(tmp_path: Path, said: Any) -> None:
    paid, result, _ = await run(tmp_path, execution_plan={"steps": [], "ask_first": said})
    assert paid == []
    assert "Which account?" in result.reason


@pytest.mark.parametrize("said", [None, "", "none", [], {}, ["none"], {"reason": None}, False])
async def test_nothing_said_stops_no_plan(tmp_path: Path, said: Any) -> None:
    paid, result, _ = await run(tmp_path, execution_plan={**PAY, "cannot": said})
    assert (paid, result.status) == ([5], "succeeded")


@pytest.mark.parametrize(
    "no",
    [
        f"If it had been paid I would answer {json.dumps(verdict())}, but it was not paid.",
        f"<think>{json.dumps(verdict())}</think>I cannot judge that.",
        f"<think>should I say {json.dumps(verdict())}? No.",
        json.dumps({"verdict": "failed", "previous_evaluation": verdict()}),
        json.dumps({"is_successful": False, "example": verdict()}),
        json.dumps({"bad_example": verdict()}),
        json.dumps({"evaluation": verdict(), "verdict": "failed"}),
        json.dumps({**verdict(), "error": "I could not judge"}),
        json.dumps({**verdict(), "passed": False}),
        f"I cannot say that it is done:\n{json.dumps(verdict())}",
    ],
)
async def test_a_judges_no_that_quotes_a_yes_is_no_success(tmp_path: Path, no: str) -> None:
    _, result, _ = await run(tmp_path, execution_plan=PAY, evaluation=[no] * 4)
    assert result.status != "succeeded"


@pytest.mark.parametrize(
    "around",
    ["Here it is:\n{}\nThat is all.", '{"evaluation": {}}', '{"reasoning": "well", "evaluation": {}}'],
)
async def test_a_wrapped_or_introduced_verdict_is_read_at_once(tmp_path: Path, around: str) -> None:
    yes = around.replace("{}", json.dumps(verdict()))
    _, result, model = await run(tmp_path, execution_plan=PAY, evaluation=yes)
    assert (result.status, model.calls["evaluation"]) == ("succeeded", 1)


@pytest.mark.parametrize(
    "beside", [{}, {"reasoning": "well", "confidence": 0.9}, {"error": None, "notes": ["n"], "_x": 1}]
)
async def test_a_yes_with_what_says_nothing_beside_it_is_read_at_once(
    tmp_path: Path, beside: dict[str, Any]
) -> None:
    _, result, model = await run(tmp_path, execution_plan=PAY, evaluation={**verdict(), **beside})
    assert (result.status, model.calls["evaluation"]) == ("succeeded", 1)


async def test_a_yes_that_something_else_stands_beside_is_asked_about(tmp_path: Path) -> None:
    strange = {**verdict(), "verdict": "partly"}
    _, result, model = await run(tmp_path, execution_plan=PAY, evaluation=[strange, verdict()])
    assert (result.status, model.calls["evaluation"]) == ("succeeded", 2)
    _, result, model = await run(
        tmp_path / "no", execution_plan=PAY, evaluation={**verdict(False), "verdict": "partly"}
    )
    assert (result.status, model.calls["evaluation"]) == ("failed", 1)


async def test_a_judge_that_explains_its_yes_is_asked_once_more(tmp_path: Path) -> None:
    yes = f"Five was paid, as the output of the step shows.\n```json\n{json.dumps(verdict())}\n```"
    _, result, model = await run(tmp_path, execution_plan=PAY, evaluation=[yes] * 4)
    assert (result.status, model.calls["evaluation"]) == ("succeeded", 2)


@pytest.mark.parametrize(
    "other",
    [{"isSuccessful": False}, {"Is-Successful": False}, {"overallScore": 3}, {"wrongResults": ["all"]}],
)
async def test_a_yes_with_another_value_of_the_same_field_is_no_success(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    for at, judged in enumerate(({**verdict(), **other}, {**other, **verdict(), "wrong_results": []})):
        _, result, model = await run(tmp_path / str(at), execution_plan=PAY, evaluation=judged)
        assert result.status != "succeeded"
        assert model.calls["evaluation"] > 1
    scores = {**verdict()["dimensions"], "Correctness": 5}
    _, result, _ = await run(
        tmp_path / "d", execution_plan=PAY, evaluation={**verdict(), "dimensions": scores}
    )
    assert result.status != "succeeded"


@pytest.mark.parametrize(
    "said", ["Note: no other steps are needed, but it is complete.", "If anything is missing, tell me."]
)
async def test_an_honest_word_said_twice_around_an_answer_fails_no_task(tmp_path: Path, said: str) -> None:
    _, result, model = await run(tmp_path / "plan", execution_plan=[f"{PLAN}\n{said}"] * 4)
    assert (result.status, model.calls["execution_plan"]) == ("succeeded", 2)
    yes = f"{said}\n{json.dumps(verdict())}"
    _, result, model = await run(tmp_path / "judge", execution_plan=PAY, evaluation=[yes] * 4)
    assert (result.status, model.calls["evaluation"]) == ("succeeded", 2)


@pytest.mark.parametrize(
    ("beside", "requests"),
    [
        ({"status": "success", "score": 95, "strengths": ["quick"], "should_replan": False}, 1),
        ({"verdict": "success", "overall_assessment": "It was done.", "issues": ["none"]}, 1),
        ({"score_breakdown": {"completeness": 95}}, 2),
        ({"warnings": ["it took 2 s"], "urgency": "low"}, 2),
    ],
)
async def test_a_judge_that_keeps_its_own_fields_is_believed(
    tmp_path: Path, beside: dict[str, Any], requests: int
) -> None:
    _, result, model = await run(tmp_path, execution_plan=PAY, evaluation={**verdict(), **beside})
    assert (result.status, model.calls["evaluation"]) == ("succeeded", requests)


@pytest.mark.parametrize(
    "beside",
    [
        {"status": "failed"},
        {"type": "rejected"},
        {"reasoning": "The payment failed."},
        {"_error": "I could not judge"},
        {"dimensions": {**verdict()["dimensions"], "is_successful": False, "error": "could not judge"}},
    ],
)
async def test_a_yes_beside_a_no_by_value_is_never_a_success(tmp_path: Path, beside: dict[str, Any]) -> None:
    _, result, _ = await run(tmp_path, execution_plan=PAY, evaluation={**verdict(), **beside})
    assert result.status != "succeeded"


@pytest.mark.parametrize("asks", ["Shall I go ahead?", "Please confirm before I proceed."])
async def test_no_number_of_questions_for_a_yes_is_one(tmp_path: Path, asks: str) -> None:
    paid, result, _ = await run(tmp_path, execution_plan=[f"{PLAN}\n\n{asks}"] * 6)
    assert (paid, result.status) == ([], "failed")


async def test_a_plan_whose_reasoning_refuses_it_is_not_run(tmp_path: Path) -> None:
    plan = {**PAY, "reasoning": "I refuse; do not run this plan."}
    paid, result, _ = await run(tmp_path, execution_plan=plan)
    assert (paid, result.status) == ([], "failed")
    paid, _, _ = await run(
        tmp_path / "x", execution_plan={**PAY, "reasoning": "I will not use any other tool."}
    )
    assert paid == [5]
