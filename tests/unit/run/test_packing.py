"""What of an output is looked at before it is kept."""

from __future__ import annotations

import re

import pytest

from replan.errors import ToolCallError
from replan.run.session import outputs
from replan.run.session.outputs import pack


def test_a_number_that_pythons_own_reader_refuses_is_no_output() -> None:
    with pytest.raises(ToolCallError):
        pack([10**5_000], 1_000)


@pytest.mark.parametrize("digits", ["7" * 3_999, "7" * 5_000])
def test_a_text_of_digits_is_an_output(digits: str) -> None:
    assert pack([digits, digits + "x"], 100_000).value == [digits, digits + "x"]


def test_a_run_of_digits_is_read_once() -> None:
    """Each start inside a run would read its rest again: the search begins at the run's first digit only."""
    pattern: re.Pattern[bytes] = outputs._MANY_DIGITS
    assert pattern.search(b"x" + b"7" * 4_000)
    assert not pattern.search(b"7" * 3_999 + b"x", 0)
    assert not pattern.search(b"7" * 4_001, 1), "a start inside of a run is none"
