"""The recorded runs: made with the built-in model, fit for every day and every machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples.record import FIRST_RUN, RECORDINGS

from replan.llm.recorder import request_key
from replan.ports import ModelRequest, Turn

FILES = sorted(RECORDINGS.glob("*.jsonl"))


def test_there_is_a_recording_for_everything_that_is_replayed() -> None:
    assert {file.stem for file in FILES} == {*FIRST_RUN, "typed_answer", "tasks"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recording_is_of_the_built_in_model_and_names_no_place_of_a_machine(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert json.loads(text.splitlines()[0])["name"].startswith("local:")
    for place in ("/tmp", "/home", "/root", "127.0.0.1", str(Path(__file__).parents[2])):
        assert place not in text


def asked_on(date: str, task: str = "What was sold?") -> ModelRequest:
    text = f"Tools: sales(month)\nToday is {date}.\nTask: {task}"
    return ModelRequest(
        role="planning",
        schema_name="execution_plan",
        json_schema={"type": "object"},
        instructions="Plan.",
        turns=(Turn(role="user", text=text),),
    )


def test_a_recording_serves_on_later_days_too() -> None:
    assert request_key(asked_on("2026-01-02")) == request_key(asked_on("2031-12-31"))
    assert request_key(asked_on("2026-01-02")) != request_key(asked_on("2026-01-02", "What was bought?"))
    assert request_key(asked_on("today")) != request_key(asked_on("2026-01-02"))
