"""Amounts and values in few words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replan
from replan.core.words import in_digits


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0.25, "0.25"),
        (3, "3"),
        (999_999, "999999"),
        (999_999.9, "1000000"),
        (1_000_000, "1000000"),
        (1_234_567, "1234567"),
        (2.5e9, "2500000000"),
        (0.00005, "0.00005"),
        (-1e-7, "-0.0000001"),
        (None, "unlimited"),
    ],
)
def test_an_amount_is_told_in_digits_however_large_or_small(amount: float | None, told: str) -> None:
    assert in_digits(amount) == told


@given(st.floats(-1e15, 1e15))
def test_an_amount_that_is_told_is_nearly_the_amount(amount: float) -> None:
    told = in_digits(amount)
    assert re.fullmatch(r"-?\d+(\.\d+)?", told)
    assert float(told) == pytest.approx(amount, rel=1e-5)


def test_no_message_tells_seconds_in_the_form_that_becomes_an_exponent() -> None:
    found = [
        f"{file.name}: {line.strip()}"
        for file in Path(replan.__path__[0]).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r":g\} ?s(econds?)?\b", line)
    ]
    assert not found, "use replan.core.words.in_digits"
