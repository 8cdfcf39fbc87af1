"""What a caller may choose for one task, and how it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from pydantic import SecretStr

from replan.run.session.given import read_secret


class TaskOptions(TypedDict, total=False):
    """Limits only lower those of the service; approvals are the stricter of the two."""

    max_llm_calls: int | None
    max_tokens: int | None
    max_cost_usd: float | None
    max_tool_calls: int | None
    max_rounds: int | None
    evaluation: Literal["model", "steps"] | None
    approval: Literal["never", "destructive", "all"] | None
    review_plan: bool | None
    success_threshold: float | None
    interactive: bool
    output_schema: Mapping[str, Any] | None
    workflow: str | None
    slots: Mapping[str, Any] | None


def as_json(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of it: what is None the service decides."""
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name == "options":
            value = as_json(value)
        if value is not None and not (name == "options" and not value):
            found[name] = dict(value) if isinstance(value, Mapping) else value
    return found


def in_clear(secrets: Mapping[str, str | SecretStr] | None) -> dict[str, str]:
    """The values of `env:VARIABLE` and `file:PATH`, read here: the service has another environment."""
    return {name: read_secret(name, source) for name, source in (secrets or {}).items()}
