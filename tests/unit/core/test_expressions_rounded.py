"""What is computed has 34 digits, as decimal arithmetic has it, and what is written with more is refused."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from replan.core.references.expressions.functions import FUNCTIONS
from replan.core.references.expressions.grammar import read
from replan.core.references.expressions.work import work_out
from replan.core.references.meter import Meter, PathError

DIGITS = 34


def worked(written: str, *given: Any) -> Any:
    return work_out(read(written, FUNCTIONS.__contains__).node, lambda at: given[at], Meter())


def rounded(value: Fraction) -> Fraction:
    """To 34 digits, halves to the even one, counted in whole numbers alone."""
    if not value:
        return value
    size, places = abs(value), 0
    while size * Fraction(10) ** places >= 10**DIGITS:
        places -= 1
    while size * Fraction(10) ** places < 10 ** (DIGITS - 1):
        places += 1
    return round(value * Fraction(10) ** places) / Fraction(10) ** places


COMPUTES = {
    "+": lambda one, two: one + two,
    "-": lambda one, two: one - two,
    "*": lambda one, two: one * two,
    "/": lambda one, two: one / two,
}


def made(dice: random.Random, depth: int) -> tuple[str, Fraction]:
    """An expression, and what it is."""
    if not depth or dice.random() < 0.2:
        number = f"{dice.randint(0, 10 ** dice.randint(1, 12))}"
        if dice.random() < 0.5:
            number += f".{dice.randint(0, 9999):04d}"
        return number, Fraction(number)
    sign = dice.choice("+-*/")
    (left, one), (right, two) = made(dice, depth - 1), made(dice, depth - 1)
    if sign == "/" and not two:
        sign = "+"
    return f"({left} {sign} {right})", rounded(COMPUTES[sign](one, two))


def test_three_thousand_expressions_give_what_an_oracle_counts_in_fractions() -> None:
    dice = random.Random(34)
    for _ in range(3_000):
        written, meant = made(dice, dice.randint(1, 4))
        assert Fraction(Decimal(worked(f"text({written})"))) == meant, written


@pytest.mark.parametrize(
    ("written", "gives"),
    [
        ("196 / 15 + 440", "453.0666666666666666666666666666667"),
        ("446 / 176 * 209", "529.625"),
        ("1 / 3 + 2", "2.333333333333333333333333333333333"),
        ("1 / 3 * 3", "0.9999999999999999999999999999999999"),
        ("123456789012345678901234567890 * 12345678901", "1524157875294924676529492467651425000000"),
        ("10 % (1 / 3)", "0.000000000000000000000000000000001"),
    ],
)
def test_a_quotient_that_goes_on_is_computed_with(written: str, gives: str) -> None:
    assert worked(f"text({written})") == gives


def test_a_rate_of_a_loan_comes_out_to_the_cent() -> None:
    assert worked("round(8123 * 3.75 / 1200 + 12.35, 2)") == 37.73
    assert worked("text(100 / 3, 30)") == "33." + "3" * 30
    assert worked("round(1000000 / 3, 30) * 3") == 1_000_000


@pytest.mark.parametrize(
    "numbers",
    [
        [10**33, 0.25, -(10**33)],
        [0.01] * 20_000 + [1e15],
        [10**30 + 1] * 3,
    ],
)
def test_a_sum_is_rounded_once(numbers: list[Any]) -> None:
    exact = sum((Fraction(repr(one)) for one in numbers), Fraction(0))
    assert Fraction(Decimal(worked("text(sum(a.output))", numbers))) == exact


def test_what_is_written_with_more_digits_is_refused_and_never_rounded() -> None:
    with pytest.raises(PathError, match="more than 34 digits"):
        worked("a.output + 1", 10**34 + 1)
    with pytest.raises(PathError, match="more than 34 digits"):
        worked("number('0.12345678901234567890123456789012345')")
    assert worked("a.output + 0", 10**36) == 10**36


@pytest.mark.parametrize("written", ["text(-0.4, 0)", "text(0 - 0.004, 0)", "text(-0.0, 0)"])
def test_nothing_has_no_sign(written: str) -> None:
    assert worked(written) == "0"


@pytest.mark.parametrize("written", ["'Dear ' + text(a.output.name)", "join(['Dear', a.output.name])"])
def test_null_is_no_text(written: str) -> None:
    with pytest.raises(PathError, match="no value that a text could be made of"):
        worked(written, None)
