"""Where there is no plan: the planner may say so or ask first, and what failed before is never forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.errors import ModelUnavailable, PlanInvalid
from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "it cannot be mended here"}, "tool_error")
TOOLS: dict[str, Any] = {
    "find": FakeTool(output={"id": 7}, **READS),
    "mail": FakeTool(fail=["the mailbox is full"] * 30, **ONCE),
    "sms": FakeTool(output="sent", **ONCE),
}
FIRST = plan(step("step_1", "find"), step("step_2", "mail", "step_1"))
CANNOT = {"steps": [], "cannot": "no tool opens doors"}
ASK = {"steps": [], "ask_first": "Which of the two Anns?"}


def sent_by(name: str) -> dict[str, Any]:
    """A judge's yes, which takes this message for the mail that was not sent."""
    said = {"step": "step_2", "made_good_by": name, "not_needed": None}
    return {"evaluation": {**verdict(), "left_out_effects": [said]}}


def run(answers: dict[str, Any], *said: str, **more: Any) -> Ran:
    async def main() -> Ran:
        made = await bench(TOOLS, {"evaluation": verdict(), **answers})
        task_id = await made.submit(**more)
        ran = await made.drive(task_id)
        for answer in said:
            assert ran.result.status == "waiting"
            await made.service.answer(task_id, answer)
            ran = await made.drive(task_id)
        return ran

    return virtual_time(main())


def anew(*plans: Any, **more: Any) -> dict[str, Any]:
    """The first plan fails at its mail; these are the answers of the planner after it."""
    return {
        "execution_plan": [FIRST, *plans],
        "step_reflection": GIVE_UP,
        "overall_reflection": overall(
            True,
            replanning_strategy={"type": "replan_from_step", "step_id": "step_2"},
            ask="empty the mailbox",
        ),
        **more,
    }


# ── a planner that says so ────────────────────────────────────────────────────


def test_a_plan_may_say_that_it_cannot_be_done_and_the_end_says_why() -> None:
    ran = run({"execution_plan": CANNOT}).check()
    failure = ran.result.failure
    assert failure is not None
    assert failure.kind == "user_intervention_required"
    assert failure.reason == "it cannot be done: no tool opens doors"
    assert [one.kind for one in ran.events("planning_stopped")] == ["cannot"]
    assert len(ran.model.requests) == 1, "nobody judges or reflects upon what was not tried"


def test_a_plan_may_ask_first_and_the_end_has_the_question() -> None:
    failure = run({"execution_plan": ASK}).check().result.failure
    assert failure is not None
    assert failure.question == "Which of the two Anns?"
    assert failure.question in failure.advice


def test_where_a_person_can_be_asked_the_question_is_put_and_the_plan_made_with_the_answer() -> None:
    ran = run({"execution_plan": [ASK, plan(step("a", "sms"))]}, "the second", interactive=True).check()
    assert ran.result.is_success
    (asked,) = ran.events("question_asked")
    assert asked.text == "Which of the two Anns?"
    planning = [one for one in ran.model.requests if one.schema_name == "execution_plan"]
    assert "the second" in planning[1].turns[0].text


@pytest.mark.parametrize("answer", [{"cannot": "no tool opens doors"}, {**CANNOT, "steps": None}])
def test_a_reason_without_a_list_of_steps_is_heard_at_once(answer: Any) -> None:
    ran = run({"execution_plan": answer}).check()
    assert ran.model.calls["execution_plan"] == 1
    assert ran.result.failure is not None
    assert ran.result.failure.reason == "it cannot be done: no tool opens doors"


@pytest.mark.parametrize("steps", ["1. call sms with the text", None, '[{"tool": "sms"'])
def test_steps_that_cannot_be_read_are_no_plan_without_steps(steps: Any) -> None:
    ran = run({"execution_plan": [{"steps": steps}, plan(step("a", "sms"))], "evaluation": verdict()}).check()
    assert ran.model.calls["execution_plan"] == 2
    assert ran.source.counts == {"sms": 1}


@pytest.mark.parametrize(
    "said", [{"cannot": "it is hard"}, {"cannot": "No money."}, {"ask_first": "No question but one."}]
)
def test_a_plan_that_declines_and_does_is_sent_back_with_the_field_to_leave_out(said: Any) -> None:
    both = {**plan(step("a", "sms")), **said}
    ran = run({"execution_plan": [both, plan(step("a", "sms"))]}).check()
    assert ran.result.is_success
    (name,) = said
    assert f"leave `{name}` out or write null" in ran.events("plan_rejected")[0].violations[0]


@pytest.mark.parametrize("empty", ["", None, "none", "null", "no", "No obstacle.", "No question."])
def test_an_empty_word_declines_nothing(empty: str | None) -> None:
    ran = run({"execution_plan": {**plan(step("a", "sms")), "cannot": empty, "ask_first": empty}}).check()
    assert ran.result.is_success


def test_a_persons_stop_and_done_count_without_a_plan_too() -> None:
    assert run({"execution_plan": CANNOT}, "stop", interactive=True).check().result.status == "failed"
    assert run({"execution_plan": CANNOT}, "done", interactive=True).check().result.is_success


def test_judged_by_steps_a_plan_may_decline_too() -> None:
    failure = run({"execution_plan": CANNOT}, evaluation="steps").check().result.failure
    assert failure is not None
    assert "no tool opens doors" in failure.reason


