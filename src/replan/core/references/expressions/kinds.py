"""What an expression gives, as far as its references' kinds tell: what cannot fit is told with the plan."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from replan.core.references.expressions import functions
from replan.core.references.expressions.grammar import (
    EACH,
    Called,
    Chosen,
    Listed,
    Literal,
    Node,
    Paired,
    Picked,
    Signed,
    Taken,
    calls_in,
)
from replan.core.references.expressions.values import kind
from replan.core.references.paths import gives_list

ANY: Final = "any"
_OF_JSON = {
    "integer": "number", "number": "number", "string": "text", "boolean": "truth", "null": "null", "array": "list", "object": "object",
}  # fmt: skip
_IN_JSON = {
    "number": ("integer", "number"), "text": ("string",), "truth": ("boolean",), "null": ("null",), "list": ("array",),
    "object": ("object",), "date": ("string",),
}  # fmt: skip
_NAMED = {
    "number": "a number", "text": "a text", "truth": "a truth value", "null": "null", "list": "a list", "object": "an object",
    "date": "a date", "span": "a span of time",
}  # fmt: skip
_ORDERED = frozenset({"number", "text", "date", "span"})
_SUMS = {
    ("number", "+", "number"): "number", ("number", "-", "number"): "number", ("number", "*", "number"): "number",
    ("number", "/", "number"): "number", ("number", "%", "number"): "number", ("text", "+", "text"): "text",
    ("date", "+", "span"): "date", ("date", "-", "span"): "date", ("span", "+", "date"): "date", ("date", "-", "date"): "span",
    ("span", "+", "span"): "span", ("span", "-", "span"): "span", ("span", "*", "number"): "span", ("number", "*", "span"): "span",
    ("span", "/", "number"): "span",
}  # fmt: skip


class Misfit(Exception):
    """It can give nothing, whatever its references give."""


def types_given(
    node: Node,
    types_of: Callable[[int], Collection[str] | None],
    of_items: Callable[[int], Collection[str] | None] = lambda _: None,
) -> frozenset[str] | None:
    """The JSON types that the expression may give; None: any. Raises `Misfit`.

    `types_of(n)`: those of its n-th reference; `of_items(n)`: of the items of the list that this one gives.
    """
    _check_items(node, of_items)

    def taken(index: int) -> str:
        found = types_of(index)
        kinds = {_OF_JSON.get(one, ANY) for one in found} if found else {ANY}
        return kinds.pop() if len(kinds) == 1 else ANY

    found = _kind(node, taken)
    if found == "span":
        raise Misfit(
            "a span of time is no value: days_between(a, b) and hours_between(a, b) give it as a number"
        )
    return None if found == ANY else frozenset(_IN_JSON[found])


def _check_items(node: Node, of_items: Callable[[int], Collection[str] | None]) -> None:
    """Raise `Misfit` where numbers are summed up of a list that has none."""
    for one in calls_in(node):
        if one.name not in _OF_NUMBERS or len(one.arguments) != 1 or not isinstance(one.arguments[0], Taken):
            continue
        found = of_items(one.arguments[0].index)
        kinds = {_OF_JSON.get(name, ANY) for name in found} if found else {ANY}
        if not kinds & {ANY, "number"}:
            told = " or ".join(sorted(_NAMED[kind] for kind in kinds))
            raise Misfit(f"{one.name}() takes numbers, and each item of its list is {told}")


_OF_NUMBERS = frozenset({"sum", "avg"})
_READS = {
    "date": ("text", "date"), "number": ("text", "number"), "length": ("text", "list", "object"), "contains": ("text", "list"),
    "text": ("text", "number", "truth", "date"),
}  # fmt: skip
"""The kinds of the first value of which these give something."""


def _kind(node: Node, taken: Callable[[int], str]) -> str:
    match node:
        case Literal(value):
            return {"a number": "number", "a text": "text", "a truth value": "truth"}.get(kind(value), "null")
        case Taken(index):
            return taken(index)
        case Listed(items):
            for item in items:
                _kind(item, taken)
            return "list"
        case Called(name, arguments):
            return _of_call(name, [_kind(one, taken) for one in arguments])
        case Picked(of, path):
            if (found := _kind(of, taken)) not in (ANY, "list", "object"):
                raise Misfit(
                    f"what is taken of a function by a path is taken of a list or an object, and it gives {_NAMED[found]}"
                )
            return "list" if gives_list(path) else ANY
        case Signed(sign, of):
            return _needed(
                _kind(of, taken), "number" if sign == "-" else "truth", f"what stands behind {sign}"
            )
        case Paired(sign, left, right):
            return _of_pair(sign, _kind(left, taken), _kind(right, taken))
        case Chosen(condition, then, otherwise):
            _needed(_kind(condition, taken), "truth", "what stands before ?")
            first, second = _kind(then, taken), _kind(otherwise, taken)
            return first if first == second else ANY


def _of_call(name: str, kinds: list[str]) -> str:
    if problem := functions.wrong_count(name, len(kinds)):
        raise Misfit(problem)
    function = functions.FUNCTIONS[name]
    if kinds and name in _READS and kinds[0] not in (ANY, *_READS[name]):
        right = " or ".join(_NAMED[one] for one in _READS[name])
        raise Misfit(f"{name}() takes {right}, and what it has is {_NAMED[kinds[0]]}")
    for at, found in enumerate(kinds):
        wanted = functions.kind_wanted(function, at)
        if wanted != ANY:
            _needed(found, wanted, f"{name}() takes {_NAMED[wanted]}, and what it has", "")
    return function.gives


def _of_pair(sign: str, left: str, right: str) -> str:
    if sign in ("&&", "||"):
        for one in (left, right):
            _needed(one, "truth", f"what stands beside {sign}")
        return "truth"
    if sign in ("==", "!="):
        return "truth"
    if sign in ("<", "<=", ">", ">="):
        if ANY not in (left, right) and (left != right or left not in _ORDERED):
            raise Misfit(f"{_NAMED[left]} does not compare with {_NAMED[right]}{_hint(left, right)}")
        return "truth"
    if ANY in (left, right):
        known = {
            gives
            for (one, made, other), gives in _SUMS.items()
            if made == sign and left in (ANY, one) and right in (ANY, other)
        }
        if not known:
            known_kind = left if right == ANY else right
            raise Misfit(f"there is no {sign} with {_NAMED[known_kind]}{_of_each(known_kind)}")
        return known.pop() if len(known) == 1 else ANY
    if (found := _SUMS.get((left, sign, right))) is None:
        raise Misfit(
            f"{_NAMED[left]} {sign} {_NAMED[right]} is nothing{_of_each(left, right) or _hint(left, right)}"
        )
    return found


def _needed(found: str, wanted: str, what: str, is_: str = " has to be {}, and it") -> str:
    if found in (ANY, wanted):
        return wanted
    raise Misfit(f"{what}{is_.format(_NAMED[wanted])} is {_NAMED[found]}{_hint(found, wanted)}")


def _of_each(*kinds: str) -> str:
    return f": nothing is computed for each item of a list, {EACH}" if "list" in kinds else ""


def _hint(first: str, second: str) -> str:
    kinds = {first, second}
    if kinds == {"text", "number"}:
        return ": a text is read as a number by number(…), and text(…) makes a text of a number"
    if kinds in ({"text", "date"}, {"text", "span"}):
        return ": a text is read as a date by date(…)"
    if kinds == {"date", "number"}:
        return ": say of what there are so many, as days(…)"
    return ""
