from __future__ import annotations

from typing import Any

import pytest
from histories import (
    ALL_DONE,
    CANCEL,
    FOUND,
    OPENED,
    PLANNED,
    SENT_OF,
    TIMED_OUT,
    UNJUDGED,
    begun,
    broken,
    called,
    doubted,
    judged,
    missed,
    planned,
    skipped,
    state_of,
    submitted,
)

from replan.core import events as e
from replan.core.events import PlanRejected
from replan.core.limits.budget import Reached
from replan.core.report import explain
from replan.core.report.explain_doubts import outcome_unknown
from replan.core.types import Failure, Fault, LeftOutEffect, Plan, Step

IN_DOUBT = [
    *OPENED, PLANNED, *FOUND, begun("send"), called("once", **SENT_OF), missed(TIMED_OUT, **SENT_OF),
    doubted(**SENT_OF), broken("send", TIMED_OUT),
]  # fmt: skip


def words(failure: Failure) -> str:
    return "\n".join([failure.reason, *failure.root_causes, *failure.tried, *failure.advice])


def test_a_failed_step_is_named_with_its_tool_its_error_and_what_it_held_up() -> None:
    failure = explain.steps_failed(
        state_of([*OPENED, PLANNED, begun("find"), called(), missed(), broken("find"), skipped("send")])
    )
    assert failure.kind == "step"
    assert failure.reason == "step 'find' (search) failed: no such city; so 'send' could not run"
    assert failure.root_causes == ("step 'find' (search): no such city",)
    assert failure.tried == ("the call of 'search' in step 'find' was tried once: no such city",)
    assert "Check the values" in failure.advice[0]


def test_a_call_that_nobody_could_agree_to_is_told_where_somebody_can() -> None:
    fault = Fault(category="external_error", kind="approval", message="nobody can be asked here")
    failure = explain.steps_failed(state_of([*OPENED, PLANNED, begun("find"), broken("find", fault)]))
    assert failure.advice == (
        "Run it where a person can be asked: --interactive, or Replan(interactive=True).",
    )


def test_several_failures_are_counted_and_retries_told() -> None:
    steps = [Step(step_id=f"s{n}", tool="t") for n in range(3)]
    history = [*OPENED, planned(*steps)]
    for n in range(3):
        of = {"step_id": f"s{n}", "key": f"k{n}.1", "tool": "t"}
        history += [begun(f"s{n}"), called(**of), missed(TIMED_OUT, 0.1, **of)]
        history += [called(**of, attempt=2), missed(TIMED_OUT, **of, attempt=2), broken(f"s{n}", TIMED_OUT)]
    failure = explain.steps_failed(state_of(history))
    assert failure.reason == "step 's0' (t) failed: no answer (and 2 more failed)"
    assert len(failure.root_causes) == 3
    assert failure.tried[0] == "the call of 't' in step 's0' was tried 2 times: no answer"
    assert len(failure.advice) == 1


def test_an_unknown_outcome_names_step_tool_and_key_and_what_to_do() -> None:
    failure = outcome_unknown(state_of(IN_DOUBT))
    assert failure.kind == "outcome_unknown"
    assert failure.call_key == "m.1"
    assert failure.reason == (
        "nobody can tell whether the call of 'mail' in step 'send' took effect (call key m.1)"
    )
    assert failure.root_causes == ("the call of 'mail' in step 'send', attempt 1: no answer",)
    assert failure.advice == (
        "Find out whether the call of 'mail' in step 'send' took effect (call key m.1) before you run it again.",
    )


def test_an_item_and_an_action_are_named() -> None:
    of = {"step_id": "send", "key": "m.1", "tool": "mail", "action_id": "a", "index": 3}
    failure = outcome_unknown(
        state_of(
            [*OPENED, PLANNED, begun("send", 5), called("once", **of), missed(TIMED_OUT, **of), doubted(**of)]
        )
    )
    assert "the call of 'mail' in step 'send', action 'a', item 4" in failure.reason


