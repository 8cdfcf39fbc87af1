from __future__ import annotations

from typing import Any

import pytest
from histories import (
    ALL_DONE,
    CANCEL,
    FOUND,
    OPENED,
    PLANNED,
    ROUND,
    SELECTED,
    SENT,
    SENT_OF,
    STARTED,
    SUBMITTED,
    TIMED_OUT,
    UNJUDGED,
    begun,
    broken,
    called,
    done,
    doubted,
    judged,
    missed,
    planned,
    skipped,
    state_of,
    submitted,
)

from replan.core.decide import (
    Evaluate,
    Execute,
    Finish,
    MakePlan,
    SelectTools,
    StartRound,
    Stop,
    decide,
)
from replan.core.events import (
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskSubmitted,
)

GIVEN = TaskSubmitted(description="Do it", plan={"steps": []})
FIND_BROKE = [*OPENED, PLANNED, begun("find"), called(), missed(), broken("find"), skipped("send")]
SEND_BROKE = [
    *OPENED,
    PLANNED,
    *FOUND,
    begun("send"),
    called("once", **SENT_OF),
    missed(**SENT_OF),
    broken("send"),
]
IN_DOUBT = [*SEND_BROKE[:-2], missed(TIMED_OUT, **SENT_OF), doubted(**SENT_OF), broken("send", TIMED_OUT)]


UNREFLECTED = submitted(enable_auto_reflection=False)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([SUBMITTED], StartRound(1), id="a new task starts its first round"),
        pytest.param([SUBMITTED, STARTED, ROUND], SelectTools(), id="then tools are chosen"),
        pytest.param([SUBMITTED, STARTED, ROUND, SELECTED], MakePlan(), id="with tools chosen, plan"),
        pytest.param([GIVEN, STARTED, ROUND], MakePlan(), id="a given plan needs no choice of tools"),
        pytest.param([*OPENED, PLANNED], Execute(), id="with a plan, run it"),
        pytest.param([*OPENED, planned()], Evaluate(), id="a plan without steps is judged at once"),
        pytest.param([*OPENED, PLANNED, *FOUND], Execute(), id="run until no step is open"),
        pytest.param([*OPENED, PLANNED, begun("find"), called(), missed(), broken("find")], Execute(),
                     id="what depends on a failed step is still to be closed"),
        pytest.param(ALL_DONE, Evaluate(), id="with every step closed, judge"),
        pytest.param(FIND_BROKE, Evaluate(), id="a failed step does not stop the judging"),
    ],
)  # fmt: skip
def test_decide_names_the_next_thing(history: list[Any], expected: Any) -> None:
    assert decide(state_of(history)) == expected


@pytest.mark.parametrize(
    "history",
    [[SUBMITTED], OPENED, [*OPENED, PLANNED, begun("find")], ALL_DONE, [*ALL_DONE, judged()], IN_DOUBT],
    ids=["new", "open", "running", "done", "judged", "in doubt"],
)
def test_a_cancel_wins_whatever_the_task_does(history: list[Any]) -> None:
    decision = decide(state_of([*history, CANCEL]))
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, TaskCancelled)
    assert decision.event.failure.reason == "cancelled by Ann: bored"


@pytest.mark.parametrize(
    "end", [TaskCompleted(), TaskCancelled.model_construct(), TaskFailed.model_construct()]
)
def test_an_ended_task_stays_ended_even_if_a_cancel_comes_late(end: Any) -> None:
    assert decide(state_of([*ALL_DONE, end])) == Stop()
    assert decide(state_of([*ALL_DONE, CANCEL, end])) == Stop()
    assert decide(state_of([*ALL_DONE, end, CANCEL])) == Stop()


@pytest.mark.parametrize(
    ("history", "verdict", "status"),
    [
        pytest.param(ALL_DONE, judged(80), "succeeded", id="at the threshold"),
        pytest.param(ALL_DONE, judged(79.9), "judgement", id="is_successful with a lower score is no success"),
        pytest.param(ALL_DONE, judged(79.9, correctness=95), "succeeded", id="but for excellent correctness"),
        pytest.param(ALL_DONE, judged(79.9, ok=False, correctness=100), "judgement", id="which does not replace a yes"),
        pytest.param(ALL_DONE, judged(85, ok=False), "judgement", id="a no is a no whatever the score"),
        pytest.param(ALL_DONE, judged(100, ok=False, correctness=100), "judgement", id="even of a hundred"),
        pytest.param(ALL_DONE, UNJUDGED, "unjudged", id="a judge that cannot be had is never success"),
        pytest.param(FIND_BROKE, judged(90), "step", id="a failed step is no success"),
        pytest.param(FIND_BROKE, judged(90, correctness=95), "succeeded", id="but for a reading, if all is right"),
        pytest.param(FIND_BROKE, judged(90, ok=False, correctness=95), "step", id="and the judge says so"),
        pytest.param(FIND_BROKE, judged(79, correctness=95), "succeeded", id="whatever the score"),
        pytest.param(SEND_BROKE, judged(100, correctness=100), "step", id="a failed effect is fatal"),
        pytest.param([*OPENED, PLANNED, broken("find"), skipped("send")], judged(100, correctness=100), "step",
                     id="a step that made no call is fatal"),
        pytest.param([*OPENED, planned(), ], judged(85), "succeeded", id="a plan without steps"),
        pytest.param([*OPENED, PLANNED, *FOUND, skipped("send", "condition", None)], judged(85), "succeeded",
                     id="a step that its condition skipped is no failure"),
    ],
)  # fmt: skip
def test_without_reflection_the_verdict_decides_the_end(
    history: list[Any], verdict: Any, status: str
) -> None:
    decision = decide(state_of([UNREFLECTED, *history[1:], verdict]))
    assert isinstance(decision, Finish)
    if status == "succeeded":
        assert isinstance(decision.event, TaskCompleted)
    else:
        assert isinstance(decision.event, TaskFailed)
        assert decision.event.failure.kind == status


def test_the_thresholds_are_the_policys() -> None:
    easy = [
        submitted(success_threshold=50, correctness_excellent=60),
        *FIND_BROKE[1:],
        judged(50, correctness=60),
    ]
    assert isinstance(decide(state_of(easy)).event, TaskCompleted)  # type: ignore[union-attr]
    none = [submitted(success_threshold=0), *ALL_DONE[1:], judged(0)]
    assert isinstance(decide(state_of(none)).event, TaskCompleted)  # type: ignore[union-attr]


def test_the_answer_and_its_score_go_with_the_end_even_of_a_failure() -> None:
    fine = decide(state_of([*ALL_DONE, judged(85, final_output={"a": 1})]))
    assert fine == Finish(TaskCompleted(final_output={"a": 1}, score=85))
    poor = decide(state_of([UNREFLECTED, *ALL_DONE[1:], judged(10, final_output="so far")]))
    assert isinstance(poor, Finish)
    assert isinstance(poor.event, TaskFailed)
    assert (poor.event.final_output, poor.event.score) == ("so far", 10)


def test_a_call_in_doubt_ends_the_task_before_anyone_judges_it() -> None:
    decision = decide(state_of(IN_DOUBT))
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, TaskFailed)
    assert decision.event.failure.kind == "outcome_unknown"
    assert decision.event.failure.call_key == "m.1"


def test_what_can_run_beside_a_call_in_doubt_runs_first() -> None:
    assert decide(state_of(IN_DOUBT[:-1])) == Execute()
    assert decide(state_of([*ALL_DONE[:-1]])) == Execute()
    assert decide(state_of([*OPENED, PLANNED, *SENT[:2], done("find")])) == Execute()
