"""What a function returns, as plain JSON values, and the schema of that."""

from __future__ import annotations

import base64
import dataclasses
import os
from collections import deque
from collections.abc import Callable, ItemsView, KeysView, Sequence, Set, ValuesView
from typing import Any

from pydantic import BaseModel, PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, from_json, to_json

from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.tools.annotations import DATA_URL, adapted, writes_its_own_form

UNREADABLE = (
    PydanticUserError,
    PydanticUndefinedAnnotation,
    TypeError,
    NameError,
    AttributeError,
    ValueError,
)
"""What pydantic raises for an annotation that it cannot make a schema of."""

_MAX_DEPTH = 200
_TAKEN_WHOLE = (bool, int, type(None))
_OPEN: tuple[JsonObject, ...] = (
    {},
    {"type": "string"},
    {"type": "string", "format": "binary"},
    {"type": "object"},
    {"type": "object", "additionalProperties": True},
)


class PlainSchema(GenerateJsonSchema):
    """JSON Schema without the titles that only repeat a field's name."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def output_schema(annotation: Any) -> JsonObject | None:
    """The JSON Schema of what is produced for a return annotation; None where that would say nothing.

    It describes the usual values: a float that is not a number is written as null all the same.
    """
    if annotation is Any or annotation is None or annotation is type(None):
        return None
    try:
        schema = TypeAdapter(adapted(annotation)).json_schema(
            mode="serialization", schema_generator=PlainSchema
        )
    except UNREADABLE:
        return None
    return schema if _says_something(schema) else None


def own_writer(annotation: Any) -> Callable[[Any], bytes] | None:
    """How to write values whose annotation decides their form; None where the value itself does."""
    if not writes_its_own_form(annotation):
        return None
    try:
        serializer = TypeAdapter(adapted(annotation)).serializer
    except UNREADABLE:
        return None
    return lambda value: serializer.to_json(value, by_alias=True, warnings=False, fallback=_known)


def to_plain(value: Any, write: Callable[[Any], bytes] | None = None) -> Any:
    """A value as what JSON can hold: None, bool, int, float, str, and lists and string-keyed dicts of them.

    Models, dataclasses, enums, dates, decimals and the like are written as pydantic does; numpy values as theirs.
    Bytes are UTF-8 text if they are that, else a `data:application/octet-stream;base64,` URL, which a parameter of
    type `bytes` reads back. NaN and infinities become null, lone surrogates U+FFFD. `ToolCallError` names a type that
    has no JSON form; as the call has been made by then, its effect counts as unknown.
    """
    kind = type(value)
    if write is None and kind in _TAKEN_WHOLE:
        return value
    try:
        try:
            text = write(value) if write else to_json(value, inf_nan_mode="null", fallback=_known)
        except PydanticSerializationError as error:
            if "utf-8" not in str(error):
                raise
            text = to_json(_readable(value), inf_nan_mode="null", fallback=_known)
        return from_json(text)
    except PydanticSerializationError as error:
        problem = str(error).removeprefix("Error serializing to JSON: ").removeprefix("TypeError: ")
    except RecursionError:
        problem = "it contains itself, or is nested too deeply"
    except ValueError as error:
        if "recursion" not in str(error):
            raise
        problem = f"it is nested more than {_MAX_DEPTH} levels deep"
    raise ToolCallError(
        f"the tool ran, but what it returned ({_type_name(value)}) cannot be written as JSON: {problem}",
        kind="output",
        happened="unknown",
    )


def _known(value: Any) -> Any:
    """Values that pydantic does not know by themselves."""
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
    raise TypeError(
        f"there is no JSON form for the type {_type_name(value)}; return a dict, list, text or number"
    )


def _readable(value: Any) -> Any:
    """The same value, with bytes that are no text, and text that is no Unicode, made readable."""
    if isinstance(value, bytes | bytearray | memoryview):
        binary = bytes(value)
        try:
            return binary.decode()
        except UnicodeDecodeError:
            return DATA_URL + base64.b64encode(binary).decode()
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {
            _readable(key) if isinstance(key, str | bytes) else key: _readable(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [_readable(item) for item in value]
    if isinstance(value, BaseModel):
        return _readable(value.model_dump(mode="python", by_alias=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: _readable(getattr(value, part.name)) for part in dataclasses.fields(value)}
    return value


def _says_something(schema: JsonObject) -> bool:
    choices = schema.get("anyOf")
    if choices:
        return any(_says_something(choice) and choice.get("type") != "null" for choice in choices)
    if schema == {"type": "null"}:
        return False
    rest = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
    # Text may hold JSON that a reference reads into, and an open object may hold anything.
    return rest not in _OPEN


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
