"""A model that says what the test tells it to."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from replan.core.types import Role
from replan.ports import ModelReply, ModelRequest
from replan.reasoning.prompts import Rendered


class Asked(NamedTuple):
    role: Role
    request: ModelRequest
    prompt: Rendered
    attempt: int


class Script:
    """A `Talk` that gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any, style: str = "standard") -> None:
        self.style = style
        self.asked: list[Asked] = []
        self._answers = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        self.asked.append(Asked(role, request, prompt, attempt))
        return ModelReply(text=self._answers[len(self.asked) - 1])


@pytest.fixture
def script() -> type[Script]:
    return Script
