from __future__ import annotations

import json
from typing import Any

import pytest
from histories import (
    ALL_DONE,
    CANCEL,
    FOUND,
    OPENED,
    PLANNED,
    REFUSED,
    ROUND,
    SELECTED,
    SENT,
    SENT_OF,
    STARTED,
    STEPS,
    SUBMITTED,
    TIMED_OUT,
    answered,
    begun,
    broken,
    call,
    called,
    done,
    doubted,
    judged,
    missed,
    planned,
    ready,
    records,
    skipped,
    state_of,
    two_actions,
)
from hypothesis import given
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.again.like_calls import occurrence
from replan.core.decide import decide
from replan.core.events import KINDS, AnyEvent, Record, UnknownEvent, dump, load
from replan.core.following.told import Kept, PreviousStep, PreviousTask
from replan.core.ids import call_base, call_key
from replan.core.limits.outlook import Outlook
from replan.core.plan.diff import PlanDiff
from replan.core.reflection import OverallReflection, StepReflection, Strategy, SuggestedAction
from replan.core.state.fold import apply, fold
from replan.core.state.progress import compose
from replan.core.state.schedule import mode_of
from replan.core.state.task import Slot, State, status_of
from replan.core.tools.versions import ToolVersion, Versions
from replan.core.types import Artifact, Failure, Fault, Plan, Step, ToolSpec, Usage

READS = ToolSpec(id="search", effect="reads")
ONCE = ToolSpec(id="mail", effect="once")

