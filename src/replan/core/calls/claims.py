"""Whose a record is: each speaks for one call, whichever tools are called and whatever a verifier says it looks by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from replan.core.calls.verify import Found, parameters_looked_at
from replan.core.types import JsonObject, Verifier
from replan.core.walk import scalars


def is_like(verifier: Verifier, call: JsonObject, other: JsonObject) -> bool:
    """True if a record that fits the one call fits the other too: the verifier looks at nothing that tells them apart."""
    names = parameters_looked_at(verifier)
    mine, theirs = call["parameters"], other["parameters"]
    if names is None:
        return bool(mine == theirs)
    return all(mine.get(name) == theirs.get(name) for name in names)


def look_alike(one: Verifier, other: Verifier) -> bool:
    """True if two tools have their calls looked for in one way, and so among the same records."""
    if not one.happened:
        return bool(one.function) and one.function == other.function
    return (one.tool, one.parameters, one.happened) == (other.tool, other.parameters, other.happened)


def unclaimed(found: Sequence[Found], claims: Iterable[str], given: Iterable[Any]) -> list[Found]:
    """The records that speak for no other call.

    `claims`: those that have settled one; `given`: what like calls have given that succeeded by themselves.
    """
    left = list(found)
    for record in claims:
        at = next((n for n, one in enumerate(left) if one.record == record), None)
        if at is not None:
            del left[at]
    for output in given:
        if left:
            left.remove(max(left, key=lambda one: _likeness(output, one.text)))
    return left


def without_others(found: Sequence[Found], parameters: JsonObject, given: Iterable[Any]) -> list[Found]:
    """The records that are not what another call has given, of whatever tool; `parameters`: what this one was made with.

    Two tools may write one book. What tells nothing ("ok", what both calls were asked with) is nobody's own.
    """
    left = list(found)
    own = set(scalars(parameters))
    for output in given:
        at = next((n for n, one in enumerate(left) if _is_what_was_given(one.output, output, own)), None)
        if at is not None:
            del left[at]
    return left


def is_anothers(found: Any, others: Sequence[Any]) -> bool | None:
    """Whether what a function has found is what a like call gave that succeeded by itself; None if that cannot be told.

    It is this call's own where it can be compared with what each of the others gave, and differs.
    """
    if found in others:
        return True
    return None if any(not _comparable(found, other) for other in others) else False


def _comparable(found: Any, other: Any) -> bool:
    if isinstance(found, dict) and isinstance(other, dict):
        return any(found[name] != other[name] for name in found.keys() & other.keys())
    plain = isinstance(found, str | int | float) and not isinstance(found, bool)
    return plain and type(found) is type(other)


def _likeness(given: Any, text: str) -> int:
    """How many telling values of what a call gave stand in the record."""
    return sum(1 for value in scalars(given) if len(value) >= 3 and value in text)


def _is_what_was_given(record: Any, given: Any, own: set[str]) -> bool:
    """True if all that both have is the same, something with a digit among it that the call was not made with."""
    if isinstance(record, list) and len(record) == 1:
        record = record[0]
    if isinstance(record, dict) and isinstance(given, dict):
        both = record.keys() & given.keys()
        return all(record[name] == given[name] for name in both) and any(
            _signs({name: given[name] for name in both}, own)
        )
    told = _signs(given, own)
    if isinstance(record, str):
        return bool(told) and all(one in record for one in told)
    return bool(told) and told <= set(scalars(record))


def _signs(value: Any, own: set[str]) -> set[str]:
    """The values by which it may be known."""
    return {one for one in scalars(value) if one not in own and any(map(str.isdigit, one))}
