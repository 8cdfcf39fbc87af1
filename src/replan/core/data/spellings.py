"""One field under several names: what it says, and where two of them say two things."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from replan.core.data.for_readers import NOTHING, folded
from replan.core.types import JsonObject


class Spellings:
    """The fields of an object by their own names, taken in one by one under whatever name they stand.

    An empty value never wins over a filled one. Else the own name goes before another, and what stands first.
    """

    def __init__(self, once: Collection[str], empty: Mapping[str, Collection[Any]] = {}) -> None:
        """`once`: fields of which two values are two meanings. `empty`: the values that say nothing, where they are not the usual ones."""
        self.fields: JsonObject = {}
        self._keys: dict[str, str] = {}
        self._once = once
        self._empty = empty

    def take(self, name: str, key: str, value: Any) -> str:
        """Takes in what stands under `key`; what is wrong with that, in words."""
        empty = self._empty.get(name, NOTHING)
        if name not in self.fields or self.fields[name] in empty:
            if name not in self.fields or value not in empty:
                self.fields[name], self._keys[name] = value, key
            return ""
        known = self._keys[name]
        if value in empty or same(value, self.fields[name]):
            return ""
        if name in self._once:
            other, own = (known, key) if key == name else (key, known)
            return f"{other!r} beside {own!r}, which is the same field: write {name!r} alone"
        if key == name:
            self.fields[name], self._keys[name] = value, key
        return ""


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: unlike in Python, 1 is not true."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def one_spelling(raw: Mapping[str, Any], names: Iterable[str]) -> tuple[JsonObject, list[str]]:
    """The object with each of these fields under its own name, however it is spelled; and where two spellings say two things."""
    own = {folded(name): name for name in names}
    if not any(folded(key) in own and key != own[folded(key)] for key in raw):
        return dict(raw), []
    found = Spellings(frozenset(own.values()))
    faults: list[str] = []
    for key, value in raw.items():
        if fault := found.take(own.get(folded(key), key), key, value):
            faults.append(fault)
    return found.fields, faults


def spelled_as_asked(raw: Mapping[str, Any], names: Iterable[str]) -> JsonObject:
    """The object with each of these fields that it lacks by its own name, where it has it in one other spelling."""
    lacking = {folded(name): name for name in names if name not in raw}
    found: dict[str, list[str]] = {}
    for key in raw if lacking else ():
        if folded(key) in lacking:
            found.setdefault(folded(key), []).append(key)
    own = {keys[0]: lacking[plain] for plain, keys in found.items() if len(keys) == 1}
    return {own.get(key, key): value for key, value in raw.items()}
