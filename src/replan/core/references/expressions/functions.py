"""The functions that expressions may call: each gives a value of what it is given, and nothing else."""

from __future__ import annotations

import datetime as dt
from calendar import monthrange
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, DecimalException
from typing import Any, NamedTuple

from replan.core.references.expressions.values import (
    DECIMAL,
    EXACT,
    Span,
    between,
    kind,
    number_of,
    said,
    same,
    taken,
)
from replan.core.references.meter import Meter, PathError
from replan.core.words import some

_MOST_PLACES = 30
_MOST_MONTHS = 120_000
_SECONDS = Decimal(1_000_000)


class Function(NamedTuple):
    """What there is to call."""

    work: Callable[..., Any]
    """Gets the meter, and then the values."""
    takes: tuple[str, ...]
    """The kinds that its values have to have: `number`, `text`, `date`, `list`, `any`; one with `?` may be left out, one with `*` may come often."""
    gives: str
    says: str
    """What it gives, for whoever writes plans."""


def call(name: str, values: Sequence[Any], meter: Meter) -> Any:
    """What the function gives; `PathError` where the values do not fit."""
    function = FUNCTIONS[name]
    if problem := wrong_count(name, len(values)):
        raise PathError(problem)
    for at, value in enumerate(values):
        wanted = kind_wanted(function, at)
        if not _KINDS[wanted](value):
            raise PathError(
                f"{name}() takes {_NAMED[wanted]}{_at(function, at)}, and not {kind(value)}{_hint(wanted, value)}"
            )
    return function.work(meter, *values)


def wrong_count(name: str, count: int) -> str:
    """What is wrong with so many values; empty if nothing is."""
    takes = FUNCTIONS[name].takes
    least = sum(not one.endswith(("?", "*")) for one in takes)
    most = None if takes and takes[-1].endswith("*") else len(takes)
    if count >= least and (most is None or count <= most):
        return ""
    wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    return f"{name}() takes {wanted} values, and has {count}: {signature(name)}"


def kind_wanted(function: Function, at: int) -> str:
    """The kind that the value in this place has to have."""
    return function.takes[min(at, len(function.takes) - 1)].rstrip("?*")


def signature(name: str) -> str:
    """How it is written."""
    takes = (one.replace("*", ", …") for one in FUNCTIONS[name].takes)
    return f"{name}({', '.join(takes)})"


def unknown(name: str) -> str:
    """What is said of a function that is not there."""
    return f"there is no function {name!r}; there are: {some(sorted(FUNCTIONS), 50)}"


def _at(function: Function, at: int) -> str:
    return f" as value {at + 1}" if len(function.takes) > 1 else ""


def _hint(wanted: str, value: Any) -> str:
    if isinstance(value, str) and wanted in ("number", "date"):
        return f": a text is read by {wanted}(…)"
    if isinstance(value, Decimal) and wanted == "text":
        return ": text(…) makes it one"
    return ""


# ── numbers ──


def _rounded(_: Meter, value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    return _quantized(value, places, ROUND_HALF_UP)


def _quantized(value: Decimal, places: Decimal, how: str) -> Decimal:
    if places != places.to_integral_value() or not -_MOST_PLACES <= places <= _MOST_PLACES:
        raise PathError(
            f"it is rounded to {-_MOST_PLACES} to {_MOST_PLACES} places, and not to {said(places)}"
        )
    try:
        return value.quantize(Decimal(1).scaleb(-int(places)), how, EXACT)
    except DecimalException:
        raise PathError(f"{said(value)} has too many digits for {said(places)} places") from None


def _numbers(name: str, values: Sequence[Any]) -> list[Decimal]:
    """The values themselves, or those of the one list."""
    found = (
        [taken(one) for one in values[0]]
        if len(values) == 1 and isinstance(values[0], list)
        else list(values)
    )
    for at, one in enumerate(found):
        if not isinstance(one, Decimal):
            raise PathError(f"{name}() takes numbers, and item {at + 1} is {kind(one)}")
    return found


def _sum(meter: Meter, values: list[Any]) -> Decimal:
    meter.step(len(values))
    total = Decimal(0)
    for one in _numbers("sum", [values]):
        total = EXACT.add(total, one)
    return DECIMAL.plus(total)


def _average(meter: Meter, values: list[Any]) -> Decimal:
    if not values:
        raise PathError("there is no average of no numbers")
    return DECIMAL.divide(_sum(meter, values), Decimal(len(values)))


def _extreme(name: str, pick: Callable[[Sequence[Decimal]], Decimal]) -> Callable[..., Decimal]:
    def work(meter: Meter, *values: Any) -> Decimal:
        meter.step(len(values[0]) if isinstance(values[0], list) else len(values))
        found = _numbers(name, values)
        if not found:
            raise PathError(f"there is no {name} of no numbers")
        return pick(found)

    return work


def _as_number(_: Meter, value: Any) -> Decimal:
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str):
        return number_of(value.strip())
    raise PathError(f"{kind(value)} is no number")


