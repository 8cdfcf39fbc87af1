from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.references.meter import Meter
from replan.core.references.paths import PathError, check_path, gives_list, quote_keys, select, static_steps
from replan.core.secrets import Masked, holds_lost

DATA = {
    "null": None,
    "list": [{"a": 1, "b": None}, {"a": None}, {}],
    "none": [],
    "zero": 0,
    "off": False,
    "blank": "",
    "object": {"x": {"y": 1}, "z": {"y": 2}},
    "json": '{"deep": {"list": [1, {"k": "v"}]}}',
    "json_list": "[1, 2]",
    "broken": "{not json",
    "nested_json": [{"payload": '{"n": 1}'}],
    "words": ["b", "a"],
    "mixed": [{"v": 2}, {"v": "n/a"}, {}, {"v": "3"}],
    "gaps": [{"v": 2}, {}, {"v": None}, {"v": 1}],
    "deep_mixed": [{"list": [{"v": 2}, {"v": "three"}]}],
    "texts": [{"v": "7"}, {"v": "3"}],
    "words_of": [{"v": "many"}, {"v": "few"}],
    "totals": [{"v": 150}, {"v": "200"}, {"v": None}, {"v": "50"}],
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param('"null"', None, id="a present null stays null"),
        ("list[0].b", None),
        ("zero", 0),
        ("blank", ""),
        pytest.param("none[*].a", [], id="an empty projection is an empty list"),
        ("list[?a==`9`]", []),
        pytest.param("list[*].a", [1], id="a projection leaves nulls out, as in JMESPath"),
        ("list[-1]", {}),
        ("list[0:1].a", [1]),
        ("object.*.y", [1, 2]),
        ("list[].a", [1]),
        ("json.deep.list[1].k", "v"),
        ("json_list[1]", 2),
        ("json_list[*]", [1, 2]),
        pytest.param("json", DATA["json"], id="a text that nobody goes into stays a text"),
        ("nested_json[0].payload.n", 1),
        pytest.param("missing || 'x'", "x", id="an or takes the right side for what is missing"),
        ('"null" || blank || none || off || zero', 0),
        ("zero || 'x'", 0),
        ("missing.deeper || other || words[0]", "b"),
        ("zero && words[0]", "b"),
        pytest.param("off && missing", False, id="an and stops at what is empty"),
        ("{a: zero, b: list[0].b}", {"a": 0, "b": None}),
        ("[zero, words[1]]", [0, "a"]),
        ("length(words)", 2),
        ("sort(words) | [0]", "a"),
        ("words | sort(@)", ["a", "b"]),
        ("json | keys(@)", ["deep"]),
        ("not_null(missing, zero)", 0),
        ("max_by(list[?a], &a).a", 1),
        ("!missing", True),
        ("zero == `0`", True),
        ("@.zero", 0),
        pytest.param("json.deep.list[0] == `1`", True, id="JSON in a text is read under a comparison"),
        pytest.param("!json.deep.off", True, id="and under a negation"),
        pytest.param("length(json_list)", 2, id="and by a function that needs a list"),
        pytest.param("contains(json_list, `2`)", True, id="and by one that takes a list or a text"),
        pytest.param("to_string(json_list)", "[1, 2]", id="but a text stays one where a text will do"),
        pytest.param("nested_json[?payload.n == `1`].payload.n", [1], id="and in a filter"),
        ("list[?a > `0`].a", [1]),
        pytest.param("totals[?v > `100`].v", [150, "200"], id="a text that is a number, beside numbers"),
        pytest.param(
            "gaps[?v > `1`].v", [2], id="an item that lacks a field, or has null there, is passed over"
        ),
        pytest.param("mixed[?type(v) == 'number' && v > `1`].v", [2], id="asked for its type first"),
        pytest.param("mixed[?to_number(v) > `1`].v", [2, "3"], id="or made a number"),
        pytest.param("missing == `null`", True, id="null is what is not there, where it is asked for"),
        pytest.param('"null" != `null`', False, id="or is null"),
        ("off == zero", False),
        ("zero == off", False),
    ],
)
def test_a_path_selects(path: str, value: Any) -> None:
    assert check_path(path) == ""
    found = select(path, DATA)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "why", "available"),
    [
        ("absent", "there is no 'absent'", True),
        ("object.x.q", "there is no 'q'", True),
        ("list[3]", "there is no item [3] in a list of 3", False),
        ("none[0]", "there is no item [0] in a list of 0", False),
        ("list[?a==`9`] | [0]", "there is no item [0]", False),
        ("list.a", "'a' needs an object, and there is a list", False),
        ("object[0]", "[0] needs a list, and there is an object", False),
        ('"null".a', "'a' needs an object, and there is null", False),
        ("zero.a", "and there is a number", False),
        ("off.a", "and there is a truth value", False),
        ("blank.a", "and there is a text", False),
        ("broken.a", "and there is a text", False),
        ("object[*]", "[…] needs a list, and there is an object", False),
        ("list.*", ".* needs an object, and there is a list", False),
        ("absent[*].a", "there is no 'absent'", True),
        ("absent || gone", "there is no 'gone'", True),
        ("zero && gone", "there is no 'gone'", True),
        ("{a: gone}", "there is no 'gone'", True),
        ("[gone]", "there is no 'gone'", True),
        pytest.param("to_string(gone)", "there is no 'gone'", True, id="never the text null"),
        ("length(zero)", "length()", False),
        ("sum(words)", "sum()", False),
        ("words[0:1:0]", "", False),
        pytest.param("'7' > zero", "a text > 0 cannot be compared", False, id="values that do not compare"),
        pytest.param("words_of[?v > `5`]", "to_number(…)", False, id="a filter that compares no item at all"),
        pytest.param("mixed[?v > `1`].v", "item 2 of the list: a text > 1", False, id="or not one of them"),
        pytest.param(
            "deep_mixed[*].{kept: list[?v > `1`]}",
            "item 2 of the list: a text",
            False,
            id="inside another list",
        ),
        pytest.param("length(mixed[?v > `1`])", "item 2 of the list", False, id="counted"),
        pytest.param(
            "mixed[?v > `1`] || words", "item 2 of the list", False, id="and no default takes that away"
        ),
        pytest.param(
            "gone > `5`", "> needs a value, and there is no 'gone'", True, id="what is not there compared"
        ),
        pytest.param(
            "gone == 'x' || words[0]", "== needs a value", True, id="and no default takes that away"
        ),
        pytest.param("length(gone) || `0`", "length() needs a value", True, id="nor a function of it"),
    ],
)
def test_a_path_that_selects_nothing_says_where_and_what_is_there(
    path: str, why: str, available: bool
) -> None:
    with pytest.raises(PathError) as caught:
        select(path, DATA)
    assert why in caught.value.why
    assert bool(caught.value.available) is available


