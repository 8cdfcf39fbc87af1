"""References filled in: what they mean in place of them, all of one call's on one meter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from replan.core.references.kept import KeptBytes
from replan.core.references.meter import Meter
from replan.core.references.paths import PathError, select, static_steps
from replan.core.references.refs import Expression, Reference, is_plain, parse
from replan.core.references.trees import filled
from replan.errors import UnresolvedReference

Lookup: TypeAlias = Callable[[Reference], tuple[Any, str]]
"""What a reference's head stands for: the value, and what to call it in an error."""


def resolve(value: Any, lookup: Lookup, meter: Meter | None = None) -> Any:
    """The value with every reference filled in.

    A string that is one reference keeps the value's type; inside a longer text strings go in as they are
    and all else as JSON. Raises `UnresolvedReference`, also where it would take or make too much (`core.references.meter`).
    """
    return _Filling(lookup, meter or Meter()).of(value)


class _Filling:
    """References filled in, all of them on one meter."""

    __slots__ = ("_lookup", "_meter", "_put")

    def __init__(self, lookup: Lookup, meter: Meter) -> None:
        self._lookup = lookup
        self._meter = meter
        self._put: set[int] = set()
        """What was put in whole, by identity: once it costs nothing, since it is there already."""

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            out: dict[str, Any] = {}
            for key, item in value.items():
                filled = key if is_plain(key) else self._as_text(key, self._text(key))
                if filled in out:
                    raise UnresolvedReference(key, where="the keys", why=f"two keys come out as {filled!r}")
                out[filled] = self.of(item)
            return out
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        return value

    def _text(self, text: str) -> Any:
        if is_plain(text):
            return text
        segments = parse(text)
        if len(segments) == 1 and isinstance(segments[0], Expression):
            return self._worked_out(segments[0])
        if len(segments) == 1 and isinstance(segments[0], Reference):
            reference = segments[0]
            found = self._value(reference)
            if (reference.path and static_steps(reference.path) is None) or id(found) in self._put:
                self._made(reference.raw, found)
            elif isinstance(found, str | list | dict):
                self._put.add(id(found))
            return found
        return "".join(s if isinstance(s, str) else self._as_text(s.raw, self._given(s)) for s in segments)

    def _given(self, segment: Reference | Expression) -> Any:
        return self._value(segment) if isinstance(segment, Reference) else self._worked_out(segment)

    def _worked_out(self, expression: Expression) -> Any:
        from replan.core.references.expressions.work import work_out

        if expression.problem or expression.tree is None:
            why = expression.problem.removeprefix(expression.raw).lstrip(": ")
            raise UnresolvedReference(expression.raw, where="", why=why)
        try:
            found = work_out(expression.tree, lambda at: self._value(expression.references[at]), self._meter)
        except PathError as error:
            raise UnresolvedReference(expression.raw, where="", why=error.why) from None
        self._made(expression.raw, found)
        return found

    def _value(self, reference: Reference) -> Any:
        if reference.problem:
            raise UnresolvedReference(reference.raw, where="this plan", why=reference.problem)
        if reference.within:
            inside = {one.raw: one for one in reference.within}
            path = filled(reference.path, lambda raw: self._within(inside[raw]))
            reference = reference._replace(path=path, within=())
        found, where = self._lookup(reference)
        if not reference.path:
            return found
        try:
            return select(reference.path, found, self._meter)
        except PathError as error:
            raise UnresolvedReference(
                reference.raw, where=where, available=error.available, why=error.why
            ) from None

    def _within(self, reference: Reference) -> Any:
        """What a reference in the path of another one gives."""
        value = self._value(reference)
        if isinstance(value, KeptBytes):
            raise UnresolvedReference(
                reference.raw, where="this plan", why="it is a file, which nothing is compared with"
            )
        return value

    def _made(self, raw: str, value: Any) -> None:
        try:
            self._meter.make_value(value)
        except PathError as error:
            raise UnresolvedReference(raw, where="this plan", why=error.why) from None

    def _as_text(self, raw: str, value: Any) -> str:
        if isinstance(value, KeptBytes):
            raise UnresolvedReference(
                raw, where="this plan", why="it is a file, which goes whole to a parameter, and into no text"
            )
        self._made(raw, value)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
