"""Conditions in the writing of other languages are read as what they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.plan.read import read_plan
from replan.core.references.conditions import holds, read_condition
from replan.core.references.paths import check_path


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.output.open == False", "a.output.open == `false`"),
        ("a.output.open != true", "a.output.open != `true`"),
        ("${a.output.open} == None", "a.output.open == `null`"),
        ("length(a.output.rows) == 0", "length(a.output.rows) == `0`"),
        ("a.output.n>=-1.5", "a.output.n>=`-1.5`"),
        ("5 < a.output.n", "`5` < a.output.n"),
        ("len(p.output) > 0", "length(p.output) > `0`"),
        ("len(p.output)", "length(p.output)"),
        ("not len( p.output.rows ) or a.output.len == 2", "!(length( p.output.rows )) || a.output.len == `2`"),
        ("not a.output.open", "!(a.output.open)"),
        ("not a.output.n == 3", "!(a.output.n == `3`)"),
        ("not (a.output.x or b.output.y) and c.output", "!((a.output.x || b.output.y)) && c.output"),
        ("not not a.output.x", "!(!(a.output.x))"),
        ("a.output.n > 1 and b.output.open == True", "a.output.n > `1` && b.output.open == `true`"),
        ("a.output.rows[?n > 5 and not sold]", "a.output.rows[?n > `5` && !(sold)]"),
        ("a.output.rows[0].n > 5", "a.output.rows[0].n > `5`"),
        ("a.output.text == 'x and not 5 == False' or b.output > 2", "a.output.text == 'x and not 5 == False' || b.output > `2`"),
    ],
)  # fmt: skip
def test_a_condition_is_read_as_it_is_meant(written: str, meant: str) -> None:
    assert read_condition(written) == meant
    assert check_path(meant) == ""
    assert read_condition(meant) == meant


@pytest.mark.parametrize(
    "text",
    [
        'a.output.state == "paid"',
        "a.output.rows.length == 0 ==",
        "a.output.rows.length == 0",
        "not a.output.rows.length > 5",
        "a.output.n > five six",
        "a.output.n in b.output",
        "a.len(output) > 0",
        "a.output.x and and b.output",
        "a.output ==",
    ],
)
def test_what_is_no_condition_in_any_reading_stays_and_is_refused(text: str) -> None:
    assert read_condition(text) == text
    assert check_path(text)


@pytest.mark.parametrize(
    "text", ["a.output.not", "not.output.x", "and.output == or.output", "a.output == `5`"]
)
def test_what_is_jmespath_stays_as_it_is(text: str) -> None:
    assert read_condition(text) == text


@pytest.mark.parametrize("text", ["a.output.rows.length == 0", "a.length>5"])
def test_the_length_of_javascript_is_told_as_such(text: str) -> None:
    assert "length(step_1.output.items)" in check_path(text)


@pytest.mark.parametrize("when", ["true", "True", "always", True])
def test_a_step_that_always_runs_may_say_so(when: object) -> None:
    plan = read_plan({"steps": [{"step_id": "a", "tool": "t", "when": when}]}, plan_id="p")
    assert plan.steps[0].when == "`true`"


@given(st.booleans(), st.booleans(), st.integers(-9, 9), st.integers(-9, 9))
def test_it_comes_to_what_python_says(x: bool, y: bool, n: int, m: int) -> None:
    scope = {"a": {"output": {"x": x, "y": y, "n": n}, "status": "succeeded"}}
    for text, expected in (
        (f"not a.output.x and a.output.n > {m}", not x and n > m),
        (f"not a.output.n == {m} or a.output.y == False", n != m or not y),
        (f"not (a.output.x or a.output.y) or {m} <= a.output.n", not (x or y) or m <= n),
    ):
        assert holds(read_condition(text), scope) is bool(expected)
