"""No end is better than what the judge, the reflector, the steps and the schema each allow: over all combinations."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from histories import ALL_DONE, judged, state_of, submitted
from hypothesis import given
from hypothesis import strategies as st
from test_decide import FIND_BROKE, SEND_BROKE
from test_verdict import FULL, completed, reflected

from replan.core import events as e
from replan.core.decide import Finish, Reflect, Replan, Wait, decide
from replan.core.evaluation.outcome import forced, violations
from replan.core.reflection import OverallReflection
from replan.core.state.fold import apply
from replan.core.state.task import State
from replan.core.types import Dimensions, Evaluation, LeftOutEffect

HISTORIES = {"all done": ALL_DONE, "a reading failed": FIND_BROKE, "an effect failed": SEND_BROKE}
REFLECTORS: dict[str, OverallReflection | None] = {
    "no": reflected(False, ask="ask Bob"),
    "done": reflected(False, done_in_substance=True),
    "replan": reflected(True, strategy=FULL),
    "done and replan": reflected(True, strategy=FULL, done_in_substance=True),
    "nothing": None,
}


_GONE = LeftOutEffect(step_id="p", what="step 'p' (pay) failed")
LEFT_OUT: dict[str, tuple[LeftOutEffect, ...]] = {
    "nothing": (),
    "made good": (_GONE.model_copy(update={"made_good_by": "x"}),),
    "not needed": (_GONE.model_copy(update={"not_needed": "it was paid before"}),),
    "missing": (_GONE.model_copy(update={"refused": "step 'x' (find) has had no effect of its own"}),),
    "one of two missing": (_GONE.model_copy(update={"made_good_by": "x"}), _GONE),
}
MISSING = ("missing", "one of two missing")
FAILURES = ("nothing is wrong with the amount",)


class Case(NamedTuple):
    """What each of them says."""

    steps: str
    flag: bool
    score: float
    completeness: float
    correctness: float
    wrong: str
    reflector: str
    answer: Any = "an answer"
    schema: Any = None
    left_out: str = "nothing"

    def judgement(self) -> e.EvaluationCompleted:
        each = Dimensions(
            completeness=self.completeness, correctness=self.correctness, efficiency=90, reliability=90
        )
        return e.EvaluationCompleted(
            evaluation=Evaluation(
                overall_score=self.score,
                is_successful=self.flag,
                dimensions=each,
                failures=FAILURES,
                wrong_results=("12 for 21",) if self.wrong == "told" else (),
                left_out=LEFT_OUT[self.left_out],
                final_output=self.answer,
            )
        )

    @property
    def excellent(self) -> bool:
        return self.correctness >= 95 and self.completeness >= 80

    @property
    def at_odds(self) -> bool:
        if not self.flag:
            return self.score >= 80
        if self.left_out in MISSING:
            return True
        return self.wrong == "told" or (self.score < 80 and not self.excellent)

    def may_succeed_at_once(self) -> bool:
        """The judge's yes, and what the steps allow."""
        if not self.flag or self.at_odds or self.steps == "an effect failed":
            return False
        return self.excellent or (self.score >= 80 and self.steps == "all done")

    def may_be_done_in_substance(self) -> bool:
        """The reflector's yes, and that neither judge nor steps forbid it."""
        return (
            self.reflector == "done"
            and not self.at_odds
            and self.completeness >= 80
            and self.correctness >= 80
            and self.wrong == "nothing"
            and self.left_out not in MISSING
            and self.steps != "an effect failed"
        )


CASES = [
    Case(*fields)
    for fields in product(
        HISTORIES,
        (True, False),
        (0, 79.9, 80, 100),
        (79.9, 80, 100),
        (60, 79.9, 80, 95),
        ("nothing", "told"),
        REFLECTORS,
    )
] + [
    Case(*fields, left_out=left_out)
    for *fields, left_out in product(
        HISTORIES,
        (True, False),
        (60, 80),
        (79.9, 90),
        (60, 90, 95),
        ("nothing", "told"),
        REFLECTORS,
        LEFT_OUT,
    )
]


def end_of(case: Case, **policy: Any) -> Any:
    """What the loop comes to: each reflection goes through the checks that code makes of it."""
    history: list[Any] = [submitted(**policy), *HISTORIES[case.steps][1:], case.judgement()]
    state = state_of(history)
    decision = decide(state)
    if decision != Reflect():
        return decision
    apply(state, completed(allowed(REFLECTORS[case.reflector], state)), 500.0)
    return decide(state)


