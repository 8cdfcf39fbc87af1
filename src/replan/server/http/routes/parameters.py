"""Parameters that several calls share."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Header, Path, Query

from replan.core.state.task import TaskStatus

TaskId = Annotated[
    str, Path(min_length=1, max_length=128, description="The task's id.", examples=["task_01J9ZK3V7Q"])
]
StepId = Annotated[
    str, Path(min_length=1, max_length=200, description="The step's id in its plan.", examples=["s1"])
]
PartId = Annotated[str, Path(min_length=1, max_length=500, description="As `GET /waiting` has it.")]
ArtifactId = Annotated[
    str, Path(min_length=1, max_length=200, description="As an event or a result names it.")
]
Version = Annotated[
    int, Path(ge=1, le=2**31, description="Of the plan, from 1: each new plan has the next one.")
]
After = Annotated[
    int, Query(ge=0, le=2**53, description="Only events with a higher `seq`; 0: from the first.")
]
Limit = Annotated[int, Query(ge=1, le=500, description="So many at most.")]
Cursor = Annotated[str | None, Query(max_length=200, description="The `next_cursor` of the page before.")]
Light = Annotated[
    Literal["full", "light"],
    Query(description="`light` leaves out prompts and outputs over 1 kB: their size and a link instead."),
]
Statuses = Annotated[
    list[TaskStatus], Query(description="Only tasks with one of these; may be given several times.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", max_length=200, pattern="^[!-~]{1,200}$",
        description="The same key with the same body is the same task; with another body: 409.",
    ),
]  # fmt: skip
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID", max_length=32,
        description="The `id` of the last event that was seen, as browsers send it by themselves; it comes before `after`.",
    ),
]  # fmt: skip
