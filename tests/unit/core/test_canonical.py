"""The one form of parameters: whatever a tool reads as the same value is the same call."""

from __future__ import annotations

import enum
import json
import unicodedata
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from replan.core.calls.names import bases
from replan.core.data import schemas
from replan.core.data.canonical import one_form
from replan.core.ids import call_content, canonical, digest
from replan.core.types import ToolSpec
from replan.tools.functions.source import FunctionTool
from replan.tools.functions.threads import DaemonThreads

SAME = [
    (Decimal, "10.50", "10.5"),
    (Decimal, "10.50", 10.5),
    (Decimal, "1e1", "10"),
    (Decimal, "12345678901234567890.10", "12345678901234567890.1"),
    (Decimal, "-0.0", "0"),
    (datetime, "2030-03-29T00:00:00z", "2030-03-29T00:00:00Z"),
    (datetime, "2030-03-29t02:00:00+02:00", "2030-03-29T00:00:00Z"),
    (datetime, "1900972800", "2030-03-29T00:00:00Z"),
    (datetime, "1900972800000", "2030-03-29T00:00:00Z"),
    (date, "2030-03-29T00:00:00", "2030-03-29"),
    (time, "10:00", "10:00:00"),
    (timedelta, "PT90S", "PT1M30S"),
    (timedelta, "P1W", "P7D"),
    (UUID, "6f9619ff8b86d011b42d00c04fc964ff", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
    (pydantic.HttpUrl, "https://Example.org", "https://example.org:443/"),
    (set[Decimal], ["2.0", "1"], [2, 1]),
    (list[Decimal], ["2.0"], [2]),
    (dict[str, timedelta], {"a": "PT60M"}, {"a": "PT1H"}),
]
OTHER = [
    (Decimal, "10.50", "10.51"),
    (datetime, "2030-03-29T00:00:00+02:00", "2030-03-29T00:00:00Z"),
    (date, "2030-03-29", "2030-03-30"),
    (timedelta, "PT90S", "-PT90S"),
    (timedelta, "PT1M", "PT1H"),
    (pydantic.HttpUrl, "https://example.org/A", "https://example.org/a"),
    (list[str], ["b", "a"], ["a", "b"]),
    (set[str], ["b", "a"], ["a", "b"]),  # `uniqueItems` alone says nothing of the order
    (time, "10:00:00+02:00", "10:00:00"),
    (time, "10:00:00+02:00", "10:00:00Z"),
    (str, "10.50", "10.5"),
]


def schema_of(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": TypeAdapter(kind).json_schema()}}


def formed(kind: Any, value: Any) -> Any:
    return one_form(schema_of(kind), {"x": value})


@pytest.mark.parametrize(("kind", "one", "other"), SAME)
def test_what_a_tool_reads_as_one_value_has_one_form(kind: Any, one: Any, other: Any) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python(one) == adapter.validate_python(other)  # the pair is right
    assert formed(kind, one) == formed(kind, other)


@pytest.mark.parametrize(("kind", "one", "other"), OTHER)
def test_what_differs_keeps_its_difference(kind: Any, one: Any, other: Any) -> None:
    assert formed(kind, one) != formed(kind, other)


@given(st.decimals(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False))
def test_decimals_have_one_form_where_they_are_one_number(one: Decimal, other: Decimal) -> None:
    if max(abs(one.adjusted()), abs(other.adjusted())) > 300:
        return
    assert (formed(Decimal, str(one)) == formed(Decimal, str(other))) == (one == other)
    assert formed(Decimal, str(one)) == formed(Decimal, f"{one:f}")


@given(st.timedeltas())
def test_durations_have_one_form_however_their_units_are_split(length: timedelta) -> None:
    written = TypeAdapter(timedelta).dump_python(length, mode="json")
    secs = abs(length) // timedelta(microseconds=1)
    split = f"{'-' if length < timedelta(0) else ''}PT{secs // 60_000_000}M{Decimal(secs % 60_000_000) / 1_000_000:f}S"
    assert formed(timedelta, written) == formed(timedelta, split)


@given(st.text())
def test_no_text_is_too_odd_for_a_form(text: str) -> None:
    for kind in (Decimal, datetime, date, time, timedelta, UUID, pydantic.HttpUrl, pydantic.AnyUrl, set[str]):
        formed(kind, text)


PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "note": {"default": "x"}, "at": {"type": "string", "format": "date-time"}},
}  # fmt: skip
REST = {name: part for name, part in PLAIN.items() if name != "properties"}
APART = [{"properties": {name: part}} for name, part in PLAIN["properties"].items()]


