from __future__ import annotations

from typing import Any

import pytest
from histories import (
    ALL_DONE,
    OPENED,
    PLANNED,
    begun,
    broken,
    called,
    judged,
    missed,
    skipped,
    state_of,
    submitted,
)

from replan.core import events as e
from replan.core.decide import ChangePlan, Execute, Finish, Reflect, Replan, SelectTools, Stop, Wait, decide
from replan.core.evaluation.outcome import default_strategy, done_in_substance, forced, violations
from replan.core.recovery.guard import MOST_BARREN, MOST_STALLED, must_stop
from replan.core.reflection import OverallReflection, Strategy, SuggestedAction
from replan.core.state.fold import apply
from replan.core.types import Fault

NO = Fault(category="tool_error", kind="tool", message="it is broken")
FULL = Strategy(type="full_replan")
BROKE = [*OPENED, PLANNED, begun("find"), called("reads"), missed(NO), broken("find"), skipped("send")]


def reflected(
    should: bool, nature: Any = "tools", strategy: Strategy | None = None, **more: Any
) -> OverallReflection:
    return OverallReflection(
        problem_nature=nature, should_replan=should, replanning_strategy=strategy, **more
    )


def completed(reflection: OverallReflection | None) -> e.ReflectionCompleted:
    return e.ReflectionCompleted(reflection=reflection, reason="" if reflection else "no answer")


TRIGGERED = e.OverallReflectionTriggered(step_id="find", reason="cannot be mended")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([*ALL_DONE, judged(40, ok=False)], Reflect(), id="a poor judgement is reflected upon"),
        pytest.param(
            [*BROKE, TRIGGERED], Reflect(), id="so is a step that cannot be recovered, without a judgement"
        ),
        pytest.param(
            [*OPENED, PLANNED, begun("find"), broken("find"), TRIGGERED],
            Reflect(),
            id="though steps are left",
        ),
        pytest.param(
            [*BROKE, e.OverallReflectionTriggered(step_id="find", reason="r", replan=True, advice="a")],
            Replan(Strategy(type="full_replan"), "a"),
            id="a step may ask for a new plan, and nobody reflects",
        ),
        pytest.param(
            [*BROKE, TRIGGERED, completed(reflected(True, strategy=FULL, reflection_text="why"))],
            Replan(FULL, "why"),
            id="a reflection that sees a way",
        ),
        pytest.param(
            [*BROKE, TRIGGERED, e.ReplanningStarted(strategy=FULL)], SelectTools(), id="new steps need tools"
        ),
        pytest.param(
            [
                *BROKE,
                TRIGGERED,
                e.ReplanningStarted(strategy=Strategy(type="skip_steps", step_ids=("find",))),
            ],
            ChangePlan(),
            id="code needs none",
        ),
        pytest.param(
            [
                *OPENED,
                PLANNED,
                e.ApprovalRequested(
                    approval_id="a",
                    call_key="k.1",
                    step_id="find",
                    tool_id="search",
                    effect="reads",
                    parameters={},
                ),
                e.TaskWaiting(reason="r", approvals=("a",)),
            ],
            Stop(),
            id="waiting for a person",
        ),
        pytest.param(
            [
                *OPENED,
                PLANNED,
                e.ApprovalRequested(
                    approval_id="a",
                    call_key="k.1",
                    step_id="find",
                    tool_id="search",
                    effect="reads",
                    parameters={},
                ),
                e.TaskWaiting(reason="r", approvals=("a",)),
                e.ApprovalResolved(approval_id="a", approved=True),
            ],
            Execute(),
            id="who has spoken",
        ),
        pytest.param(
            [
                *OPENED,
                PLANNED,
                e.ApprovalRequested(
                    approval_id="a",
                    call_key="k.1",
                    step_id="find",
                    tool_id="search",
                    effect="reads",
                    parameters={},
                ),
                e.ApprovalResolved(approval_id="a", approved=True),
                e.TaskWaiting(reason="r", approvals=("a",)),
            ],
            Execute(),
            id="though it came a moment before the wait was written",
        ),
    ],
)
def test_what_comes_next_in_recovery(history: list[Any], expected: Any) -> None:
    assert decide(state_of(history)) == expected


@pytest.mark.parametrize(
    ("history", "kind"),
    [
        ([*BROKE, TRIGGERED, completed(reflected(False))], "user_intervention_required"),
        ([*BROKE, TRIGGERED, completed(None)], "reflection"),
        ([*ALL_DONE, judged(40, ok=False), completed(reflected(False))], "user_intervention_required"),
    ],
    ids=["no way", "no reflector", "no way after a judgement"],
)
def test_how_it_ends_when_nothing_new_is_tried(history: list[Any], kind: str) -> None:
    decision = decide(state_of(history))
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, e.TaskFailed)
    assert decision.event.failure.kind == kind
    assert decision.event.failure.advice


