"""How often a schema with references may look at one part of a value.

References let a short schema say the same again and again: thirty definitions, each of which names the next one twice, look at one
number a billion times. A validator does not know that before it begins, and nothing stops it then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from replan.core.data.schema.parts import parts
from replan.core.types import JsonObject

MOST = 10**12
"""Counted to; more is as bad."""
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""What holds for the very value that the schema holds for."""
_OF_ANY_FIELD = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANY = ""
"""Names the fields that have no name of their own in the schema."""
_MOST_WORK = 100_000
"""Names of fields that are gone through for the sake of one schema: some tens of milliseconds."""
_Counts: TypeAlias = tuple[int, int]
_Led: TypeAlias = tuple[str | None, JsonObject, str]


class Growth(NamedTuple):
    """The worst that a value can meet. Ways through definitions that lead back to themselves are not gone again."""

    looks: int
    """At one part of a value, and at what lies in it, by one way down."""
    returns: int
    """How often one part of a value may lead to one in it by way of a definition that leads back to itself: 2 doubles with each level."""


class _Of:
    """Of one schema, by what it leads to."""

    __slots__ = ("any_field", "back", "here", "named", "under")

    def __init__(self, here: int, back: int, under: dict[str, _Counts], named: _Counts | None = None) -> None:
        """`named`: the most of its names, where that is known."""
        self.here = here
        """Looks at the value itself."""
        self.back = back
        """Of them, those at which a definition is come back to."""
        self.under = under
        """The same in fields and items of the value, by name."""
        self.any_field = under.get(_ANY, (0, 0))
        self.named = _most(under) if named is None else named

    def looks(self) -> int:
        return min(MOST, self.here + self.any_field[0] + self.named[0])

    def returns(self) -> int:
        return min(MOST, self.back + self.any_field[1] + self.named[1])

    def in_one(self) -> dict[str, _Counts]:
        """What is in its fields as if it were in each of them: no less than is in any."""
        both = zip(self.any_field, self.named, strict=True)
        looks, back = (min(MOST, one + other) for one, other in both)
        return {_ANY: (looks, back)} if looks or back else {}


def _most(under: dict[str, _Counts]) -> _Counts:
    named = [counts for name, counts in under.items() if name != _ANY]
    return max((looks for looks, _ in named), default=0), max((back for _, back in named), default=0)


def growth(schema: JsonObject, most_work: int = _MOST_WORK) -> Growth:
    """Of a schema that is a valid one. A reference that leads nowhere in it counts for nothing.

    `most_work`: so many names of fields are told apart; from there on it is the worst that it might be.
    """
    targets = _Targets(schema)
    if targets.pairs > most_work:
        return Growth(MOST, MOST)
    return _Counting(targets, most_work).of(schema)


class _Counting:
    """Each schema once, after all that it leads to."""

    def __init__(self, targets: _Targets, most_work: int) -> None:
        self._targets = targets
        self._done: dict[int, _Of] = {}
        self._left = most_work
        """Names that may still be gone through one by one."""

    def of(self, schema: JsonObject) -> Growth:
        done, open_, most = self._done, set[int](), 1
        stack: list[tuple[JsonObject, str, list[_Led] | None]] = [(schema, self._targets.base, None)]
        while stack:
            node, base, led = stack.pop()
            if led is None:
                if id(node) in done or id(node) in open_:
                    continue
                open_.add(id(node))
                led = list(_led_to(node, base, self._targets))
                stack.append((node, base, led))
                stack.extend((child, at, None) for _, child, at in led if id(child) not in open_)
                continue
            of = self._sum(led)
            most = max(most, of.returns())
            done[id(node)] = of
            open_.discard(id(node))
        return Growth(done[id(schema)].looks(), most)

    def _sum(self, led: list[_Led]) -> _Of:
        here, back = 1, 0
        under: dict[str, _Counts] = {}
        inner: list[_Of] = []
        for name, child, _ in led:
            of = self._done.get(id(child)) or _BACK
            if name is not None:
                _add(under, name, of.looks(), of.returns())
                continue
            here, back = min(MOST, here + of.here), min(MOST, back + of.back)
            if of.under:
                inner.append(of)
        if len(inner) == 1 and not under:  # as all that is a reference alone
            return _Of(here, back, inner[0].under, inner[0].named)
        for of in inner:
            for name, (looks, returns) in self._names(of).items():
                _add(under, name, looks, returns)
        return _Of(here, back, under)

    def _names(self, of: _Of) -> dict[str, _Counts]:
        """Its names; all in one where too many were gone through: a schema may hand on the names of thousands of others thousands of times."""
        self._left -= len(of.under)
        return of.under if self._left >= 0 else of.in_one()


