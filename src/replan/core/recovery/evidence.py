"""What in a reading identifies one call: its key, or values of its parameters that tell it from others.

For the readings that a model makes about a call in doubt (specification §5). An envelope around nothing, a common word,
and what the reading was merely asked with identify nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from replan.core.calls.verify import Found
from replan.core.data.nothing import is_nothing
from replan.core.ids import canonical, digest
from replan.core.recovery.record_state import objection, too_old
from replan.core.state.step_recovery import Reading
from replan.core.types import JsonObject
from replan.core.walk import every, scalars, texts_in

_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.])\d{1,15}(?:\.\d{1,9})?(?![\w.]\w)", re.ASCII)
_LONGEST_ID = 64
_ENOUGH = 2
"""Texts of a call that a record has: a receiver and what it is for. Then it need not have its numbers."""


class Sign(NamedTuple):
    """A record that identifies the call, and the values that it is known by."""

    found: Found
    values: tuple[str, ...]
    objection: str = ""
    """Why it does not show that the call took effect, though it identifies it."""
    before: bool = False
    """It was there before the call: whatever it says, it is another one's."""


def signs_of(
    readings: Sequence[Reading],
    key: str,
    parameters: JsonObject,
    elsewhere: Collection[str] = (),
    since: float | None = None,
) -> list[Sign]:
    """The records in the readings that identify the call, each once for each time that it stands there.

    `elsewhere`: texts that other calls of the tool were made with. `since`: when the call was first made.
    """
    for reading in reversed(readings):  # each shows the world as it is; the latest that shows anything counts
        asked = set(_given(reading.parameters))
        found = [
            sign._replace(
                objection=objection(record, around, parameters, since),
                before=bool(too_old(record, parameters, since)),
            )
            for record, around in _records(opened(reading.output))
            if (sign := _sign(record, key, parameters, asked, elsewhere)) is not None
        ]
        if found:
            return found
    return []


def _sign(
    record: Any, key: str, parameters: JsonObject, asked: set[str], elsewhere: Collection[str]
) -> Sign | None:
    own = _own(record)
    if _is_envelope(
        record
    ):  # what it was asked for may stand around what it has found, which is nothing here
        own = [one for one in own if not _repeats(one, asked)]
    text = canonical(record)
    here = Found(digest(text), record, text, listed=True)
    if key and key not in asked and any(key in one for one in own):
        return Sign(here, (key,))
    fields = record if isinstance(record, dict) else {}
    if any(name in fields and not _same(fields[name], value) for name, value in parameters.items()):
        return None  # another call's
    more = [one for one in own if one not in asked and one.strip() and one != "0"]
    if not more:
        return None  # it only repeats what it was asked for
    known = own if _is_envelope(record) else [*own, *asked]
    if any(not _is_held(value, known) for value in _identifiers(parameters)):
        return None  # it may be another call's
    texts = {value for value in texts_in(parameters) if _is_telling(value) and _is_held(value, own)}
    if len(texts) < _ENOUGH and any(not _is_counted(value, own) for value in _amounts(parameters)):
        return None  # of another sum, or of none
    values = [
        value
        for value in scalars(parameters)
        if _is_telling(value) and value not in elsewhere and _is_held(value, own)
    ]
    if values and (not _squeezed_all(values) <= _squeezed_all(asked) or _all_held(parameters, own)):
        return Sign(here, tuple(values))
    named = {name: value for name, value in parameters.items() if not is_nothing(value)}
    if named and named.keys() <= fields.keys():  # all of the call, whatever its values are
        return Sign(here, (*scalars(named), *scalars({name: fields[name] for name in named})) or (key,))
    return None


def _given(parameters: JsonObject) -> Iterator[str]:
    """What a reading was asked with, also what stands in a parameter that is JSON in a text."""
    for value in scalars(parameters):
        yield value
        if value[:1] in '{["':
            yield from scalars(opened(value))


def _is_envelope(record: Any) -> bool:
    """True for what stands around records, or around none: a page, an answer without a find."""
    return isinstance(record, dict) and any(
        _has_records(value) or value is None or value in ([], {}, "") for value in record.values()
    )


def _repeats(text: str, asked: Collection[str]) -> bool:
    """True if it says what was asked for: the filter of a page, the link to itself."""
    squeezed = _squeezed(text)
    return any(
        squeezed == _squeezed(one) or (_is_telling(one) and _squeezed(one) in squeezed) for one in asked
    )


def _amounts(parameters: JsonObject) -> list[Decimal]:
    """The numbers by which one call is told from another: sums, quantities; no 0, and no 1."""
    numbers = (one for one in every(parameters) if isinstance(one, int | float) and not isinstance(one, bool))
    return [number for number in map(_decimal, numbers) if number is not None and abs(number) > 1]


def _is_counted(amount: Decimal, own: Sequence[str]) -> bool:
    """True if the record has that number, in whatever unit of ten: 40 euros are 4000 cents."""
    for text in own:
        number = _decimal(text) if _DECIMAL.fullmatch(text) else None
        if number is not None and number and _digits(number) == _digits(amount):
            return True
        if any(_digits(found) == _digits(amount) for found in map(_decimal, _NUMBER.findall(text)) if found):
            return True
    return False