SAMPLES: list[AnyEvent] = [
    SUBMITTED,
    STARTED,
    e.PreviousTasksRead(
        tasks=(
            PreviousTask(
                name="previous",
                task_id="o",
                description="d",
                status="succeeded",
                ended=1.5,
                result=Kept(value=1),
                steps=(
                    PreviousStep(
                        name="a", step_id="a", tool="t", effects=1, output=Kept(value={"x": [1]}, masked=True)
                    ),
                ),
            ),
        ),
        more=2,
    ),
    ROUND,
    SELECTED,
    e.LlmCallStarted(
        call_id="c", role="planning", model="m", schema_name="execution_plan", prompt="plan", text="€"
    ),
    e.LlmToken(call_id="c", role="planning", text="{"),
    e.LlmCallCompleted(
        call_id="c", role="planning", model="m", usage=Usage(input_tokens=3, cost_usd=0.25), text="{}"
    ),
    e.PlanRejected(violations=("a", "b"), attempt=2),
    e.PlanGenerated(plan=Plan(plan_id="p", steps=(*STEPS, two_actions())), notes=("n",)),
    e.ExecutionMode(mode="serial", reason="one step"),
    ready("find"),
    begun("find", 3),
    e.StepProgress(step_id="find", message="half", progress=1, total=2),
    e.ProgressUpdate(message="on it"),
    called("once", action_id="a", index=2),
    missed(TIMED_OUT, 0.5),
    doubted(),
    e.OutcomeSettled(**call(), happened=True, output={"a": [1, None, "日本"]}, by="Ann"),
    e.CallCompleted(
        **call(), output={"a": [1.5, None, True, "🙂"]}, artifact=Artifact(artifact_id="x", size=9)
    ),
    done("find", team="blue"),
    broken("find"),
    skipped("send", "condition", None),
    judged(final_output={"x": 1}),
    e.RoundCompleted(round=1),
    e.StepReflected(
        step_id="find",
        index=2,
        tool_id="search",
        parameters={"q": "ü"},
        error=REFUSED,
        signature="s",
        proposal=StepReflection(
            root_cause_category="parameter_error",
            suggested_action=SuggestedAction(type="retry_with_params", data={"q": "u"}),
        ),
        violations=("v",),
        action=SuggestedAction(type="repair_step", data={"hint": "h"}),
        by="code",
        reason="r",
    ),
    e.StepRepaired(step=STEPS[0], plan_version=2, hint="h", diff=PlanDiff(added=("x",), kept=1)),
    e.OverallReflectionTriggered(step_id="find", reason="r", replan=True, advice="a"),
    e.ReflectionCompleted(
        reflection=OverallReflection(
            problem_nature="tools", should_replan=True, replanning_strategy=Strategy(type="full_replan")
        ),
        by="code",
    ),
    e.PlanningStopped(kind="cannot", reason="no tool opens doors"),
    e.ReplanningStarted(strategy=Strategy(type="replan_from_step", step_id="find"), why_refused="w"),
    e.PlanUpdated(plan=Plan(plan_id="q", version=2), strategy="full_replan", reset=("find",)),
    e.ApprovalRequested(
        approval_id="a", call_key="k.1", step_id="send", tool_id="mail", effect="once", parameters={"to": "x"}
    ),
    e.ApprovalResolved(approval_id="a", approved=False, reason="no", by="Ann"),
    e.ApprovalExpired(approval_id="a", call_key="k.1", step_id="send"),
    e.PlanReviewRequested(
        review_id="r",
        plan_version=1,
        outlook=Outlook(effects=("send: mail (once)",), tool_calls=1, estimated_secs=0.5),
        expires=9.5,
        problems=("no such tool",),
    ),
    e.PlanReviewed(review_id="r", approved=True, reason="so", plan={"steps": []}, by="Ann"),
    e.PlanReviewExpired(review_id="r"),
    e.QuestionAsked(question_id="q", kind="outcome", text="did it?", call_key="k.1", step_id="send"),
    e.QuestionAnswered(question_id="q", answer="yes", happened=True, output=[1]),
    e.TaskLeft(driver="d"),
    e.VersionsChanged(
        before="1",
        made_with=Versions.of(
            "2", "p", {"t": ToolVersion(parameters="a", output="b", effect="once", rules="c")}
        ),
        tools=(e.ToolChange(tool_id="t", what=("gone",)),),
        unfit={"s": Fault(category="tool_error", kind="tool_changed", message="m")},
        held={"t": {"effect": "once"}},
    ),
    e.WaitStarted(call_key="k", step_id="s", tool_id="t", kind="callback", until=9.5, token="cb"),
    e.CallbackReceived(token="cb", data={"n": 1}, by="b"),
    e.TaskWaiting(reason="r", approvals=("a",), questions=("q",)),
    e.BudgetWarning(limit="max_tokens", used=9, allowed=10),
    CANCEL,
    e.TaskForked(origin="o", at=3, root="o", by="Ann", hint="h", plan={"steps": []}, retry=("find",)),
    e.ForkMade(fork="f", at=3, by="Ann"),
    e.PauseRequested(reason="r", by="Ann", now=True),
    e.ResumeRequested(reason="r", by="Ann"),
    e.HintGiven(request_id="h", hint="look again", by="Ann"),
    e.RetryRequested(request_id="r", step_id="find", reason="r", by="Ann"),
    e.JudgementRequested(request_id="j", hint="be kind", by="Ann"),
    e.RequestTaken(request_id="h"),
    e.RequestTaken(request_id="r", refused="it has not failed"),
    e.TaskResumed(driver="d2", reason="crash"),
    e.TaskCompleted(final_output="yes", score=90),
    e.TaskFailed(failure=Failure(kind="step", reason="r", violations=("v",)), score=1),
    e.TaskCancelled(failure=Failure(kind="cancelled", reason="r")),
    e.TaskTimedOut(failure=Failure(kind="timeout", reason="r", limit="task_timeout_secs")),
]


# ── the stored form ───────────────────────────────────────────────────────────


def test_there_is_a_sample_of_every_kind() -> None:
    assert {event.type for event in SAMPLES} == set(KINDS)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.type)
def test_every_kind_comes_back_from_its_stored_form(event: AnyEvent) -> None:
    text = dump(event)
    assert "\\u" not in text
    assert load(event.type, text) == event
    assert load(event.type, text.encode()) == event
    wire = Record(1, "t", 2.0, 1, event).wire()
    assert wire["type"] == event.type
    assert wire["data"] == json.loads(text)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.type)
