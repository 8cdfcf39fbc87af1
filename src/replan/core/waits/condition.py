"""The condition of a wait: read as other conditions of a plan are, and what references give stands in it as values.

A reference in it is filled in when the wait begins. What it gives is a literal there, whatever signs it holds: a text that an
earlier step has read says what is compared with, and never what the condition is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from replan.core.references.conditions import read_condition
from replan.core.references.loose import as_meant
from replan.core.references.refs import Expression, Reference, has_references, parse
from replan.core.types import JsonObject

Value = Callable[[str], Any]
"""What a reference gives, as it is written."""

_OF_ITSELF = re.compile(r"\s*outputs?\b")


def with_condition_as_meant(parameters: JsonObject) -> JsonObject:
    """What a wait is called with, its condition as it is meant; the very same object where nothing is to be changed."""
    condition = parameters.get("condition")
    meant = condition_as_meant(condition) if isinstance(condition, str) else condition
    return parameters if meant == condition else {**parameters, "condition": meant}


def condition_as_meant(text: str) -> str:
    """The condition as JMESPath: what was read may stand in braces, and the words of other languages are read as what they mean."""
    bare = "".join(one if isinstance(one, str) else _bare(one) for one in parse(text))
    return _read_around(bare) if has_references(bare) else read_condition(bare)


def _read_around(text: str) -> str:
    """The same of one with references in it, each of which stands for a value."""
    out, quote = "", ""
    kept: list[tuple[str, str]] = []
    for one in parse(text):
        if isinstance(one, str):
            for sign, _ in _pieces(one):
                quote = "" if sign and sign == quote else quote or sign
            out += one
        elif quote:
            out += one.raw
        else:
            kept.append((_literal(f"{_NOWHERE}{len(kept)}"), one.raw))
            out += kept[-1][0]
    if _NOWHERE in text:
        return text
    meant = as_meant(out)
    for stands, raw in kept:
        meant = meant.replace(stands, raw)
    return meant


_NOWHERE = "\ue000"
"""A sign that no plan has."""


def condition_with_values(text: str, value: Value) -> str:
    """The condition with a literal in place of each reference, or of the quoted text that it stands in."""
    out, quote = "", ""
    inside: list[tuple[str, Any]] = []
    """Of what is quoted: each piece as it is written, or as a reference with what it gives."""
    for one in parse(text):
        if not isinstance(one, str):
            found = value(one.raw)
            if quote:
                inside.append((one.raw, found))
            else:
                out += _literal(found)
            continue
        for sign, written in _pieces(one):
            if not quote:
                out += "" if sign else written
                quote = sign
            elif sign == quote:
                out += _quoted(quote, inside)
                quote, inside = "", []
            else:
                inside.append(("", written))
    return out + (quote + "".join(str(given) for _, given in inside) if quote else "")


def _bare(one: Reference | Expression) -> str:
    """What stands between the braces, where that is over what was read; else the reference as it is."""
    inside = one.raw[2:-1] if one.raw.startswith("$") else one.raw[2:-2]
    is_of_itself = isinstance(one, Reference) and (one.problem or inside.strip() in ("output", "outputs"))
    return inside.strip() if is_of_itself and _OF_ITSELF.match(inside) else one.raw


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The text cut at its quotes: each quote by itself, and what stands between them; an escaped one is none."""
    at = 0
    while at < len(text):
        if text[at] in "'\"`":
            yield text[at], text[at]
            at += 1
            continue
        end = at
        while end < len(text) and text[end] not in "'\"`":
            end += 2 if text[end] == "\\" else 1
        yield "", text[at:end]
        at = end


def _quoted(quote: str, inside: list[tuple[str, Any]]) -> str:
    """What stands in quotes, as it is written where nothing in it refers."""
    if not any(raw for raw, _ in inside):
        return quote + "".join(given for _, given in inside) + quote
    if quote == "`":
        return _literal(_of_json(inside))
    whole = "".join(_text(given) if raw else _unescaped(quote, given) for raw, given in inside)
    return json.dumps(whole) if quote == '"' else _literal(whole)


def _of_json(inside: list[tuple[str, Any]]) -> Any:
    """The value that is written with references in it; the text itself where it is none."""
    if len(inside) == 1:
        return inside[0][1]
    written = "".join(
        (json.dumps(given)[1:-1] if isinstance(given, str) else json.dumps(given)) if raw else given
        for raw, given in inside
    )
    try:
        return json.loads(written)
    except ValueError:
        return "".join(_text(given) for _, given in inside)


def _text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _unescaped(quote: str, written: str) -> str:
    if quote == "'":  # nothing else is escaped there
        return written.replace("\\'", "'")
    try:
        return str(json.loads(f'"{written}"'))
    except ValueError:
        return written


def _literal(value: Any) -> str:
    return "`" + json.dumps(value).replace("`", "\\u0060") + "`"
