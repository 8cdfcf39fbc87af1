"""Events come out of a stream whole and in order, wherever it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from replan.client.events import Frames, record_of
from replan.core.events import StepReady, UnknownEvent
from replan.errors import ServiceError

STREAM = (
    b"retry: 1000\n\n"
    b'id: 1\nevent: a\ndata: {"n":1}\n\n'
    b":\n\n"
    b'event: b\r\ndata: {"t":"\xc3\xa9\xe2\x82\xac"}\r\n\r\n'
    b'id:2\ndata:{"n":\ndata: 2}\n\n: a remark\n\nunknown: x\n\n'
)
DATA = [b'{"n":1}', b'{"t":"\xc3\xa9\xe2\x82\xac"}', b'{"n":\n2}']


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_a_stream_may_be_cut_at_every_byte(at: int) -> None:
    frames = Frames()
    assert [*frames.feed(STREAM[:at]), *frames.feed(STREAM[at:])] == DATA


def test_nothing_comes_of_an_event_that_is_not_whole() -> None:
    for at in range(len(STREAM) + 1):
        found = list(Frames().feed(STREAM[:at]))
        assert found == DATA[: len(found)]


@given(texts=st.lists(st.text()), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_whatever_stands_in_events_comes_through(texts: list[str], cuts: list[int]) -> None:
    data = b"".join(b"id: 1\ndata: " + to_json(text) + b"\n\n" for text in texts)
    frames, found, at, n = Frames(), [], 0, 0
    while at < len(data):
        found += frames.feed(data[at : at + cuts[n % len(cuts)]])
        at, n = at + cuts[n % len(cuts)], n + 1
    assert [from_json(one) for one in found] == texts


def test_a_record_of_a_kind_that_is_not_known_is_kept_as_it_is() -> None:
    wire = {"seq": 3, "task_id": "t", "ts": 1.5, "round": 1, "type": "step_ready", "data": {"step_id": "a"}}
    assert record_of(wire).event == StepReady(step_id="a")
    odd = record_of({**wire, "type": "step_danced", "data": {"how": "well"}})
    assert isinstance(odd.event, UnknownEvent)
    assert odd.wire() == {**wire, "type": "step_danced", "data": {"how": "well"}}


@pytest.mark.parametrize("wire", [None, [], {}, {"seq": "x"}, {"seq": 1, "task_id": "t", "ts": 0, "round": 1, "type": "a", "data": 3}])  # fmt: skip
def test_what_is_no_record_is_said_to_be_none(wire: object) -> None:
    with pytest.raises(ServiceError, match="no event of a task"):
        record_of(wire)
