"""Expressions: what they give, what they refuse, and that none can hang, grow or reach outside."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.references.expressions.functions import FUNCTIONS
from replan.core.references.expressions.grammar import Node, Unreadable, literal, read
from replan.core.references.expressions.kinds import Misfit, types_given
from replan.core.references.expressions.work import work_out
from replan.core.references.meter import Meter, PathError
from replan.core.references.refs import Expression, changed, parse, references, rewritten
from replan.core.references.resolve import resolve
from replan.errors import UnresolvedReference

OUTPUTS: dict[str, Any] = {
    "a": {"price": 19.99, "name": "Ann", "day": "2026-01-31", "open": True, "none": None, "text": "12.50"},
    "b": {
        "rate": 3,
        "items": [{"n": 1, "total": 120}, {"n": 2, "total": 30.5}],
        "long": [{"id": 10**30}, {"id": 10**30 + 1}],
        "more": [{"n": 1.0, "total": 0, "who": "Ann"}, {"n": 3, "who": "Bob"}, {"n": 1, "who": "Cyd"}],
    },
    "step-1": {"count": 5},
}


def worked(text: str) -> Any:
    return resolve(text, lambda ref: (OUTPUTS[ref.head], f"the output of {ref.head!r}"))


@pytest.mark.parametrize(
    ("written", "gives"),
    [
        ("a.output.price * b.output.rate", 59.97),
        ("0.1 + 0.2", 0.3),
        ("2 + 3 * 4 - 1", 13),
        ("(2 + 3) * 4", 20),
        ("-2 * -3", 6),
        ("7 % 3 + -1 % 7", 7),
        ("1 / 4", 0.25),
        ("1e3 / 4", 250),
        ("sum(b.output.items[*].total)", 150.5),
        ("sum(b.output.items[?total > `100`].total) / 2", 60),
        ("avg([1, 2, 6])", 3),
        ("max(b.output.items[*].n) + min(4, 2, 3)", 4),
        ("round(2.5) + round(-2.5)", 0),
        ("round(1.005, 2)", 1.01),
        ("ceil(1.2) + floor(1.8)", 3),
        ("number(a.output.text) * 2", 25),
        ("text(2.5, 2)", "2.50"),
        ("text(a.output.price * 1000) + '!'", "19990!"),
        ("'Dear ' + a.output.name", "Dear Ann"),
        ("b.output.items[?n == `2`].total | [0] * 2", 61),
        ("number(b.output.items[*].total|[-1]) + b.output.items[?n > `0`].n | [0]", 31.5),
        ("(b.output.items[*].n | [0] > 0) || false", True),
        ("upper(substring(a.output.name, 0, 1)) + lower('NN')", "Ann"),
        ("join(split('a;b', ';'), '-') + replace('x.x', '.', '')", "a-bxx"),
        ("contains(a.output.name, 'nn') and not starts_with('x', 'y') && ends_with('xy', 'y')", True),
        ("contains(b.output.items[*].n, 2)", True),
        ("length(b.output.items) == 2", True),
        ("step-1.output.count - 2", 3),
        ("b.output.rate > 2 ? 'many' : nobody.output", "many"),
        ("a.output.open || nobody.output", True),
        ("a.output.none == null", True),
        ("1 == true", False),
        ("'2' != 2", True),
        ("[1, 2.0] == [1.0, 2]", True),
        ("add_months(date(a.output.day), 1)", "2026-02-28"),
        ("add_months(date('2028-12-31'), -10)", "2028-02-29"),
        ("add_months(date('9999-11-30'), 1)", "9999-12-30"),
        ("-1234567890123456789012345678901234", -1234567890123456789012345678901234),
        ("abs(-1234567890123456789012345678901234)", 1234567890123456789012345678901234),
        ("length(merge_by(b.output.long, [b.output.long[0]], 'id'))", 1),
        (r"'\ud83d\ude00'", "😀"),
        ("date(a.output.day) + days(1)", "2026-02-01"),
        ("date('2026-03-01T08:00Z') + hours(30)", "2026-03-02T14:00:00+00:00"),
        ("date('2026-01-01') < date('2026-01-02')", True),
        ("days_between(date('2026-01-01'), date('2026-03-01'))", 59),
        ("hours_between(date('2026-01-01T00:00'), date('2026-01-01T01:30'))", 1.5),
        ("date('2026-03-02') - date('2026-03-01') == days(1)", True),
        ("year(date(a.output.day)) + month(date(a.output.day)) + weekday(date('2026-11-30'))", 2028),
        (r"'it\'s }' + '\u007b'", "it's }{"),
        ("!!true", True),
        ("length(merge_by(b.output.items, [], 'n'))", 0),
        (
            "merge_by(b.output.items, b.output.more, 'n')",
            [{"n": 1, "total": 120, "who": "Ann"}, {"n": 1, "total": 120, "who": "Cyd"}],
        ),
    ],
)
def test_what_they_give(written: str, gives: Any) -> None:
    found = worked(f"${{= {written} }}")
    assert found == gives
    assert type(found) is type(gives)
    assert worked("{{=" + written + "}}") == gives
    text = worked(f"it is ${{={written}}}.")
    assert text == f"it is {gives if isinstance(gives, str) else json.dumps(gives)}."


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("1 +", "it ends too early"),
        ("(1", "')' is missing"),
        ("a.output.price b", "'b' is not expected"),
        ("foo(1)", "there is no function 'foo'; there are: abs"),
        ("1 = 1", "compared with =="),
        ("1 < 2 < 3", "put && between them"),
        ("b.output.items[*].n | 0", "'|"),
        ("b.output.items[?n > `5`].n | [0] * 2", "selects nothing"),
        ("`5` > 3", "backticks are for paths"),
        ("'x", "no closing quote"),
        ("a.output.items[0", "is not closed"),
        ("round()", "round() takes 1 to 2 values, and has 0"),
        ("'x' + 1", "put together with text"),
        ("a.output.text * 2", "read as a number by number"),
        ("1 / 0", "divided by 0"),
        ("5 % 0", "divided by 0"),
        ("1 ? 2 : 3", "has to be true or false"),
        ("-'x'", "there is no - of a text"),
        ("!1", "there is no ! of a number"),
        ("a.output.nothing * 2", "selects nothing"),
        ("sum(['x'])", "item 1 is a text"),
        ("date('next week')", "is no date as ISO 8601"),
        ("date('2026-01-31') + 1", "as days(…)"),
        ("date('2026-01-31') + hours(1)", "moves by whole days"),
        ("date('2026-01-31') < '2026-02-01'", "read as a date by date"),
        ("days(1)", "a span of time is no value"),
        ("date('9999-12-31') + days(1)", "years go from 1 to 9999"),
        ("add_months(date('9999-12-31'), 1)", "years go from 1 to 9999"),
        ("number('0.12345678901234567890123456789012345')", "more than 34 digits"),
        ("number('1_000')", "is no number"),
        ("number('nan')", "is no number"),
        ("9e999", "too large"),
        ("12345678901234567890123456789012345", "more than 34 digits"),
        ("date('2026-01-31') + days(1) / 1e-400", "is no date any more"),
        (r"'\ud83d'", "half of a sign"),
        ("+".join("1" * 250), "more than 200 operators"),
        ("round(1, 2.5)", "it is rounded to"),
        ("b.output > 1", "does not compare"),
        ("merge_by(b.output.items, [1], 'n')", "the second one holds a number"),
        ("merge_by(b.output.items, b.output.items, 'm')", "an object of the second list has no 'm'"),
    ],
)
def test_what_cannot_be_worked_out_is_told(written: str, why: str) -> None:
    with pytest.raises(UnresolvedReference, match=r"cannot be worked out|selects nothing") as caught:
        worked(f"${{= {written} }}")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "written",
    ["__import__('os')", "metadata.__class__ + 1", "open('/etc/passwd')", "(1).real", "a.output.name.upper()", "lambda: 1", "now()", "env.HOME + 'x'"],
)  # fmt: skip
def test_they_reach_nothing_but_what_they_name(written: str) -> None:
    with pytest.raises((UnresolvedReference, KeyError)):
        worked(f"${{= {written} }}")


NUMBERS = st.decimals("-1e6", "1e6", places=3)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_numbers_are_decimal(one: Decimal, two: Decimal, three: Decimal) -> None:
    tree = read(f"({one:f}) * ({two:f}) - ({three:f}) + ({one:f})", FUNCTIONS.__contains__)
    found = work_out(tree.node, lambda at: None, Meter())
    assert found == pytest.approx(float(one * two - three + one), rel=1e-12)
    exact = one * two - three + one
    assert found == (int(exact) if exact == int(exact) else float(exact))


PIECES = st.sampled_from(
    ["1", "2.5", "'x'", "a.output.name", "b.output.items[*].n", "b.output.rate", "(", ")", "[", "]", ",", "+", " - ", "*", "/", "%", "==", "<",
     "&&", "||", "!", "?", ":", "true", "null", "and", "not", "-", *(f"{name}(" for name in FUNCTIONS), "days(2)", "date('2026-01-31')", "'", "`", "}"]
)  # fmt: skip


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=24).map("".join))
def test_any_text_is_read_worked_out_or_refused_in_words(written: str) -> None:
    try:
        tree = read(written, FUNCTIONS.__contains__)
    except Unreadable:
        return

    def value(at: int) -> Any:
        begin, end = tree.taken[at]
        return worked(f"${{{written[begin:end].strip()}}}")

    try:
        found = work_out(tree.node, value, Meter())
    except (PathError, UnresolvedReference, KeyError):
        return
    json.dumps(found, allow_nan=False)
    fits(tree.node, found)


def fits(node: Node, found: Any) -> None:
    """What is told beforehand of what it gives is so."""
    types = types_given(node, lambda at: None)
    of_python = {
        int: "integer",
        float: "number",
        str: "string",
        bool: "boolean",
        type(None): "null",
        list: "array",
        dict: "object",
    }
    assert types is None or of_python[type(found)] in types


@pytest.mark.parametrize(
    "written", ["'a' + 1", "1 < 'x'", "!1", "-'x'", "round('x')", "sum(1)", "1 && true", "1 ? 2 : 3", "date('2026-01-01') + 1", "date('2026-01-01') - date('2026-01-02')"],
)  # fmt: skip
def test_what_never_fits_is_told_beforehand(written: str) -> None:
    with pytest.raises(Misfit):
        types_given(read(written, FUNCTIONS.__contains__).node, lambda at: None)


def test_they_are_bounded() -> None:
    with cpu(2.0):
        for written in (
            "(" * 3_000,
            "[" * 900 + "]" * 900,
            "-" * 1_500 + "1",
            "!" * 1_501 + "true",
            "1" + "+1" * 900,
            "not " * 400 + "true",
            "1?" * 600,
        ):
            text = f"${{= {written} }}"
            refused = written[0] in "([" or "?" in written or "+" in written
            with pytest.raises(UnresolvedReference) if refused else _nothing():
                worked(text)
        long = "x" * 200_000
        OUTPUTS["long"] = long
        grown = "${= " + " + ".join(["long.output"] * 120) + " }"
        with pytest.raises(UnresolvedReference, match="is larger than"):
            worked(grown)
        with pytest.raises(UnresolvedReference, match="is larger than"):
            worked("${= replace(replace(long.output, 'x', long.output), 'x', long.output) }")


class _nothing:  # noqa: N801
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def meant(written: str) -> Any:
    return rewritten(f"${{= {written} }}", lambda ref: ref.raw)


def test_their_references_are_references_of_the_text() -> None:
    text = "pay ${= a.output.price * b.output.items[0].total - step-1.output.count } to ${c.output}"
    assert [ref.head for ref in references(text)] == ["a", "b", "step-1", "c"]
    renamed = changed(text, lambda raw: raw.replace("a.output", "a_2.output"))
    assert renamed == text.replace("a.output.price", "a_2.output.price")
    close = "pay ${=a.output.price*b.output.items[0].total - step-1.output.count} to ${c.output}"
    assert rewritten(text, lambda ref: f"<{ref.head}>") == rewritten(close, lambda ref: f"<{ref.head}>")
    assert rewritten(text, lambda ref: "") != rewritten(text.replace("*", "/"), lambda ref: "")
    assert meant("2 + a.output") == meant("a.output + 2.0")
    assert meant("a.output * 2 + b.output") == meant("b.output + 2 * a.output")
    assert meant("a.output + b.output") != meant("b.output + a.output")  # of texts it is another one
    assert meant("1" * 30) != meant("1" * 29 + "2")
    assert parse("$${= 1 }") == ("${= 1 }",)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=6,
    )
)
def test_a_literal_is_read_as_its_value(value: Any) -> None:
    written = literal(value)
    assert written is not None
    assert not set("${}`'\n") & set(written)
    (part,) = parse(f"${{= {written} }}")
    assert isinstance(part, Expression)
    assert resolve(f"${{= {written} }}", lambda ref: (None, "")) == value
