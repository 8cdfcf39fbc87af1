"""Annotations, evaluated and made fit for a schema."""

from __future__ import annotations

import base64
import binascii
import enum
import inspect
import sys
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import typing_extensions
from pydantic import BeforeValidator

from replan.ports import Progress
from replan.tools.functions.decorator import innermost


def evaluate(function: Callable[..., Any], name: str, annotation: Any, namespace: Mapping[str, Any]) -> Any:
    """An annotation of `function` with every forward reference in it resolved; `NameError` and others if it cannot."""
    if annotation is inspect.Parameter.empty:
        return Any
    inner = innermost(function)

    def holder() -> None: ...

    holder.__annotations__ = {name: annotation}
    found = typing.get_type_hints(
        holder, globalns=getattr(inner, "__globals__", {}), localns=dict(namespace), include_extras=True
    )
    return found[name]


def admits_none(annotation: Any) -> bool:
    """Whether None is among the values of the annotation."""
    if annotation is None or annotation is type(None) or annotation is Any:
        return True
    origin = get_origin(annotation)
    if origin is Annotated:
        return admits_none(get_args(annotation)[0])
    if origin is Union or origin is types.UnionType:
        return any(admits_none(part) for part in get_args(annotation))
    return origin is typing.Literal and None in get_args(annotation)


def adapted(annotation: Any, seen: dict[type, Any] | None = None) -> Any:
    """The annotation with what pydantic does not take as it is replaced by what means the same.

    `bytes` also takes the data URL that binary outputs are written as; `typing.TypedDict` becomes the one of
    `typing_extensions` where this Python's own cannot be read at run time.
    """
    seen = {} if seen is None else seen
    if annotation is bytes:
        return Annotated[bytes, BeforeValidator(_bytes_of_text)]
    if isinstance(annotation, type) and not get_origin(annotation):
        if sys.version_info < (3, 12) and typing.is_typeddict(annotation):
            return _readable_typed_dict(annotation, seen)
        return annotation
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is typing.Literal:
        return _readable_literal(annotation, arguments)
    if not arguments:
        return annotation
    if origin is Annotated:
        notes = annotation.__metadata__
        if arguments[0] is bytes:
            # Last, as what stands before it (an encoding, a length) is about the bytes themselves.
            own = any(hasattr(note, "__get_pydantic_core_schema__") for note in notes)
            return annotation if own else Annotated[(bytes, *notes, BeforeValidator(_bytes_of_text))]
        return Annotated[(adapted(arguments[0], seen), *notes)]
    changed = tuple(adapted(part, seen) if _is_annotation(part) else part for part in arguments)
    if changed == arguments:
        return annotation
    if origin is Union or origin is types.UnionType:
        return Union[changed]  # noqa: UP007  (made at run time)
    if hasattr(annotation, "copy_with"):
        return annotation.copy_with(changed)
    return origin[changed] if origin is not None else annotation


def _readable_literal(annotation: Any, members: tuple[Any, ...]) -> Any:
    """A literal that also takes the values of the enum members in it: JSON has no others."""
    by_value = {(type(each.value), each.value): each for each in members if isinstance(each, enum.Enum)}
    if not by_value:
        return annotation

    def member(value: Any) -> Any:
        try:
            return by_value.get((type(value), value), value)
        except TypeError:  # a list or an object
            return value

    return Annotated[annotation, BeforeValidator(member)]


def _is_annotation(part: Any) -> bool:
    return isinstance(part, type) or get_origin(part) is not None


