"""What stands inside a JSON value is met once each, in its order, however deep it is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replan.core.walk import every, objects_in, scalars, texts_in

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def count(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inside))


@given(VALUES)
def test_everything_is_met_once(value: Any) -> None:
    assert len(list(every(value))) == count(value)


def test_it_is_met_in_the_order_in_which_it_is_written() -> None:
    value = {"a": ["x", {"b": "y", "c": 2}], "d": ("z", True, 1.5)}
    assert list(texts_in(value)) == ["x", "y", "z"]
    named = [one for one in every(value, keys=True) if isinstance(one, str)]
    assert "".join(named) == "adxbcyz", "the names of an object stand before its values"
    assert list(objects_in(value)) == [value, {"b": "y", "c": 2}]
    assert scalars(value) == ["x", "y", "2", "z", "1.5"], "a truth value is no number"


def test_depth_is_no_matter() -> None:
    value = json.loads("[" * 900 + '"deep"' + "]" * 900)
    for _ in range(20_000):
        value = [value]
    assert list(texts_in(value)) == ["deep"]
