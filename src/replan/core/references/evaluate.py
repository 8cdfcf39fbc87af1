"""Works out a path: JMESPath, with existence, JSON in texts, and an end.

JMESPath (jmespath.org) says what a path means; this says it more strictly, so that nothing is quietly null. What a
plain path leads to has to be there (`Missing`), and what is computed with (compared, given to a function) has to be
there and fit. Inside a projection, a filter or `&…` each item is looked at as JMESPath does: what it lacks is null, and so is
what is computed of it. By null nothing is sorted: such an item is the last, and neither the least nor the largest.
A text that holds a JSON object or list is read wherever a path asks for one, and one that holds a truth value, a number
or null where it is asked whether it is true, or the same as another such value.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from jmespath import exceptions, functions

from replan.core.masked import Masked, holds_lost, holds_masked
from replan.core.references.kept import KeptBytes
from replan.core.references.meter import Meter, Missing, PathError, plain_value
from replan.core.words import beginning, kind_of

_FUNCTIONS = functions.Functions()
_TABLE = functions.Functions.FUNCTION_TABLE
_ORDERS = {
    "lt": lambda left, right: left < right,
    "lte": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "gte": lambda left, right: left >= right,
}
_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


_OF_ANYTHING = frozenset({"not_null", "to_array"})
_OF_WHAT_IS_WITHIN = frozenset({"contains", "join", "max", "min", "sort", "to_string"})


_MAKES_SECRETS = (
    frozenset({"join", "keys", "map", "merge", "reverse", "to_string", "type", "values"}) | _OF_ANYTHING
)
"""What these give of a secret holds all of it, or nothing: it can be told, and is as secret. Others give away a part."""


class NotComparable(PathError):
    """Two values that no order holds between."""


class OfASecret(PathError):
    """What is seen masked would be compared, counted or measured: the answer would give it away, letter by letter."""

    def __init__(self) -> None:
        super().__init__("it compares or counts a secret: give a secret to a parameter as it is")


class _Expression:
    """`&path`, as JMESPath's own functions take it: they know it by the name of its class."""

    def __init__(self, node: Any, meter: Meter, *, compared: bool) -> None:
        self.expression = node
        self._meter = meter
        self._compared = compared
        self._known: dict[int, Any] = {}

    def with_one(self, items: list[Any]) -> tuple[list[Any], list[Any]]:
        """The items for which it gives something, and those for which it gives null. Each is worked out once."""
        self._known = {id(item): self.visit(self.expression, item) for item in items}
        kept = [item for item in items if self._known[id(item)] is not None]
        return kept, [item for item in items if self._known[id(item)] is None]

    def visit(self, node: Any, data: Any) -> Any:
        if id(data) in self._known:
            return self._known[id(data)]
        found = _Evaluator(self._meter, lenient=True).walk(node, data)
        return _open(found, self._meter) if self._compared else found


def evaluate(tree: Any, data: Any, meter: Meter) -> Any:
    """What the path selects; `PathError` if that is nothing, or cannot be worked out."""
    return _Evaluator(meter, lenient=False).walk(tree, data)


def is_empty(value: Any, meter: Meter) -> bool:
    """What JMESPath takes for false, also as JSON in a text; not the number 0."""
    value = said(value, meter)
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)


def said(value: Any, meter: Meter) -> Any:
    """What a short text says that is JSON; any other value itself."""
    if not isinstance(value, str) or len(value) >= _SHORT:
        return value
    opened = meter.opened(value)
    return plain_value(opened) if isinstance(opened, str) else opened


_SHORT = 20
"""No longer text says false, or nothing."""