def _bytes_of_text(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("data:") and ";base64," in value[:200]:
        try:
            return base64.b64decode(value.partition(";base64,")[2], validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64 after 'data:…;base64,': {error}") from error
    return value


def _readable_typed_dict(annotation: Any, seen: dict[type, Any]) -> Any:
    if type(annotation).__module__ != "typing":
        return annotation
    if annotation in seen:
        return seen[annotation]
    make: Any = typing_extensions.TypedDict
    twin = make(annotation.__name__, {})
    seen[annotation] = twin
    twin.__doc__, twin.__module__ = annotation.__doc__, annotation.__module__
    if hasattr(annotation, "__pydantic_config__"):
        twin.__pydantic_config__ = annotation.__pydantic_config__
    required = set()
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(annotation, include_extras=True).items():
        # What is written out counts: with annotations as text, `__required_keys__` has not seen it.
        if get_origin(hint) is typing.Required or (
            get_origin(hint) is not typing.NotRequired and name in annotation.__required_keys__
        ):
            required.add(name)
        if get_origin(hint) in (typing.Required, typing.NotRequired):
            hint = get_args(hint)[0]
        kind = typing.Required if name in required else typing.NotRequired
        fields[name] = kind[adapted(hint, seen)]
    twin.__annotations__ = fields
    twin.__required_keys__ = frozenset(required)
    twin.__optional_keys__ = frozenset(fields) - required
    return twin


def result_of(annotation: Any) -> Any:
    """What a function annotated so gives in the end: awaited, or the result of its generator; Any if unknown."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return annotation
    if origin is Coroutine and len(arguments) == 3:
        return result_of(arguments[2])
    if origin is Awaitable and arguments:
        return result_of(arguments[0])
    if annotation in (Coroutine, Awaitable):
        return Any
    return annotation


class Yields(NamedTuple):
    """What a generator gives: the type of its result, and what is made of what it yields."""

    result: Any
    listed: bool | None
    """True: the result is the list of the items. False: it is the one item besides progress. None: not said."""


def yielded_result_of(annotation: Any) -> Yields:
    """The result of a generator function: what it returns, if that is no None; else the list of what it yields.

    A generator whose annotation has `Progress` among the things that it yields gives one thing besides.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin not in _YIELDING or not arguments:
        return Yields(Any, None)
    yields = arguments[0]
    left = _without_progress(yields)
    reports = left is not yields
    items = Any if yields is Any or left is Any else left if reports else list[left]  # type: ignore[valid-type]
    if origin is Generator and len(arguments) == 3 and arguments[2] not in (None, type(None), Any):
        returned = arguments[2]
        # None counts as nothing returned: then what was yielded is the result.
        result = Union[returned, items] if admits_none(returned) else returned  # noqa: UP007
        return Yields(result, False if reports else None)
    return Yields(items, None if yields is Any else not reports)


def gives_items(annotation: Any) -> bool:
    """Whether the annotation is of something that gives items one by one, whatever makes it."""
    return get_origin(annotation) in _YIELDING and get_origin(annotation) is not Iterable


_YIELDING = (Generator, AsyncGenerator, Iterator, Iterable, AsyncIterator, AsyncIterable)


def _without_progress(annotation: Any) -> Any:
    if annotation is Progress:
        return Any
    origin = get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        left = tuple(part for part in get_args(annotation) if part is not Progress)
        return Union[left] if left else Any  # noqa: UP007
    return annotation


def writes_its_own_form(annotation: Any, seen: set[int] | None = None) -> bool:
    """Whether the annotation, not the value, decides how the value is written as JSON (a serializer, an alias)."""
    seen = set() if seen is None else seen
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    if get_origin(annotation) is Annotated:
        for note in annotation.__metadata__:
            if hasattr(note, "__get_pydantic_core_schema__") and not isinstance(note, BeforeValidator):
                return True
            if getattr(note, "serialization_alias", None) or getattr(note, "alias", None):
                return True
    if typing.is_typeddict(annotation) or typing_extensions.is_typeddict(annotation):
        try:
            hints = typing_extensions.get_type_hints(annotation, include_extras=True)
        except NameError:
            return False
        return any(writes_its_own_form(hint, seen) for hint in hints.values())
    return any(writes_its_own_form(part, seen) for part in get_args(annotation) if _is_annotation(part))
