"""What of an output is looked at before it is kept."""

from __future__ import annotations

import pytest

from replan.errors import ToolCallError
from replan.run.session.outputs import has_long_number, pack


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
