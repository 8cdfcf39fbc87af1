"""What records add up to, how that is drawn, and what plain lines say of it."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_records import DIAMOND, UNDER_WAY, call, fault, plan, records, step
from rich.cells import cell_len

from replan.cli.live.draw import render
from replan.cli.live.picture import PictureState
from replan.cli.live.plain import PlainLines
from replan.core import events as e
from replan.core.state.fold import apply, fold
from replan.core.state.task import State
from replan.core.types import Dimensions, Evaluation, Failure, Usage
from thorough import examples


def drawn(
    view: PictureState, now: float, width: int = 100, rows: int = 40, *, ascii_only: bool = False
) -> list[str]:
    return [line.plain for line in render(view, now, width, rows=rows, ascii_only=ascii_only)]


def lines_of(events: list[tuple[float, e.AnyEvent]]) -> list[str]:
    view = PictureState()
    plain = PlainLines(view)
    said = []
    for record in records(events):
        view.task_id = record.task_id
        view.apply(record)
        line = plain.line(record)
        if line is not None:
            said.append(line)
    return said


def row(lines: list[str], step_id: str) -> str:
    return next(line for line in lines if f" {step_id} " in line)


# ── the state ─────────────────────────────────────────────────────────────────


def test_records_add_up_to_what_is_running_and_what_waits_for_what() -> None:
    view = PictureState.of(records(UNDER_WAY))
    assert view.status == "executing"
    assert view.layers == [["rome", "oslo"], ["compare"]]
    assert {name: one.status for name, one in view.steps.items()} == {
        "rome": "succeeded",
        "oslo": "running",
        "compare": "pending",
    }
    assert view.counts == {"succeeded": 1, "running": 1, "pending": 1}
    assert list(view.running) == ["oslo"]
    assert view.waits_for(view.steps["compare"]) == ["oslo"]
    assert view.steps["oslo"].progress == 0.5
    assert (view.model_calls_done, view.model_secs, view.model_calls) == (1, 2.0, {})


def test_a_new_plan_keeps_what_its_steps_have_done() -> None:
    longer = plan(step("rome"), step("report", "rome"), version=2)
    view = PictureState.of(records([*UNDER_WAY, (104, e.PlanUpdated(plan=longer))]))
    assert (view.plan_version, list(view.steps)) == (2, ["rome", "report"])
    assert view.counts == {"succeeded": 1, "pending": 1}
    assert view.waits_for(view.steps["report"]) == []
    assert not view.running


def test_tokens_of_a_running_model_call_are_counted() -> None:
    view = PictureState.of(records(UNDER_WAY[:4]))
    assert view.status == "planning"
    assert view.model_calls["c1"].characters == 5
    assert any("planning with m: 3.0 s, 5 characters" in line for line in drawn(view, 103))


def test_the_time_in_which_a_task_waited_for_a_person_or_for_a_process_is_none_of_its_own() -> None:
    told = [
        *UNDER_WAY,
        (104, e.TaskWaiting(reason="an approval")),
        (164, e.TaskResumed(driver="another")),
        (166, e.RoundStarted(round=2)),
        (167, e.TaskResumed(driver="a third, after a crash")),
        (168, ENDS[0].values[0]),
    ]
    log = records(told)
    view = PictureState.of(log)
    assert view.idle == 61
    assert 168 - 100 - view.idle == fold(log).active_secs


def test_a_task_that_is_paused_while_nobody_drives_it_has_no_time_of_its_own_until_it_goes_on() -> None:
    told = [
        *UNDER_WAY,
        (104, e.PauseRequested()),
        (164, e.TaskWaiting(reason="paused", paused=True, driven=False)),
        (174, e.ResumeRequested()),
        (175, e.TaskResumed(driver="another")),
        (176, ENDS[0].values[0]),
    ]
    log = records(told)
    view = PictureState.of(log)
    assert 176 - 100 - view.idle == fold(log).active_secs


def test_every_request_of_a_model_call_is_counted_as_in_the_result() -> None:
    asked = e.LlmCallStarted(call_id="c9", role="planning", model="m", schema_name="s", prompt="p")
    told = e.LlmCallCompleted(
        call_id="c9", role="planning", model="m", usage=Usage(llm_calls=3), duration_secs=1
    )
    log = records([*UNDER_WAY, (104, asked), (105, told)])
    assert PictureState.of(log).model_calls_done == fold(log).usage.llm_calls == 4


ENDS = [
    pytest.param(e.TaskCompleted(final_output="x", score=90), "succeeded", "", id="succeeded"),
    pytest.param(
        e.TaskFailed(failure=Failure(kind="step", reason="no luck")), "failed", "no luck", id="failed"
    ),
    pytest.param(
        e.TaskCancelled(failure=Failure(kind="cancelled", reason="stop")), "cancelled", "stop", id="cancelled"
    ),
    pytest.param(
        e.TaskTimedOut(failure=Failure(kind="timeout", reason="late")), "timed_out", "late", id="timed out"
    ),
]


@pytest.mark.parametrize(("event", "status", "failure"), ENDS)
def test_the_end_of_a_task_is_shown_with_its_time(event: e.AnyEvent, status: str, failure: str) -> None:
    view = PictureState.of(records([*UNDER_WAY, (105, event)]))
    assert (view.status, view.failure, view.ended) == (status, failure, 105)
    assert drawn(view, 999)[0].startswith(f"{status.replace('_', ' ')} 5.0 s  Compare")


def test_events_of_later_releases_and_of_unknown_steps_are_no_fault() -> None:
    strange: list[tuple[float, e.AnyEvent]] = [
        (104, e.UnknownEvent(type="step_dreamt", data={"step_id": "rome"})),
        (104, e.StepStarted(step_id="nowhere")),
        (104, e.StepFailed(step_id="nowhere", error=fault("x"))),
        (104, e.CallFailed.model_validate(call("nowhere", error=fault("x").model_dump()))),
    ]
    before, after = PictureState.of(records(UNDER_WAY)), PictureState.of(records([*UNDER_WAY, *strange]))
    assert after == before


EVENTS = st.lists(
    st.one_of(
        st.sampled_from([e.StepReady, e.StepStarted, e.StepCompleted]).flatmap(
            lambda kind: st.sampled_from(["rome", "oslo", "compare", "x"]).map(
                lambda name: kind(step_id=name)
            )
        ),
        st.sampled_from(["rome", "oslo", "x"]).map(
            lambda name: e.StepFailed(step_id=name, error=fault("no"))
        ),
        st.sampled_from(["compare", "x"]).map(
            lambda name: e.StepSkipped(step_id=name, kind="condition", reason="not wanted")
        ),
        st.just(e.PlanUpdated(plan=plan(step("oslo"), step("x", "oslo"), version=2))),
    ),
    max_size=30,
)


@settings(max_examples=examples(100), deadline=None)
@given(EVENTS, st.integers(1, 140), st.integers(4, 50), st.booleans())
def test_the_counts_fit_the_steps_and_no_line_is_wider_than_the_terminal(
    events: list[e.AnyEvent], width: int, rows: int, ascii_only: bool
) -> None:
    view = PictureState.of(records([*UNDER_WAY, *((110.0 + n, event) for n, event in enumerate(events))]))
    for status, count in view.counts.items():
        assert count == sum(one.status == status for one in view.steps.values())
    assert set(view.running) == {name for name, one in view.steps.items() if one.status == "running"}
    assert set(view.failed) == {name for name, one in view.steps.items() if one.status == "failed"}
    for line in drawn(view, 200, width=max(width, 12), rows=rows, ascii_only=ascii_only):
        assert cell_len(line) <= max(width, 12)


def _call(step_id: str, **more: object) -> dict[str, object]:
    return call(step_id, **more, call_key=f"{step_id}.1")


MORE = st.one_of(
    st.sampled_from(["rome", "oslo", "compare"]).flatmap(
        lambda name: st.sampled_from(
            [
                e.StepReady(step_id=name),
                e.StepStarted(step_id=name),
                e.CallStarted.model_validate(_call(name, effect="once", parameters={})),
                e.OutcomeUnknown.model_validate(_call(name, reason="cut off")),
                e.OutcomeSettled.model_validate(_call(name, by="person", happened=False)),
                e.StepCompleted(step_id=name),
                e.StepFailed(step_id=name, error=fault("no")),
                e.StepSkipped(step_id=name, kind="dependency_failed", reason="it needs another one"),
                e.RetryRequested(request_id=name, step_id=name),
                e.RequestTaken(request_id=name),
            ]
        )
    ),
    st.sampled_from([(), ("rome",), ("rome", "compare")]).map(
        lambda reset: e.PlanUpdated(plan=DIAMOND.model_copy(update={"version": 2}), reset=reset)
    ),
    st.just(e.PlanUpdated(plan=plan(step("oslo"), step("x", "oslo"), version=3))),
)


@given(st.lists(MORE, max_size=25))
def test_every_step_is_as_far_as_the_core_says_after_each_record(events: list[e.AnyEvent]) -> None:
    view, core = PictureState(), State()
    for record in records([*UNDER_WAY, *((110.0 + n, event) for n, event in enumerate(events))]):
        view.apply(record)
        if record.seq:
            apply(core, record.event, record.ts, record.round, record.seq)
        assert {name: one.status for name, one in view.steps.items()} == {
            name: one.status for name, one in core.steps.items()
        }
        assert view.done == len(core.steps) - core.open_steps


def test_a_step_that_a_person_has_tried_again_is_due_with_all_that_was_left_out_for_it() -> None:
    told: list[tuple[float, e.AnyEvent]] = [
        *UNDER_WAY,
        (104, e.StepFailed(step_id="oslo", error=fault("no"))),
        (104, e.StepSkipped(step_id="compare", kind="dependency_failed", reason="it needs oslo")),
    ]
    again: list[tuple[float, e.AnyEvent]] = [
        (110, e.RetryRequested(request_id="r", step_id="oslo")),
        (111, e.RequestTaken(request_id="r")),
    ]
    before, after = PictureState.of(records(told)), PictureState.of(records([*told, *again]))
    assert +before.counts == {"succeeded": 1, "failed": 1, "skipped": 1}
    assert +after.counts == {"succeeded": 1, "pending": 2}
    assert "it needs oslo" not in "\n".join(drawn(after, 112))


# ── the drawing ───────────────────────────────────────────────────────────────


def test_the_picture_shows_layers_times_parallel_bars_and_what_is_waited_for() -> None:
    lines = drawn(PictureState.of(records(UNDER_WAY)), 104)
    assert lines[0].startswith("executing 4.0 s  Compare the weather in Rome and 奥斯陆 🚀")
    assert lines[1] == "plan 1: 3 steps in 2 layers, parallel (2 steps can overlap)"
    assert lines[2].split() == ["╷0", "s", "╷1", "s"]
    rome, oslo, compare = (row(lines, name) for name in ("rome", "oslo", "compare"))
    assert rome.startswith("  1 ✓ rome")
    assert "1.0 s" in rome
    assert oslo.startswith("    ▶ oslo")
    assert "50%, half way" in oslo
    assert compare.startswith("  2 · compare")
    assert compare.endswith("waits for oslo")
    # The bars share one axis: both began together, and the one that still runs is longer.
    assert rome.index("█") == oslo.index("▓")
    assert abs(oslo.count("▓") - 2 * rome.count("█")) <= 1
    assert lines[-2].split("   ") == ["✓ 1 succeeded", "▶ 1 running", "· 1 pending"]
    assert lines[-1] == "used so far: 1 model call (2.0 s), 1 tool call"


NOTES = [
    pytest.param([e.StepReady(step_id="compare")], "compare", "waits for a free place", id="ready"),
    pytest.param(
        [e.CallFailed.model_validate(call("oslo", error=fault("reset").model_dump(), retry_in_secs=1.25))],
        "oslo",
        "50%, reset; retrying in 1.2 s",
        id="retry to come",
    ),
    pytest.param(
        [e.CallStarted.model_validate(call("oslo", attempt=3, effect="reads", parameters={}))],
        "oslo",
        "try 3, 50%, half way",
        id="third try",
    ),
    pytest.param(
        [e.StepFailed(step_id="oslo", error=fault("no such city"))], "oslo", "no such city", id="failed"
    ),
    pytest.param(
        [e.StepSkipped(step_id="compare", kind="dependency_failed", reason="it needs oslo, which failed")],
        "compare",
        "it needs oslo, which failed",
        id="skipped",
    ),
    pytest.param(
        [
            e.StepStarted(step_id="compare", items=7),
            e.CallCompleted.model_validate(call("compare", index=0)),
            e.CallCompleted.model_validate(call("compare", index=1)),
        ],
        "compare",
        "2 of 7 items",
        id="items",
    ),
    pytest.param(
        [e.StepProgress(step_id="oslo", message="\x1b]0;owned\x07a\x1b[31m red\nline\u202e")],
        "oslo",
        "a red line",
        id="control characters of a tool do nothing",
    ),
]


@pytest.mark.parametrize(("events", "step_id", "note"), NOTES)
def test_a_row_tells_what_there_is_to_know_about_its_step(
    events: list[e.AnyEvent], step_id: str, note: str
) -> None:
    view = PictureState.of(records([*UNDER_WAY, *((104.0, event) for event in events)]))
    line = row(drawn(view, 105), step_id)
    assert line.endswith(note)
    assert "\x1b" not in line


def test_a_terminal_without_unicode_gets_ascii() -> None:
    view = PictureState.of(records([(100.0, e.TaskSubmitted(description="plain")), *UNDER_WAY[1:]]))
    text = "\n".join(drawn(view, 104, ascii_only=True))
    assert text.isascii()
    assert "> oslo" in text


@pytest.mark.parametrize("width", [40, 70, 200])
def test_narrow_terminals_lose_columns_and_not_rows(width: int) -> None:
    lines = drawn(PictureState.of(records(UNDER_WAY)), 104, width)
    assert len(lines) == 7 + (width >= 50)
    assert ("look" in row(lines, "rome")) == (width >= 72)
    assert ("█" in row(lines, "rome")) == (width >= 50)


def big_task(count: int) -> list[tuple[float, e.AnyEvent]]:
    steps = [step(f"s{number}", *([f"s{number - 1}"] if number % 10 else [])) for number in range(count)]
    return [(0.0, e.TaskSubmitted(description="much")), (0.0, e.PlanGenerated(plan=plan(*steps)))]


def test_ten_thousand_steps_are_summed_up_in_a_screenful() -> None:
    events = big_task(10_000)
    rng = random.Random(1)
    for number in range(6_000):
        events.append((1.0, e.StepStarted(step_id=f"s{number}")))
        if number < 5_900:
            end = e.StepFailed(step_id=f"s{number}", error=fault("no")) if rng.random() < 0.01 else None
            events.append((2.0, end or e.StepCompleted(step_id=f"s{number}")))
    view = PictureState.of(records(events))
    lines = drawn(view, 3.0, rows=30)
    assert len(lines) <= 30
    text = "\n".join(lines)
    assert "5900 of 10000 done" in text
    assert "▶ 100 running" in text
    assert f"✗ {len(view.failed)} failed" in text
    assert sum(line.lstrip("0123456789 ").startswith("▶ s") for line in lines) >= 5
    assert sum(line.lstrip("0123456789 ").startswith("✗ s") for line in lines) >= 5
    assert "  also running: s" in text
    assert re.search(r"s\d+ and \d+ more\n", text)


# ── plain lines ───────────────────────────────────────────────────────────────


def test_plain_lines_tell_the_story_one_fact_a_line() -> None:
    judged = Evaluation(
        overall_score=91,
        is_successful=True,
        dimensions=Dimensions(completeness=90, correctness=90, efficiency=90, reliability=90),
    )
    more: list[tuple[float, e.AnyEvent]] = [
        (
            103.5,
            e.CallFailed.model_validate(call("oslo", error=fault("reset").model_dump(), retry_in_secs=1)),
        ),
        (104, e.StepFailed(step_id="oslo", error=fault("no such city"))),
        (
            104,
            e.StepSkipped(step_id="compare", kind="dependency_failed", reason="it needs oslo, which failed"),
        ),
        (105, e.EvaluationCompleted(evaluation=judged)),
    ]
    assert lines_of([*UNDER_WAY, *more]) == [
        "[    0.0 s] task task_1: Compare the weather in Rome and 奥斯陆 🚀",
        "[    0.0 s] asking m (planning)",
        "[    2.0 s] planning answered in 2.0 s",
        "[    2.0 s] plan 1, 3 steps: rome, oslo → compare",
        "[    2.0 s] running parallel: 2 steps can overlap",
        '[    2.0 s] rome started: look(city="Rome")',
        "[    2.5 s] oslo: half way",
        "[    3.0 s] rome done in 1.0 s",
        "[    3.5 s] oslo (look) failed: reset; retrying in 1 s (try 2)",
        "[    4.0 s] oslo FAILED in 2.0 s: no such city",
        "[    4.0 s] compare skipped: it needs oslo, which failed",
        "[    5.0 s] judged: 91 of 100",
    ]


def test_a_large_plan_gets_a_line_for_each_tenth_and_for_each_failure() -> None:
    events = big_task(1_000)
    for number in range(1_000):
        events.append((1.0, e.StepStarted(step_id=f"s{number}")))
        failed = number == 500
        events.append(
            (
                2.0,
                e.StepFailed(step_id="s500", error=fault("no"))
                if failed
                else e.StepCompleted(step_id=f"s{number}"),
            )
        )
    said = lines_of(events)
    assert sum("steps done" in line for line in said) == 10
    assert sum("FAILED" in line for line in said) == 1
    assert len(said) < 20


def test_a_line_of_a_tool_stays_one_line_and_cannot_steer_the_terminal() -> None:
    said = lines_of([*UNDER_WAY, (103, e.StepProgress(step_id="oslo", message="a\nb\x1b[2Jc\x07"))])
    assert said[-1] == "[    3.0 s] oslo: a bc"


def failed_at(ts: float) -> list[tuple[float, e.AnyEvent]]:
    return [
        (100.0, e.TaskSubmitted(description="d")),
        (100.0, e.TaskStarted()),
        (100.0, e.PlanGenerated(plan=plan(step("a")))),
        (100.0, e.StepStarted(step_id="a")),
        (ts, e.StepFailed(step_id="a", error=fault("no"))),
    ]


@pytest.mark.parametrize("anew", ["another plan", "tried again"])
def test_in_a_fork_no_step_lasts_from_what_the_other_task_did_under_its_name(anew: str) -> None:
    given = (
        {"plan": {"steps": [{"step_id": "a", "tool": "look"}]}}
        if anew == "another plan"
        else {"retry": ("a",)}
    )
    forked = e.TaskForked(origin="task_1", at=5, root="task_1", **given)
    more: list[tuple[float, e.AnyEvent]] = [(150.0, forked), (151.0, e.TaskResumed())]
    if anew == "another plan":
        more.append((151.0, e.PlanGenerated(plan=plan(step("a"), version=2))))
    more += [(151.0, e.StepStarted(step_id="a")), (153.0, e.StepCompleted(step_id="a"))]
    every = records([*failed_at(101.0), *more])
    shown, known = PictureState.of(every).steps["a"], fold(every).steps["a"]
    spent = 2.0 if anew == "another plan" else 3.0  # with its first try, of a second
    assert shown.secs(153.0) == known.secs == spent


def test_a_step_that_is_tried_again_was_not_at_work_in_between() -> None:
    asked = e.RetryRequested(request_id="r", step_id="a")
    every = records(
        [
            *failed_at(101.0),
            (140.0, asked),
            (141.0, e.RequestTaken(request_id="r")),
            (141.0, e.StepStarted(step_id="a")),
            (143.0, e.StepCompleted(step_id="a")),
        ]
    )
    assert PictureState.of(every).steps["a"].secs(143.0) == fold(every).steps["a"].secs == 3.0
