"""JSON pointers and the references of schemas: what is written for a place leads to it, and nothing else does."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.pointers import LeadsNowhere, pointed, referred, unescaped
from replan.core.words import beginning, kind_of, one_line

KEYS = st.text(st.characters(codec="utf-8"), max_size=6)


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@given(st.lists(KEYS | st.integers(0, 3), max_size=5))
def test_a_pointer_leads_to_the_place_that_it_was_written_for(path: list[str | int]) -> None:
    root: Any = {"found": True}
    for part in reversed(path):
        root = {part: root} if isinstance(part, str) else [0] * part + [root]
    pointer = "".join(f"/{escaped(str(part))}" for part in path)
    assert pointed(root, pointer) == {"found": True}
    assert referred(root, "#" + quote(pointer, safe="/~")) == {"found": True}


@given(KEYS)
def test_a_key_is_what_its_escaped_form_says(key: str) -> None:
    assert unescaped(escaped(key)) == key


@pytest.mark.parametrize(
    "reference", ["", "other.json", "other.json#/a", "#anchor", "#/b", "#/a/0", "#/list/2", "#/list/²"]
)
def test_a_reference_that_leads_out_nowhere_or_to_an_anchor_is_none(reference: str) -> None:
    assert referred({"a": {}, "list": [1, 2]}, reference) is None


def test_a_pointer_to_nothing_says_which_part_is_missing() -> None:
    with pytest.raises(LeadsNowhere) as raised:
        pointed({"a": {"b": 1}}, "/a/c/d")
    assert raised.value.key == "c"


@given(st.text(max_size=40), st.integers(0, 50))
def test_a_beginning_is_the_text_or_says_that_there_is_more(text: str, most: int) -> None:
    told = beginning(text, most)
    assert told == text if len(text) <= most else told == text[:most] + "…"


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "a truth value"), (1, "a number"), (0.5, "a number"), ("", "a text"), ([], "a list"),
     ({}, "an object"), ({1}, "set")],
)  # fmt: skip
def test_the_kind_of_a_value_in_words(value: Any, kind: str) -> None:
    assert kind_of(value) == kind


def test_one_line_has_single_spaces() -> None:
    assert one_line(" a\n\tb  c ") == "a b c"
