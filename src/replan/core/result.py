"""What a task came to: a reading of its state."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from replan.core.types import Failure, Usage


class StepResult(BaseModel):
    """One step of the last plan."""

    model_config = ConfigDict(frozen=True)

    step_id: str
    name: str
    tool: str
    status: str
    output: Any = None
    error: str | None = None
    reason: str | None = None
    """Why it was skipped."""
    attempts: int = 0
    reused: bool = False
    duration_secs: float = 0.0


class TaskResult(BaseModel):
    """The result object: what `replan run --json` prints and the service answers."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    status: str
    is_success: bool
    final_score: float | None = None
    total_rounds: int = 0
    final_output: Any = None
    total_duration_secs: float = 0.0
    """Time in which somebody drove the task."""
    failure: Failure | None = None
    usage: Usage = Usage()
    steps: tuple[StepResult, ...] = ()

    @property
    def output(self) -> Any:
        return self.final_output

    @property
    def succeeded(self) -> bool:
        return self.is_success

    @property
    def score(self) -> float | None:
        return self.final_score

    @property
    def rounds(self) -> int:
        return self.total_rounds
