"""What people have said: kept in order with its question, and only two words decide by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from histories import ALL_DONE, OPENED, PLANNED, judged, state_of, submitted

from replan.core import events as e
from replan.core.decide import Evaluate, Finish, Reflect, decide
from replan.core.state.fold import apply
from replan.core.state.human_input import word_of
from replan.core.state.task import State
from replan.core.types import Fault


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ("stop", "stop"),
        (" Stop. ", "stop"),
        ("done", "done"),
        ("Done!", "done"),
        ("no", ""),
        ("end", ""),
        ("give up", ""),
        ("not done", ""),
        ("Stop at the second Ann", ""),
        ("Is it done?", ""),
        ("", ""),
    ],
)
def test_only_the_documented_words_decide(answer: str, word: str) -> None:
    assert word_of(answer) == word


def asked(number: int, text: str = "Is 'Peking' right? If not, what?") -> e.QuestionAsked:
    return e.QuestionAsked(question_id=f"q{number}", kind="intervention", text=text)


def said(number: int, answer: str) -> e.QuestionAnswered:
    return e.QuestionAnswered(question_id=f"q{number}", answer=answer, by="Ann")


def waiting_on(answer: str, *verdict: e.Event, **policy: object) -> State:
    return state_of(
        [submitted(interactive=True, **policy), *ALL_DONE[1:], *verdict, asked(1), said(1, answer)]
    )


def test_answers_are_kept_in_order_with_their_questions() -> None:
    state = state_of(
        [
            *ALL_DONE,
            judged(40, ok=False),
            asked(1),
            said(1, "no"),
            asked(2, "Which one?"),
            said(2, "the second"),
        ]
    )
    assert state.recovery is not None
    assert [(one.asked, one.answer, one.by) for one in state.recovery.said] == [
        ("Is 'Peking' right? If not, what?", "no", "Ann"),
        ("Which one?", "the second", "Ann"),
    ]


def test_rejections_and_changed_calls_are_kept_with_what_was_asked_and_a_plain_yes_is_not() -> None:
    def request(name: str) -> e.ApprovalRequested:
        return e.ApprovalRequested(
            approval_id=name, call_key=f"{name}.1", step_id="find", tool_id="search", effect="once",
            parameters={"q": name},
        )  # fmt: skip

    state = state_of(
        [
            *OPENED,
            PLANNED,
            *(request(name) for name in ("a", "b", "c")),
            e.ApprovalResolved(approval_id="a", approved=False, reason="the second Ann"),
            e.ApprovalResolved(approval_id="b", approved=True),
            e.ApprovalResolved(approval_id="c", approved=True, parameters={"q": "x"}),
        ]
    )
    assert state.recovery is not None
    lines = [one.line() for one in state.recovery.said]
    assert len(lines) == 2
    assert '{"q":"a"}' in lines[0]
    assert "no: the second Ann" in lines[0]
    assert "yes, with" in lines[1]


TRIGGERED = e.OverallReflectionTriggered(reason="it was judged 45 of 100")


@pytest.mark.parametrize("round_", [(judged(45, ok=False),), (judged(45, ok=False), TRIGGERED)])
def test_an_answer_has_a_judged_round_judged_anew(round_: tuple[Any, ...]) -> None:
    state = waiting_on("it is as I wanted it", *round_)
    assert decide(state) == Evaluate()


def test_an_answer_to_a_step_that_gave_up_is_reflected_on_as_nothing_was_judged() -> None:
    state = waiting_on("try Oslo", e.OverallReflectionTriggered(step_id="find", reason="it failed"))
    assert decide(state) == Reflect()


def test_a_persons_done_is_done_whatever_was_judged_and_keeps_the_shortfall() -> None:
    state = waiting_on("done", judged(45, ok=False))
    assert decide(state) == Evaluate()
    apply(state, judged(45, ok=False, failures=("no title",), final_output="the table"), 9.0)
    decision = decide(state)
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, e.TaskCompleted)
    assert decision.event.final_output == "the table"
    assert decision.event.shortfall == ("no title",)


def test_a_persons_done_does_not_hide_what_failed() -> None:
    fault = Fault(category="tool_error", kind="tool", message="the account is closed")
    state = waiting_on("done", e.StepFailed(step_id="find", error=fault))
    apply(state, judged(45, ok=False, failures=("no title",)), 9.0)
    decision = decide(state)
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, e.TaskCompleted)
    first, second = decision.event.shortfall
    assert first == "no title"
    assert second.endswith(": the account is closed")


def test_a_done_gives_no_answer_of_another_form_than_was_asked_for() -> None:
    state = waiting_on("done", judged(45, ok=False), output_schema={"type": "integer"})
    apply(state, judged(45, ok=False, final_output=None), 9.0)
    decision = decide(state)
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, e.TaskFailed)
    assert "form asked for" in decision.event.failure.reason


def test_stop_ends_it_at_once_as_failed_with_the_question_kept() -> None:
    from test_verdict import completed, reflected

    state = state_of(
        [
            submitted(interactive=True),
            *ALL_DONE[1:],
            judged(45, ok=False),
            completed(reflected(False, "external", ask="Ask Bob for the key")),
            asked(1),
            said(1, "stop"),
        ]
    )
    decision = decide(state)
    assert isinstance(decision, Finish)
    assert isinstance(decision.event, e.TaskFailed)
    assert decision.event.failure.question == "Ask Bob for the key"
    assert "a person has said stop" in decision.event.failure.reason