def test_fields_that_a_newer_release_adds_are_harmless(event: AnyEvent) -> None:
    data = {**json.loads(dump(event)), "new_field": {"a": [1]}}
    assert load(event.type, json.dumps(data)) == event


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: event.type)
def test_older_data_without_the_newer_fields_loads(event: AnyEvent) -> None:
    needed = {name for name, field in type(event).model_fields.items() if field.is_required()}
    data = {name: value for name, value in json.loads(dump(event)).items() if name in needed}
    assert type(load(event.type, json.dumps(data))) is type(event)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("step_danced", '{"step_id": "find", "how": "well"}'),
        ("step_completed", '{"id": "old form"}'),
        ("x", "[1]"),
    ],
    ids=["a kind of a newer release", "a form that cannot be read", "no object"],
)
def test_what_cannot_be_read_is_kept_as_it_is_and_changes_nothing(kind: str, data: str) -> None:
    event = load(kind, data)
    assert isinstance(event, UnknownEvent)
    assert event.type == kind
    assert load(kind, dump(event)) == event
    before, after = state_of(ALL_DONE), state_of([*ALL_DONE, event])
    assert decide(before) == decide(after)
    assert after.steps == before.steps
    assert after.last_seq == before.last_seq + 1


# ── the fold ──────────────────────────────────────────────────────────────────


@given(st.lists(st.sampled_from([*SAMPLES, *ALL_DONE, UnknownEvent(type="x")]), max_size=30))
def test_any_events_in_any_order_fold_and_always_to_the_same(events: list[AnyEvent]) -> None:
    state = state_of(events)
    again = fold(
        Record(r.seq, r.task_id, r.ts, r.round, load(r.event.type, dump(r.event))) for r in records(events)
    )
    assert again == state
    assert decide(again) == decide(state)
    assert state.open_steps == sum(not step.closed for step in state.steps.values())


SIGNALS = [
    CANCEL,
    e.PauseRequested(by="Ann"),
    e.HintGiven(request_id="h", hint="look again"),
    e.RetryRequested(request_id="r", step_id="find"),
    e.JudgementRequested(request_id="j"),
    e.ForkMade(fork="f", at=1),
]


@given(st.sampled_from(SIGNALS), st.integers(0, len(ALL_DONE)), st.integers(0, len(ALL_DONE)))
def test_a_signal_commutes_with_what_the_driver_records(signal: AnyEvent, one: int, other: int) -> None:
    """Whoever writes first: the same state, but for the place in the log."""

    def with_signal(at: int) -> State:
        state = State(task_id="task_1")
        for n, event in enumerate(ALL_DONE):
            if n == at:
                apply(state, signal, 1_000.0 * at)
            apply(state, event, 100.0 + n)
        if at == len(ALL_DONE):
            apply(state, signal, 1_000.0 * at)
        return state

    assert with_signal(one) == with_signal(other)


@pytest.mark.parametrize(
    ("waiting", "word"),
    [
        (e.TaskWaiting(reason="r", questions=("q",)), e.RetryRequested(request_id="r", step_id="find")),
        (e.TaskWaiting(reason="r", questions=("q",)), e.JudgementRequested(request_id="j")),
        (e.TaskWaiting(reason="r", questions=("q",)), e.HintGiven(request_id="h", hint="x")),
        (e.TaskWaiting(reason="r", until_resumed=True), e.RetryRequested(request_id="r", step_id="find")),
        (e.TaskWaiting(reason="r", paused=True), e.ResumeRequested()),
        (e.TaskWaiting(reason="r", paused=True), e.RetryRequested(request_id="r", step_id="find")),
    ],
)
def test_a_word_that_comes_as_the_task_begins_to_wait_counts_whichever_is_first(
    waiting: AnyEvent, word: AnyEvent
) -> None:
    asked = e.QuestionAsked(question_id="q", kind="intervention", text="and now?")
    before = [*ALL_DONE, asked, e.PauseRequested()]
    one, other = state_of([*before, waiting, word]), state_of([*before, word, waiting])
    assert one.waiting == other.waiting
    assert decide(one) == decide(other)