def test_where_a_person_can_be_reached_it_asks() -> None:
    asks = [
        submitted(interactive=True),
        *BROKE[1:],
        TRIGGERED,
        completed(reflected(False, ask="mend the search")),
    ]
    decision = decide(state_of(asks))
    assert isinstance(decision, Wait)
    assert "mend the search" in decision.text


# ── what code allows of a reflection ──────────────────────────────────────────


def state_with(*events: Any, **policy: Any) -> Any:
    return state_of([submitted(**policy), *ALL_DONE[1:], *events])


@pytest.mark.parametrize(
    ("proposal", "says"),
    [
        pytest.param(reflected(True, "external", FULL), "no plan mends it", id="outside"),
        pytest.param(reflected(True, "server", FULL), "no plan mends it", id="a server"),
        pytest.param(reflected(True), "has to say how", id="no strategy"),
        pytest.param(
            reflected(False, done_in_substance=True), "not done in substance", id="done, which it is not"
        ),
    ],
)
def test_a_reflection_that_does_not_hold_is_said_so_and_then_put_right(
    proposal: OverallReflection, says: str
) -> None:
    state = state_with(judged(40, ok=False, correctness=70))
    assert says in violations(proposal, state)[0]
    made, why = forced(proposal, state)
    assert why
    assert made is not None
    assert violations(made, state) == []


def test_only_the_reflector_says_that_a_task_is_done_in_substance() -> None:
    state = state_with(judged(75, ok=False, correctness=85))
    assert done_in_substance(state, state.evaluation.evaluation)
    assert violations(reflected(True, strategy=FULL), state) == []
    assert violations(reflected(False, done_in_substance=True), state) == []
    both = reflected(True, strategy=FULL, done_in_substance=True)
    assert "both true" in violations(both, state)[0]
    made, _ = forced(both, state)
    assert made is not None
    assert (made.should_replan, made.done_in_substance) == (True, False)


def test_what_is_complete_and_wrong_may_be_done_anew() -> None:
    state = state_with(judged(50, ok=False, correctness=30))
    assert not done_in_substance(state, state.evaluation.evaluation)
    assert violations(reflected(True, strategy=FULL), state) == []


def test_by_default_it_goes_on_from_what_failed() -> None:
    assert default_strategy(state_of(BROKE)).type == "full_replan"
    later = [*ALL_DONE[:-1], broken("send")]
    made = default_strategy(state_of(later))
    assert (made.type, made.step_id) == ("replan_from_step", "send")


# ── the guard over rounds ─────────────────────────────────────────────────────


def rounds(count: int, verdict: Any, **policy: Any) -> Any:
    events: list[Any] = [submitted(**policy), *OPENED[1:], PLANNED]
    for number in range(1, count + 1):
        events += [e.RoundStarted(round=number), verdict(number)]
    return state_of(events)


def test_rounds_that_bring_nothing_new_are_counted() -> None:
    def same(number: int) -> Any:
        return judged(40, ok=False)

    assert must_stop(rounds(MOST_BARREN, same)) is None
    assert "nothing new" in str(must_stop(rounds(MOST_BARREN + 1, same)))


def test_new_failures_are_something_new_but_not_for_ever() -> None:
    words = ["".join(chr(97 + int(digit)) for digit in str(n + 100)) for n in range(MOST_STALLED + 2)]

    def other(number: int) -> Any:
        return judged(40, ok=False, failures=(f"the {words[number]} is missing",))

    assert must_stop(rounds(MOST_STALLED, other)) is None
    assert "no better result" in str(must_stop(rounds(MOST_STALLED + 1, other)))


def test_a_better_judgement_starts_the_count_anew_by_a_point_at_least() -> None:
    creeping = rounds(30, lambda number: judged(10 + number / 100, ok=False))
    assert must_stop(creeping)
    climbing = rounds(30, lambda number: judged(10 + 2 * number, ok=False))
    assert must_stop(climbing) is None


def test_a_persons_word_starts_both_counts_anew() -> None:
    state = rounds(MOST_BARREN + 3, lambda number: judged(40, ok=False))
    assert must_stop(state)
    apply(state, e.QuestionAsked(question_id="q", kind="intervention", text="?"), 1.0)
    apply(state, e.QuestionAnswered(question_id="q", answer="the door is open now"), 2.0)
    assert must_stop(state) is None
    assert state.reflection is None
    assert state.recovery.said[-1].answer == "the door is open now"


def test_a_retrys_action_is_in_words() -> None:
    assert SuggestedAction(type="repair_step", data={"hint": " say Rome "}).words() == "say Rome"
    assert SuggestedAction(type="retry_with_params", data={"hint": 3}).words() == ""
