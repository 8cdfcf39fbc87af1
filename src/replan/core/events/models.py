"""Calls of models."""

from __future__ import annotations

from typing import ClassVar, Literal

from replan.core.events.event import Event
from replan.core.types import Usage


class LlmCallStarted(Event):
    type: Literal["llm_call_started"] = "llm_call_started"
    call_id: str
    role: str
    model: str
    schema_name: str
    prompt: str
    """The prompt's name."""
    prompt_hash: str = ""
    attempt: int = 1
    text: str = ""
    """The whole request as sent, for developers."""
    tokens: int | None = None
    """About how many are asked."""


class LlmToken(Event):
    stored: ClassVar[bool] = False
    type: Literal["llm_token"] = "llm_token"
    call_id: str
    role: str
    text: str


class LlmCallCompleted(Event):
    type: Literal["llm_call_completed"] = "llm_call_completed"
    call_id: str
    role: str
    model: str
    usage: Usage = Usage()
    """`llm_calls`: the requests that were made for it."""
    duration_secs: float = 0.0
    text: str = ""
    error: str | None = None
    endpoint: str = ""
    """Which endpoint answered, where it is not the one that was asked first."""
