"""Plain calls: what stands for two events is, to the state and to the log, nothing but these two."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from histories import (
    OPENED,
    PLANNED,
    answered,
    begun,
    broken,
    called,
    done,
    doubted,
    missed,
    planned,
    ready,
    skipped,
)
from hypothesis import given
from hypothesis import strategies as st

from replan.core import events as e
from replan.core.plain_calls import PlainEnd, PlainStart, Recorded, dump_together, spelled_out
from replan.core.state.fold import apply
from replan.core.state.task import Output, State
from replan.core.types import Step
from replan.store.rows import MOST, TOGETHER, records_of, rows_of

STEPS = st.sampled_from(["find", "send", "gone"])
KEYS = st.sampled_from(["k.1", "k.2", "m.1", "odd"])
EFFECTS = st.sampled_from(["reads", "repeatable", "once"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
STARTS = st.builds(PlainStart, STEPS, KEYS, TEXTS, EFFECTS, st.dictionaries(TEXTS, VALUES, max_size=3))
ENDS = st.builds(PlainEnd, STEPS, KEYS, TEXTS, VALUES, st.floats(0, 1e9))
PLAIN = st.one_of(STARTS, ENDS)
OTHERS: st.SearchStrategy[e.AnyEvent] = st.one_of(
    st.builds(ready, STEPS),
    st.builds(begun, STEPS),
    st.builds(called, EFFECTS, step_id=STEPS, key=KEYS),
    st.builds(answered, step_id=STEPS, key=KEYS, reused=st.booleans()),
    st.builds(missed, again=st.none() | st.just(1.0), step_id=STEPS, key=KEYS),
    st.builds(doubted, step_id=STEPS, key=KEYS),
    st.builds(done, STEPS),
    st.builds(broken, STEPS),
    st.builds(skipped, STEPS),
    st.just(planned(Step(step_id="find", tool="search", requires_approval=True), version=2)),
    st.just(PLANNED),
)


def state_after(recorded: Sequence[Recorded]) -> State:
    state = State(task_id="t")
    for at, one in enumerate([*OPENED, PLANNED, *recorded]):
        apply(state, one, 100.0 + at // 2, 1)
    return state


def spelled_state(recorded: Sequence[Recorded]) -> State:
    state = State(task_id="t")
    for at, one in enumerate([*OPENED, PLANNED, *recorded]):
        for event in spelled_out([one]):
            apply(state, event, 100.0 + at // 2, 1)
    return state


@given(st.lists(st.one_of(PLAIN, OTHERS), max_size=12))
def test_a_state_takes_them_as_it_takes_the_events_whatever_else_has_happened(
    recorded: list[Recorded],
) -> None:
    assert state_after(recorded) == spelled_state(recorded)


@pytest.mark.parametrize("between", [[], [ready("send")], [missed(key="k.1")], [doubted(key="k.1")]])
def test_a_plain_call_from_its_start_to_its_end_is_one_step_done(between: list[e.AnyEvent]) -> None:
    recorded = [
        PlainStart("find", "k.1", "search", "once", {"q": "x"}),
        *between,
        PlainEnd("find", "k.1", "search", 7, 0.5),
    ]
    state = state_after(recorded)
    assert state == spelled_state(recorded)
    assert (state.steps["find"].status, state.open_steps, state.tool_calls) == ("succeeded", 1, 1)
    assert state.steps["find"].calls.popitem()[1].output == Output(7)
    assert list(state.took_effect) == ["k.1"]
    assert not state.in_doubt


@given(st.lists(st.one_of(PLAIN, OTHERS), min_size=1, max_size=8))
def test_their_text_reads_as_the_events(recorded: list[Recorded]) -> None:
    written = [e.read(kind, data) for kind, data in e.split_together(dump_together(recorded))]
    wanted = [e.load(event.type, e.dump(event)) for event in spelled_out(recorded)]
    assert [e.dump(one) for one in written] == [e.dump(one) for one in wanted]
    assert json.loads(dump_together(recorded)) == json.loads(e.dump_together(spelled_out(recorded)))


@given(st.lists(st.one_of(PLAIN, OTHERS), max_size=8), st.integers(0, 12))
def test_the_log_numbers_each_event_by_itself(recorded: list[Recorded], after: int) -> None:
    rows, last = [], 0
    for row in rows_of(recorded):
        last += row.holds
        rows.append((last, 5.0, 2, row.type, row.data))
    events = spelled_out(recorded)
    found = list(records_of("t", [row for row in rows if row[0] > after], after))
    assert [(one.seq, e.dump(one.event)) for one in found] == [
        (at, e.dump(event)) for at, event in enumerate(events, 1) if at > after
    ]


def test_a_single_start_is_a_row_of_two_and_no_row_holds_more_than_the_most() -> None:
    start = PlainStart("find", "k.1", "search", "reads", {})
    assert [(row.holds, row.type) for row in rows_of([start])] == [(2, TOGETHER)]
    assert [row.holds for row in rows_of([start] * (MOST // 2))] == [MOST]
    assert [row.holds for row in rows_of([start] * (MOST // 2 + 1))] == [MOST, 2]


def test_numbers_that_json_has_not_are_null_as_in_any_event() -> None:
    recorded = [
        PlainStart("find", "k.1", "search", "reads", {"n": math.inf}),
        PlainEnd("find", "k.1", "s", math.nan, 0.0),
    ]
    assert json.loads(dump_together(recorded)) == json.loads(e.dump_together(spelled_out(recorded)))
