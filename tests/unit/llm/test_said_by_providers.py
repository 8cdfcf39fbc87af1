"""What providers say in forms of their own: errors, calls in pieces, and how much of a prompt they have read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from replan.core.types import Usage
from replan.llm.completions import CallsSaidOnce
from replan.llm.faults import of_status
from replan.llm.used import prompt_was_cut
from replan.ports import ModelRequest, Turn


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "credit too low"}}, "credit too low"),
        ({"error": {"code": 404, "message": "models/x is not found", "status": "NOT_FOUND"}}, "is not found"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ({"message": "flat", "code": "x"}, ": flat"),
        ("a page", ": a page"),
        ({"error": {"message": "y" * 9_000}}, "y" * 500),
    ],
)  # fmt: skip
def test_what_is_said_of_an_error_is_told_and_bounded(body: Any, told: str) -> None:
    error = SimpleNamespace(status_code=400, body=body, retry_after=None)
    said = str(of_status("model 'm'", error, quota=False, key="check it"))
    assert told in said
    assert len(said) < 700


def test_a_key_that_google_does_not_know_is_told_as_that() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    body = {"error": {"code": 400, "message": "API key not valid.", "details": details}}
    error = SimpleNamespace(status_code=400, body=body, retry_after=None)
    found = of_status("model 'm'", error, quota=False, key="check it")
    assert (found.setup, found.refused, found.transient) == (True, True, False)
    assert "API key not valid.; check it" in str(found)


def piece(index: int = 0, **function: str) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": function}]}}]}


def strung(*pieces: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Each call as a reader has it in the end."""
    once = CallsSaidOnce()
    found: dict[int, tuple[str, str]] = {}
    for event in pieces:
        once.repeated(event)
        for call in event["choices"][0]["delta"]["tool_calls"]:
            name, arguments = found.get(call["index"], ("", ""))
            said = call["function"]
            found[call["index"]] = (name + said.get("name", ""), arguments + said.get("arguments", ""))
    return found


WHOLE = json.dumps({"steps": []})


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([piece(name="plan", arguments=one) for one in (WHOLE[:4], WHOLE[4:])], id="in each"),
        pytest.param(
            [piece(name="plan"), piece(arguments=WHOLE), piece(name="plan", arguments=WHOLE)], id="at the end"
        ),
        pytest.param([piece(name="pl"), piece(name="an"), piece(arguments=WHOLE)], id="in parts"),
        pytest.param([piece(name="plan", arguments=""), *(piece(arguments=one) for one in WHOLE)], id="once"),
    ],
)
def test_a_call_is_said_once(pieces: list[dict[str, Any]]) -> None:
    assert strung(*pieces) == {0: ("plan", WHOLE)}


def test_two_calls_of_one_name_are_two() -> None:
    said = [piece(at, name="plan", arguments=WHOLE) for at in (0, 1)]
    assert strung(*said) == {0: ("plan", WHOLE), 1: ("plan", WHOLE)}


@pytest.mark.parametrize(
    ("words", "counted", "cut"),
    [
        (20_000, 4_096, True),
        (20_000, 22_000, False),
        (20_000, 0, False),
        (500, 60, False),
    ],
)
def test_a_prompt_that_was_cut_shows_in_what_is_counted(words: int, counted: int, cut: bool) -> None:
    text = "weather " * words
    request = ModelRequest(
        role="planning",
        schema_name="p",
        json_schema={},
        instructions="Plan.",
        turns=(Turn(role="user", text=text),),
    )
    assert prompt_was_cut(Usage(input_tokens=counted), request) is cut
