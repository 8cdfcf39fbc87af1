"""The one check of what programs give to `Replan`, by the names of its arguments: `InputError` says what would be right.

What an argument means for the task (a plan, metadata, an option) is checked where that is known.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast, get_args

from pydantic import SecretStr

from replan.config.values import found, kind_name
from replan.core.data.schema.patterns import unread_told
from replan.core.data.validation import unread_patterns
from replan.core.state.task import TaskStatus
from replan.errors import InputError

F = TypeVar("F", bound=Callable[..., Any])
Check = Callable[[str, Any], None]
MOST_SECS = 1e12
_STATUSES: tuple[str, ...] = get_args(TaskStatus)


def checked(function: F) -> F:
    """The function with its arguments checked before anything is done."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            given = signature.bind(*args, **named).arguments
        except TypeError:
            return function(*args, **named)  # which says it
        for name, value in given.items():
            parameter = signature.parameters[name]
            if (check := _CHECKS.get(name)) is not None and not (value is None and parameter.default is None):
                check(name, value)
        return function(*args, **named)

    @functools.wraps(function)
    async def call_later(*args: Any, **named: Any) -> Any:
        return await call(*args, **named)

    return cast(F, call_later if inspect.iscoroutinefunction(function) else call)


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, found {found(value)}")
    if any("\ud800" <= sign <= "\udfff" for sign in value):
        raise InputError(f"{name}: holds bytes that are no text: give it in UTF-8")


def _key(name: str, value: Any) -> None:
    if not isinstance(value, str | SecretStr):
        raise InputError(f"{name}: expected a text or a SecretStr, found {kind_name(value)}")


def _model(name: str, value: Any) -> None:
    """What is no name of a model is looked at where models are opened."""
    names = (
        {f"{name} of {role}": one for role, one in value.items()}
        if isinstance(value, Mapping)
        else {name: value}
    )
    for where, one in names.items():
        if isinstance(one, str):
            _text(where, one)


def _path(name: str, value: Any) -> None:
    if not isinstance(value, str | os.PathLike) or isinstance(path := os.fspath(value), bytes):
        raise InputError(f"{name}: expected a path, as a text or a pathlib.Path, found {found(value)}")
    if not path or "\0" in path:
        what = "is empty" if not path else "holds a NUL"
        raise InputError(f"{name}: the path {what}; give the path of a file, or leave {name} out")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(f"{name}: the path holds bytes that are no text: give it in UTF-8") from None


def _paths(name: str, value: Any) -> None:
    """One, or several."""
    several = value if isinstance(value, list | tuple | set | frozenset) else [value]
    for one in several:
        _path(name, one)


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise InputError(f"{name}: expected a function, found {found(value)}")


def _statuses(name: str, value: Any) -> None:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InputError(f"{name}: expected a list of statuses like ['failed'], found {found(value)}")
    for one in value if isinstance(value, list | tuple | set | frozenset) else ():
        if one not in _STATUSES:
            near = difflib.get_close_matches(str(one), _STATUSES, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{name}: {one!r:.80} is no status{hint}; there are: {', '.join(_STATUSES)}")


def _count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**63:
        raise InputError(f"{name}: expected a number from 1 to 2^63, found {found(value)}")


def _seconds(name: str, value: Any) -> None:
    plain = isinstance(value, str | int | float)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not value > 0
        or (type(value) is int and value > MOST_SECS)
    ):
        given = repr(value)[:80] if plain else found(value)
        raise InputError(f"the {name} has to be a number of seconds above 0, not {given}")


def _place(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InputError(
            f"{name}: {found(value)} is no place in the log; give the `seq` of the last record that you have, or 0 for all"
        )


def _number_of_item(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name}: expected the number of an item, from 1 on, found {found(value)}")


def _priority(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise InputError(
            f"{name}: expected a whole number, higher for what comes first, found {found(value)}"
        )


def _secrets(name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise InputError(
            f'{name}: expected a mapping like {{"api_key": "env:API_KEY"}}, found {kind_name(value)}'
        )
    for key in value:
        _text(f"{name}: a name", key)


def form(name: str, value: Any) -> None:
    """What the schema asks beside its patterns is looked at where the task is taken; `output_type` checks its own."""
    if isinstance(value, Mapping) and (found := unread_told(unread_patterns(dict(value)))):
        raise InputError(
            f"{name}: {found}, so no answer could be held to it: write it otherwise, or leave it out and look at the answer yourself"
        )


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("task_id", "approval_id", "question_id", "step_id", "tool_id", "queue"), _text),
    **dict.fromkeys(("session_id", "previous_task_id"), _text),
    **dict.fromkeys(("reason", "by", "endpoint", "workflow"), _text),
    **dict.fromkeys(("db", "record", "replay"), _path),
    **dict.fromkeys(("scenes", "workflows"), _paths),
    **dict.fromkeys(("ask", "on_event"), _function),
    "api_key": _key,
    "output_schema": form,
    "model": _model,
    "status": _statuses,
    "limit": _count,
    "timeout": _seconds,
    "after": _place,
    "item": _number_of_item,
    "priority": _priority,
    "secrets": _secrets,
}
