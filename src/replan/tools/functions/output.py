"""What a function returns, as plain JSON values."""

from __future__ import annotations

import base64
import dataclasses
import math
import os
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, Set, ValuesView
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from replan.core.data.pieces import in_pieces
from replan.core.data.schemas import place
from replan.core.data.strict_json import NotStorable, joined, not_finite, read_strictly
from replan.errors import ToolCallError
from replan.tools.bounds import MAX_RESULT_BYTES
from replan.tools.functions.files import File, in_json

_DATA_URL = "data:application/octet-stream;base64,"
"""How bytes that are no UTF-8 text are written in JSON."""
_Path = tuple[str | int, ...]
_MAX_DEPTH = 200
_NO_FORM = "there is no JSON form for the type"
_TAKEN_WHOLE = (bool, int, type(None))


def to_plain(value: Any, write: Callable[[Any], bytes] | None = None) -> Any:
    """A value as what JSON can hold: None, bool, int, float, str, and lists and string-keyed dicts of them.

    Models, dataclasses, enums, dates, decimals and the like are written as pydantic does; numpy values as theirs.
    Bytes are UTF-8 text if they are that, else a `data:application/octet-stream;base64,` URL, which a parameter of
    type `bytes` reads back. `ToolCallError` says what JSON cannot hold: a type without a JSON form, NaN and the infinities,
    two keys that are written alike, a text with half a surrogate pair; as the call has been made by then, its effect
    counts as unknown.
    """
    kind = type(value)
    if write is None and kind in _TAKEN_WHOLE:
        return value
    try:
        if write:
            plain, data = _written(value, 0, write)
            size = len(data)
        else:
            plain, parts = in_pieces(value, _written)
            size = sum(map(len, parts))
        if size <= MAX_RESULT_BYTES:
            return plain
        text = f"the tool ran, but what it returned is larger than {MAX_RESULT_BYTES:,} bytes of JSON; let it write a file, or return a part"
        raise ToolCallError(text, kind="output", happened="unknown")
    except PydanticSerializationError as error:
        problem = str(error).removeprefix("Error serializing to JSON: ").removeprefix("TypeError: ")
        if problem.startswith(_NO_FORM) and (path := _place_without_form(value)):
            problem = f"at {place(path)}: {problem}"
    except RecursionError:
        problem = "it contains itself, or is nested too deeply"
    except NotStorable as error:
        problem = str(error)
    except ValueError as error:
        if "recursion" not in str(error):
            raise
        problem = f"it is nested more than {_MAX_DEPTH} levels deep"
    raise ToolCallError(
        f"the tool ran, but what it returned ({_type_name(value)}) cannot be written as JSON: {problem}",
        kind="output",
        happened="unknown",
    )


def as_far_as_json(value: Any, problem: str) -> Any:
    """What can be kept of a value that `to_plain` refuses, with words in place of the rest: NaN, an object without a JSON form."""
    try:
        text = to_json(value, inf_nan_mode="strings", fallback=_in_words)
        if len(text) <= MAX_RESULT_BYTES:
            return read_strictly(text)
    except Exception:  # noqa: BLE001 - the value's own code may raise what it likes
        pass
    return f"({problem}; the call itself was made)"


def _in_words(value: Any) -> Any:
    try:
        return known(value)
    except Exception:  # noqa: BLE001 - as above
        return f"({_type_name(value)}, which has no JSON form)"


def _written(value: Any, depth: int, write: Callable[[Any], bytes] | None = None) -> tuple[Any, bytes]:
    try:
        text = write(value) if write else to_json(value, inf_nan_mode="constants", fallback=known)
    except PydanticSerializationError as error:
        if "utf-8" not in str(error):
            raise
        text = to_json(_readable(value), inf_nan_mode="constants", fallback=known)
    if b"null" in text:  # a model writes what is no number as null
        _check_numbers(value, ())
    return read_strictly(text, depth), text


def known(value: Any) -> Any:
    """Values that pydantic does not know by themselves."""
    if isinstance(value, File):
        return in_json(value)
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return value.tolist()
    if hasattr(value, "keys") and hasattr(value, "__getitem__") and not isinstance(value, type):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118  (sqlite3.Row iterates its values)
    if isinstance(value, Sequence | Set | KeysView | ValuesView | ItemsView):
        return list(value)
    raise TypeError(f"{_NO_FORM} {_type_name(value)}; return a dict, list, text or number")


def _readable(value: Any, path: _Path = ()) -> Any:
    """The same value, with bytes that are no text made readable; `NotStorable` for a text that is no Unicode."""
    if isinstance(value, bytes | bytearray | memoryview):
        binary = bytes(value)
        try:
            return binary.decode()
        except UnicodeDecodeError:
            return _DATA_URL + base64.b64encode(binary).decode()
    if isinstance(value, str):
        return joined(value, path)
    if isinstance(value, os.PathLike):
        return _readable(os.fspath(value), path)
    if isinstance(value, dict):
        return {
            _readable(key, path) if isinstance(key, str | bytes) else key: _readable(item, (*path, str(key)))
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_readable(item, (*path, at)) for at, item in enumerate(value)]
    if isinstance(value, BaseModel):
        return _readable(value.model_dump(mode="python", by_alias=True), path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [part.name for part in dataclasses.fields(value)]
        return {name: _readable(getattr(value, name), (*path, name)) for name in fields}
    return value


def _check_numbers(value: Any, path: _Path) -> None:
    """Raise `NotStorable` for a float that is no finite number, wherever it is in the value."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise not_finite(value, path)
        return
    for step, item in _parts(value):
        _check_numbers(item, path if step is None else (*path, step))


def _place_without_form(value: Any) -> _Path:
    """Where the first value stands that has no JSON form; empty for the whole."""
    path: _Path = ()
    while len(path) < _MAX_DEPTH:
        for step, item in _parts(value):
            if not _has_form(item):
                path, value = path if step is None else (*path, step), item
                break
        else:
            break
    return path


def _has_form(value: Any) -> bool:
    try:
        to_json(value, inf_nan_mode="constants", fallback=known)
    except PydanticSerializationError:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str | int | None, Any]]:
    """What a value holds, each part with its step in a path; members of a set have none."""
    if isinstance(value, Mapping):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, list | tuple | deque):
        yield from enumerate(value)
    elif isinstance(value, set | frozenset):
        yield from ((None, item) for item in value)
    elif isinstance(value, BaseModel):
        yield from value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for part in dataclasses.fields(value):
            yield part.name, getattr(value, part.name, None)


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
