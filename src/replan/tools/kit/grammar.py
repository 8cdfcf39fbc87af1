"""`files=DIR,write=yes`: what stands behind `kit:` on a command line or in a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from replan.errors import InputError
from replan.tools.names import nearest

Value = Callable[[str], Any]


class Form(NamedTuple):
    """One kind of tools: what its value means, and its options."""

    example: str
    value: Value | None
    """How `kit:NAME=VALUE` is read; None: there is no value."""
    needs_value: bool
    options: Mapping[str, Value]


def yes_or_no(text: str) -> bool:
    known = {
        "yes": True,
        "true": True,
        "on": True,
        "1": True,
        "no": False,
        "false": False,
        "off": False,
        "0": False,
    }
    if text.lower() not in known:
        raise ValueError("right is yes or no")
    return known[text.lower()]


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1e9:
        raise ValueError("right is a number of seconds above zero, such as 30")
    return found


def count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError("right is a whole number above zero, such as 512")
    return int(text)


def words(text: str) -> tuple[str, ...]:
    found = tuple(part for part in text.split("+") if part)
    if not found:
        raise ValueError("right is one name, or several with + between: git+make")
    return found


def text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def read(given: str, forms: Mapping[str, Form]) -> tuple[str, Any, dict[str, Any]]:
    """Name, value (None if there is none) and options. A comma within a value is written `\\,`."""
    first, *rest = [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", given.strip())]
    name, equals, said = (part.strip() for part in first.partition("="))
    form = forms.get(name)
    if form is None:
        near = nearest(name, forms) if name else []
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"kit:{given}: there is no kit {name!r}; {hint}there are {', '.join(forms)}")
    value = None
    if equals and form.value is None:
        raise InputError(f"kit:{given}: {name} takes no value; right is {form.example}")
    if equals and form.value is not None:
        value = _read(given, name, form.value, said)
    elif form.needs_value:
        raise InputError(f"kit:{given}: {name} needs a value; right is {form.example}")
    options: dict[str, Any] = {}
    for part in rest:
        option, equals, said = (piece.strip() for piece in part.partition("="))
        if option not in form.options:
            known = ", ".join(form.options) or "none"
            raise InputError(f"kit:{given}: {name} has no option {option!r}; it has: {known}")
        if option in options:
            raise InputError(f"kit:{given}: the option {option} is given twice")
        if not equals:
            raise InputError(f"kit:{given}: the option {option} needs a value: {option}=…")
        options[option] = _read(given, option, form.options[option], said)
    return name, value, options


def _read(given: str, what: str, reader: Value, said: str) -> Any:
    try:
        return reader(said)
    except ValueError as error:
        raise InputError(f"kit:{given}: {what}={said!r}: {error}") from None