_BACK = _Of(1, 1, {})
"""What is come back to."""


def _add(under: dict[str, _Counts], name: str, looks: int, returns: int) -> None:
    before = under.get(name, (0, 0))
    under[name] = (min(MOST, before[0] + looks), min(MOST, before[1] + returns))


def _led_to(node: JsonObject, base: str, targets: _Targets) -> Iterator[_Led]:
    """The schemas that a schema leads to: under which name of the value (None: for itself), and from where their references count."""
    base = targets.bases.get(id(node), base)
    for key, value in node.items():
        if key in _REFERENCES and isinstance(value, str):
            yield from ((None, child, at) for child, at in targets.of(key, value, base))
        elif key == "properties" and isinstance(value, dict):
            yield from ((f".{name}", child, base) for name, child in value.items() if isinstance(child, dict))
        else:
            label = _ANY if key in _OF_ANY_FIELD else "[]" if key in _OF_ITEMS else None
            if label is not None or key in _IN_PLACE:
                yield from ((label, child, base) for child in _schemas(key, value))


def _schemas(key: str, value: Any) -> Iterator[JsonObject]:
    if key in ("patternProperties", "dependentSchemas", "dependencies"):
        value = list(value.values()) if isinstance(value, dict) else []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            yield one


class _Targets:
    """What references lead to (JSON Schema 2020-12, section 8.2): pointers, anchors and ids within the document."""

    def __init__(self, schema: JsonObject) -> None:
        self.base = ""
        self.bases: dict[int, str] = {}
        self._roots: dict[str, JsonObject] = {"": schema}
        self._anchors: dict[str, JsonObject] = {}
        self._dynamic: dict[str, list[JsonObject]] = {}
        bases = {"#": ""}
        dynamic = 0
        for path, part in parts(schema):
            above = path
            while above not in bases:
                above = above.rpartition("/")[0]
            base = bases[above]
            if isinstance(name := part.get("$id", part.get("id")), str):
                base, _ = urldefrag(urljoin(base, name))
                self._roots.setdefault(base, part)
            bases[path] = self.bases[id(part)] = base
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := part.get(key), str):
                    self._anchors.setdefault(f"{base}#{name}", part)
            if isinstance(name := part.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(name, []).append(part)
            if part.get("$recursiveAnchor") is True:
                self._dynamic.setdefault("", []).append(part)
            dynamic += "$dynamicRef" in part or "$recursiveRef" in part
        self.pairs = dynamic * max(map(len, self._dynamic.values()), default=0)
        """Of references and what they may mean, where that is known with a value only."""

    def of(self, key: str, reference: str, base: str) -> list[tuple[JsonObject, str]]:
        uri, fragment = urldefrag(urljoin(base, reference))
        found = self._at(uri, fragment)
        if key != "$ref":  # whichever of them is meant is known with a value only
            others = [one for one in self._dynamic.get(fragment, []) if one is not found]
            return [(one, self.bases.get(id(one), uri)) for one in (found, *others) if one is not None]
        return [] if found is None else [(found, self.bases.get(id(found), uri))]

    def _at(self, uri: str, fragment: str) -> JsonObject | None:
        found: Any = self._anchors.get(f"{uri}#{fragment}") if fragment else None
        if found is not None:
            return found if isinstance(found, dict) else None
        found = self._roots.get(uri)
        for part in fragment.split("/")[1:] if fragment else ():
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(name)
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if isinstance(found, dict) else None