def allowed(proposal: OverallReflection | None, state: State) -> OverallReflection | None:
    if proposal is None or not violations(proposal, state):
        return proposal
    return forced(proposal, state)[0]


def test_no_end_is_better_than_what_each_of_them_allows() -> None:
    for case in CASES:
        decision = end_of(case)
        success = isinstance(decision, Finish) and isinstance(decision.event, e.TaskCompleted)
        assert success == (case.may_succeed_at_once() or case.may_be_done_in_substance()), case
        if success:
            told = LEFT_OUT[case.left_out]
            assert decision.event.shortfall == (*FAILURES, *(one.told for one in told)), case
        if not success and not isinstance(decision, Replan):
            assert isinstance(decision, Finish), case
            assert decision.event.failure.reason, case
            if case.reflector == "no":
                assert decision.event.failure.question == "ask Bob", case


def test_no_reflection_makes_a_success_of_an_answer_that_has_not_the_form_asked_for() -> None:
    forms = {
        "an answer": ({"type": "string"}, {"type": ["integer", "string"]}),
        None: ({"type": "null"}, {"type": ["integer", "null"]}, {}),
        7: ({"type": "integer"}, {"type": ["integer", "string"]}, {"type": ["integer", "null"]}),
    }
    every = [None, *(schema for schemas in forms.values() for schema in schemas)]
    for (answer, fitting), schema in product(forms.items(), every):
        case = Case("all done", False, 60, 90, 90, "nothing", "done", answer, schema)
        decision = end_of(case, output_schema=schema)
        success = isinstance(decision, Finish) and isinstance(decision.event, e.TaskCompleted)
        assert success == (schema is None or schema == {} or schema in fitting), case


def test_without_reflection_only_the_judge_and_the_steps_count() -> None:
    for case in CASES:
        decision = end_of(case, enable_auto_reflection=False)
        success = isinstance(decision.event, e.TaskCompleted)
        assert success == case.may_succeed_at_once(), case


def test_where_a_person_can_be_asked_no_failure_comes_before_the_question() -> None:
    for case in CASES:
        decision = end_of(case, interactive=True)
        assert isinstance(decision, Replan | Wait) or isinstance(decision.event, e.TaskCompleted), case


@given(
    st.booleans(), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.sampled_from(sorted(REFLECTORS)),
    st.sampled_from(sorted(HISTORIES)), st.floats(0, 100), st.floats(0, 100),
)  # fmt: skip
def test_two_noes_are_never_a_success_whatever_the_numbers_and_thresholds(
    flag: bool,
    score: float,
    whole: float,
    right: float,
    reflector: str,
    steps: str,
    enough: float,
    best: float,
) -> None:
    case = Case(steps, flag, score, whole, right, "nothing", reflector)
    decision = end_of(case, success_threshold=enough, correctness_excellent=best)
    if isinstance(decision, Finish) and isinstance(decision.event, e.TaskCompleted):
        assert flag or reflector == "done"
        assert steps != "an effect failed"


def test_a_judgement_by_steps_is_never_made_good_by_a_reflection() -> None:
    steps = judged(50, ok=False).model_copy(update={"by": "steps"})
    state = state_of([submitted(evaluation="steps"), *ALL_DONE[1:], steps])
    assert allowed(reflected(False, done_in_substance=True), state) == reflected(False)


def test_what_a_reflector_says_was_reached_is_kept_and_makes_no_success() -> None:
    told = "one of two letters is sent"
    for case in CASES:
        for answer in (None, "an answer"):
            said = case._replace(answer=answer)
            state = state_of([submitted(), *HISTORIES[said.steps][1:], said.judgement()])
            reflector = REFLECTORS[said.reflector]
            if decide(state) != Reflect() or reflector is None:
                continue
            found = allowed(reflector.model_copy(update={"final_output": told}), state)
            plain = end_of(said)
            apply(state, completed(found), 500.0)
            decision = decide(state)
            assert isinstance(decision, type(plain))
            if not isinstance(decision, Finish) or not isinstance(decision.event, e.TaskFailed):
                assert decision == plain, said
                continue
            kept = decision.event.model_copy(update={"final_output": answer})
            assert Finish(kept) == plain, said
            assert decision.event.final_output == (answer or told), said
