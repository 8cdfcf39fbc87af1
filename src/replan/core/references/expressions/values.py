"""What may be computed with what: decimal numbers, texts, dates and spans of time.

Numbers are decimal with 34 digits, as IEEE 754's decimal128: `0.1 + 0.2` is `0.3`, and money comes out as it is counted. What is
computed is rounded to 34 digits, halves to the even one; what somebody has written with more is refused, and never rounded.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, DecimalException
from typing import Any

from replan.core.references.meter import PathError
from replan.core.words import beginning, kind_of

DECIMAL = Context(prec=34, rounding=ROUND_HALF_EVEN, Emax=6144, Emin=-6143)
EXACT = Context(prec=16_000, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Digits for whatever numbers there are, before all is rounded once."""
_MOST_EXPONENT = 400
_SHOWN = 40
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_COMPUTES = {"+": DECIMAL.add, "-": DECIMAL.subtract, "*": DECIMAL.multiply, "/": DECIMAL.divide}
Span = dt.timedelta
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def taken(value: Any) -> Any:
    """A value of JSON as it is computed with: numbers are decimal."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_of(repr(value))
    return value


def number_of(text: str) -> Decimal:
    """The number that a text says."""
    if not _NUMBER.fullmatch(text):
        raise PathError(f"{beginning(text, _SHOWN)!r} is no number that can be computed with")
    found = Decimal(text)
    if DECIMAL.plus(found) != found:
        raise PathError(f"a number has more than {DECIMAL.prec} digits")
    return found


def given(value: Any) -> Any:
    """What was worked out, as a value of JSON: a whole number as such, another one as a float; a date as ISO 8601."""
    if isinstance(value, Decimal):
        if value and value.adjusted() > _MOST_EXPONENT:
            raise PathError("the number is too large")
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Span):
        raise PathError(
            "a span of time is no value: hours_between(a, b) and days_between(a, b) give it as a number"
        )
    if isinstance(value, list):
        return [given(item) for item in value]
    return value


def said(value: Any) -> str:
    """What a text would have of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, Decimal):
        return format(value.normalize(DECIMAL) if value else Decimal(0), "f")
    if isinstance(value, dt.date):
        return value.isoformat()
    raise PathError(f"{kind(value)} has no text of its own")


def kind(value: Any) -> str:
    """The value's kind, in words."""
    if isinstance(value, Decimal):
        return "a number"
    if isinstance(value, dt.date):
        return "a date"
    if isinstance(value, Span):
        return "a span of time"
    return kind_of(value)


def paired(sign: str, left: Any, right: Any) -> Any:
    """One operator between two values; `&&` and `||` are no business of this."""
    if sign in ("==", "!="):
        return same(left, right) == (sign == "==")
    if sign in _ORDERS:
        return _compared(sign, left, right)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _computed(sign, left, right)
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    if (found := _of_times(sign, left, right)) is not None:
        return found
    raise PathError(f"{kind(left)} {sign} {kind(right)} is nothing{_hint(sign, left, right)}")


def _hint(sign: str, left: Any, right: Any) -> str:
    kinds = {type(left), type(right)}
    if list in kinds and kinds & {list, Decimal} == kinds:
        return ": nothing is computed for each item of a list, a step with `for_each` over it does that"
    if sign == "+" and str in kinds and Decimal in kinds:
        return ": as texts they are put together with text(…), as numbers they are added with number(…)"
    if str in kinds and Decimal in kinds:
        return ": a text is read as a number by number(…)"
    if str in kinds and kinds & {dt.date, dt.datetime, Span}:
        return ": a text is read as a date by date(…)"
    if kinds & {dt.date, dt.datetime} and Decimal in kinds:
        return ": say of what there are so many, as days(…)"
    return ""


def _computed(sign: str, left: Decimal, right: Decimal) -> Decimal:
    if sign in "/%" and not right:
        raise PathError("it is divided by 0")
    try:
        if (
            sign == "%"
        ):  # the sign of the divisor, so that a day of the week is one before the week began, too
            found = DECIMAL.remainder(left, right)
            return DECIMAL.add(found, right) if found and (found < 0) != (right < 0) else found
        return _COMPUTES[sign](left, right)
    except DecimalException:
        raise PathError(f"{said(left)} {sign} {said(right)} has too many digits") from None


def _of_times(sign: str, left: Any, right: Any) -> Any:
    try:
        if isinstance(left, dt.date) and isinstance(right, Span) and sign in "+-":
            return _moved(left, right if sign == "+" else -right)
        if isinstance(left, Span) and isinstance(right, dt.date) and sign == "+":
            return _moved(right, left)
        if isinstance(left, dt.date) and isinstance(right, dt.date) and sign == "-":
            return between(right, left)
        if isinstance(left, Span) and isinstance(right, Span) and sign in "+-":
            return left + right if sign == "+" else left - right
        if isinstance(left, Span) and isinstance(right, Decimal) and sign in "*/":
            if sign == "/" and not right:
                raise PathError("it is divided by 0")
            return left * float(right) if sign == "*" else left / float(right)
        if isinstance(left, Decimal) and isinstance(right, Span) and sign == "*":
            return right * float(left)
    except (OverflowError, ZeroDivisionError):  # a divisor may be too small for a float
        raise PathError("it is no date any more: years go from 1 to 9999") from None
    return None


def _moved(day: dt.date, by: Span) -> dt.date:
    if isinstance(day, dt.datetime) or not by % dt.timedelta(days=1):
        return day + by
    raise PathError(
        "a day without a time of day moves by whole days; write it with a time: date('2026-03-01T00:00')"
    )


def between(first: dt.date, last: dt.date) -> Span:
    """The time from the one to the other."""
    if isinstance(first, dt.datetime) != isinstance(last, dt.datetime):
        raise PathError(
            "a day and a point in time have no distance: write both with a time of day, or neither"
        )
    try:
        return last - first
    except TypeError:
        raise PathError(
            "one of the two times says its distance from UTC, and the other does not: write both with it (…Z)"
        ) from None


def _compared(sign: str, left: Any, right: Any) -> bool:
    fits = (Decimal, str, Span)
    if type(left) is type(right) and isinstance(left, fits):
        return bool(_ORDERS[sign](left, right))
    if isinstance(left, dt.date) and isinstance(right, dt.date):
        return bool(_ORDERS[sign](between(right, left), Span()))
    raise PathError(f"{kind(left)} does not compare with {kind(right)}{_hint(sign, left, right)}")


def same(left: Any, right: Any) -> bool:
    """True if the two are one value; numbers by their value, and a truth value is no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dt.date) and isinstance(right, dt.date):
        return type(left) is type(right) and left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, map(taken, left), map(taken, right)))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            same(taken(left[name]), taken(right[name])) for name in left
        )
    return type(left) is type(right) and bool(left == right)
