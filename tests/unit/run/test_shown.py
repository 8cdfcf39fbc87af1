"""What of an event a reader sees."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.events import (
    KINDS,
    AnyEvent,
    CallCompleted,
    LlmCallCompleted,
    LlmCallStarted,
    LlmToken,
    Record,
    TaskCompleted,
)
from replan.run.access.shown import LIGHT_BYTES, Showing, shown

MODEL_WORDS = "the words of a model"
TALK: list[AnyEvent] = [
    LlmCallStarted(call_id="c", role="planning", model="m", schema_name="s", prompt="plan", text=MODEL_WORDS),
    LlmCallCompleted(call_id="c", role="planning", model="m", text=MODEL_WORDS),
    LlmToken(call_id="c", role="planning", text=MODEL_WORDS),
]


def record(event: AnyEvent) -> Record:
    return Record(7, "task/1", 2.0, 1, event)


@pytest.mark.parametrize("event", TALK, ids=lambda event: event.type)
def test_a_user_sees_no_words_of_prompts_and_raw_answers(event: AnyEvent) -> None:
    for light in (False, True):
        seen = shown(record(event), Showing("user", light))
        assert MODEL_WORDS not in json.dumps(seen)
        assert seen["data"]["text_bytes"] == len(MODEL_WORDS)
    assert event.model_dump()["text"] == MODEL_WORDS


@pytest.mark.parametrize("event", TALK, ids=lambda event: event.type)
def test_a_developer_sees_them_and_in_the_light_view_where_they_are(event: AnyEvent) -> None:
    assert shown(record(event), Showing("developer")) == record(event).wire()
    light = shown(record(event), Showing("developer", light=True))
    assert light["data"]["text"] == {
        "left_out": True, "bytes": len(MODEL_WORDS), "href": "/api/v1/tasks/task%2F1/events?after=6&limit=1",
    }  # fmt: skip


def made(output: Any) -> CallCompleted:
    return CallCompleted(call_key="k", step_id="s 1", tool_id="t", output=output)


@given(st.text(max_size=3 * LIGHT_BYTES))
def test_the_light_view_is_small_whatever_a_tool_has_given(text: str) -> None:
    seen = shown(record(made(text)), Showing("user", light=True))["data"]["output"]
    size = len(json.dumps(text, ensure_ascii=False).encode())
    if isinstance(seen, dict):
        assert seen["href"] == "/api/v1/tasks/task%2F1/steps/s%201/output"
        assert seen["bytes"] > LIGHT_BYTES
    else:
        assert seen == text
        assert size <= LIGHT_BYTES + 16


def test_a_large_answer_is_a_link_to_its_event() -> None:
    done = record(TaskCompleted(final_output="x" * 5000))
    assert shown(done, Showing(light=True))["data"]["final_output"]["href"].endswith(
        "/events?after=6&limit=1"
    )
    assert shown(done, Showing())["data"]["final_output"] == "x" * 5000


def test_the_frame_is_the_log_s_own_in_every_view() -> None:
    for event in (*TALK, made({"a": 1})):
        for how in (Showing(), Showing("developer"), Showing(light=True)):
            seen = shown(record(event), how)
            assert seen.keys() == {"seq", "task_id", "ts", "round", "type", "data"}
            assert seen["type"] in KINDS or not event.stored
