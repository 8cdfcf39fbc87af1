"""Items that lack a field, or have null there: passed over by what looks at items, and last in a sort."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.references.meter import Meter, PathError
from replan.core.references.paths import select
from replan.core.references.refs import parse
from replan.core.references.resolve import resolve

ROWS: list[dict[str, Any]] = [
    {"n": 1, "day": "2026-03-01", "tags": ["a"]},
    {"n": 2, "day": None, "tags": None},
    {"n": 3, "day": "2026-01-01", "tags": ["a", "b"]},
    {"n": 4},
]


def found(path: str, rows: Any = ROWS) -> Any:
    return select(path, {"rows": rows}, Meter())


@pytest.mark.parametrize(
    ("path", "gives"),
    [
        ("sort_by(rows, &day)[*].n", [3, 1, 2, 4]),
        ("sort_by(rows, &length(tags))[*].n", [1, 3, 2, 4]),
        ("reverse(sort_by(rows, &day))[*].n", [4, 2, 1, 3]),
        ("max_by(rows, &day).n", 1),
        ("min_by(rows, &day).n", 3),
        ("max_by(rows, &length(tags)).n", 3),
        ("max_by(rows, &nothing)", None),
        ("sort_by(rows, &nothing)[*].n", [1, 2, 3, 4]),
        ("rows[?contains(tags, 'b')].n", [3]),
        ("rows[?starts_with(day, '2026-03')].n", [1]),
        ("rows[?length(tags) > `1`].n", [3]),
        ("rows[?contains(tags, 'b') || n == `4`].n", [3, 4]),
        ("rows[?day > '2026-02-01'].n", [1]),
        ("rows[?type(day) == 'null'].n", [2, 4]),
        ("rows[?not_null(day, 'x') == 'x'].n", [2, 4]),
        ("rows[*].length(tags)", [1, 2]),
        ("rows[*].{n: n, of: length(tags)}[?of].n", [1, 3]),
        ("map(&length(tags), rows)", [1, None, 2, None]),
    ],
)
def test_what_is_not_there_is_passed_over(path: str, gives: Any) -> None:
    assert found(path) == gives


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("length(rows[1].tags)", "length\\(\\) takes"),
        ("contains(rows[1].day, 'x')", "contains\\(\\) takes"),
        ("rows[?length(n) > `1`]", "length\\(\\) takes"),
        ("sort_by(rows, &tags)", "sort_by\\(\\) takes"),
        ("max_by(rows[1].tags, &n)", "max_by\\(\\) takes"),
    ],
)
def test_a_value_that_does_not_fit_and_one_that_is_asked_for_by_itself_are_told(path: str, why: str) -> None:
    with pytest.raises(PathError, match=why):
        found(path)


def test_each_item_of_a_sort_is_worked_out_once() -> None:
    rows = [{"n": at, "of": list(range(at % 7))} for at in range(12_000)]
    meter = Meter()
    assert len(select("sort_by(rows, &length(of))", {"rows": rows}, meter)) == 12_000


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-1E+999", "9" * 400 + ".0"])
def test_a_number_that_is_none_is_read_out_of_no_text(number: str) -> None:
    text = f'{{"amount": {number}, "to": "ann"}}'
    with pytest.raises(Exception, match="that is no JSON"):
        resolve("${g.output.amount}", lambda ref: (text, "the output"))
    assert resolve("${g.output}", lambda ref: (text, "the output")) == text


@pytest.mark.parametrize(
    ("written", "value"),
    [("1e300", 1e300), ("1e0000001", 10.0), ("9" * 400, int("9" * 400)), ("1e-400", 0.0)],
)
def test_other_numbers_are(written: str, value: Any) -> None:
    text = f'{{"amount": {written}, "more": "{"x" * 70_000}"}}'
    assert resolve("${g.output.amount}", lambda ref: (text, "the output")) == value
    assert parse("${g.output.amount}") is not None
