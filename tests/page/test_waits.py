"""What is waited for, as the page's fold of a log has it: asked, answered, and over without an answer."""

from __future__ import annotations

from typing import Any

import pytest

CALL = {"call_key": "k", "step_id": "a", "tool_id": "pay", "effect": "once", "parameters": {}}
PLAN = {
    "type": "plan_generated",
    "data": {"plan": {"version": 1, "steps": [{"step_id": "a", "name": "Pay", "tool": "pay"}]}},
}
WAITING = """async (events) => {
  const { apply, newTask } = await import("replan/store");
  const { sentenceOf } = await import("replan/sentence");
  const task = newTask("t");
  return events.map((event, index) => {
    apply(task, { seq: index + 1, ts: index + 1, task_id: "t", round: 1, ...event });
    return [[...task.waiting.values()].map((one) => one.kind), task.status, sentenceOf(task).key];
  }).slice(1);
}"""
REVIEW = {"type": "plan_review_requested", "data": {"review_id": "r", "plan_version": 1}}
ASKED = {"type": "approval_requested", "data": {"approval_id": "p", **CALL}}


@pytest.mark.parametrize(
    ("asked", "kind", "said", "over"),
    [
        (REVIEW, "review", "now.review", {"type": "plan_reviewed", "data": {"review_id": "r", "approved": False, "reason": "no"}}),
        (REVIEW, "review", "now.review", {"type": "plan_review_expired", "data": {"review_id": "r"}}),
        (ASKED, "approval", "now.approvals", {"type": "approval_resolved", "data": {"approval_id": "p", "approved": True}}),
        (ASKED, "approval", "now.approvals", {"type": "approval_expired", "data": {"approval_id": "p", "call_key": "k", "step_id": "a"}}),
    ],
)  # fmt: skip
def test_what_is_waited_for_is_over_once_it_is_answered_or_its_time_is(
    modules: Any, asked: Any, kind: str, said: str, over: Any
) -> None:
    first, last = modules.evaluate(WAITING, [PLAN, asked, over])
    assert (first[0], first[2]) == ([kind], said)
    assert (last[0], last[1]) == ([], "executing")


def test_a_plan_that_is_asked_about_anew_is_asked_about_once(modules: Any) -> None:
    again = {"type": "plan_review_requested", "data": {"review_id": "r2", "plan_version": 1}}
    late = {"type": "plan_reviewed", "data": {"review_id": "r", "approved": True}}
    told = modules.evaluate(WAITING, [PLAN, REVIEW, again, late])
    assert [kinds for kinds, _, _ in told] == [["review"], ["review"], ["review"]]
