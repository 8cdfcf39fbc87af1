"""The keyword arguments of `Replan` and `Replan.run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic import SecretStr

from replan.config import Settings
from replan.config.options import Options
from replan.core.types import JsonObject
from replan.ports import Question, ToolSource
from replan.run.service.announcer import OnEvent
from replan.wiring import ModelChoice, Paths

Evaluation: TypeAlias = Literal["model", "steps"]
Tools: TypeAlias = Sequence[Callable[..., Any] | ToolSource | str]
Ask: TypeAlias = Callable[[str, str, Question], Awaitable[JsonObject | None]]


class Asked(TypedDict, total=False):
    """What is said of a task beside its text, its secrets and the form of its answer."""

    metadata: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    session_id: str | None
    previous_task_id: str | None
    task_id: str | None
    timeout: float | None
    plan: Mapping[str, Any] | None
    workflow: str | None
    slots: Mapping[str, Any] | None


class RunArguments(Asked, total=False):
    """The same of one task, which may be evaluated otherwise than others of the same `Replan`."""

    evaluation: Evaluation | None


class TaskArguments(Asked, total=False):
    """What `Replan.run` takes beside the task's text and the form of its answer."""

    secrets: Mapping[str, Any] | None


class Arguments(Options, TaskArguments, total=False):
    """What `Replan` and `Replan.run` take together."""

    model: ModelChoice
    db: str | Path | None
    settings: Settings | None
    endpoint: str | None
    api_key: str | SecretStr | None
    record: str | Path | None
    replay: str | Path | None
    ask: Ask | None
    on_event: OnEvent | None
    scenes: Paths
    workflows: Paths