FAILURE = Failure(kind="cancelled", reason="no")
ANSWERS = [
    e.QuestionAnswered(question_id="q", answer="yes"),
    e.ApprovalResolved(approval_id="a", approved=True),
    e.ApprovalResolved(approval_id="a", approved=False, reason="no"),
]


@pytest.mark.parametrize(
    "end", [e.TaskCompleted(final_output=1), e.TaskCancelled(failure=FAILURE), e.TaskFailed(failure=FAILURE)]
)
@given(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3))
def test_an_answer_after_the_end_changes_nothing(end: AnyEvent, answers: list[AnyEvent]) -> None:
    asked = [
        e.QuestionAsked(question_id="q", kind="intervention", text="and now?"),
        e.ApprovalRequested(
            approval_id="a", call_key="k.1", step_id="find", tool_id="x", effect="once", parameters={}
        ),
    ]
    ended = [*OPENED, PLANNED, *asked, judged(), end]
    after = state_of([*ended, *answers])
    after.last_seq -= len(answers)
    assert after == state_of(ended)


def test_folding_in_parts_is_folding_at_once() -> None:
    all_records = records([*ALL_DONE, judged()])
    for cut in range(len(all_records)):
        assert fold(all_records[cut:], fold(all_records[:cut])) == fold(all_records)


def test_only_the_first_cancel_counts() -> None:
    second = e.CancelRequested(reason="again")
    assert state_of([*OPENED, CANCEL, second]).cancel == CANCEL


@given(st.lists(st.sampled_from([*SAMPLES, *ALL_DONE]), min_size=1, max_size=20))
def test_the_list_of_tasks_and_the_fold_name_the_same_status(events: list[AnyEvent]) -> None:
    end = next((at for at, event in enumerate(events) if isinstance(event, e.TERMINAL)), len(events))
    # what people say as the end is on its way to the log comes before it there, and changes nothing
    events = [event for at, event in enumerate(events) if at <= end or not event.signal]
    told = [status for event in events if (status := status_of(event)) is not None]
    assert state_of(events).status == (told[-1] if told else "queued")


@pytest.mark.parametrize(
    ("history", "status"),
    [
        ([*OPENED, PLANNED], "pending"),
        ([*OPENED, PLANNED, ready("find")], "ready"),
        ([*OPENED, PLANNED, begun("find"), called()], "running"),
        ([*OPENED, PLANNED, *FOUND], "succeeded"),
        ([*OPENED, PLANNED, begun("find"), broken("find")], "failed"),
        ([*OPENED, PLANNED, skipped("find", "condition", None)], "skipped"),
        ([*OPENED, PLANNED, *FOUND, ready("find")], "succeeded"),
    ],
)
def test_a_step_is_where_its_events_say(history: list[AnyEvent], status: str) -> None:
    assert state_of(history).steps["find"].status == status


def test_time_counts_only_while_somebody_drives() -> None:
    clock = [0.0, 50.0, 51.0, 53.0, 500.0, 501.0, 600.0]
    happened = [SUBMITTED, STARTED, ROUND, SELECTED, e.TaskResumed(driver="b"), PLANNED, CANCEL]
    state = fold(
        Record(n, "t", ts, 1, event) for n, (ts, event) in enumerate(zip(clock, happened, strict=True), 1)
    )
    assert state.active_secs == 1 + 2 + 1
    assert state.created == 0.0


def test_a_clock_that_goes_back_takes_no_time_away() -> None:
    state = State()
    for ts, event in ((10.0, SUBMITTED), (11.0, STARTED), (5.0, ROUND), (6.0, SELECTED)):
        apply(state, event, ts)
    assert state.active_secs == 1.0


def test_usage_adds_up() -> None:
    asked = e.LlmCallStarted(call_id="c", role="planning", model="m", schema_name="s", prompt="p")
    told = e.LlmCallCompleted(
        call_id="c", role="planning", model="m", usage=Usage(input_tokens=5, output_tokens=2, cost_usd=0.5)
    )
    state = state_of(
        [*OPENED, asked, told, asked, told, asked, PLANNED, called(), missed(again=1), called(attempt=2)]
    )
    assert state.usage == Usage(llm_calls=3, tool_calls=2, input_tokens=10, output_tokens=4, cost_usd=1.0)
    assert list(state.llm_running) == ["c"]


