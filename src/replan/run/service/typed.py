"""Answers of a Python type: what its validators say of one, and the result that a caller gets."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from replan.core.failures.faults import text_of
from replan.core.report.result import TaskResult
from replan.core.types import Failure

_OTHER_TYPE = (
    "The task ended before this type was asked for: `replan tasks result {}` has its answer; "
    "run it again under another id to have one of the type."
)


def answer_problems(adapter: TypeAdapter[Any], answer: Any) -> list[str]:
    """What is wrong with an answer as a value of the type, in words; empty if nothing."""
    try:
        adapter.validate_json(to_json(answer))
    except ValidationError as error:
        return [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else one["msg"]
            for one in error.errors(include_url=False)
        ]
    except Exception as error:  # noqa: BLE001 - a validator of the caller's may raise what it likes
        return [f"a validator of the answer raised {text_of(error)}"]
    return []


def typed_result(result: TaskResult, adapter: TypeAdapter[Any], wanted: Any) -> TaskResult:
    """The result with its answer as a value of the type, or None in its place where the task did not succeed.

    A task that had succeeded without these validators has not succeeded for this caller.
    """
    if not result.is_success:
        return result.model_copy(update={"final_output": None})
    if not (found := answer_problems(adapter, result.final_output)):
        typed = adapter.validate_json(to_json(result.final_output))
        return result.model_copy(update={"final_output": typed})
    failure = Failure(
        kind="judgement",
        reason=f"the answer is no {wanted.__name__ if isinstance(wanted, type) else wanted}: {found[0]}",
        root_causes=tuple(found),
        advice=(_OTHER_TYPE.format(result.task_id),),
    )
    changed = {"status": "failed", "is_success": False, "final_output": None, "failure": failure}
    return result.model_copy(update=changed)
