from __future__ import annotations

from typing import Any

import pytest

from replan.core.types import ToolSpec
from replan.reasoning.secrecy import Secrets
from replan.reasoning.view import TaskView

NESTED = {
    "type": "object",
    "properties": {
        "login": {
            "type": "object",
            "properties": {
                "word": {"type": "string", "format": "password"},
                "old": {"anyOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
            },
        }
    },
}
TOOL = ToolSpec(id="t", secrets=("pin",), parameters=NESTED)
TASK = TaskView(
    description="x",
    metadata={"token": "abc-123", "n": 1, "deep": [{"token": {"inner": "xyz-789"}}]},
    secrets=("token",),
)


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        pytest.param({"pin": 1234, "a": 1}, {"pin": "***", "a": 1}, id="by the tool's word"),
        pytest.param({"token": "x"}, {"token": "***"}, id="by the task's"),
        pytest.param({"login": {"word": "x"}}, {"login": {"word": "***"}}, id="by the schema"),
        pytest.param({"login": {"old": "x"}}, {"login": {"old": "***"}}, id="one that may be null"),
        pytest.param([{"pin": "x"}], [{"pin": "***"}], id="in a list"),
        pytest.param(
            {"pin": "${metadata.token}"}, {"pin": "${metadata.token}"}, id="a reference is no secret"
        ),
        pytest.param({"pin": "a ${metadata.token}"}, {"pin": "***"}, id="a text with a reference may be"),
    ],
)
def test_values_under_secret_names_are_masked(value: Any, masked: Any) -> None:
    assert Secrets(TASK, [TOOL]).masked(value) == masked


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        pytest.param("token abc-123 refused", "token *** refused", id="from metadata"),
        pytest.param("xyz-789", "***", id="below a secret name"),
        pytest.param("pin 12345", "pin ***", id="a number, from what was planned"),
        pytest.param('said "a\\"b\\u00e9"', 'said "***"', id="as JSON"),
        pytest.param("n is 1", "n is 1", id="what is no secret stays"),
    ],
)
def test_texts_that_quote_a_secret_are_cleaned(text: str, hidden: str) -> None:
    secrets = Secrets(TASK, [TOOL], {"pin": 12345}, {"login": {"word": 'a"bé'}}, {"pin": "no"})
    assert secrets.hide(text) == hidden
