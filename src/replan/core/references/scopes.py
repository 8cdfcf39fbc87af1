"""The names inside a path's filters, projections and `&…`: each is a field of the items there, whatever else is called so.

A path is gone through with the schema of what it looks into, as far as that is known. What a name outside could be meant by
(`meant`) is said by whoever knows the plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from replan.core.data import schemas
from replan.core.references.refs import WORDS, Reference, references
from replan.core.references.trees import placed
from replan.core.types import JsonObject

Chain = tuple[str, ...]
"""A name and the fields that are taken of it."""
Meant = Callable[[Chain], str]
"""What the plan has of this name, in words; empty if nothing."""


class Place:
    """Where a path has come to; of this one nothing is known."""

    def field(self, name: str) -> Place:
        """What this field is; `PathUnknown` where there is none."""
        return Place()

    def item(self, index: int | None = None) -> Place:
        """One of its items; `PathUnknown` where it has none."""
        return Place()

    def flat(self) -> Place:
        """The list with its lists opened."""
        return Place()

    def fields(self) -> tuple[str, ...]:
        """The fields that it is known to have."""
        return ()

    def types(self) -> frozenset[str] | None:
        """The JSON types that it may have; None where nothing tells."""
        return None


class At(Place):
    """A place in what a schema describes."""

    def __init__(self, schema: JsonObject | None, path: tuple[str | int, ...] = ()) -> None:
        self._schema = schema
        self._path = path

    def field(self, name: str) -> Place:
        return self._part(name)

    def item(self, index: int | None = None) -> Place:
        if index is not None:
            return self._part(index)
        try:
            return self._part(_ANY_ITEM)
        except schemas.PathUnknown:
            kinds = schemas.types_of(self._here())
            raise schemas.PathUnknown(f"items, being {schemas.words_of(kinds)}", ()) from None

    def flat(self) -> Place:
        return _Items(self.item()).flat()

    def fields(self) -> tuple[str, ...]:
        return schemas.fields_at(self._schema, self._path)

    def types(self) -> frozenset[str] | None:
        return schemas.types_of(self._here())

    def is_list(self) -> bool | None:
        """Whether it is a list; None where that is not known."""
        kinds = schemas.types_of(self._here())
        if kinds is None or "string" in kinds:  # a text may hold a list
            return None
        return "array" in kinds if len(kinds) == 1 or "array" not in kinds else None

    def _here(self) -> JsonObject | None:
        return schemas.schema_at(self._schema, self._path)

    def _part(self, part: str | int) -> Place:
        path = (*self._path, part)
        schemas.schema_at(self._schema, path)
        return At(self._schema, path)


_ANY_ITEM = 1_000_000
"""An item beyond those that a schema may describe one by one."""


class _Items(Place):
    """A list that the path has made, of items as this one."""

    def __init__(self, of: Place) -> None:
        self._of = of

    def item(self, index: int | None = None) -> Place:
        return self._of

    def flat(self) -> Place:
        if isinstance(self._of, _Items):
            return self._of
        is_list = self._of.is_list() if isinstance(self._of, At) else None
        if is_list is None:
            return Place()
        return _Items(self._of.item()) if is_list else self


class Outputs(Place):
    """What a condition starts from: names, some of which lead to what a schema describes."""

    def __init__(self, of: Callable[[Chain], JsonObject | None], names: Chain = ()) -> None:
        self._of = of
        self._names = names

    def field(self, name: str) -> Place:
        names = (*self._names, name)
        found = self._of(names)
        return Outputs(self._of, names) if found is None else At(found)


class Stray(NamedTuple):
    """A name that is read as a field where it may be meant for something else."""

    chain: Chain
    meant: str
    known: tuple[str, ...]
    """The fields that are known to be there."""
    at: int
    """Where it begins in the path."""
    beside: bool
    """It is compared with a field of the items, or given to a function together with one."""

    def say(self, *, has_value: bool = True) -> str:
        """`has_value`: braces around it would stand for what is meant."""
        name = self.chain[0]
        has = f" (they have: {', '.join(self.known[:20])})" if self.known else ""
        shown = name if name.isidentifier() else json.dumps(name)
        braces = f", and what is meant of the plan stands in braces: ${{{'.'.join(self.chain)}}}"
        return (
            f"{'.'.join(self.chain)} stands inside a filter, a projection or &…, where it may be a field of each item{has}, or "
            f"{self.meant}; the field is written @.{shown}{braces if has_value and self.chain[1:2] != ('status',) else ''}"
        )


class Quoted(NamedTuple):
    """A reference in a text inside a path, where nothing is filled in."""

    text: str
    at: int
    """Where the text begins in the path, with its quotes."""

    def say(self) -> str:
        return (
            f"{self.text[:80]!r} stands in quotes inside a path, where it is a text as it is written, and no reference; "
            "without the quotes it stands for its value"
        )


class Lacking(NamedTuple):
    """A field that cannot be there."""

    error: schemas.PathUnknown
    within: bool
    """Of the items of a list, which are passed over where they lack it."""

    def say(self, of: str) -> str:
        """`of`: what the path looks into."""
        return self.error.say("an item of the list" if self.within else of)


Finding = Stray | Quoted | Lacking


def findings(path: str, start: Place, meant: Meant) -> tuple[list[Finding], Place]:
    """What is not as it looks in a path that passes `check_path`, and where it leads."""
    # a slot's value stands in a path without these signs, as what it is: text
    reader = _Reader(meant, quotes=any(sign in path for sign in ("${", "{{")))
    at = reader.walk(placed(path), start, heads=False, within=False)
    return reader.found, at


class _Reader:
    def __init__(self, meant: Meant, *, quotes: bool) -> None:
        """`quotes`: references are written somewhere in the path, where they can only stand in quotes."""
        self.found: list[Finding] = []
        self._meant = meant
        self._quotes = quotes
        self._beside = False

    def walk(self, node: Any, at: Place, *, heads: bool, within: bool) -> Place:
        """Where the node leads. `heads`: a name that it begins with begins anew here; `within`: it looks at the items of a list."""
        kind, children = node["type"], node.get("children", [])
        match kind:
            case "field":
                return self._field(at, (node["value"],), node["at"], heads=heads and within, within=within)
            case "subexpression":
                return self._chain(children, at, heads=heads, within=within)
            case "index_expression":
                at = self.walk(children[0], at, heads=heads, within=within)
                return self.walk(children[1], at, heads=heads, within=within)
            case "index":
                return self._known(lambda: at.item(node["value"]), within=within)
            case "slice" | "identity" | "current":
                return at
            case "pipe":
                at = self.walk(children[0], at, heads=heads, within=within)
                return self.walk(children[1], at, heads=True, within=within)
            case "projection" | "filter_projection" | "value_projection":
                base = self.walk(children[0], at, heads=heads, within=within)
                item = Place() if kind == "value_projection" else self._known(base.item, within=within)
                if kind == "filter_projection":
                    self.walk(children[2], item, heads=True, within=True)
                return _Items(self.walk(children[1], item, heads=False, within=True))
            case "flatten":
                base = self.walk(children[0], at, heads=heads, within=within)
                return self._known(base.flat, within=within)
            case "literal":
                if not self._quotes:
                    return Place()
                refs = references(node["value"])
                self.found += [Quoted(ref.raw, node["at"]) for ref in refs if self._is_meant(ref)]
                return Place()
            case "function_expression":
                return self._function(node["value"], children, at, within=within)
            case "comparator":
                for child in children:
                    others = [one for one in children if one is not child]
                    # a bare name is what is compared with a value: else the condition would be the same for all items
                    bare = child["type"] == "field" and child["value"] not in WORDS
                    anew = heads and not (bare and all(map(self._is_value, others)))
                    with self._next_to(others):
                        self.walk(child, at, heads=anew, within=within)
                return Place()
            case _:  # multi-selects, `||`, `&&`, `!`
                anew = heads or kind.startswith(("multi_select", "key_val"))
                for child in children:
                    self.walk(child, at, heads=anew, within=within)
                return Place()

    def _chain(self, children: list[Any], at: Place, *, heads: bool, within: bool) -> Place:
        first, *rest = children
        if first["type"] != "field":
            at = self.walk(first, at, heads=heads, within=within)
        else:
            chain = [first["value"]]
            for child in rest:
                if (name := _first_field(child)) is None:
                    break
                chain.append(name)
                if child["type"] != "field":
                    break
            at = self._field(at, tuple(chain), first["at"], heads=heads and within, within=within)
        for child in rest:
            at = self.walk(child, at, heads=False, within=within)
        return at

    def _field(self, at: Place, chain: Chain, place: int, *, heads: bool, within: bool) -> Place:
        if heads and chain[0] not in (known := at.fields()) and (meant := self._meant(chain)):
            self.found.append(Stray(chain, meant, known, place, self._beside))
            return Place()
        return self._known(lambda: at.field(chain[0]), within=within)

    @contextmanager
    def _next_to(self, others: Iterable[Any]) -> Iterator[None]:
        """What is looked at stands beside these."""
        before = self._beside
        self._beside = before or any(map(self._looks_at_items, others))
        yield
        self._beside = before

    def _looks_at_items(self, node: Any) -> bool:
        """True if there is surely a field of the items in it."""
        match node["type"]:
            case "current":
                return True
            case "field":
                return not self._meant((node["value"],))
            case "subexpression" if node["children"][0]["type"] == "field":
                names = map(_first_field, node["children"][:2])
                return not self._meant(tuple(name for name in names if name is not None))
            case (
                "projection"
                | "filter_projection"
                | "value_projection"
                | "subexpression"
                | "index_expression"
                | "pipe"
            ):
                return self._looks_at_items(node["children"][0])
            case "expref" | "literal":
                return False
            case _:
                return any(map(self._looks_at_items, node.get("children", ())))

    def _is_value(self, node: Any) -> bool:
        """True if nothing in it can be a field of the items."""
        if node["type"] == "subexpression" and node["children"][0]["type"] == "field":
            names = tuple(name for one in node["children"][:2] if (name := _first_field(one)) is not None)
            return len(names) > 1 and bool(self._meant(names))
        return node["type"] in ("literal", "outer")

    def _known(self, look: Callable[[], Place], *, within: bool) -> Place:
        try:
            return look()
        except schemas.PathUnknown as error:
            if not error.is_open:
                self.found.append(Lacking(error, within))
            return Place()

    def _is_meant(self, ref: Reference) -> bool:
        name = ref.head.partition(".")[0]
        return bool(self._meant((name, "id")))

    def _function(self, name: str, children: list[Any], at: Place, *, within: bool) -> Place:
        given = [
            Place() if child["type"] == "expref" else self._argument(child, children, at, within=within)
            for child in children
        ]
        for child in children:
            if child["type"] == "expref":
                items = given[-1 if name == "map" else 0]
                item = self._known(items.item, within=within)
                self.walk(child["children"][0], item, heads=True, within=True)
        if name in ("sort_by", "sort", "reverse"):
            return given[0]
        return self._known(given[0].item, within=within) if name in ("max_by", "min_by") else Place()

    def _argument(self, child: Any, every: list[Any], at: Place, *, within: bool) -> Place:
        with self._next_to(one for one in every if one is not child):
            return self.walk(child, at, heads=True, within=within)


def _first_field(node: Any) -> str | None:
    """The field that a part of a path begins with, whatever is taken of that: `a[0]`, `a[*].b`."""
    while node["type"] in _CHAINS:
        node = node["children"][0]
    return str(node["value"]) if node["type"] == "field" else None


_CHAINS = (
    "subexpression", "index_expression", "projection", "filter_projection", "value_projection", "flatten",
)  # fmt: skip