# ── texts and lists ──


def _as_text(meter: Meter, value: Any, places: Decimal | None = None) -> str:
    if places is not None:
        if not isinstance(value, Decimal):
            raise PathError(f"places are those of a number, and this is {kind(value)}")
        rounded = _quantized(value, places, ROUND_HALF_UP)
        return format(rounded if rounded else rounded.copy_abs(), "f")
    found = said(_there(value))
    meter.make(len(found))
    return found


def _there(value: Any) -> Any:
    """The value, if there is one: `null` is no word that anybody is written to with."""
    if value is None:
        raise PathError("there is no value that a text could be made of, but null")
    return value


def _joined(meter: Meter, items: list[Any], between_them: str = ", ") -> str:
    parts = [said(taken(_there(one))) for one in items]
    meter.step(len(parts))
    meter.make(sum(map(len, parts)) + len(between_them) * len(parts))
    return between_them.join(parts)


def _split(meter: Meter, text: str, by: str) -> list[str]:
    if not by:
        raise PathError("a text is not split by nothing")
    meter.step(text.count(by) + 1)
    meter.make(len(text))
    return text.split(by)


def _replaced(meter: Meter, text: str, old: str, new: str) -> str:
    if not old:
        raise PathError("nothing is replaced by nothing: say what")
    meter.make(len(text) + text.count(old) * max(0, len(new) - len(old)))
    return text.replace(old, new)


def _contains(meter: Meter, whole: Any, part: Any) -> bool:
    if isinstance(whole, str):
        if not isinstance(part, str):
            raise PathError(f"a text holds a text, and not {kind(part)}")
        return part in whole
    if isinstance(whole, list):
        meter.step(len(whole))
        return any(same(taken(one), part) for one in whole)
    raise PathError(f"contains() looks into a text or a list, and not into {kind(whole)}")


def _merged(meter: Meter, left: list[Any], right: list[Any], key: str) -> list[Any]:
    meter.step(len(left) + len(right))
    partners: dict[str, list[dict[str, Any]]] = {}
    for one in right:
        partners.setdefault(_key(one, key, "second"), []).append(one)
    out: list[Any] = []
    for mine in left:
        for theirs in partners.get(_key(mine, key, "first"), ()):
            made = {**mine, **{name: value for name, value in theirs.items() if name not in mine}}
            meter.step()
            meter.make_value(made)
            out.append(made)
    return out


def _key(item: Any, key: str, which: str) -> str:
    """The same for equal values of this field."""
    if not isinstance(item, dict):
        raise PathError(f"merge_by() takes lists of objects, and the {which} one holds {kind(taken(item))}")
    if key not in item:
        raise PathError(f"an object of the {which} list has no {key!r}", tuple(map(str, item)))
    value = taken(item[key])
    if isinstance(value, list | dict):
        raise PathError(f"objects are merged by a text or a number, and {key!r} holds {kind(value)}")
    return f"{type(value).__name__} {value.normalize(DECIMAL) if isinstance(value, Decimal) else value}"


def _length(_: Meter, value: Any) -> Decimal:
    if isinstance(value, str | list | dict):
        return Decimal(len(value))
    raise PathError(f"{kind(value)} has no length")


def _cut(meter: Meter, text: str, begin: Decimal, end: Decimal | None = None) -> str:
    places = [_whole(one, "the place in a text") for one in (begin, end) if one is not None]
    found = text[places[0] : places[1] if len(places) > 1 else None]
    meter.make(len(found))
    return found


def _whole(value: Decimal, what: str) -> int:
    if value != value.to_integral_value() or abs(value) > 10**9:
        raise PathError(f"{what} is a whole number, and not {said(value)}")
    return int(value)


def _of_text(work: Callable[[str], str]) -> Callable[[Meter, str], str]:
    def made(meter: Meter, text: str) -> str:
        meter.make(len(text))
        return work(text)

    return made


# ── dates ──


def _as_date(_: Meter, value: Any) -> dt.date:
    if isinstance(value, dt.date):
        return value
    if not isinstance(value, str):
        raise PathError(f"{kind(value)} is no date; a date is a text as 2026-03-01 or 2026-03-01T08:00Z")
    text = value.strip()
    try:
        return dt.date.fromisoformat(text) if len(text) <= 10 else dt.datetime.fromisoformat(text)
    except ValueError:
        raise PathError(
            f"{text[:40]!r} is no date as ISO 8601 has it (2026-03-01, 2026-03-01T08:00Z)"
        ) from None


def _spans(unit: str) -> Callable[[Meter, Decimal], Span]:
    def work(_: Meter, count: Decimal) -> Span:
        try:
            return Span(**{unit: float(count)})
        except OverflowError:
            raise PathError(f"{said(count)} {unit} are more than there are dates for") from None

    return work