@pytest.mark.parametrize(
    "schema",
    [
        PLAIN,
        {**PLAIN, "allOf": [{"required": ["to"]}]},
        {**PLAIN, "anyOf": [{"required": ["to"]}]},
        {**PLAIN, "oneOf": [{"type": "object", "required": ["to"]}, {"type": "null"}]},
        {**REST, "allOf": [PLAIN]},
        {**REST, "allOf": APART},
        {"$defs": {"p": PLAIN}, "allOf": [{"$ref": "#/$defs/p"}, {"required": ["to"]}]},
        {**PLAIN, "properties": {"to": {}}, "allOf": [PLAIN]},
        {"anyOf": [PLAIN, {"type": "null"}]},
    ],
)
def test_defaults_and_moments_are_known_wherever_the_schema_has_them(schema: Any) -> None:
    short = one_form(schema, {"to": "Ada", "at": "2030-01-01T10:00:00Z"})
    assert short == one_form(schema, {"to": "Ada", "note": "x", "at": "2030-01-01T11:00:00+01:00"})
    assert short["note"] == "x"


FLAT = st.none() | st.booleans() | st.integers() | st.text()


@given(st.dictionaries(st.text(), FLAT | st.floats() | st.lists(FLAT) | st.dictionaries(st.text(), FLAT)))
@example({"b": 1, "a": '\u2028\ud800\x00"\\/é'})
@example({"t": True, "f": False, "n": None, "big": 10**30, "minus": -1})
@example({})
def test_the_one_text_of_an_object_is_what_a_json_encoder_writes(value: dict[str, object]) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "value", [{"a": Colour.RED}, {Colour.RED: 1}, {"a": enum.IntEnum("N", "ONE").ONE}, {"a": {"b": 1}}, [1], "x"]
)  # fmt: skip
def test_what_is_nearly_plain_is_written_by_the_encoder(value: object) -> None:
    assert canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# ── the other parts of a schema ───────────────────────────────────────────────

MOMENT = {"type": "string", "format": "date-time"}
NOON, NOON_THERE = "2030-01-01T12:00:00Z", "2030-01-01T14:00:00+02:00"


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        pytest.param({"properties": {"x": {"prefixItems": [{"type": "string"}, MOMENT]}}},
                     {"x": ["a", NOON, 1]}, {"x": ["a", NOON_THERE, 1]}, id="items by place"),
        pytest.param({"properties": {"x": {"prefixItems": [{"type": "string"}], "items": MOMENT}}},
                     {"x": ["a", NOON]}, {"x": ["a", NOON_THERE]}, id="the items after those"),
        pytest.param({"patternProperties": {"^at_": MOMENT}}, {"at_1": NOON}, {"at_1": NOON_THERE}, id="names by pattern"),
        pytest.param({"properties": {"x": {"format": "time"}}}, {"x": "10:00:00+02:00"}, {"x": "08:00:00Z"}, id="a time with its offset"),
        pytest.param({"properties": {"x": {"format": "time"}}}, {"x": "23:30-01:00"}, {"x": "00:30z"}, id="over midnight"),
        pytest.param({"if": {"properties": {"way": {"const": "card"}}, "required": ["way"]}, "then": {"properties": {"fee": {"default": 1}}}},
                     {"way": "card"}, {"way": "card", "fee": 1}, id="then"),
        pytest.param({"if": {"properties": {"way": {"const": "card"}}}, "then": {}, "else": {"properties": {"fee": {"default": 0}}}},
                     {"way": "cash"}, {"way": "cash", "fee": 0}, id="else"),
        pytest.param({"$defs": {"card": {"const": "card"}}, "if": {"properties": {"way": {"$ref": "#/$defs/card"}}}, "then": {"properties": {"at": MOMENT}}},
                     {"way": "card", "at": NOON}, {"way": "card", "at": NOON_THERE}, id="a condition with a reference"),
        pytest.param({"allOf": [{"if": {"required": ["way"]}, "then": {"properties": {"fee": {"default": 1}}}}]},
                     {"way": "card"}, {"way": "card", "fee": 1}, id="one of several conditions"),
        pytest.param({"dependentSchemas": {"way": {"properties": {"fee": {"default": 1}}}}},
                     {"way": "card"}, {"way": "card", "fee": 1}, id="what comes with a property"),
        pytest.param({"properties": {"x": {"x-unordered": True}}}, {"x": ["b", "a", "b"]}, {"x": ["a", "b"]}, id="a set"),
        pytest.param({"properties": {"x": {"x-unordered": True, "items": MOMENT}}},
                     {"x": [NOON, NOON_THERE]}, {"x": [NOON]}, id="a set of moments"),
    ],
)  # fmt: skip
def test_what_a_schema_says_somewhere_else_counts_too(schema: Any, one: Any, other: Any) -> None:
    assert call_content("t", one, schema) == call_content("t", other, schema)
    assert call_content("t", one, {}) != call_content("t", other, {}), "the schema alone says so"


