"""What of an output is looked at before it is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replan.core.secrets import MASK, Masked, SecretLost, reveal
from replan.core.walk import every
from replan.errors import ToolCallError
from replan.run.session.outputs import has_long_number, pack, read_now


def test_a_number_that_pythons_own_reader_refuses_is_no_output() -> None:
    with pytest.raises(ToolCallError):
        pack([10**5_000], 1_000)


@pytest.mark.parametrize("digits", ["7" * 3_999, "7" * 5_000])
def test_a_text_of_digits_is_an_output(digits: str) -> None:
    assert pack([digits, digits + "x"], 100_000).value == [digits, digits + "x"]


@pytest.mark.parametrize("before", [0, 1, 3_998, 3_999, 4_000, 4_001, 9_000])
@pytest.mark.parametrize(("count", "long"), [(3_999, False), (4_000, True), (4_001, True), (9_000, True)])
def test_a_run_of_digits_is_found_wherever_it_stands(before: int, count: int, long: bool) -> None:
    for around in (b"x", b" 12 "):
        text = (around * before)[: max(0, before - 1)] + b"x" + b"7" * count + around * 2_000
        assert has_long_number(text) is long
        assert has_long_number(text[: text.rindex(b"7") + 1]) is long


def _with_masks(value: Any, known: bool) -> Any:
    """The value with every text that has an `a` in it masked."""
    if isinstance(value, str):
        shown = value.replace("a", MASK)
        return value if "a" not in value else Masked.of(shown, value) if known else Masked(shown)
    if isinstance(value, dict):
        return {_with_masks(name, known): _with_masks(one, known) for name, one in value.items()}
    return [_with_masks(one, known) for one in value] if isinstance(value, list) else value


def _members(value: Any) -> int:
    return sum(1 for _ in every(value, keys=True))


_TEXTS = st.text("abc*é", max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(value=_VALUES, known=st.booleans(), limit=st.sampled_from([0, 1_000]))
def test_what_is_masked_stays_marked_as_that_through_json(value: Any, known: bool, limit: int) -> None:
    before = _with_masks(value, known)
    assume(_members(before) == _members(value))  # else two names look alike
    packed = pack(before, limit)
    hidden = any(isinstance(one, Masked) for one in every(before, keys=True))
    assert packed.value == before
    assert [type(one) for one in every(packed.value, keys=True)] == [
        type(one) for one in every(before, keys=True)
    ]
    assert packed.masked is hidden
    assert packed.artifact is None or packed.artifact.masked is hidden
    if known:
        assert reveal(packed.value) == value
    elif hidden:
        with pytest.raises(SecretLost):
            reveal(packed.value)
    if packed.stored is not None and packed.stored.data is not None:
        assert read_now(packed.stored.data) == before