def test_every_end_that_leaves_a_doubt_tells_of_it() -> None:
    state = state_of([*IN_DOUBT, CANCEL])
    for failure in (
        explain.cancelled(state),
        explain.timed_out(state, 300),
        explain.budget(state, Reached("max_tokens", 5)),
    ):
        assert "call key m.1" in words(failure)


def test_a_cancel_says_who_and_why() -> None:
    assert explain.cancelled(state_of([*OPENED, CANCEL])).reason == "cancelled by Ann: bored"
    bare = CANCEL.model_copy(update={"reason": "", "by": ""})
    assert explain.cancelled(state_of([*OPENED, bare])).reason == "cancelled"


def test_a_timeout_names_what_had_not_finished_and_the_setting() -> None:
    failure = explain.timed_out(state_of([*OPENED, PLANNED, *FOUND]), 2.5)
    assert failure.reason == "the time limit of 2.5 seconds was reached while 'send' had not finished"
    assert failure.limit == "task_timeout_secs"
    many = explain.timed_out(
        state_of([*OPENED, planned(*(Step(step_id=f"s{n}", tool="t") for n in range(9)))]), 1
    )
    assert "'s4' and 4 more had not finished" in many.reason


def test_a_budget_names_its_limit() -> None:
    failure = explain.budget(state_of(OPENED), Reached("max_llm_calls", 0))
    assert failure.limit == "max_llm_calls"
    assert failure.reason == "the budget max_llm_calls = 0 was reached"
    assert "Raise max_llm_calls under [budget]" in failure.advice[0]


def test_planning_that_failed_lists_every_violation_and_each_try() -> None:
    history = [*OPENED, PlanRejected(violations=("a", "b")), PlanRejected(violations=("c",), attempt=2)]
    failure = explain.planning_failed(state_of(history), ["c"])
    assert failure.reason == "no plan passed the checks: c"
    assert explain.planning_failed(state_of(history), ["a", "b"]).reason == (
        "no plan passed the checks: a (and 1 more)"
    )
    assert failure.violations == ("c",)
    assert failure.tried == ("plan 1 was rejected: 2 errors", "plan 2 was rejected: 1 error")


def test_a_judgement_names_the_score_that_is_needed_and_an_unjudged_task_why() -> None:
    state = state_of(
        [*ALL_DONE, judged(42, ok=False, failures=("too short",), improvement_suggestions=("Say more",))]
    )
    evaluation = state.evaluation.evaluation if state.evaluation else None
    assert evaluation is not None
    failure = explain.judged_failed(state, evaluation)
    assert failure.reason == "the result was judged 42 of 100, and 80 is needed: too short"
    assert (failure.root_causes, failure.advice) == (("too short",), ("Say more",))
    unjudged = explain.unjudged(state_of([*ALL_DONE, UNJUDGED]))
    assert unjudged.reason == "the result could not be judged: the judge answered nonsense"


def test_a_long_error_is_cut_in_the_reason_and_whole_among_the_causes() -> None:
    long = Fault(category="tool_error", kind="tool", message="line\n" * 1_000)
    failure = explain.steps_failed(state_of([*OPENED, PLANNED, broken("find", long), skipped("send")]))
    assert len(failure.reason) < 500
    assert "\n" not in failure.reason
    assert long.message in failure.root_causes[0]


def test_faults_of_the_model_and_of_replan_are_told_apart() -> None:
    state = state_of(OPENED)
    assert explain.model_failed(state, "no key").reason == "the model gave no usable answer: no key"
    assert explain.internal(state, "KeyError: 'x'").reason == "a fault of Replan: KeyError: 'x'"


def test_a_limit_does_not_make_forget_what_had_failed() -> None:
    state = state_of([*OPENED, PLANNED, begun("find"), called(), missed(), broken("find")])
    for failure in (explain.budget(state, Reached("max_rounds", 1)), explain.timed_out(state, 3.0)):
        assert failure.root_causes == ("step 'find' (search): no such city",)