class _Evaluator:
    __slots__ = ("_lenient", "_meter")

    def __init__(self, meter: Meter, *, lenient: bool) -> None:
        self._meter = meter
        self._lenient = lenient

    def walk(self, node: Any, data: Any) -> Any:
        kind, children = node["type"], node["children"]
        match kind:
            case "field":
                self._meter.step()
                return self._field(node["value"], self._meter.opened(data))
            case "subexpression" | "index_expression" | "pipe":
                for child in children:
                    data = self.walk(child, data)
                return data
            case "index":
                return self._index(node["value"], self._meter.opened(data))
            case "slice":
                return self._slice(children, self._meter.opened(data))
            case "identity" | "current":
                return data
            case "literal":
                return node["value"]
            case "projection" | "value_projection" | "filter_projection":
                return self._project(node, kind, data)
            case "flatten":
                return self._flatten(children[0], data)
            case "comparator":
                return self._compared(node["value"], children, data)
            case "not_expression":
                return is_empty(self._if_there(children[0], data), self._meter)
            case "or_expression":
                left = self._if_there(children[0], data)
                return self.walk(children[1], data) if is_empty(left, self._meter) else left
            case "and_expression":
                left = self.walk(children[0], data)
                return left if is_empty(left, self._meter) else self.walk(children[1], data)
            case "multi_select_list":
                self._meter.step(len(children))
                return None if self._nothing(data) else [self._part(child, data) for child in children]
            case "multi_select_dict":
                self._meter.step(len(children))
                if self._nothing(data):
                    return None
                return {pair["value"]: self._part(pair["children"][0], data) for pair in children}
            case "function_expression":
                return self._function(node["value"], children, data)
            case _:
                raise PathError(f"{kind} cannot be worked out here")

    def _part(self, node: Any, data: Any) -> Any:
        """As `walk`, with the short way for a field of an item and for a literal."""
        if self._lenient and type(data) is dict and node["type"] == "field":
            return data.get(node["value"])
        return node["value"] if node["type"] == "literal" else self.walk(node, data)

    def _nothing(self, data: Any) -> bool:
        return self._lenient and data is None

    def _if_there(self, node: Any, data: Any) -> Any:
        try:
            return self.walk(node, data)
        except Missing:
            return None

    def _needed(self, node: Any, data: Any, what: str) -> Any:
        """A value that something is computed with."""
        if self._lenient:
            return self._part(node, data)
        try:
            return self.walk(node, data)
        except Missing as error:
            raise PathError(f"{what} needs a value, and {error.why}", error.available) from None

    # ── going in ──

    def _field(self, name: str, data: Any) -> Any:
        if isinstance(data, dict):
            if name in data:
                return data[name]
            if self._lenient:
                return None
            raise Missing(f"there is no {name!r}", tuple(str(key)[:80] for key in islice(data, 21)))
        if self._lenient:
            return None
        raise Missing(f"{name!r} needs an object, and there is {_kind_there(data)}")

    def _index(self, at: int, data: Any) -> Any:
        if isinstance(data, list):
            try:
                return data[at]
            except IndexError:
                if self._lenient:
                    return None
                raise Missing(f"there is no item [{at}] in a list of {len(data)}") from None
        if self._lenient:
            return None
        raise Missing(f"[{at}] needs a list, and there is {_kind_there(data)}")

    def _slice(self, parts: Any, data: Any) -> Any:
        if not isinstance(data, list):
            if self._lenient:
                return None
            raise Missing(f"a slice needs a list, and there is {_kind_there(data)}")
        try:
            found = data[slice(*parts)]
        except ValueError as error:
            raise PathError(str(error)) from None
        self._meter.step(len(found) // 16)
        return found

    # ── lists ──

    def _project(self, node: Any, kind: str, data: Any) -> Any:
        children = node["children"]
        base = self._meter.opened(self.walk(children[0], data))
        wanted: type[Any] = dict if kind == "value_projection" else list
        if not isinstance(base, wanted):
            return self._no_list(".*" if wanted is dict else "[…]", base, wanted)
        items: list[Any] = list(base.values()) if isinstance(base, dict) else base
        inner = self if self._lenient else _Evaluator(self._meter, lenient=True)
        if kind == "filter_projection":
            items = inner._filtered(children[2], items)
        found = (
            items if children[1]["type"] == "identity" else [inner._part(children[1], one) for one in items]
        )
        self._meter.step(1 + len(found) // 4)
        return [one for one in found if one is not None]

    def _filtered(self, condition: Any, items: list[Any]) -> list[Any]:
        """The items for which the condition holds; a fault if it cannot be told of one: it may be meant."""
        kept = []
        for number, item in enumerate(items, 1):
            try:
                if not is_empty(self.walk(condition, item), self._meter):
                    kept.append(item)
            except NotComparable as error:
                raise PathError(f"item {number} of the list: {error.why}", error.available) from None
        return kept

    def _flatten(self, node: Any, data: Any) -> Any:
        base = self._meter.opened(self.walk(node, data))
        if not isinstance(base, list):
            return self._no_list("[…]", base, list)
        out: list[Any] = []
        for item in base:
            item = self._meter.opened(item)
            if isinstance(item, list):
                self._meter.step(1 + len(item) // 4)
                out.extend(item)
            else:
                self._meter.step()
                out.append(item)
        return out

    def _no_list(self, sign: str, base: Any, wanted: type) -> None:
        if self._lenient:
            return
        needed = "an object" if wanted is dict else "a list"
        raise Missing(f"{sign} needs {needed}, and there is {_kind_there(base)}")

    # ── computing ──

    def _compared(self, name: str, children: list[Any], data: Any) -> Any:
        self._meter.step(3)
        left_node, right_node = children
        if name in ("eq", "ne") and _NULL in children:  # the question whether it is there
            asked = (self._if_there(left_node, data), self._if_there(right_node, data))
            same = all(said(one, self._meter) is None for one in asked)
            return same if name == "eq" else not same
        sign = _SIGNS[name]
        left = _open(self._needed(left_node, data, sign), self._meter)
        right = _open(self._needed(right_node, data, sign), self._meter)
        if name in ("eq", "ne"):
            return self._same(left, right) is (name == "eq")
        if (left is None or right is None) and self._lenient:
            return None
        if self._lenient and _is_number(left) is not _is_number(right):
            # of one item among many: "200" beside 100 is meant as the number that it is, and "n/a" as none
            left, right = (plain_value(one) if isinstance(one, str) else one for one in (left, right))
        comparable = (_is_number(left) and _is_number(right)) or (
            isinstance(left, str) and isinstance(right, str)
        )
        if not comparable:
            raise NotComparable(
                f"{_told(left)} {sign} {_told(right)} cannot be compared{_to_number(left, right)}"
            )
        if isinstance(left, str) and isinstance(right, str):
            self._meter.read_through(min(left, right, key=len))
        return _ORDERS[name](left, right)

    def _same(self, left: Any, right: Any) -> bool:
        if isinstance(left, list | dict):
            right = self._meter.opened(right)
        elif isinstance(right, list | dict):
            left = self._meter.opened(left)
        elif isinstance(left, str) is not isinstance(right, str):
            left, right = (plain_value(one) if isinstance(one, str) else one for one in (left, right))
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        if isinstance(left, str) and isinstance(right, str):
            if len(left) == len(right):
                self._meter.read_through(left)
        else:
            self._meter.looked_at(left)
        return bool(left == right)

    def _function(self, name: str, children: list[Any], data: Any) -> Any:
        self._meter.step(4)
        given: list[Any] = []
        signature = _TABLE[name]["signature"]
        for at, child in enumerate(children):
            if child["type"] == "expref":
                given.append(_Expression(child["children"][0], self._meter, compared=name != "map"))
                continue
            value = (
                self._if_there(child, data) if name == "not_null" else self._needed(child, data, f"{name}()")
            )
            types = signature[min(at, len(signature) - 1)].get("types") or ()
            if value is None and self._lenient and types:
                return None
            if isinstance(value, KeptBytes) and name not in _OF_ANYTHING:
                raise PathError(f"{name}() needs a value, and there is {kind_of(value)}")
            if name not in _OF_ANYTHING and (isinstance(value, str) or name in _OF_WHAT_IS_WITHIN):
                _known(value, self._meter)
            if name not in _MAKES_SECRETS:
                _check_open(name, value)
            if isinstance(value, str) and (_WANTS_MORE & {kind.split("-")[0] for kind in types}):
                value = self._meter.opened(value)
            self._charge(name, value)
            given.append(value)
        try:
            last: list[Any] = []
            if name in _BY and isinstance(given[0], list):
                given[0], last = given[1].with_one(given[0])
            found = _FUNCTIONS.call_function(name, given)
            if name == "sort_by":
                found = [*found, *last]
        except exceptions.JMESPathTypeError as error:  # its own words repeat the value, however large
            raise PathError(
                f"{name}() takes {' or '.join(error.expected_types)}, and there is {error.actual_type}"
            ) from None
        except exceptions.JMESPathError as error:
            raise PathError(_first_line(error)) from None
        except (ValueError, TypeError, ArithmeticError) as error:
            raise PathError(f"{name}(): {_first_line(error)}") from None
        if isinstance(found, float) and not math.isfinite(found):
            return None if name == "to_number" else self._no_number(name)
        if isinstance(found, str | list | dict) and name not in _AS_IT_IS:
            self._meter.make(len(found))
        return found

    def _no_number(self, name: str) -> None:
        raise PathError(f"{name}() gives no finite number")

    def _charge(self, name: str, value: Any) -> None:
        """What the function takes to go through its argument, before it does."""
        if isinstance(value, str):
            self._meter.read_through(value)
        elif name in ("to_string", "contains"):
            self._meter.looked_at(value)
        elif isinstance(value, list | dict) and name not in ("length", "not_null", "to_array", "type"):
            self._meter.step(1 + len(value) // 2)
            if name == "join":
                self._meter.make(sum(len(item) for item in value if isinstance(item, str)))


_AS_IT_IS = ("not_null", "to_array", "max", "min", "max_by", "min_by")
_BY = frozenset({"max_by", "min_by", "sort_by"})
_WANTS_MORE = {"array", "object"}
_NULL: dict[str, Any] = {"type": "literal", "value": None, "children": []}


def _known(value: Any, meter: Meter) -> Any:
    """The value, of which something is computed: no mask is counted, compared or written in place of what it hides."""
    meter.seen_through(value)
    if isinstance(value, str | list | dict) and holds_lost(value):
        raise PathError(
            "it is computed of a secret, which no log keeps, and the process that knew it is another one or has ended"
        )
    return value


def _open(value: Any, meter: Meter) -> Any:
    """The value, which is compared: `OfASecret` for one that is seen masked, also by who knows what it stands for."""
    if isinstance(_known(value, meter), str | list | dict) and holds_masked(value):
        raise OfASecret
    return value


def _check_open(name: str, value: Any) -> None:
    """The same of what a function is given that tells something of it: of a list how many there are is no secret."""
    within = name not in (
        "length",
        "max_by",
        "min_by",
        "sort_by",
    )  # what `&…` gives of the items is looked at by itself
    if isinstance(value, Masked) or (within and holds_masked(value)):
        raise OfASecret


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind_there(value: Any) -> str:
    """The kind of a value that cannot be gone into; of a text also why not, where it looks as if it could."""
    if isinstance(value, str) and value[:64].lstrip()[:1] in ("{", "["):
        return f"{kind_of(value)} that is no JSON (which has no NaN and no Infinity)"
    return kind_of(value)


def _told(value: Any) -> str:
    """The value in few words, without what a text says: it may be a secret."""
    return repr(value) if _is_number(value) else kind_of(value)


def _to_number(left: Any, right: Any) -> str:
    mixed = (isinstance(left, str) and _is_number(right)) or (isinstance(right, str) and _is_number(left))
    return "; to_number(…) makes a number of a text" if mixed else ""


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return beginning(text)