def test_metadata_is_the_last_writers_in_plan_order_whatever_finishes_first() -> None:
    steps = [Step(step_id=name, tool="t") for name in ("a", "b", "c")]
    for order in (("a", "b", "c"), ("c", "b", "a"), ("b", "a", "c")):
        state = state_of([*OPENED, planned(*steps), *(done(name, who=name, **{name: 1}) for name in order)])
        assert state.metadata == {"team": "red", "who": "c", "a": 1, "b": 1, "c": 1}


def test_a_retried_call_keeps_its_place_and_its_last_fault_goes_with_success() -> None:
    state = state_of([*OPENED, PLANNED, begun("find"), called(), missed(TIMED_OUT, 0.1)])
    assert state.steps["find"].calls[Slot()].status == "retrying"
    assert state.running_calls() == []
    for event in (called(attempt=2), answered(attempt=2)):
        apply(state, event, 200.0)
    latest = state.steps["find"].calls[Slot()]
    assert (latest.status, latest.attempt, latest.fault) == ("succeeded", 2, None)
    assert state.steps["find"].attempts == 2


def test_actions_and_items_are_calls_of_their_own_and_make_one_output() -> None:
    history = [*OPENED, planned(two_actions()), begun("pair", 2)]
    for index in (1, 0):
        for action in "ba":
            of = {"step_id": "pair", "key": f"{action}{index}.1", "action_id": action, "index": index}
            history += [called(**of), answered(f"{action}{index}", **of)]
    state = state_of([*history, done("pair")])
    assert compose(state.steps["pair"], lambda output: output.value) == [
        {"a": "a0", "b": "b0"},
        {"a": "a1", "b": "b1"},
    ]


def test_a_step_that_is_started_again_is_open_again() -> None:
    state = state_of([*OPENED, PLANNED, begun("find"), broken("find"), begun("find")])
    assert state.open_steps == 2
    assert (state.steps["find"].status, state.steps["find"].fault) == ("running", None)


# ── the ledger ────────────────────────────────────────────────────────────────


def test_a_reading_is_reused_only_while_no_effect_has_begun_or_ended_since_it_began() -> None:
    base = [*OPENED, PLANNED, begun("find"), begun("send")]
    mail = [called("once", **SENT_OF), answered("sent", **SENT_OF)]
    read = [called(), answered()]
    assert state_of([*base, *read]).reusable("k.1", READS) is not None
    assert state_of([*base, *mail, *read]).reusable("k.1", READS) is not None
    assert state_of([*base, *read, mail[0]]).reusable("k.1", READS) is None
    assert state_of([*base, read[0], *mail, read[1]]).reusable("k.1", READS) is None
    assert state_of([*base, mail[0], *read, mail[1]]).reusable("k.1", READS) is None
    failed = [called("once", **SENT_OF), missed(TIMED_OUT, **SENT_OF), doubted(**SENT_OF)]
    assert state_of([*base, *read, *failed]).reusable("k.1", READS) is None


def test_an_effect_is_reused_always_and_a_volatile_reading_never() -> None:
    state = state_of([*ALL_DONE, called("once", step_id="send", key="z.1")])
    entry = state.reusable("m.1", ONCE)
    assert entry is not None
    assert entry.output.value == "sent"
    assert state.reusable("m.1", ONCE.model_copy(update={"volatile": True})) is entry
    assert state.reusable("m.2", ONCE) is None
    assert state_of([*OPENED, PLANNED, called("once"), missed()]).reusable("k.1", ONCE) is None


def test_like_calls_are_numbered_by_place_and_a_place_keeps_its_number() -> None:
    state = state_of([*OPENED, PLANNED])
    places = [("find", Slot(None, n)) for n in range(3)]
    assert [occurrence(state, "k", place) for place in places] == [1, 2, 3]
    assert [occurrence(state, "k", place) for place in reversed(places)] == [3, 2, 1]
    assert occurrence(state, "other", places[2]) == 1


