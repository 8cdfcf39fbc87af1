"""Where a judgement contradicts itself is decided once: what the judge is told, what ends the task, and the reason agree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from histories import FOUND, OPENED, PLANNED, state_of, submitted
from hypothesis import given
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.evaluation.outcome import at_odds, satisfied
from replan.core.limits.policy import Policy
from replan.core.report.explain import judged_failed
from replan.core.report.judgement import contradiction
from replan.core.state.fold import apply
from replan.core.state.progress import status_of
from replan.core.types import Dimensions, Evaluation, LeftOutEffect

SCORE = st.integers(0, 100).map(float)
LEFT = st.lists(
    st.builds(
        LeftOutEffect,
        step_id=st.just("s"),
        what=st.just("step 's' failed"),
        not_needed=st.sampled_from(["", "nobody asked"]),
    ),
    max_size=2,
).map(tuple)
JUDGEMENTS = st.builds(
    Evaluation,
    overall_score=SCORE,
    is_successful=st.booleans(),
    dimensions=st.builds(
        Dimensions, completeness=SCORE, correctness=SCORE, efficiency=SCORE, reliability=SCORE
    ),
    wrong_results=st.sampled_from([(), ("3 for 5",)]),
    left_out=LEFT,
)
SAYS = {
    "wrong": "wrong is: ",
    "left_out": "nothing makes good what was left out",
    "parts_too_low": "contradict each other",
    "score_too_low": "contradict each other",
    "score_too_high": "contradict each other",
}


def history() -> Any:
    return state_of([submitted(), *OPENED[1:], PLANNED, *FOUND])


@given(JUDGEMENTS)
def test_what_contradicts_itself_is_told_so_to_the_judge_and_to_a_person_and_is_no_success(
    judged: Evaluation,
) -> None:
    policy, found = Policy(), contradiction(Policy(), judged)
    assert bool(at_odds(policy, judged)) == (found is not None)
    state = history()
    if found is not None:
        assert not satisfied(state, judged)
        assert SAYS[found] in judged_failed(state, judged).reason
    elif judged.is_successful:
        assert satisfied(state, judged)
    else:
        assert "is needed" in judged_failed(state, judged).reason


def test_a_yes_with_an_excellent_answer_does_not_contradict_a_poor_score() -> None:
    fine = Dimensions(completeness=80, correctness=95, efficiency=0, reliability=0)
    judged = Evaluation(overall_score=10, is_successful=True, dimensions=fine)
    assert contradiction(Policy(), judged) is None
    poorer = judged.model_copy(update={"dimensions": fine.model_copy(update={"completeness": 79.0})})
    assert contradiction(Policy(), poorer) == "score_too_low"


@pytest.mark.parametrize(("complete", "right"), [(100, 0), (100, 49), (0, 100), (0, 0)])
def test_a_yes_of_which_nothing_is_done_or_little_is_right_contradicts_itself(
    complete: float, right: float
) -> None:
    parts = Dimensions(completeness=complete, correctness=right, efficiency=100, reliability=100)
    judged = Evaluation(overall_score=95, is_successful=True, dimensions=parts)
    assert contradiction(Policy(), judged) == "parts_too_low"
    assert ("correctness" in at_odds(Policy(), judged)) == (right < 50)


def test_the_status_of_a_task_is_what_its_events_bring_and_stays_when_it_has_ended() -> None:
    state = history()
    for event, status in (
        (e.OverallReflectionTriggered(reason="x"), "reflecting"),
        (e.TaskWaiting(reason="x"), "waiting"),
        (e.QuestionAnswered(question_id="q", answer="go on"), "reflecting"),
        (e.TaskCompleted(final_output="done"), "succeeded"),
    ):
        assert status_of(event) == status
        apply(state, event, 1.0)
        assert state.status == status
    for late in (
        e.QuestionAnswered(question_id="q", answer="late"),
        e.ApprovalResolved(approval_id="a", approved=True),
    ):
        apply(state, late, 2.0)
        assert state.status == "succeeded"
    assert status_of(SimpleNamespace()) is None
