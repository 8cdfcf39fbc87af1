"""Works expressions out: strictly, in bounded steps, and with nothing but the values that their references give."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from replan.core.references.expressions.functions import call
from replan.core.references.expressions.grammar import (
    Called,
    Chosen,
    Listed,
    Literal,
    Node,
    Paired,
    Picked,
    Signed,
    Taken,
)
from replan.core.references.expressions.values import given, kind, paired, taken
from replan.core.references.meter import Meter, PathError
from replan.core.references.paths import select
from replan.core.references.trees import filled

_MOST_TEXT = 128


def work_out(node: Node, value_of: Callable[[int], Any], meter: Meter) -> Any:
    """What the expression comes to, as a value of JSON.

    `value_of(n)`: what its n-th reference gives; it is asked for those alone that count (of `c ? a : b` one). Raises `PathError`.
    """
    return _settled(_Worker(value_of, meter).of(node))


def _settled(value: Any) -> Any:
    """The value as JSON has it; what is in a list was made so, or is as it came."""
    return value if isinstance(value, list | dict) else given(value)


class _Worker:
    __slots__ = ("_meter", "_value_of")

    def __init__(self, value_of: Callable[[int], Any], meter: Meter) -> None:
        self._value_of = value_of
        self._meter = meter

    def of(self, node: Node) -> Any:
        self._meter.step()
        match node:
            case Literal(value):
                return value
            case Taken(index):
                value = self._value_of(index)
                self._meter.seen_through(value)
                return taken(value)
            case Listed(items):
                return [_settled(self.of(item)) for item in items]
            case Called(name, arguments):
                return call(name, [self.of(one) for one in arguments], self._meter)
            case Picked(whole, path, inside):
                return self._picked(self.of(whole), path, dict(inside))
            case Signed(sign, inner):
                return self._signed(sign, self.of(inner))
            case Paired("&&", left, right):
                return self._truth(left) and self._truth(right)
            case Paired("||", left, right):
                return self._truth(left) or self._truth(right)
            case Paired(sign, left, right):
                return self._paired(sign, self.of(left), self.of(right))
            case Chosen(condition, then, otherwise):
                return self.of(then if self._truth(condition) else otherwise)

    def _picked(self, whole: Any, path: str, inside: dict[str, int]) -> Any:
        if inside:
            path = filled(path, lambda raw: self._value_of(inside[raw]))
        found = select(path, _settled(whole), self._meter)
        self._meter.seen_through(found)
        return taken(found)

    def _paired(self, sign: str, left: Any, right: Any) -> Any:
        if sign == "+" and isinstance(left, str) and isinstance(right, str):
            self._meter.make(_MOST_TEXT + len(left) + len(right))
        elif isinstance(left, list | dict | str):
            self._meter.looked_at(left)
        return paired(sign, left, right)

    def _truth(self, node: Node) -> bool:
        found = self.of(node)
        if isinstance(found, bool):
            return found
        raise PathError(
            f"what is asked has to be true or false, and it is {kind(found)}: compare it with something"
        )

    @staticmethod
    def _signed(sign: str, value: Any) -> Any:
        if sign == "-" and isinstance(value, Decimal):
            return value.copy_negate()  # `-value` keeps 28 digits alone
        if sign == "!" and isinstance(value, bool):
            return not value
        raise PathError(f"there is no {sign} of {kind(value)}")
