"""Forms by JSON Schema: what is shown, what is wrong, what is sent; values without loss."""

from __future__ import annotations

from typing import Any

import pytest

KINDS = """async (schemas) => {
  const { kindOf, resolved } = await import("replan/forms/schema");
  return schemas.map((schema) => kindOf(resolved(schema)));
}"""
FAULTS = """async ([schema, values]) => {
  const { check } = await import("replan/forms/schema");
  return values.map((value) => check(schema, value).map((fault) => [fault.path.join("."), fault.key.replace("form.bad.", "")]));
}"""
ORDER = {
    "type": "object",
    "required": ["guests", "day"],
    "additionalProperties": False,
    "properties": {
        "guests": {"type": "integer", "minimum": 1, "maximum": 9},
        "day": {"type": "string", "minLength": 3},
        "drinks": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/drink"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "$defs": {"drink": {"enum": ["tea", "wine"]}},
}


def test_a_schema_is_shown_as_what_it_asks_for_or_as_json(modules: Any) -> None:
    kinds = {
        "text": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "integer": {"type": ["integer", "null"]},
        "number": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "boolean": {"allOf": [{"type": "boolean"}]},
        "choice": {"oneOf": [{"const": 1, "title": "one"}, {"const": 2}]},
        "list": {"type": "array", "items": {"type": "string"}},
        "object": ORDER,
    }
    assert modules.evaluate(KINDS, list(kinds.values())) == list(kinds)
    free: list[Any] = [
        True, {}, {"type": "object"}, {"type": "array"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"$ref": "#/nowhere"},
    ]  # fmt: skip
    assert set(modules.evaluate(KINDS, free)) == {"json"}


def test_a_schema_that_refers_to_itself_ends(modules: Any) -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert modules.evaluate(KINDS, [loop]) == ["json"]
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"type": "object", "properties": {"in": {"$ref": "#/$defs/t"}}}},
    }
    deep: Any = {}
    for _ in range(60):
        deep = {"in": deep}
    assert modules.evaluate(FAULTS, [tree, [deep]]) == [[]]


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ({"guests": 3, "day": "Friday", "drinks": ["tea"], "note": None}, []),
        ({"guests": 3}, [["day", "missing"]]),
        ({"guests": "three", "day": "Friday"}, [["guests", "integer"]]),
        ({"guests": 2.5, "day": "Friday"}, [["guests", "integer"]]),
        ({"guests": 0, "day": ""}, [["guests", "small"], ["day", "empty"]]),
        ({"guests": 10, "day": "Fr"}, [["guests", "large"], ["day", "short"]]),
        ({"guests": 1, "day": "Friday", "drinks": ["tea", "tea", "rum"]}, [["drinks", "many"], ["drinks.2", "choice"]]),
        ({"guests": 1, "day": "Friday", "what": 1}, [["what", "unknown"]]),
        (["guests"], [["", "object"]]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(modules: Any, value: Any, faults: list[list[str]]) -> None:
    assert modules.evaluate(FAULTS, [ORDER, [value]]) == [faults]


def test_whole_numbers_of_any_size_come_and_go_as_they_are(modules: Any) -> None:
    text = '{"id": 9007199254740993, "list": [-123456789012345678901234567890], "near": 1.5, "small": 7}'
    back = modules.evaluate(
        """async (text) => {
          const { parse, same, write } = await import("replan/forms/exact");
          return [write(parse(text)), same(parse(text), parse(text)), same(parse("9007199254740993"), parse("9007199254740992"))];
        }""",
        text,
    )
    assert back == [text.replace(" ", ""), True, False]


def test_what_was_typed_that_is_no_json_stays_and_is_told_by_its_line(modules: Any) -> None:
    found = modules.evaluate(
        """async (text) => {
          const { lineAt, read, Unread } = await import("replan/forms/exact");
          const { check } = await import("replan/forms/schema");
          const value = read(text);
          return [value instanceof Unread, value.text, lineAt(value.text, value.at), check({}, value)[0].key];
        }""",
        '{"a": 1,\n "b": 2,\n oops}',
    )
    assert found == [True, '{"a": 1,\n "b": 2,\n oops}', 3, "form.bad.json"]


def test_changes_are_named_by_their_place_and_cut_to_what_is_otherwise(modules: Any) -> None:
    found = modules.evaluate(
        """async () => {
          const { apart, changesOf } = await import("replan/forms/changes");
          const before = { to: "a@x", body: { lines: ["one", "two"], n: 1 }, gone: 1 };
          const after = { to: "a@x", body: { lines: ["one", "three"], n: 1 }, more: 2 };
          const long = "x".repeat(500);
          const { lead, before: old, after: now, cutLead } = apart(long + "A" + long, long + "B" + long);
          return [changesOf(before, after).map((one) => one.path.join(".")), changesOf(before, before), [lead.length, old, now, cutLead]];
        }"""
    )
    assert found == [["body.lines.1", "gone", "more"], [], [40, "A", "B", True]]


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("write to anna@example.org", []),
        ("write to anna@exаmple.org, please", ["anna@exаmple.org"]),
        ("пишите Анне, bank.com", []),
        ("https://pаypal.com/x and ok.org", ["https://pаypal.com/x"]),
        ("α-Wert x", []),
    ],
)
def test_addresses_of_mixed_letters_are_found(modules: Any, text: str, mixed: list[str]) -> None:
    parts = modules.evaluate(
        """async (text) => (await import("replan/shell/scripts")).mixedParts(text)""", text
    )
    assert "".join(part for part, _ in parts) == text
    assert [part for part, is_mixed in parts if is_mixed] == mixed
