"""The picture as a Gantt: bars on one axis that grows in jumps, columns apart, and nothing that is busy left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from picture_records import DIAMOND, fault, plan, records, step
from rich.cells import cell_len, set_cell_size

from replan.cli.live.axis import Axis, Pauses
from replan.cli.live.draw import render
from replan.cli.live.picture import PictureState
from replan.cli.live.rows import SIGNS
from replan.core import events as e
from replan.core.types import Usage
from thorough import examples

BARS = "█▓░╳"


def lines_of(view: PictureState, now: float, width: int = 100, rows: int = 40) -> list[str]:
    return [line.plain for line in render(view, now, width, rows=rows)]


def start_of(line: str) -> int:
    """The cell in which the bar of a row begins."""
    return cell_len(line[: next(at for at, sign in enumerate(line) if sign in BARS)])


# ── any plan, any terminal ────────────────────────────────────────────────────

NAMES = st.text(alphabet="abz_读取客户名单汇率ｗ한é", min_size=1, max_size=30)
FATES = st.sampled_from(["", "started", "done", "failed", "skipped", "ready", "waits"])


@st.composite
def tasks(draw: st.DrawFn) -> PictureState:
    names = draw(st.lists(NAMES, min_size=1, max_size=60, unique=True))
    steps = []
    for at, name in enumerate(names):
        needs = draw(st.lists(st.sampled_from(names[:at]), max_size=2, unique=True)) if at else []
        steps.append(step(name, *needs, tool=draw(NAMES)))
    told: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description=draw(NAMES))),
        (0.0, e.PlanGenerated(plan=plan(*steps))),
    ]
    now = 1.0
    for name in names:
        now += draw(st.sampled_from([0.0, 0.3, 2.0, 70.0, 5_000.0, 90_000.0]))
        ends: dict[str, list[e.AnyEvent]] = {
            "": [],
            "started": [e.StepStarted(step_id=name, items=draw(st.sampled_from([None, 3])))],
            "done": [e.StepStarted(step_id=name), e.StepCompleted(step_id=name)],
            "failed": [e.StepStarted(step_id=name), e.StepFailed(step_id=name, error=fault("没有空间 " * 9))],
            "skipped": [e.StepSkipped(step_id=name, kind="condition", reason="not wanted")],
            "ready": [e.StepReady(step_id=name)],
            "waits": [
                e.ApprovalRequested(
                    approval_id=f"ap_{name}", call_key="k", step_id=name, tool_id="t", effect="once", parameters={}
                )
            ],
        }  # fmt: skip
        told += [(now + at * 0.7, event) for at, event in enumerate(ends[draw(FATES)])]
    return PictureState.of(records(told))


@settings(max_examples=examples(120), deadline=None)
@given(tasks(), st.integers(12, 200), st.integers(8, 70))
def test_columns_stay_apart_no_line_is_too_wide_and_nothing_busy_is_left_out(
    view: PictureState, width: int, rows: int
) -> None:
    now = 100_000_000.0
    lines = lines_of(view, now, width, rows)
    assert max(map(cell_len, lines)) <= width
    busy = {name for name, one in view.steps.items() if view.shown(one) in ("running", "waiting", "failed")}
    signs = "".join(SIGNS[status][0] for status in ("running", "waiting", "failed"))
    own = [line for line in lines if re.match(rf"^(?: *\d+|   ) [{signs}] ", line)]
    named = [
        name for line in lines if line.startswith(("  also", "    ")) for name in re.split(r"[:, ]+", line)
    ]
    counted = sum(int(count) for line in lines for count in re.findall(r"(\d+) more(?: \w+)?$", line))
    if width >= 60:
        assert len(own) + len(set(named) & busy) + counted >= len(busy)
    if len(busy) + 12 <= rows:
        assert len(own) == len(busy)
    if width >= 50 and own:
        axis = next(line for line in lines if line.lstrip().startswith("╷"))
        bars = axis.index("╷")
        for line in own:  # what stands before the bars ends before them, in each row at the same cell
            before = set_cell_size(line, bars)
            assert re.search(
                r" [‖▶✗] \S.* ( {10}|[ \d]+(\.\d)? (s|min|h)( \d\d (s|min))?| *\d+ d \d\d h) $", before
            )


# ── bars ──────────────────────────────────────────────────────────────────────


def run_of(*times: tuple[str, float, float]) -> PictureState:
    told: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="look")),
        (0.0, e.PlanGenerated(plan=plan(*(step(name) for name, _, _ in times)))),
    ]
    for name, start, end in times:
        told.append((start, e.StepStarted(step_id=name)))
        if end:
            told.append((end, e.StepCompleted(step_id=name)))
    return PictureState.of(records(sorted(told, key=lambda one: one[0])))


def test_a_bar_begins_where_its_step_was_started_and_stays_there_until_the_axis_jumps() -> None:
    view = run_of(("a", 10.0, 12.0), ("b", 13.0, 0.0))
    seen = []
    for tenth in range(40, 121):
        row = next(line for line in lines_of(view, 10.0 + tenth / 10) if " ▶ b" in line)
        seen.append(start_of(row))
    assert len(set(seen[:11])) == 1  # to 5 s
    assert len(set(seen[11:61])) == 1  # to 10 s
    assert seen[0] > seen[11] > seen[-1]
    a, b = (next(line for line in lines_of(view, 15.0) if f" {name} " in line) for name in "ab")
    axis = Axis.of(10.0, 15.0, 99)
    assert (axis.cell(10.0), axis.cell(13.0)) == (0, 59)
    assert start_of(b) > start_of(a) + cell_len(a.rstrip()[a.index("█") :])


@pytest.mark.parametrize(
    ("secs", "cells", "marks"),
    [
        (0.4, 40, "|0 s"),
        (7, 40, "|0 s    |2 s    |4 s    |6 s    |8 s"),
        (100, 40, "|0 s"),
        (100, 60, "|0 s"),
        (3_000, 60, "|0 min"),
        (80_000, 60, "|0 h"),
        (4_000_000, 60, "|0 d"),
    ],
)
def test_marks_stand_above_what_they_tell(secs: float, cells: int, marks: str) -> None:
    axis = Axis.of(50.0, 50.0 + secs, cells)
    told = axis.marks("|")
    assert cell_len(told) == cells
    assert told.startswith(marks)
    for at, label in ((found.start(), found.group()) for found in re.finditer(r"\|\d+ \w+", told)):
        amount, unit = label[1:].split()
        after = int(amount) * {"s": 1, "min": 60, "h": 3_600, "d": 86_400}[unit]
        assert abs(axis.cell(50.0 + after) - at) <= 1
    assert secs <= axis.span


def test_time_in_which_nobody_drove_the_task_takes_no_room() -> None:
    pauses = Pauses()
    pauses.add(10.0, 110.0)
    pauses.add(120.0, 1_120.0)
    seen = [pauses.without(ts) for ts in (5.0, 10.0, 60.0, 110.0, 115.0, 120.0, 500.0, 1_121.0)]
    assert seen == [5.0, 10.0, 10.0, 10.0, 15.0, 20.0, 20.0, 21.0]
    told: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="look")),
        (0.0, e.PlanGenerated(plan=DIAMOND)),
        (1.0, e.StepStarted(step_id="rome")),
        (2.0, e.StepCompleted(step_id="rome")),
        (2.0, e.TaskWaiting(reason="a person")),
    ]
    night = 50_000.0
    asleep = PictureState.of(records(told))
    awake = PictureState.of(
        records([*told, (night, e.TaskResumed()), (night, e.StepStarted(step_id="oslo"))])
    )
    before = next(line for line in lines_of(asleep, night) if " ✓ rome" in line)
    after = next(line for line in lines_of(awake, night + 0.5) if " ✓ rome" in line)
    assert before.count("█") > after.count("█") > 20  # of a second, in what are two
    assert any("╷1 s" in line for line in lines_of(awake, night + 0.5))


# ── what waits, and what it has cost ──────────────────────────────────────────


def test_a_step_that_waits_for_a_person_says_so_until_there_is_an_answer() -> None:
    asked: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="look")),
        (0.0, e.PlanGenerated(plan=DIAMOND)),
        (1.0, e.StepStarted(step_id="rome")),
        (1.0, e.ApprovalRequested(approval_id="ap_1", call_key="k.1", step_id="oslo", tool_id="pay", effect="once", parameters={})),
        (1.0, e.WaitStarted(call_key="k.2", step_id="rome", tool_id="wait", kind="callback")),
    ]  # fmt: skip
    lines = lines_of(PictureState.of(records(asked)), 3.5, 120)
    assert next(line for line in lines if "‖ oslo" in line).endswith("waits for a yes to pay (ap_1)")
    assert next(line for line in lines if "‖ rome" in line).endswith("waits for somebody outside")
    assert lines[-2 if "used" in lines[-1] else -1] == "‖ 2 waiting   · 1 pending"
    heard: list[tuple[float, e.AnyEvent]] = [
        (3.0, e.ApprovalResolved(approval_id="ap_1", approved=True)),
        (3.0, e.CallCompleted(call_key="k.2", step_id="rome", tool_id="wait")),
    ]
    view = PictureState.of(records([*asked, *heard]))
    assert view.waiting == {}
    assert any("▶ 1 running   · 2 pending" in line for line in lines_of(view, 4.0))


def test_what_it_has_cost_so_far_stands_in_the_picture() -> None:
    usage = Usage(llm_calls=2, input_tokens=12_000, output_tokens=345, cost_usd=0.0421)
    told: list[tuple[float, e.AnyEvent]] = [
        (0.0, e.TaskSubmitted(description="look")),
        (1.0, e.LlmCallCompleted(call_id="c", role="planning", model="m", usage=usage, duration_secs=1)),
    ]
    view = PictureState.of(records(told))
    assert lines_of(view, 2.0)[-1] == "used so far: $0.0421, 2 model calls (1.0 s), 12,345 tokens"
