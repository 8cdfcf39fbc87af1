"""What the answer has to say, computed from the data by other means than the tools use."""

from __future__ import annotations

import csv
import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parent / "data"
MONTH = "2025-03"

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_CENT = Decimal("0.01")


def answer_from_data(data: Path = DATA, month: str = MONTH) -> dict[str, Decimal]:
    """Revenue, its difference to the target, and the revenue in dollars; to the cent."""
    revenue = Decimal(0)
    with (data / "orders.csv").open(encoding="utf-8", newline="") as file:
        for order in csv.DictReader(file):
            if order["status"] == "paid" and order["day"].startswith(month):
                revenue += int(order["quantity"]) * Decimal(order["unit_price_eur"])
    row = re.search(rf"\| *{month} *\| *([\d.]+) *\|", (data / "targets.md").read_text(encoding="utf-8"))
    if row is None:
        raise LookupError(f"targets.md has no target for {month}")
    rates = json.loads((data / "rates.json").read_text(encoding="utf-8"), parse_float=Decimal)["rates"]
    return {
        "revenue": revenue,
        "difference to the target": abs(revenue - Decimal(row[1])),
        "revenue in US dollars": (revenue * rates["USD"]).quantize(_CENT, ROUND_HALF_UP),
    }


class Checked(NamedTuple):
    name: str
    expected: Decimal
    right: bool

    def __str__(self) -> str:
        verdict = "equals the data" if self.right else "is NOT in the answer, and the data say so"
        return f"{self.name} {self.expected:,.2f}: {verdict}"


def check(answer: object, expected: dict[str, Decimal]) -> list[Checked]:
    """Whether each expected value stands among the numbers of the answer."""
    said = numbers(str(answer))
    return [Checked(name, value, value in said) for name, value in expected.items()]


def numbers(text: str) -> set[Decimal]:
    """Every number in a text, without its sign; `1,234.50` and `1234.5` are one."""
    return {Decimal(found.replace(",", "")) for found in _NUMBER.findall(text)}
