"""The condition of a wait: read as other conditions are, and what references give in it is a value, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replan.core.references.conditions import holds
from replan.core.references.paths import check_path
from replan.core.waits.condition import condition_as_meant, condition_with_values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
EVIL = "x' || 'a'=='a"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("output.done", "output.done"),
        ("${output.done}", "output.done"),
        ("{{ output.state == 'done' }}", "output.state == 'done'"),
        ("${output}", "output"),
        ("${output.a} and ${outputs.b} > 3", "output.a && outputs.b > `3`"),
        ("not output.running", "!(output.running)"),
        ("output.done == True", "output.done == `true`"),
        ("output.count >= ${begin.output.total}", "output.count >= ${begin.output.total}"),
        (
            "length(output.items[?customer == ${cust.output.id}]) == 2",
            "length(output.items[?customer == ${cust.output.id}]) == `2`",
        ),
        ("output.n > ${a.output} and output.m == 3", "output.n > ${a.output} && output.m == `3`"),
        ("not output.a == ${a.output}", "!(output.a == ${a.output})"),
        ("output.s == '${a.output} == 2' and output.x", "output.s == '${a.output} == 2' && output.x"),
        (
            "contains('${a.output}', output.x) or output.n == 1",
            "contains('${a.output}', output.x) || output.n == `1`",
        ),
        ("output.x == `[${a.output}]` or output.n == 1", "output.x == `[${a.output}]` || output.n == `1`"),
        ("${output.output.x}", "${output.output.x}"),  # of a step that is called so
        ("${= output.x }", "${= output.x }"),
    ],
)
def test_a_condition_is_read_as_what_it_means(written: str, meant: str) -> None:
    assert condition_as_meant(written) == meant


@pytest.mark.parametrize(
    ("written", "value", "filled"),
    [
        ("output.n >= ${a.output}", 3, "output.n >= `3`"),
        ("output.n >= `${a.output}`", 3, "output.n >= `3`"),
        ("output.s == ${a.output}", "Ann", 'output.s == `"Ann"`'),
        ("output.s == '${a.output}'", "O'Neil", 'output.s == `"O\'Neil"`'),
        ("output.s == 'a \\' ${a.output}!'", 3, 'output.s == `"a \' 3!"`'),
        ("output.\"of ${a.output}\" == 'x'", 'A"', 'output."of A\\"" == \'x\''),
        ('output.x == `{"a": "${a.output}", "b": [${a.output}]}`', 3, 'output.x == `{"a": "3", "b": [3]}`'),
        ('output.x == `{"a": "${a.output}"}`', 'A"', 'output.x == `{"a": "A\\""}`'),
        ("output.x == `[${a.output}]`", "]", 'output.x == `"[]]"`'),
        ("output.s == '${= a.output + 1 }'", 3, 'output.s == `"3"`'),
        ("output.s == 'nothing' && output.\"a b\"", 3, "output.s == 'nothing' && output.\"a b\""),
        ("output.s == 'not closed ${a.output}", 3, "output.s == 'not closed 3"),
    ],
)
def test_what_a_reference_gives_is_a_value_in_it(written: str, value: Any, filled: str) -> None:
    assert condition_with_values(written, lambda _: value) == filled


@pytest.mark.parametrize("written", ["output == ${a.output}", "output == `${a.output}`"])
@given(value=VALUES, other=VALUES)
@example(value=EVIL, other=EVIL + "'")
@example(value="`1` || `true`", other="\\u0060")
def test_whatever_it_is_it_is_compared_with_and_nothing_else(written: str, value: Any, other: Any) -> None:
    filled = condition_with_values(written, lambda _: value)
    assert check_path(filled) == ""
    assert holds(filled, {"output": value})
    if isinstance(value, str) and isinstance(other, str) and value != other:
        assert not holds(filled, {"output": other})


@given(text=st.text(max_size=30))
@example(text=EVIL)
@example(text="a\\")
@example(text="\\'")
def test_so_it_is_within_quotes(text: str) -> None:
    filled = condition_with_values("output == 'to ${a.output}!'", lambda _: text)
    assert check_path(filled) == ""
    assert holds(filled, {"output": f"to {text}!"})
    assert not holds(filled, {"output": f"to {text}"})