def test_a_new_plan_matches_what_the_steps_it_leaves_out_have_done() -> None:
    """Of two payments that were made, one step stays and one is planned anew under another id: no third payment."""
    twice = [Step(step_id=name, tool="mail", repeat=True) for name in ("a", "b")]
    made = [
        event
        for n, name in enumerate(("a", "b"), 1)
        for of in [{"step_id": name, "key": f"k.{n}", "tool": "mail"}]
        for event in (begun(name), called("once", **of), answered(n, **of), done(name, **{name: n}))
    ]
    state = state_of(
        [*OPENED, planned(*twice), *made, planned(twice[1], Step(step_id="c", tool="mail"), version=2)]
    )
    assert occurrence(state, "k", ("b", Slot())) == 2
    assert occurrence(state, "k", ("c", Slot())) == 1
    assert occurrence(state, "k", ("c", Slot(None, 1))) == 3
    assert state.reusable("k.1", ONCE) is not None
    assert state.ids_used() == {"a", "b", "c"}
    assert state.earlier["a"].status == "succeeded"
    assert state.metadata == {"team": "red", "a": 1, "b": 2}
    assert state.open_steps == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30))
def test_no_two_places_have_one_number_and_numbers_are_never_skipped(moves: list[tuple[int, int]]) -> None:
    state = State()
    taken: dict[int, int] = {}
    for number, (ask, drop) in enumerate(moves):
        taken[ask] = occurrence(state, "k", (f"s{ask}", Slot()))
        if number % 3 == 2 and drop in taken:
            state.ledger.free({f"s{drop}"})
            del taken[drop]
        assert len(set(taken.values())) == len(taken)
        assert max(taken.values(), default=0) <= 6


def test_a_result_that_comes_after_its_step_was_left_out_is_in_the_ledger() -> None:
    of = {"step_id": "a", "key": "k.1", "tool": "mail"}
    state = state_of(
        [
            *OPENED,
            planned(Step(step_id="a", tool="mail")),
            begun("a"),
            called("once", **of),
            planned(version=2),
        ]
    )
    assert [one.key for one in state.running_calls()] == ["k.1"]
    apply(state, answered("sent", **of), 300.0)
    assert state.reusable("k.1", ONCE) is not None
    assert state.running_calls() == []


@pytest.mark.parametrize("happened", [True, False])
def test_a_doubt_is_settled_once_and_for_all(happened: bool) -> None:
    history = [
        *OPENED,
        PLANNED,
        *FOUND,
        begun("send"),
        called("once", **SENT_OF),
        missed(TIMED_OUT, **SENT_OF),
    ]
    state = state_of([*history, doubted(**SENT_OF)])
    assert list(state.in_doubt) == ["m.1"]
    assert state.steps["send"].calls[Slot()].status == "unknown"
    apply(state, e.OutcomeSettled(**call(**SENT_OF), happened=happened, output="ok", by="Ann"), 300.0)
    assert state.in_doubt == {}
    if happened:
        assert state.steps["send"].calls[Slot()].status == "succeeded"
    else:  # it may be made: nothing stands in its way
        assert state.steps["send"].calls == {}
    assert (state.reusable("m.1", ONCE) is not None) is happened


def test_a_key_of_a_form_that_nobody_knows_cannot_break_the_fold() -> None:
    for key in ("", "no-number", "k.x", ".", "k.99999999999999999999"):
        state = state_of([*OPENED, PLANNED, begun("find"), called(key=key), answered(key=key)])
        assert state.reusable(key, ONCE) is not None
    huge = state_of([*OPENED, PLANNED, called(key="k.999999999")])
    assert occurrence(huge, "k", ("send", Slot())) == 1


