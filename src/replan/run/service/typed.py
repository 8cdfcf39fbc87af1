"""Answers of a Python type: what its validators say of one, and the result that a caller gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from replan.core.failures.faults import text_of
from replan.core.report.failure import reported
from replan.core.report.result import TaskResult
from replan.core.types import Failure
from replan.errors import InputError
from replan.run.service.importable import importable, imported
from replan.run.session.answer_checks import AnswerCheck

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


def name_of_type(wanted: Any) -> str | None:
    """A type in words by which another process can have it: `module:Name`, also within lists and the like.

    None for one that no other process has; empty for one that says no more than its JSON Schema.
    """
    try:
        form = _form_of(wanted)
    except LookupError:
        return None
    return json.dumps(form) if any(":" in part for part in _names_in(form)) else ""


def type_named(name: str) -> Any:
    """The type; `InputError` if it cannot be had here."""
    try:
        form = json.loads(name)
    except ValueError:
        raise InputError(f"{name[:200]!r} names no type of an answer") from None
    return _type_of(form)


def answer_check(name: str) -> AnswerCheck:
    """What holds an answer against the type of that name."""
    wanted = type_named(name)
    try:
        adapter = TypeAdapter(wanted)
    except Exception as error:
        raise InputError(f"{shown_type(name)} cannot be the form of an answer here: {error}") from error
    return partial(answer_problems, adapter)


def shown_type(name: str) -> str:
    """For people."""
    return ", ".join(part for part in _names_in(json.loads(name)) if ":" in part)


def _form_of(wanted: Any) -> Any:
    if wanted is None or wanted is type(None):
        return "None"
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is not None:
        kind = "Union" if origin in (Union, UnionType) else getattr(origin, "__name__", "")
        if _GENERIC.get(kind, origin) is not (Union if kind == "Union" else origin) or kind not in _GENERIC:
            raise LookupError
        return [kind, *("..." if one is Ellipsis else _form_of(one) for one in inner)]
    if not isinstance(wanted, type):
        raise LookupError
    if _PLAIN.get(wanted.__name__) is wanted:
        return wanted.__name__
    if (name := importable(wanted)) is None:
        raise LookupError
    return name


def _type_of(form: Any) -> Any:
    if isinstance(form, list) and form and form[0] in _GENERIC:
        inner = tuple(Ellipsis if one == "..." else _type_of(one) for one in form[1:])
        return _GENERIC[form[0]][inner]
    if form == "None":
        return type(None)
    if isinstance(form, str) and form in _PLAIN:
        return _PLAIN[form]
    if isinstance(form, str) and ":" in form:
        if isinstance(found := imported(form), type):  # a function would be called with the answer
            return found
        raise InputError(f"{form} is no type")
    raise InputError(f"{form!r:.200} names no type of an answer")


def _names_in(form: Any) -> Iterator[str]:
    for one in form if isinstance(form, list) else [form]:
        if isinstance(one, list):
            yield from _names_in(one)
        else:
            yield str(one)


_PLAIN: dict[str, type] = {
    one.__name__: one for one in (str, int, float, bool, list, dict, tuple, set, bytes)
}
_GENERIC: dict[str, Any] = {
    "list": list, "dict": dict, "tuple": tuple, "set": set, "frozenset": frozenset, "Union": Union
}  # fmt: skip


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
    changed = {"status": "failed", "is_success": False, "final_output": None, "failure": reported(failure)}
    return result.model_copy(update=changed)