def test_what_is_available_is_bounded() -> None:
    with pytest.raises(PathError) as caught:
        select("no", {f"{n}" * 1_000: n for n in range(10_000)})
    assert len(caught.value.available) <= 21
    assert max(map(len, caught.value.available)) <= 80


@pytest.mark.parametrize("hostile", ["[" * 100_000, '{"a":' * 100_000, "{" + "9" * 10_000])
def test_a_text_that_no_parser_survives_is_just_a_text(hostile: str) -> None:
    with pytest.raises(PathError, match="and there is a text"):
        select("a", hostile)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('["a b"]', '"a b"'),
        ('a["b c"]["d"]', 'a."b c"."d"'),
        ("a['b c']", 'a."b c"'),
        ("a[0]['b']", 'a[0]."b"'),
        ("""a["it's"]""", '''a."it's"'''),
        ("a[?b=='c'].d", "a[?b=='c'].d"),
        ('["a", "b"]', '["a", "b"]'),
        ('contains(["a"], b)', 'contains(["a"], b)'),
        ('a.["b"]', 'a.["b"]'),
        ("a", "a"),
    ],
)
def test_a_key_in_brackets_is_read_as_a_key(written: str, read: str) -> None:
    assert quote_keys(written) == read
    assert check_path(read) == ""


@pytest.mark.parametrize(
    ("path", "steps", "is_list"),
    [
        ("a.b[0].c", ["a", "b", 0, "c"], False),
        ('"a b"[-1]', ["a b", -1], False),
        ("@.a", ["a"], False),
        ("a[*].b", None, True),
        ("a[0:2]", None, True),
        ("a[]", None, True),
        ("a.*", None, True),
        ("a[?b]", None, True),
        ("[a, b]", None, True),
        ("a || b", None, False),
        ("length(a)", None, False),
        ("a[*] | [0]", None, False),
    ],
)
def test_a_plain_path_is_told_from_one_that_computes(path: str, steps: Any, is_list: bool) -> None:
    assert static_steps(path) == steps
    assert gives_list(path) is is_list


