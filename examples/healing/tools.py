"""Tools as they are in life: one wants a city by its English name and says so, one is gone for good.

replan run --tools examples/healing/tools.py "How warm does it get in Torino in July?"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from replan import tool

Month = Literal["January", "April", "July", "October"]
Currency = Literal["CHF", "DKK", "GBP", "JPY", "NOK", "SEK", "USD"]


# ── a parameter that is refused: cities are known by their English names ──────

CLIMATE = {
    "Florence": {"January": (61.5, 11.2), "April": (72.4, 19.8), "July": (33.1, 32.6), "October": (104.3, 21.7)},
    "Milan": {"January": (58.2, 6.4), "April": (77.9, 18.3), "July": (66.8, 30.1), "October": (122.6, 18.2)},
    "Naples": {"January": (94.7, 13.1), "April": (68.5, 19.1), "July": (19.3, 30.9), "October": (107.4, 23.4)},
    "Turin": {"January": (44.1, 7.3), "April": (118.4, 18.6), "July": (71.6, 29.4), "October": (98.7, 17.9)},
    "Venice": {"January": (47.3, 6.9), "April": (70.2, 17.4), "July": (67.9, 28.5), "October": (88.1, 18.8)},
}  # fmt: skip


@dataclass(frozen=True)
class Climate:
    rain_mm: float
    high_c: float


@tool(effect="reads")
def climate(city: str, month: Month) -> Climate:
    """The usual rain and the usual warmest temperature of a day, in a city and a month."""
    if city not in CLIMATE:
        raise ValueError(f"city {city!r} is not known; known cities: {', '.join(CLIMATE)}")
    return Climate(*CLIMATE[city][month])


@tool(effect="reads")
def mm_to_inches(mm: float) -> float:
    """Convert millimetres into inches."""
    return round(mm / 25.4, 2)


@tool(effect="reads")
def celsius_to_fahrenheit(celsius: float) -> float:
    """Convert degrees Celsius into degrees Fahrenheit."""
    return round(celsius * 9 / 5 + 32, 1)


# ── a dead tool: its service is gone, and a market tells the rates as well ────

RATES = {"CHF": 0.943, "DKK": 7.461, "GBP": 0.857, "JPY": 163.2, "NOK": 11.735, "SEK": 11.284, "USD": 1.086}


@dataclass(frozen=True)
class Rate:
    rate: float


@tool(effect="reads")
def exchange_rate(currency: Currency) -> Rate:
    """The exchange rate: how much of a currency one euro buys."""
    raise RuntimeError("this service was shut down for good and will not come back")


@tool(effect="reads")
def market_rate(currency: Currency) -> Rate:
    """The rate at the market: how much of a currency one euro buys there."""
    return Rate(RATES[currency])


@tool(effect="reads")
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return round(a * b, 2)
