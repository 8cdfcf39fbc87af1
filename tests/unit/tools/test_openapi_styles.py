"""Parameter styles: the table of OpenAPI 3.1.1 ("Style Examples"), and round trips through other people's parsers."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_core.deserializing.styles import style_deserializers
from werkzeug.datastructures import ImmutableMultiDict

from replan.tools.openapi.styles import header_value, pairs, path_segment

EMPTY, TEXT, LIST = "", "blue", ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


@pytest.mark.parametrize(
    ("style", "explode", "expected"),
    [
        ("matrix", False, (";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150")),
        (
            "matrix",
            True,
            (";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
        ),
        ("label", False, (".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150")),
        ("label", True, (".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150")),
        ("simple", False, ("", "blue", "blue,black,brown", "R,100,G,200,B,150")),
        ("simple", True, ("", "blue", "blue,black,brown", "R=100,G=200,B=150")),
    ],
)
def test_paths_are_as_in_the_table(style: str, explode: bool, expected: tuple[str, ...]) -> None:
    found = tuple(path_segment("color", value, style, explode) for value in (EMPTY, TEXT, LIST, OBJECT))
    assert found == expected


@pytest.mark.parametrize(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, EMPTY, "color="),
        ("form", False, TEXT, "color=blue"),
        ("form", False, LIST, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, EMPTY, "color="),
        ("form", True, TEXT, "color=blue"),
        ("form", True, LIST, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        ("spaceDelimited", False, LIST, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("pipeDelimited", False, LIST, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ],
)
def test_queries_are_as_in_the_table(style: str, explode: bool, value: Any, expected: str) -> None:
    assert "&".join(f"{key}={text}" for key, text in pairs("color", value, style, explode)) == expected


@pytest.mark.parametrize(
    ("value", "explode", "expected"),
    [
        (TEXT, False, "blue"),
        (LIST, False, "blue,black,brown"),
        (OBJECT, False, "R,100,G,200,B,150"),
        (OBJECT, True, "R=100,G=200,B=150"),
        ("50 % & more", False, "50 % & more"),
    ],
)
def test_headers_are_written_as_they_are(value: Any, explode: bool, expected: str) -> None:
    assert header_value(value, explode) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (1.0, "1"),
        (1.5, "1.5"),
        (10**20, "100000000000000000000"),
        (None, ""),
        ("ü/", "%C3%BC%2F"),
    ],
)
def test_values_in_one_piece(value: Any, expected: str) -> None:
    assert path_segment("x", value, "simple", False) == expected


def test_reserved_characters_stay_where_they_are_allowed_and_mean_nothing() -> None:
    assert pairs("q", "a/b:c?&=#+ [", "form", True, reserved=True) == [("q", "a/b:c?%26%3D%23%2B%20%5B")]
    assert pairs("q", ["a,b", "c"], "form", False, reserved=True) == [("q", "a%2Cb,c")]


@pytest.mark.parametrize(("style", "item"), [("spaceDelimited", "a b"), ("pipeDelimited", "a|b")])
def test_an_item_that_holds_the_separator_is_refused(style: str, item: str) -> None:
    with pytest.raises(ValueError, match="separates the items"):
        pairs("q", [item], style, False)


def test_deep_objects_may_be_nested() -> None:
    found = pairs("f", {"a": {"b": 1}, "c": [2, {"d": 3}]}, "deepObject", True)
    assert [f"{unquote(key)}={text}" for key, text in found] == ["f[a][b]=1", "f[c][0]=2", "f[c][1][d]=3"]


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(st.lists(texts, min_size=1, max_size=5))
def test_a_list_in_form_style_is_read_back_by_urllib(items: list[str]) -> None:
    query = "&".join(f"{key}={text}" for key, text in pairs("q", items, "form", True))
    assert parse_qs(query, keep_blank_values=True)["q"] == items
    (pair,) = pairs("q", items, "form", False)
    assert [unquote(each) for each in pair[1].split(",")] == items


@given(st.dictionaries(texts.filter(bool), texts, min_size=1, max_size=4))
def test_an_object_in_form_style_is_read_back_by_urllib(value: dict[str, str]) -> None:
    query = "&".join(f"{key}={text}" for key, text in pairs("q", value, "form", True))
    assert dict(parse_qsl(query, keep_blank_values=True)) == value


# Those parsers split after percent-decoding: what they split at may not be inside.
words = st.text("abcXYZ09_", min_size=1, max_size=8)
LISTS = st.lists(words, min_size=1, max_size=4)
OBJECTS = st.dictionaries(words, words, min_size=1, max_size=4)


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize("style", ["simple", "label", "matrix"])
@given(value=LISTS | OBJECTS)
def test_a_path_is_read_back_by_openapi_core(style: str, explode: bool, value: Any) -> None:
    kind = "object" if isinstance(value, dict) else "array"
    key = {"simple": "q", "label": ".q", "matrix": ";q"}[style]
    if style != "simple" and explode:
        key += "*"
    text = path_segment("q", value, style, explode)
    assert style_deserializers[style](explode, "q", kind, {key: text}) == value


@pytest.mark.parametrize(
    ("style", "explode"),
    [
        ("form", False),
        ("form", True),
        ("pipeDelimited", False),
        ("spaceDelimited", False),
        ("deepObject", True),
    ],
)
@given(value=LISTS | OBJECTS)
def test_a_query_is_read_back_by_openapi_core(style: str, explode: bool, value: Any) -> None:
    kind = "object" if isinstance(value, dict) else "array"
    if (style, kind) == ("deepObject", "array") or (style, explode, kind) == ("form", True, "object"):
        return  # means nothing, or is read by urllib above
    query = "&".join(f"{key}={text}" for key, text in pairs("q", value, style, explode))
    # It looks for the encoded form of a space.
    found = [tuple(query.split("=", 1))] if style == "spaceDelimited" else parse_qsl(query)
    assert style_deserializers[style](explode, "q", kind, ImmutableMultiDict(found)) == value
