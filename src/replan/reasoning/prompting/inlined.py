"""Schemas without references, as prompts and grammars want them."""

from __future__ import annotations

from typing import Any

from replan.core.data.schema.parts import LISTED, NAMED, SINGLE
from replan.core.memo import ByIdentity
from replan.core.pointers import referred
from replan.core.types import JsonObject

_LEVELS = (13, 8, 5, 3, 2, 1, 0)
"""How many references within each other are followed: the most with which the schema stays small."""
_ROOM = 2_000
"""Places that references may add to a schema: definitions that use each other twice double with each level."""
_KEPT = 128


def inline(schema: JsonObject) -> JsonObject:
    """The schema with local `$ref`s replaced by what they name; what refers to itself, or where that would be
    too much, becomes any value. It is shared: not to be changed."""
    return _inlined(schema)


class _TooLarge(Exception):
    """References would add more than `_ROOM`."""


def _make(schema: JsonObject) -> JsonObject:
    for levels in _LEVELS:
        try:
            made = _Inlining(schema, levels).of(schema, ())
        except _TooLarge:
            continue
        return made if isinstance(made, dict) else {}
    return {}


_inlined = ByIdentity(_make, most=_KEPT)


class _Inlining:
    def __init__(self, root: JsonObject, levels: int) -> None:
        self._root = root
        self._levels = levels
        self._room = _ROOM

    def of(self, node: Any, inside: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):
            return node
        if inside:
            self._take(node)
        target = node.get("$ref")
        if isinstance(target, str):
            open_ = target not in inside and len(inside) < self._levels
            found = referred(self._root, target) if open_ else None
            named = self.of(found, (*inside, target)) if isinstance(found, dict) else {}
            return {**named, **self._parts({k: v for k, v in node.items() if k != "$ref"}, inside)}
        return self._parts(node, inside)

    def _parts(self, node: JsonObject, inside: tuple[str, ...]) -> JsonObject:
        made: JsonObject = {}
        for key, value in node.items():
            if key in ("$defs", "definitions"):
                continue
            if key in NAMED and isinstance(value, dict):  # the keys are names, whatever they are called
                made[key] = {name: self.of(part, inside) for name, part in value.items()}
            elif key in LISTED or key in SINGLE:
                many = isinstance(value, list)
                made[key] = [self.of(part, inside) for part in value] if many else self.of(value, inside)
            else:
                made[key] = value
        return made

    def _take(self, node: JsonObject) -> None:
        self._room -= 1
        for value in node.values():
            if isinstance(value, list):
                self._room -= len(value)
            elif isinstance(value, str):
                self._room -= len(value) // 40
        if self._room < 0:
            raise _TooLarge
