"""The one form of parameters: whatever a tool reads as the same value is the same call."""

from __future__ import annotations

import enum
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from replan.core.data.canonical import one_form
from replan.core.ids import canonical

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
    (set[str], ["b", "a"], ["a", "b"]),  # `uniqueItems` says nothing of the order
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