@pytest.mark.parametrize(
    ("schema", "one", "other"),
    [
        pytest.param({"properties": {"x": {"prefixItems": [MOMENT]}}}, {"x": ["a", NOON]}, {"x": ["a", NOON_THERE]}, id="another place"),
        pytest.param({"patternProperties": {"^at_": MOMENT}}, {"to_1": NOON}, {"to_1": NOON_THERE}, id="another name"),
        pytest.param({"if": {"required": ["way"]}, "then": {"properties": {"fee": {"default": 1}}}}, {}, {"fee": 1}, id="a condition that does not hold"),
        pytest.param({"dependentSchemas": {"way": {"properties": {"fee": {"default": 1}}}}}, {}, {"fee": 1}, id="a property that is not there"),
        pytest.param({"properties": {"x": {"uniqueItems": True}}}, {"x": ["b", "a"]}, {"x": ["a", "b"]}, id="a ranking"),
        pytest.param({}, {"x": "a"}, {"x": "a "}, id="a blank"),
        pytest.param({}, {"x": "a"}, {"x": "A"}, id="a capital"),
        pytest.param({}, {"x": "ﬁx"}, {"x": "fix"}, id="a ligature"),
    ],
)  # fmt: skip
def test_what_it_does_not_say_does_not(schema: Any, one: Any, other: Any) -> None:
    assert call_content("t", one, schema) != call_content("t", other, schema)


@given(st.text())
def test_signs_that_unicode_has_in_two_ways_are_one(text: str) -> None:
    forms = {call_content("t", {"to": unicodedata.normalize(form, text)}) for form in ("NFC", "NFD")}
    assert len(forms) == 1


def test_a_functions_set_has_no_order_and_its_list_has_one() -> None:
    def tag(names: set[str], marks: frozenset[int], ranks: list[str]) -> str:
        """Tag."""
        return ""

    (spec,) = [one.spec for one in (FunctionTool(tag, source="s", threads=DaemonThreads("t")),)]
    given_ = {"names": ["a", "b"], "marks": [1, 2], "ranks": ["x", "y"]}
    assert not schemas.parameter_problems(spec, given_)
    one = call_content(spec.id, given_, spec.parameters)
    assert one == call_content(spec.id, {**given_, "names": ["b", "a"], "marks": [2, 1]}, spec.parameters)
    assert one != call_content(spec.id, {**given_, "ranks": ["y", "x"]}, spec.parameters)


OLD = {
    "type": "object",
    "properties": {"at": {"format": "time"}, "x": {"prefixItems": [MOMENT]}, "n": {"default": 1}},
}


@pytest.mark.parametrize(
    "parameters",
    [
        {"at": "10:00+02:00"},
        {"x": [NOON_THERE]},
        {"to": "Zoe\u0308"},
        {"to": "Zoe\u0308", "at": "10:00+02:00", "n": 1},
    ],
)
def test_calls_are_known_by_the_names_that_older_logs_have(parameters: Any) -> None:
    spec = ToolSpec(id="pay", parameters=OLD)
    older = digest("t\x00" + call_content("pay", parameters, OLD, older=True))
    names = bases(b"", "t", spec, parameters)
    assert older in names
    assert names[0] == digest("t\x00" + call_content("pay", parameters, OLD)) != older
    assert len(names) == len(set(names))