def doubled(times: int) -> str:
    return "@" + " | [@, @]" * times


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            "rows[?@ > `1`] | " + " | ".join(["[@, @][]"] * 12), id="lists put together again and again"
        ),
        pytest.param(
            "[" + ", ".join(["rows == rows"] * 100) + "]", id="large values compared again and again"
        ),
        pytest.param(
            "rows | " + " | ".join(["merge({a: @}, {b: @}) | to_string(@)"] * 12), id="texts within texts"
        ),
        pytest.param("rows[*].[" + ", ".join(["@"] * 60) + "]", id="many for each"),
        pytest.param(" && ".join(["join('', map(&to_string(@), rows))"] * 40), id="texts joined"),
        pytest.param(
            "map(&map(&@, $), rows)".replace("$", "`" + str(list(range(300))) + "`"),
            id="a list for each of a list",
        ),
    ],
)
def test_what_would_take_too_much_comes_to_an_end(path: str) -> None:
    meter = Meter()
    with pytest.raises(PathError, match=r"it takes more than|is larger than"):
        meter.make_value(select(path, {"rows": list(range(5_000))}, meter))


def test_a_value_doubled_twenty_times_is_refused_by_its_size_and_not_by_its_path() -> None:
    meter = Meter()
    found = select(doubled(21), ["x" * 20], meter)  # a few small lists, which share what they hold
    with pytest.raises(PathError, match="is larger than"):
        meter.make_value(found)
    assert select(doubled(3), 1) == [[[1, 1], [1, 1]], [[1, 1], [1, 1]]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
PIECES = "a b . [0] [*] [] || && @ | 'x' length( ) [?a] {a:b} `1` ! == .* ( keys(@) to_string(a) not_null(a) &a [0:1]"
PATHS = st.lists(st.sampled_from(PIECES.split()), min_size=1, max_size=7).map("".join)


@given(PATHS, JSON)
def test_any_path_on_any_value_selects_or_is_a_path_error(path: str, value: Any) -> None:
    if check_path(path):
        return
    with suppress(PathError):
        select(path, value)


@given(st.lists(st.sampled_from("abc") | st.integers(-2, 2), min_size=1, max_size=4), JSON)
def test_a_plain_path_selects_what_walking_by_hand_finds(steps: list[Any], value: Any) -> None:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    expected: Any = value
    try:
        for step in steps:
            if not isinstance(expected, list if isinstance(step, int) else dict):
                raise KeyError
            expected = expected[step]
    except (KeyError, IndexError):
        with pytest.raises(PathError):
            select(path, value)
        return
    assert select(path, value) == expected


LOST = {
    "s": Masked("***"),
    "l": [Masked("a ***"), "b"],
    "j": Masked('{"k": "***", "n": 1}'),
    "o": {"s": Masked("***"), "t": "u"},
}


@pytest.mark.parametrize(
    "path",
    [
        "length(s)", "to_string(l)", "join(',', l)", "contains(l, 'b')", "s == '***'", "s != 'x'", "l == `[1]`", "s < 'b'",
        "starts_with(s, '*')", "to_number(s)", "type(s)", "sort(l)", "max(l)", "l[?@ == 'b']", "max_by([o], &s)", "sort_by([o, o], &s)",
        "to_string(o)", "reverse(s)", "s == `null` || length(s) > `0`", "j.k == '***'",
    ],
)  # fmt: skip
def test_of_a_mask_nothing_is_computed(path: str) -> None:
    with pytest.raises(PathError, match="which no log keeps"):
        select(path, LOST)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("length(l)", 2), ("l[1]", "b"), ("o.t == 'u'", True), ("s == `null`", False), ("not_null(x, s)", "***"), ("keys(o)", ["s", "t"]),
        ("reverse(l)[0]", "b"), ("map(&t, [o])", ["u"]), ("j.n", 1), ("x || s", "***"), ("max_by([o], &t).t", "u"),
    ],
)  # fmt: skip
def test_what_stands_beside_a_mask_is_worked_out(path: str, value: Any) -> None:
    assert select(path, LOST) == value


def test_what_a_masked_text_says_is_masked_too() -> None:
    assert holds_lost(select("j.k", LOST))
    assert holds_lost(select("l[0]", LOST))
    assert holds_lost(select("map(&s, [o])", LOST))
