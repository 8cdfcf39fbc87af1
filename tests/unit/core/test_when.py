from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.references.conditions import STATUSES, holds, unknown_statuses
from replan.core.references.paths import PathError, select

SCOPE: dict[str, Any] = {
    "acc": {"status": "succeeded", "output": '{"status": "blocked", "total": 7, "tags": ["a"], "no": false}'},
    "s": {"status": "succeeded", "output": {"n": 0, "text": "7", "none": None, "empty": [], "blank": "[]"}},
    "no": {"status": "succeeded", "output": "false"},
    "nil": {"status": "succeeded", "output": " null "},
    "nought": {"status": "succeeded", "output": "0"},
    "seven": {"status": "succeeded", "output": "7"},
    "left": {"status": "skipped"},
    "each": {"status": "succeeded", "output": [{"a": {"n": 1}}, {"a": {"n": 2}}]},
    "metadata": {"go": True},
}


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        pytest.param("acc.output.status != 'blocked'", False, id="a text that holds JSON is read under !="),
        ("acc.output.status == 'blocked'", True),
        ("acc.output.total > `5`", True),
        ("!acc.output.no", True),
        ("!(acc.output.status == 'blocked')", False),
        ("contains(acc.output.tags, 'a')", True),
        ("length(acc.outputs) == `4`", True),
        ("acc.output.tags[?@ == 'a']", True),
        pytest.param("acc.output.missing", False, id="what is not there is null"),
        pytest.param("!acc.output.missing", True, id="and not null is true"),
        ("acc.output.missing || metadata.go", True),
        ("acc.output.missing && s.output.n > 'x'", False),
        ("acc.output.missing == `null`", True),
        pytest.param("s.output.n", False, id="0 is false"),
        ("s.output.none", False),
        ("s.output.empty", False),
        pytest.param("s.output.blank", False, id="so is a text that says an empty list"),
        pytest.param("no.output", False, id="and one that says false"),
        ("!no.output", True),
        ("no.output == `false`", True),
        ("no.output == 'false'", True),
        ("no.output && metadata.go", False),
        ("nil.output", False),
        ("nil.output == `null`", True),
        ("nil.output != `null`", False),
        ("nought.output", False),
        ("nought.output == `0`", True),
        ("seven.output == `7`", True),
        ("seven.output != `7`", False),
        ("seven.output == '7.0'", False),
        ("seven.output == `true`", False),
        ("'007' == `7`", False),
        ("to_number(s.output.text) > `5`", True),
        ("left.status == 'skipped' || left.output.n > `1`", True),
        ("left.output", False),
        ("!left.output.n", True),
        ("${= s.output.n == 0 }", True),
        ("${= sum(each.actions.a.output[*].n) > 2 }", True),
        ("${= left.output == null }", True),
    ],
)
def test_a_condition_reads_values_as_references_do(condition: str, result: bool) -> None:
    assert holds(condition, SCOPE) is result


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(-99, 99))


@given(PLAIN, PLAIN, st.sampled_from(["==", "!="]))
def test_a_plain_value_as_a_text_is_the_same_condition(value: Any, other: Any, sign: str) -> None:
    def answer(output: Any) -> list[bool]:
        scope = {"a": {"status": "succeeded", "output": output}}
        return [
            holds(text, scope) for text in ("a.output", "!a.output", f"a.output {sign} `{json.dumps(other)}`")
        ]

    assert answer(value) == answer(json.dumps(value))


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("'7' > `5`", "a text > 5 cannot be compared; to_number"),
        ("s.output.text > `5`", "a text > 5 cannot be compared"),
        ("acc.output.status < `1`", "cannot be compared"),
        ("s.output.none > `1`", "null > 1 cannot be compared"),
        pytest.param(
            "s.output.absent == 'x'", "== needs a value, and there is no 'absent'", id="a missing field"
        ),
        ("!(s.output.absent > `1`)", "> needs a value"),
        ("s.output.absent != 'x' || metadata.go", "!= needs a value"),
        ("metadata.gone == 'x'", "there is no 'gone'"),
        ("length(s.output.none) > `0`", "length()"),
        ("length(s.output.absent) > `0`", "length() needs a value"),
        ("left.output.n > `1`", "there is no 'output'"),
        ("${= s.output.absent > 1 }", "there is no 'absent'"),
        ("${= s.output.n == 0 && s.output.absent == 'x' }", "there is no 'absent'"),
        ("${= s.output.n + 1 }", "it gives a number, and a condition is true or false"),
        ("${= each.actions.b.output == null }", "no output of an action 'b'"),
    ],
)
def test_what_cannot_be_computed_is_no_false(condition: str, why: str) -> None:
    with pytest.raises(PathError) as caught:
        holds(condition, SCOPE)
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("condition", "strange"),
    [
        ("s.status == 'success'", ["success"]),
        ("'done' != s.status", ["done"]),
        ("contains(['ok', 'succeeded'], s.status)", ["ok"]),
        ('contains(`["completed"]`, s.status) && s.output.x', ["completed"]),
        ("!(s.status == 'Succeeded')", ["Succeeded"]),
        ("s.status == 'succeeded' || s.status == 'skipped'", []),
        ("s.output.status == 'success'", []),
        ("metadata.status == 'success'", []),
        ("s.status == t.output.wanted", []),
        ("items[?status == 'success']", []),
    ],
)
def test_a_word_that_is_no_status_is_found(condition: str, strange: list[str]) -> None:
    assert unknown_statuses(condition) == strange
    assert not set(strange) & set(STATUSES)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)


@given(VALUES, VALUES, st.sampled_from(["<", "<=", ">", ">="]))
def test_an_order_is_true_or_false_only_where_two_values_have_one(left: Any, right: Any, sign: str) -> None:
    alike = any(
        all(isinstance(one, kind) and not isinstance(one, bool) for one in (left, right))
        for kind in (int, str)
    )
    try:
        found = holds(f"a.output.l {sign} a.output.r", {"a": {"output": {"l": left, "r": right}}})
    except PathError:
        assert not alike
    else:
        assert alike
        assert found is {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign]


@given(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), st.sampled_from("abc"))
def test_a_text_and_the_object_that_it_holds_are_one_to_a_condition(value: dict[str, Any], name: str) -> None:
    import json

    for condition in (f"x.output.{name}", f"!x.output.{name}", f"x.output.{name} == `1`"):
        results = []
        for output in (value, json.dumps(value)):
            try:
                results.append(holds(condition, {"x": {"status": "succeeded", "output": output}}))
            except PathError:
                results.append("fails")
        assert results[0] == results[1]
    assert select("x", {"x": 1}) == 1
