"""Schemas with references that say the same again and again: what holding a value against them costs is known beforehand."""

from __future__ import annotations

import time
from typing import Any

import pytest

from replan.core.data.schema.growth import growth
from replan.core.data.validation import faults, quick_check, unheld


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def chain(length: int, link: Any) -> dict[str, Any]:
    """Definitions each of which names the next one, as `link` makes of a reference to it; the last one is a number."""
    defs = {f"a{n}": link(ref(f"a{n + 1}")) for n in range(length)}
    return {"$defs": {**defs, f"a{length}": {"type": "integer"}}, **ref("a0")}


def deep(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def twice(way: str) -> Any:
    return {
        "in place": lambda next_: {"allOf": [next_, next_]},
        "beside": lambda next_: {"anyOf": [next_], "if": next_, "then": next_},
        "a field": lambda next_: {"properties": {"a": {"allOf": [next_, next_]}}},
        "a field of any name": lambda next_: {"properties": {"a": next_}, "additionalProperties": next_},
        "fields by pattern": lambda next_: {"properties": {"a": next_}, "patternProperties": {"^a": next_}},
        "items": lambda next_: {"items": {"oneOf": [next_, next_]}},
        "of two": lambda next_: {
            "anyOf": [{"properties": {"a": next_}, "required": ["b"]}, {"properties": {"a": next_}}]
        },
    }[way]


@pytest.mark.parametrize(
    "way",
    ["in place", "beside", "a field", "a field of any name", "fields by pattern", "items", "of two"],
)
def test_a_schema_that_doubles_by_references_is_refused_before_it_is_applied(way: str) -> None:
    for length in (40, 400):
        schema = chain(length, twice(way))
        assert "let definitions name others once" in unheld(schema)
        assert [fault.path for fault in faults(schema, deep(5, "x"))] == [()]
        assert quick_check(schema) is None
    assert unheld(chain(8, twice(way))) == ""


def test_a_long_chain_of_references_is_none_that_doubles() -> None:
    schema = chain(300, lambda next_: {"properties": {"a": next_, "b": next_, "c": {"items": next_}}})
    assert growth(schema).returns == 1
    assert unheld(schema) == ""
    assert faults(schema, deep(60, {"b": {"c": [{}]}})) == []


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("#", None),
        ("#/$defs/x", None),
        ("#here", {"$anchor": "here"}),
        ("#there", {"$dynamicAnchor": "there"}),
        ("https://example.org/x", {"$id": "https://example.org/x"}),
        ("#/$defs/a~1b%20c", None),
    ],
)
def test_references_of_every_kind_are_followed(name: str, to: dict[str, str] | None) -> None:
    key = "$dynamicRef" if name == "#there" else "$ref"
    back = {"properties": {"a": {"allOf": [{key: name}, {key: name}]}}, **(to or {})}
    if name == "#":
        schema: dict[str, Any] = back
    else:
        schema = {"$defs": {"x": back, "a/b c": back if to is None else {}}, **ref("x")}
    assert growth(schema).returns == 2


@pytest.mark.parametrize("leaf", [0, 1, {}, None])
@pytest.mark.parametrize(
    "again",
    [
        {"properties": {"a": {"allOf": [ref("x"), ref("x")]}}, "not": {"const": 1}},
        {"anyOf": [{"properties": {"a": ref("x")}, "required": ["b"]}, {"properties": {"a": ref("x")}, "required": ["c"]}]},
        {"properties": {"a": {"anyOf": [{"allOf": [ref("x"), ref("x")]}, {"not": ref("x")}]}}, "not": {"const": 1}},
    ],
)  # fmt: skip
def test_a_deep_value_of_a_schema_that_leads_back_to_itself_in_two_ways_comes_to_an_end(
    again: dict[str, Any], leaf: Any
) -> None:
    schema = {"$defs": {"x": again}, **ref("x")}
    assert unheld(schema) == ""
    for levels in (1, 5, 12, 60, 150):
        found = faults(schema, deep(levels, leaf))
        assert all(str(fault) for fault in found)
        if levels > 12:
            assert len(found) <= 1


def test_where_a_tree_of_one_way_is_wrong_is_told_at_any_depth() -> None:
    schema = {
        "$defs": {"x": {"properties": {"a": ref("x"), "b": ref("x")}, "not": {"const": 1}}},
        **ref("x"),
    }
    (fault,) = faults(schema, deep(60, 1))
    assert len(fault.path) == 60


def inherited(length: int) -> dict[str, Any]:
    """Definitions each of which has a field of its own, and all that the next one has."""
    defs = {f"a{n}": {"properties": {f"p{n}": {}}, **ref(f"a{n + 1}")} for n in range(length)}
    return {"$defs": {**defs, f"a{length}": {}}, **ref("a0")}


def one_of(kinds: int, fields: int) -> dict[str, Any]:
    """Kinds of objects with other fields each, named by as many schemas."""
    defs = {f"k{n}": {"properties": {f"p{n}_{m}": ref("any") for m in range(fields)}} for n in range(kinds)}
    every = {"oneOf": [ref(f"k{n}") for n in range(kinds)]}
    return {
        "$defs": {**defs, "any": {"type": "string"}, "every": every},
        "items": ref("every"),
        **ref("every"),
    }


@pytest.mark.parametrize(
    "schema",
    [
        inherited(4_000),
        chain(4_000, lambda next_: {"allOf": [next_]}),
        {
            "$defs": {
                f"a{n}": {"$dynamicAnchor": "a", "$id": f"https://example.org/{n}", "items": {"$dynamicRef": "#a"}}
                for n in range(1_000)
            },
            "$ref": "https://example.org/0",
        },
    ],
    ids=["inherited", "a chain", "dynamic"],
)  # fmt: skip
def test_it_is_known_in_time_that_grows_with_the_schema(schema: dict[str, Any]) -> None:
    began = time.process_time()
    growth(schema)
    assert time.process_time() - began < 3, "some ten seconds where each hands on the names of all"


def test_what_is_inherited_in_long_lines_or_has_many_kinds_is_applied() -> None:
    assert unheld(inherited(1_500)) == ""
    assert unheld(one_of(150, 30)) == ""
    assert growth(one_of(150, 30)).looks == 606, "each kind twice, and each field of one of them alone"


@pytest.mark.parametrize("most_work", [0, 1, 10, 100])
def test_names_that_are_not_told_apart_count_no_less(most_work: int) -> None:
    ways = ("in place", "a field", "a field of any name", "items", "of two")
    for schema in (*(chain(12, twice(way)) for way in ways), inherited(50), one_of(5, 5)):
        exact, worst = growth(schema), growth(schema, most_work)
        assert worst.looks >= exact.looks
        assert worst.returns >= exact.returns
