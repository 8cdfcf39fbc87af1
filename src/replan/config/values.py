"""What a key takes, in words and as a type: read from the sections, so that it is said in one place."""

from __future__ import annotations

import types
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from replan.core.words import in_digits


class Kind(NamedTuple):
    """The type of a key's value. `base`: bool, int, float, str, tuple (of texts) or dict."""

    base: type
    optional: bool
    choices: tuple[str, ...] = ()
    bounds: tuple[Any, ...] = ()


def kind_of(annotation: Any, metadata: tuple[Any, ...] = ()) -> Kind:
    """What an annotation of a section's field admits."""
    optional = False
    while True:
        origin = get_origin(annotation)
        if hasattr(annotation, "__metadata__"):
            metadata = (*metadata, *annotation.__metadata__)
            annotation = get_args(annotation)[0]
        elif origin in (Union, types.UnionType):
            optional = True
            (annotation,) = (part for part in get_args(annotation) if part is not types.NoneType)
        elif origin is Literal:
            return Kind(str, optional, get_args(annotation))
        elif origin is tuple and get_origin(get_args(annotation)[0]) is Literal:
            return Kind(tuple, optional, get_args(get_args(annotation)[0]), metadata)
        else:
            return Kind(origin or annotation, optional, (), metadata)


def expected(field: FieldInfo) -> str:
    """What is right for a key, in words: `a whole number from 0 to 65535`."""
    kind = kind_of(field.annotation, tuple(field.metadata))
    if kind.choices:
        which = "a list of some of" if kind.base is tuple else "one of"
        return f"{which} " + ", ".join(f'"{choice}"' for choice in kind.choices)
    if kind.base is bool:
        return "true or false"
    if kind.base is tuple:
        return 'a list of texts, like ["a", "b"]'
    if kind.base is dict:
        return "a table"
    if kind.base is str:
        return "a text" if kind.optional else "a text that is not empty"
    return ("a whole number" if kind.base is int else "a number") + _range(kind.bounds)


def _range(bounds: tuple[Any, ...]) -> str:
    limits: dict[str, Any] = {}
    for bound in _flat(bounds):
        for name in ("ge", "gt", "le", "lt"):
            value = getattr(bound, name, None)
            if value is not None:
                limits[name] = value
    low = (
        f"from {in_digits(limits['ge'])}"
        if "ge" in limits
        else f"above {in_digits(limits['gt'])}"
        if "gt" in limits
        else ""
    )
    high = f"to {in_digits(limits['le'])}" if "le" in limits else ""
    if low.startswith("above") and high:
        high = f"and at most {in_digits(limits['le'])}"
    if low.startswith("from") and not high:
        low = f"of at least {in_digits(limits['ge'])}"
    return "".join(f" {part}" for part in (low, high) if part)


def _flat(bounds: tuple[Any, ...]) -> list[Any]:
    """Bounds, with those that pydantic keeps inside a nested `Field(...)`."""
    flat: list[Any] = []
    for bound in bounds:
        flat.extend(bound.metadata if isinstance(bound, FieldInfo) else [bound])
    return flat


def found(value: Any) -> str:
    """What a value is, in words, short enough for one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "an empty text" if not value else f'the text "{_cut(value)}"'
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "a table"
        case None:
            return "nothing"
        case _:
            return f"a {type(value).__name__} ({_cut(_told(value))})"


def kind_name(value: Any) -> str:
    """The kind of a value without the value, for secrets."""
    match value:
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"


def _told(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - an object of anybody's
        return f"which raises {type(error).__name__} where it is told"


def _cut(text: str) -> str:
    flat = text.replace("\n", "⏎")
    return flat if len(flat) <= 60 else flat[:59] + "…"