def _in_units(secs: int) -> Callable[[Meter, dt.date, dt.date], Decimal]:
    def work(_: Meter, first: dt.date, last: dt.date) -> Decimal:
        micros = Decimal(between(first, last) // Span(microseconds=1))
        return DECIMAL.divide(micros, _SECONDS * secs)

    return work


def _plus_months(_: Meter, day: dt.date, months: Decimal) -> dt.date:
    count = _whole(months, "the count of months")
    if abs(count) > _MOST_MONTHS:
        raise PathError("it is no date any more: years go from 1 to 9999")
    years, month = divmod(day.year * 12 + day.month - 1 + count, 12)
    if not dt.MINYEAR <= years <= dt.MAXYEAR:
        raise PathError("it is no date any more: years go from 1 to 9999")
    return day.replace(year=years, month=month + 1, day=min(day.day, monthrange(years, month + 1)[1]))


def _part(of: Callable[[dt.date], int]) -> Callable[[Meter, dt.date], Decimal]:
    return lambda _, day: Decimal(of(day))


def _is_any(_: Any) -> bool:
    return True


_KINDS: dict[str, Callable[[Any], bool]] = {
    "number": lambda value: isinstance(value, Decimal),
    "text": lambda value: isinstance(value, str),
    "date": lambda value: isinstance(value, dt.date),
    "list": lambda value: isinstance(value, list),
    "any": _is_any,
}
_NAMED = {"number": "a number", "text": "a text", "date": "a date", "list": "a list", "any": "anything"}
FUNCTIONS: dict[str, Function] = {
    "abs": Function(lambda _, value: value.copy_abs(), ("number",), "number", "without its sign"),
    "ceil": Function(lambda _, value: _quantized(value, Decimal(0), ROUND_CEILING), ("number",), "number", "the next whole number up"),
    "floor": Function(lambda _, value: _quantized(value, Decimal(0), ROUND_FLOOR), ("number",), "number", "the next whole number down"),
    "round": Function(_rounded, ("number", "number?"), "number", "rounded to so many places (0), halves away from 0"),
    "sum": Function(_sum, ("list",), "number", "all numbers of a list together; 0 for none"),
    "avg": Function(_average, ("list",), "number", "the average of a list of numbers"),
    "min": Function(_extreme("min", min), ("any", "any*"), "number", "the least of several numbers, or of a list"),
    "max": Function(_extreme("max", max), ("any", "any*"), "number", "the largest"),
    "number": Function(_as_number, ("any",), "number", "the number that a text says"),
    "text": Function(_as_text, ("any", "number?"), "text", "as a text; a number with so many places: text(2.5, 2) is 2.50"),
    "length": Function(_length, ("any",), "number", "the characters of a text, the items of a list"),
    "upper": Function(_of_text(str.upper), ("text",), "text", "in capitals"),
    "lower": Function(_of_text(str.lower), ("text",), "text", "in small letters"),
    "trim": Function(_of_text(str.strip), ("text",), "text", "without blanks around it"),
    "replace": Function(_replaced, ("text", "text", "text"), "text", "with each of the second text made the third"),
    "substring": Function(_cut, ("text", "number", "number?"), "text", "from one place to before another, counted from 0, from the end if negative"),
    "split": Function(_split, ("text", "text"), "list", "the parts between a text"),
    "merge_by": Function(_merged, ("list", "list", "text"), "list", "each object of the first list with those of the second that have the same value of this field"),
    "join": Function(_joined, ("list", "text?"), "text", "a list as one text, with a text between (', ')"),
    "contains": Function(_contains, ("any", "any"), "truth", "whether a text or a list holds it"),
    "starts_with": Function(lambda _, text, part: text.startswith(part), ("text", "text"), "truth", "whether a text begins with it"),
    "ends_with": Function(lambda _, text, part: text.endswith(part), ("text", "text"), "truth", "whether a text ends with it"),
    "date": Function(_as_date, ("any",), "date", "the day or the time that a text says (ISO 8601)"),
    "days": Function(_spans("days"), ("number",), "span", "so many days, to be added to a date"),
    "hours": Function(_spans("hours"), ("number",), "span", "so many hours"),
    "minutes": Function(_spans("minutes"), ("number",), "span", "so many minutes"),
    "add_months": Function(_plus_months, ("date", "number"), "date", "so many months later; the last day of a shorter month"),
    "days_between": Function(_in_units(86_400), ("date", "date"), "number", "days from the first to the second"),
    "hours_between": Function(_in_units(3_600), ("date", "date"), "number", "hours from the first to the second"),
    "year": Function(_part(lambda day: day.year), ("date",), "number", "its year"),
    "month": Function(_part(lambda day: day.month), ("date",), "number", "its month, 1 to 12"),
    "day": Function(_part(lambda day: day.day), ("date",), "number", "its day of the month"),
    "weekday": Function(_part(lambda day: day.isoweekday()), ("date",), "number", "its day of the week, 1 for Monday to 7"),
}  # fmt: skip
"""By name."""
