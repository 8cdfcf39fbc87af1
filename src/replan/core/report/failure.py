"""Why a task did not succeed, in parts: whoever shows it can say the same in a language of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from replan.core.types import Failure


class Effects(BaseModel):
    """What the task has changed in the world, as far as is known."""

    model_config = ConfigDict(frozen=True)

    done: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    in_doubt: tuple[str, ...] = ()
    """Nobody knows whether these took effect."""


class NextStep(BaseModel):
    """Something that can be done now."""

    model_config = ConfigDict(frozen=True)

    action: Literal["answer", "fork", "retry", "raise_limit", "advice"]
    """`fork`: go on from before the end in a new task (`at`: unless told, the last event before it); `retry`: the same with the
    failed steps tried again; `raise_limit`: the same with a higher limit; `answer`: the question, as a hint to the fork;
    `advice`: in words."""
    text: str = ""
    values: dict[str, Any] = {}


class FailureReport(Failure):
    """A failure with what stands in it by itself, in fields that programs can read."""

    code: str = ""
    """What kind of failure it is (`kind`); of a budget with the name of its limit: `budget.max_llm_calls`."""
    values: dict[str, Any] = {}
    """What the words of `text` are about."""
    text: str = ""
    """`reason`."""
    kept: tuple[str, ...] = ()
    """Steps whose outputs are there, for a fork to go on with."""
    effects: Effects = Effects()
    next: tuple[NextStep, ...] = ()


def reported(failure: Failure, *, kept: Sequence[str] = (), failed: Sequence[str] = ()) -> FailureReport:
    """`kept`: steps that have succeeded; `failed`: those that have not."""
    values: dict[str, Any] = {}
    if failure.limit:
        values["limit"] = failure.limit
    if failed:
        values["failed_steps"] = list(failed)
    if failure.question:
        values["question"] = failure.question
    return FailureReport(
        **{name: value for name, value in failure if name in Failure.model_fields},
        code=f"{failure.kind}.{failure.limit}"
        if failure.kind == "budget" and failure.limit
        else failure.kind,
        values=values,
        text=failure.reason,
        kept=tuple(kept),
        effects=Effects(done=failure.done, undone=failure.undone, in_doubt=failure.in_doubt),
        next=tuple(_next(failure, failed)),
    )


def _next(failure: Failure, failed: Sequence[str]) -> list[NextStep]:
    found: list[NextStep] = []
    if failure.question:
        found.append(NextStep(action="answer", text=failure.question))
    if failure.limit:
        found.append(NextStep(action="raise_limit", values={"limit": failure.limit}))
    if failure.kind == "step" and failed:
        found.append(NextStep(action="retry", values={"steps": list(failed)}))
    if failure.kind != "cancelled":
        found.append(NextStep(action="fork"))
    return [*found, *(NextStep(action="advice", text=text) for text in failure.advice)]