# ── a plan that cannot be made anew ───────────────────────────────────────────


@pytest.mark.parametrize(
    ("plans", "kind", "says"),
    [
        pytest.param([ModelUnavailable("the planner is down")] * 9, "model", "the planner is down", id="down"),
        pytest.param([{"steps": 7}] * 9, "planning", "no plan passed the checks", id="nonsense"),
        pytest.param([plan(step("x", "mail", "step_1"))] * 9, "user_intervention_required", "tried before", id="nothing new"),
        pytest.param([CANNOT], "user_intervention_required", "no tool opens doors", id="it says so"),
    ],
)  # fmt: skip
def test_a_failure_of_replanning_carries_what_had_failed_and_why_there_is_no_new_plan(
    plans: list[Any], kind: str, says: str
) -> None:
    failure = run(anew(*plans)).check().result.failure
    assert failure is not None
    assert failure.kind == kind
    assert failure.reason.startswith("step 'step_2' (mail) failed: the mailbox is full")
    assert says in failure.reason
    assert any("mailbox is full" in cause for cause in failure.root_causes)
    assert "the tool" in failure.root_causes, "the reflection's cause"
    assert any("mail" in one for one in failure.tried)
    assert failure.question == "empty the mailbox"


@pytest.mark.parametrize("first", [ModelUnavailable("down"), CANNOT])
def test_a_person_who_can_be_asked_is_asked_before_it_ends(first: Any) -> None:

    ran = run(
        {**anew(first, plan(step("y", "sms"))), **sent_by("y")}, "use the phone", interactive=True
    ).check()
    assert ran.result.is_success
    assert ran.events("question_asked")[0].text == "empty the mailbox"
    assert "mailbox is full" in ran.events("question_asked")[0].background
    assert "use the phone" in ran.model.requests[-2].turns[0].text


def test_new_steps_under_used_ids_get_new_ones() -> None:
    rest = plan(
        step("step_1", "find", parameters={"n": 2}),
        step("step_2", "sms", parameters={"text": "${step_1.output.id}"}),
    )
    ran = run({**anew(rest), **sent_by("step_4")}).check()
    assert ran.result.is_success
    assert not ran.events("plan_rejected")
    assert ran.statuses() == {"step_1": "succeeded", "step_3": "succeeded", "step_4": "succeeded"}
    assert ran.source.calls[-1].parameters == {"text": 7}


def test_a_plan_that_is_only_looked_at_says_why_there_is_none() -> None:
    async def main() -> None:
        from replan.core.limits.policy import Policy
        from replan.run.service.submission import Submission

        made = await bench(TOOLS, {"execution_plan": CANNOT})
        with pytest.raises(PlanInvalid, match="no tool opens doors"):
            await made.service.plan_only(Submission("do it", Policy()))

    virtual_time(main())


# ── a planner that says so in another way ─────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        ({"steps": [], "questions": ["Which of the two Anns?"]}, 1),
        ({"steps": [], "clarification_needed": "Which of the two Anns?"}, 1),
        ({"cannot": "Which of the two Anns?"}, 1),
        ({"status": "needs_input", "message": "Which of the two Anns?"}, 2),
        ("There are two of that name. Which of the two Anns?", 2),
        ({"steps": [], "reasoning": "Which of the two Anns?"}, 2),
        ({"steps": [step("a", "ask_user", parameters={"text": "Which of the two Anns?"})]}, 2),
    ],
)
def test_a_question_in_any_form_is_put_to_a_person_or_stands_in_the_reason(
    answer: Any, requests: int
) -> None:
    alone = run({"execution_plan": [answer] * 3}).check()
    assert len(alone.model.requests) == requests
    failure = alone.result.failure
    assert failure is not None
    assert "Which of the two Anns?" in failure.question
    assert "Which of the two Anns?" in failure.reason
    plans = [*[answer] * requests, plan(step("a", "sms"))]
    ran = run({"execution_plan": plans}, "the second", interactive=True).check()
    assert ran.result.is_success
    (asked,) = ran.events("question_asked")
    assert "Which of the two Anns?" in asked.text


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.",
        {"refusal": "I can't help with that."},
        {"error": "I can't help with that."},
        {"steps": [], "reasoning": "I can't help with that."},
    ],
)
def test_a_refusal_in_any_form_costs_one_request_more_and_stands_in_the_reason(answer: Any) -> None:
    ran = run({"execution_plan": [answer] * 3}).check()
    assert len(ran.model.requests) == 2
    assert ran.result.failure is not None
    assert ran.result.failure.reason.startswith("it cannot be done: ")
    assert "can't help with that" in ran.result.failure.reason
    assert not ran.source.calls


def test_prose_that_is_nothing_known_stands_in_the_reason_after_the_corrections() -> None:
    ran = run({"execution_plan": ["Hm."] * 3}).check()
    assert ran.result.failure is not None
    assert "the answer holds no JSON object (it says: Hm.)" in ran.result.failure.reason


def test_who_is_told_how_to_ask_may_plan_after_all() -> None:
    first = "Shall I go ahead?"
    ran = run({"execution_plan": [first, plan(step("a", "sms"))]}).check()
    assert ran.result.is_success
    assert len(ran.model.requests) == 3