def test_ten_thousand_like_items_and_a_new_plan_take_linear_work() -> None:
    """It ends: numbering by search, or forgetting step by step, would take a hundred million looks."""
    steps = [Step(step_id=f"s{n}", tool="t") for n in range(5_000)]
    state = state_of([*OPENED, planned(*steps)])
    for n in range(5_000):
        assert occurrence(state, "k", (f"s{n}", Slot())) == n + 1
        occurrence(state, f"own{n}", (f"s{n}", Slot()))
    apply(state, planned(*(Step(step_id=f"t{n}", tool="t") for n in range(5_000)), version=2), 1.0)
    assert [occurrence(state, "k", (f"t{n}", Slot())) for n in range(5_000)] == list(range(1, 5_001))
    assert len(state.ids_used()) == 10_000


# ── keys, modes ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": [0.0, -0.0]}, {"a": [0, 0]}, True),
        ({"a": 1e300}, {"a": int(1e300)}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": None}, {}, False),
        ({"a": 1.5}, {"a": 1.25}, False),
        ({"a": "1.0"}, {"a": "1"}, False),
        ({"a": "é"}, {"a": "e"}, False),
        ({1: "a"}, {"1": "a"}, True),
        ({"a": "\ud800"}, {"a": "\ud801"}, False),
    ],
)
def test_a_call_is_known_by_what_it_asks_for(one: Any, other: Any, same: bool) -> None:
    assert (call_base("t", "tool", one) == call_base("t", "tool", other)) is same


def test_a_key_tells_task_tool_and_occurrence() -> None:
    bases = {call_base(task, tool, {}) for task in ("t", "u") for tool in ("a", "b")}
    assert len(bases) == 4
    assert call_key("abc", 2) == "abc.2"


@pytest.mark.parametrize(
    ("policy", "steps", "mode", "reason"),
    [
        ({}, STEPS, "serial", "no two steps can overlap"),
        ({}, STEPS[:1], "serial", "the plan has 1 step, fewer than parallel_min_steps = 2"),
        ({}, (*STEPS, Step(step_id="x", tool="t")), "parallel", "3 steps, up to 8 calls at a time"),
        ({"parallel_min_steps": 4}, (*STEPS, Step(step_id="x", tool="t")), "serial", "fewer than parallel_min_steps = 4"),
        ({"enable_parallel_execution": False}, (two_actions(),), "serial", "is switched off"),
        ({}, (two_actions(),), "parallel", "up to 8 calls"),
    ],
)  # fmt: skip
def test_the_mode_of_a_plan_comes_with_its_reason(policy: Any, steps: Any, mode: str, reason: str) -> None:
    event = SUBMITTED.model_copy(update={"policy": SUBMITTED.policy.model_copy(update=policy)})
    found, why = mode_of(state_of([event, STARTED, planned(*steps)]))
    assert found == mode
    assert reason in why


def test_faults_stay_with_their_steps_and_skips_with_their_reason() -> None:
    state = state_of([*OPENED, PLANNED, begun("find"), called(), missed(), broken("find"), skipped("send")])
    assert state.steps["find"].fault == REFUSED
    skip = state.steps["send"].skip
    assert skip is not None
    assert (skip.because, skip.reason) == ("find", "find failed")
    assert state.open_steps == 0
    assert [event.type for event in SENT][-1] == "step_completed"


@pytest.mark.parametrize(
    ("data", "kinds", "because"),
    [
        ({"reason": "a timer", "until": 5.0, "because": "key"}, ("time",), False),
        ({"reason": "asks", "approvals": ["a1"], "callbacks": ["cb_1"], "because": "key"}, ("person", "callback"), False),
        ({"reason": "paused", "paused": True}, ("pause",), False),
        ({"reason": "401", "until_resumed": True}, ("key",), True),
        ({"reason": "away", "until_resumed": True, "because": "model"}, ("model",), True),
    ],
)  # fmt: skip
def test_only_what_is_to_be_put_right_says_because_of_what_it_waits(
    data: dict[str, Any], kinds: tuple[str, ...], because: bool
) -> None:
    event = e.load("task_waiting", json.dumps(data))  # as older releases stored it

    assert isinstance(event, e.TaskWaiting)
    assert event.waits_for == kinds
    assert ("because" in e.data_of(event)) == because
    assert json.loads(e.dump(event)) == e.data_of(event)
    assert e.load("task_waiting", e.dump(event)) == event
