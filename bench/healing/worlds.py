"""The tools of the measure: four sets of which one tool refuses what people say, four of which one is gone for good.

Every tool only reads and gives the same for the same, so that an answer is right or wrong. The first set of each is
that of `examples/healing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from examples.healing.tools import (
    celsius_to_fahrenheit,
    climate,
    exchange_rate,
    market_rate,
    mm_to_inches,
    multiply,
)

from replan import tool

# ── parcels: units by their short names ───────────────────────────────────────

PARCELS = {
    "P-118": (7.25, "Ghent"),
    "P-204": (13.6, "Aarhus"),
    "P-311": (2.48, "Graz"),
    "P-407": (21.9, "Porto"),
}
IN_KG = {"g": 0.001, "lb": 0.45359237, "oz": 0.028349523125, "st": 6.35029318}


@dataclass(frozen=True)
class Parcel:
    kg: float
    destination: str


@tool(effect="reads")
def parcel(number: str) -> Parcel:
    """The weight and the destination of a parcel."""
    return Parcel(*PARCELS[number])


@tool(effect="reads")
def convert_weight(kg: float, unit: str) -> float:
    """Convert a weight in kg into another unit."""
    if unit not in IN_KG:
        raise ValueError(f"unit {unit!r} is not supported; supported units: {', '.join(IN_KG)}")
    return round(kg / IN_KG[unit], 2)


@tool(effect="reads")
def delivery_days(destination: str) -> int:
    """How many days a parcel takes to a town."""
    return 2 + len(destination) % 4


# ── daylight: days as YYYY-MM-DD ──────────────────────────────────────────────

LATITUDES = {"Bergen": 60.39, "Lisbon": 38.72, "Oslo": 59.91, "Rome": 41.9, "Vienna": 48.21}


@dataclass(frozen=True)
class Daylight:
    minutes: int


@tool(effect="reads")
def daylight(place: str, day: str) -> Daylight:
    """How many minutes of daylight a place has on a day."""
    try:
        number = date.fromisoformat(day).timetuple().tm_yday
    except ValueError:
        raise ValueError(f"day {day!r} is not valid; it has to look like 2024-12-31") from None
    tilt = math.radians(-23.44) * math.cos(2 * math.pi * (number + 10) / 365)
    half = math.acos(-math.tan(math.radians(LATITUDES[place])) * math.tan(tilt))
    return Daylight(round(24 * 60 * half / math.pi))


@tool(effect="reads")
def minutes_to_hours(minutes: float) -> float:
    """Convert minutes into hours."""
    return round(minutes / 60, 2)


@tool(effect="reads")
def time_zone(place: str) -> str:
    """The time zone of a place."""
    return "WET" if place == "Lisbon" else "CET"


# ── branches: by their codes ──────────────────────────────────────────────────

STOCK = {
    "BER": {"kettle": 41, "toaster": 17},
    "HAM": {"kettle": 26, "toaster": 58},
    "MUC": {"kettle": 73, "toaster": 9},
}
PRICES = {"kettle": 34.9, "toaster": 51.5}


@dataclass(frozen=True)
class Stock:
    pieces: int


@tool(effect="reads")
def stock(branch: str, article: Literal["kettle", "toaster"]) -> Stock:
    """How many pieces of an article a branch has in stock."""
    if branch not in STOCK:
        raise ValueError(
            f"unknown branch {branch!r}; the branches are BER (Berlin), HAM (Hamburg), MUC (Munich)"
        )
    return Stock(STOCK[branch][article])


@tool(effect="reads")
def price(article: Literal["kettle", "toaster"]) -> float:
    """The price in EUR of one piece of an article."""
    return PRICES[article]


# ── the sea: tide tables are gone, forecasts are there ────────────────────────

TIDES = {"Brest": 6.85, "Dover": 6.41, "Emden": 3.27, "Galway": 4.93}
DRAUGHTS = {"Albatross": 4.6, "Petrel": 2.9}


@dataclass(frozen=True)
class Tide:
    high_water_m: float


@tool(effect="reads")
def tide_table(harbour: str) -> Tide:
    """The high water of a harbour today, from the tide table."""
    raise RuntimeError("the tide table service was discontinued last year; it will not come back")


@tool(effect="reads")
def tide_forecast(harbour: str) -> Tide:
    """The high water of a harbour today, as forecast from measurements."""
    return Tide(TIDES[harbour])


@tool(effect="reads")
def draught(ship: str) -> float:
    """How many metres a ship reaches below the water."""
    return DRAUGHTS[ship]


@tool(effect="reads")
def subtract(a: float, b: float) -> float:
    """Subtract b from a."""
    return round(a - b, 2)


# ── the land: a map service is gone, another one calls the place otherwise ────

HEIGHTS = {"Ben Nevis": 1345, "Snowdon": 1085, "Säntis": 2502, "Zugspitze": 2962}


@dataclass(frozen=True)
class Height:
    metres: int


@tool(effect="reads")
def elevation(place: str) -> Height:
    """The height of a place above the sea in metres."""
    raise RuntimeError("410 Gone: the elevation service has been shut down permanently")


@tool(effect="reads")
def terrain_height(location: str) -> Height:
    """The height in metres of the terrain at a location, from satellites."""
    return Height(HEIGHTS[location])


@tool(effect="reads")
def metres_to_feet(metres: float) -> float:
    """Convert metres into feet."""
    return round(metres / 0.3048, 1)


# ── words: the translator is gone, a dictionary is there ──────────────────────

WORDS = {
    ("lighthouse", "German"): "Leuchtturm",
    ("lighthouse", "Spanish"): "faro",
    ("bridge", "German"): "Brücke",
    ("bridge", "Spanish"): "puente",
    ("bridge", "Italian"): "ponte",
}


@dataclass(frozen=True)
class Translation:
    translation: str


@tool(effect="reads")
def translate(word: str, language: str) -> Translation:
    """Translate an English word into another language."""
    raise RuntimeError("the translator was switched off for ever, it will not be back")


@tool(effect="reads")
def dictionary(word: str, language: str) -> Translation:
    """Look an English word up in the dictionary of another language."""
    return Translation(WORDS[word, language])


@tool(effect="reads")
def count_letters(text: str) -> int:
    """How many letters a text has."""
    return sum(letter.isalpha() for letter in text)


WORLDS: dict[str, list[Callable[..., Any]]] = {
    "climate": [climate, mm_to_inches, celsius_to_fahrenheit],
    "parcels": [parcel, convert_weight, delivery_days],
    "daylight": [daylight, minutes_to_hours, time_zone],
    "branches": [stock, price, multiply],
    "rates": [exchange_rate, market_rate, multiply],
    "sea": [tide_table, tide_forecast, draught, subtract],
    "land": [elevation, terrain_height, metres_to_feet],
    "words": [translate, dictionary, count_letters],
}