@pytest.mark.parametrize(
    ("by", "more", "reason"),
    [
        pytest.param(
            "model", {"wrong_form": ("title is missing",)}, "the answer has not the form asked for: title is missing",
            id="of another form",
        ),
        pytest.param(
            "steps", {"failures": ("the mail of 'b' was not sent",)},
            "not all of the plan was done: the mail of 'b' was not sent", id="by steps",
        ),
        pytest.param(
            "steps", {"failures": ("b", "c", "d")}, "not all of the plan was done: b (and 2 more)", id="more of them",
        ),
        pytest.param(
            "model", {"failures": ("too short",)}, "the result was judged 0 of 100, and 80 is needed: too short", id="by a score",
        ),
        pytest.param(
            "model", {"failures": ("too short",), "wrong_results": ("8611 m is K2",)},
            "the result was judged 0 of 100, and 80 is needed: 8611 m is K2", id="by what is wrong",
        ),
        pytest.param(
            "model", {"left_out": (LeftOutEffect(step_id="b", what="step 'b' (pay) failed, and a later plan left it out"),)},
            "the result was judged 0 of 100, and 80 is needed: step 'b' (pay) failed, and a later plan left it out",
            id="by what was left out",
        ),
    ],
)  # fmt: skip
def test_a_judgement_that_no_score_explains_is_told_by_what_was_wrong(
    by: Any, more: dict[str, Any], reason: str
) -> None:
    event = judged(0, ok=False, **more).model_copy(update={"by": by})
    state = state_of([*ALL_DONE, event])
    evaluation = state.evaluation.evaluation if state.evaluation else None
    assert evaluation is not None
    assert explain.judged_failed(state, evaluation).reason == reason


def test_what_the_judge_found_wrong_is_among_the_causes_and_the_task_is_not_called_imprecise() -> None:
    state = state_of(
        [
            *ALL_DONE,
            judged(30, ok=False, wrong_results=("8611 m is K2",), failures=("8611 m is K2", "too short")),
        ]
    )
    evaluation = state.evaluation.evaluation if state.evaluation else None
    assert evaluation is not None
    failure = explain.judged_failed(state, evaluation)
    assert failure.root_causes == ("8611 m is K2", "too short")
    assert "Look at the steps" in failure.advice[0]


def test_an_account_of_thousands_of_failures_tells_the_first_and_how_many_more() -> None:
    steps = tuple([Step(step_id=f"s{n}", tool="t") for n in range(2_000)])
    plan = e.PlanGenerated(plan=Plan(plan_id="p", steps=steps))
    failed = [broken(step.step_id) for step in steps]
    told = explain.steps_failed(
        state_of([submitted(), e.TaskStarted(), e.RoundStarted(round=1), plan, *failed])
    )
    assert len(told.root_causes) == 51
    assert told.root_causes[-1] == "and 1,950 more"


def test_an_account_of_thousands_of_doubts_tells_the_first_and_how_many_more() -> None:
    each = Step(step_id="s", tool="pay", for_each="[]")
    plan = e.PlanGenerated(plan=Plan(plan_id="p", steps=(each,)))
    calls: list[e.AnyEvent] = []
    for n in range(500):
        of: dict[str, Any] = {"call_key": f"{n:032x}.1", "step_id": "s", "index": n, "tool_id": "pay"}
        calls += [
            e.CallStarted(**of, effect="once", parameters={"n": n}),
            e.OutcomeUnknown(**of, reason="the answer was lost"),
        ]
    told = outcome_unknown(state_of([submitted(), e.TaskStarted(), e.RoundStarted(round=1), plan, *calls]))
    for texts in (told.root_causes, told.advice, told.in_doubt):
        assert (len(texts), texts[-1]) == (51, "and 450 more")