def _digits(number: Decimal) -> tuple[int, ...]:
    """Its digits, whatever its unit."""
    return abs(number).normalize().as_tuple().digits


def _decimal(value: object) -> Decimal | None:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _squeezed_all(values: Iterable[str]) -> set[str]:
    return {_squeezed(value) for value in values}


def _all_held(parameters: JsonObject, own: Sequence[str]) -> bool:
    """True if the record holds everything by which the call can be told from others."""
    telling = (value for value in scalars(parameters) if _is_telling(value))
    return all(
        _is_held(value, own) or ((number := _decimal(value)) is not None and _is_counted(number, own))
        for value in telling
    )


def _identifiers(parameters: JsonObject) -> list[str]:
    """The texts by which the call is known: ids, addresses, references; no free text, and no number, which has units."""
    texts = (value for value in texts_in(parameters) if _is_telling(value))
    return [value for value in texts if len(value) <= _LONGEST_ID and not re.search(r"\s", value)]


def _is_held(value: str, own: Sequence[str]) -> bool:
    squeezed = _squeezed(value)
    return any(_holds(one, value) or _squeezed(one) == squeezed or _is_number(one, value) for one in own)


def _is_telling(value: str) -> bool:
    """True if few other calls would have this value: a name, an address, a number of some length; no plain word."""
    if len(value) < 4:
        return False
    return not re.fullmatch(r"[a-z]+|[A-Z]+|-?\d{1,3}(\.0)?|[0.]+", value)


def _holds(text: str, value: str) -> bool:
    if text.casefold() == value.casefold():
        return True
    return len(value) >= 5 and bool(re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", text, re.IGNORECASE))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return canonical(one) == canonical(other)
    return (
        bool(one == other) or _squeezed(str(one)) == _squeezed(str(other)) or _is_number(str(one), str(other))
    )


def _is_number(one: str, other: str) -> bool:
    """True if both are the same decimal number, `40.00` and `40`; what begins with 0 may be a code, and is none."""
    return bool(_DECIMAL.fullmatch(one) and _DECIMAL.fullmatch(other)) and Decimal(one) == Decimal(other)


_Around = tuple[tuple[str, Any], ...]
"""What a record stands in, from the outside in: each field's name, and the object's own fields."""


def _records(value: Any) -> Iterator[tuple[Any, _Around]]:
    """Every object, and every text or number of a list, at any depth, with what it stands in; the lines of a text."""
    if isinstance(value, str):
        yield from ((line, ()) for line in value.splitlines())
        return
    nodes: list[tuple[Any, _Around]] = [(value, ())]
    while nodes:
        node, around = nodes.pop()
        if isinstance(node, dict):
            yield node, around
            for name, item in node.items():
                if isinstance(item, dict | list):
                    rest = {key: one for key, one in node.items() if not isinstance(one, dict | list)}
                    nodes.append((item, (*around, (str(name), rest))))
        elif isinstance(node, list):
            nodes.extend((item, around) for item in node if isinstance(item, dict | list))
            yield from ((item, around) for item in node if isinstance(item, str))


def _own(record: Any) -> list[str]:
    """What the record itself says: not what the records in a list of it say."""
    if not isinstance(record, dict):
        return [str(record)]
    return scalars({name: value for name, value in record.items() if not _has_records(value)})


def _has_records(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def opened(text: str) -> Any:
    """What a reading gave, from the text that was kept of it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def sure(signs: Sequence[Sign]) -> list[Sign]:
    """The records that show that the call took effect; none, where one of them that may be the call's own speaks against it."""
    if any(sign.objection and not sign.before for sign in signs):
        return []
    return [sign for sign in signs if not sign.objection]


def quoted(signs: Iterable[Sign], evidence: str) -> list[Sign]:
    """The records that the evidence is about: it has every text that the record is known by, or every number where it has none.

    A sum alone may be that of another call. Of several like records it is about those of which it has what tells one from another: an
    older one that was made with the same says nothing of the one that is quoted.
    """
    said = _squeezed(evidence)

    def is_said(sign: Sign) -> bool:
        texts = [value for value in sign.values if not _DECIMAL.fullmatch(value)]
        return all(_squeezed(value) in said for value in texts or sign.values)

    found = [sign for sign in signs if is_said(sign)]
    return found if len(found) < 2 else _most_quoted(found, _even(evidence))


def _most_quoted(signs: Sequence[Sign], evidence: str) -> list[Sign]:
    """Those of which the evidence has something that it has not of another one, too, beside more; all, where it has nothing that not all hold."""
    told = [{_even(text) for text in _own(sign.found.output) if text.strip()} for sign in signs]
    held = Counter(text for texts in told for text in texts)
    there = {text for text, times in held.items() if times < len(signs) and _stands_in(evidence, text)}
    parts = [frozenset(texts & there) for texts in told]
    each = set(parts)
    less = {part for part in each if any(part < other for other in each)}
    return [sign for sign, part in zip(signs, parts, strict=True) if part not in less]


def _even(text: str) -> str:
    return " ".join(text.replace("\\", "").casefold().split())


def _stands_in(text: str, value: str) -> bool:
    return value in text and bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))


def _squeezed(text: str) -> str:
    return re.sub(r"[\s\\]+", "", text).casefold()
