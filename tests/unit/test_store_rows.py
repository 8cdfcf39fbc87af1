from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core import events as e
from replan.store.rows import MOST, TOGETHER, records_of, rows_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
EVENTS: st.SearchStrategy[e.AnyEvent] = st.one_of(
    st.builds(e.StepStarted, step_id=TEXTS, items=st.none() | st.integers(0, 9)),
    st.builds(
        e.CallStarted,
        call_key=TEXTS,
        step_id=TEXTS,
        tool_id=TEXTS,
        effect=st.sampled_from(["reads", "once"]),
        parameters=st.dictionaries(TEXTS, VALUES, max_size=2),
    ),
    st.builds(
        e.CallCompleted, call_key=TEXTS, step_id=TEXTS, tool_id=TEXTS, output=VALUES, masked=st.booleans()
    ),
    st.builds(e.CancelRequested, reason=TEXTS),
    st.builds(e.LlmToken, call_id=TEXTS, role=TEXTS, text=TEXTS),
    st.builds(lambda data: e.UnknownEvent(type="step_dreamt", data=data), st.dictionaries(TEXTS, VALUES)),  # type: ignore[arg-type]
)


def laid(events: Sequence[e.AnyEvent], first: int = 1) -> list[tuple[int, float, int, str, str]]:
    """The rows as they lie in the table, the first event numbered `first`."""
    rows, last = [], first - 1
    for row in rows_of(events):
        last += row.holds
        rows.append((last, 5.0, 2, row.type, row.data))
    return rows


@given(st.lists(EVENTS, max_size=8), st.integers(0, 12))
def test_what_is_laid_down_together_is_read_one_by_one_from_any_place(
    events: list[e.AnyEvent], after: int
) -> None:
    stored = [event for event in events if event.stored]
    alone = [e.load(event.type, e.dump(event)) for event in stored]
    found = list(records_of("t", [row for row in laid(events, first=3) if row[0] > after], after))
    wanted = [e.Record(at, "t", 5.0, 2, event) for at, event in enumerate(alone, 3) if at > after]
    assert found == wanted
    assert [e.dump(one.event) for one in found] == [e.dump(one.event) for one in wanted]


def test_one_append_is_one_row_and_one_event_is_a_row_of_its_own_kind() -> None:
    one, two = e.StepReady(step_id="a"), e.StepStarted(step_id="a")
    assert [(row.holds, row.type) for row in rows_of([one, two])] == [(2, TOGETHER)]
    assert [(row.holds, row.type, json.loads(row.data)) for row in rows_of([one])] == [
        (1, "step_ready", {"step_id": "a"})
    ]
    assert rows_of([]) == rows_of([e.LlmToken(call_id="c", role="r", text="x")]) == []


def test_signals_and_unknown_kinds_can_be_found_by_their_kind() -> None:
    cancel, ready = e.CancelRequested(), e.StepReady(step_id="a")
    unknown = e.load("step_dreamt", "{}")
    kinds = [row.type for row in rows_of([ready, ready, cancel, ready, unknown, ready, ready])]
    assert kinds == [TOGETHER, "cancel_requested", "step_ready", "step_dreamt", TOGETHER]


def test_a_row_holds_a_limited_number_of_events() -> None:
    rows = rows_of([e.StepReady(step_id=f"s{n}") for n in range(2 * MOST + 1)])
    assert [row.holds for row in rows] == [MOST, MOST, 1]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_json_is_null_alone_and_together(number: float) -> None:
    event = e.CallCompleted(call_key="k", step_id="s", tool_id="t", output=number)
    outputs = [
        one.event.output
        for events in ([event], [event, event])
        for one in records_of("t", laid(events), 0)
        if isinstance(one.event, e.CallCompleted)
    ]
    assert outputs == [None, None, None]


def test_what_cannot_be_read_as_its_kind_is_kept_as_it_is_together_too() -> None:
    rows = [(2, 5.0, 1, TOGETHER, '[["step_ready",{"step":1}],["step_ready",{"step_id":"a"}]]')]
    first, second = records_of("t", rows, 0)
    assert isinstance(first.event, e.UnknownEvent)
    assert first.wire()["data"] == {"step": 1}
    assert second.event == e.StepReady(step_id="a")
