"""The library: async tools, and an answer that is a Pydantic model instead of a text.

    python examples/typed_answer.py
    python examples/typed_answer.py Lisbon Vienna

It uses the built-in model (`replan model pull` gets it once). In an own program, `Replan(model="openai:…")` or
`Replan(endpoint=…)` names another one.
"""

from __future__ import annotations

import asyncio
import math
import sys
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from replan import Replan, tool

CITIES = {
    "Lisbon": (38.7223, -9.1393),
    "Oslo": (59.9139, 10.7522),
    "Rome": (41.9028, 12.4964),
    "Vienna": (48.2082, 16.3738),
}
EARTH_RADIUS_KM = 6371.0088


@dataclass(frozen=True)
class Place:
    latitude: float
    longitude: float


# The enumeration becomes part of the tool's schema: a plan with another city never runs.
@tool(effect="reads")
async def locate(city: Literal["Lisbon", "Oslo", "Rome", "Vienna"]) -> Place:
    """Where a city lies, in degrees."""
    return Place(*CITIES[city])


@tool(effect="reads")
async def distance_km(latitude_1: float, longitude_1: float, latitude_2: float, longitude_2: float) -> float:
    """The distance in km between two places, as the crow flies."""
    lat_1, lon_1, lat_2, lon_2 = map(math.radians, (latitude_1, longitude_1, latitude_2, longitude_2))
    half = math.sin((lat_2 - lat_1) / 2) ** 2
    half += math.cos(lat_1) * math.cos(lat_2) * math.sin((lon_2 - lon_1) / 2) ** 2
    return round(2 * EARTH_RADIUS_KM * math.asin(math.sqrt(half)), 1)


class Trip(BaseModel):
    """What `result.output` will be; the judge's answer is checked against it."""

    start: str
    end: str
    km: float


async def trip(start: str, end: str, **replan_options: Any) -> Trip:
    """Ask for the distance; `replan_options` go to `Replan` (a model, a database, …)."""
    async with Replan(tools=[locate, distance_km], **replan_options) as replan:
        result = await replan.run(
            f"How many km is it from {start} to {end}, as the crow flies?",
            output_type=Trip,
            timeout=1800,  # the built-in model needs a while on a slow machine
        )
    if not result.succeeded:
        raise SystemExit(f"no answer: {result.failure.reason if result.failure else result.status}")
    answer: Trip = result.output
    return answer


if __name__ == "__main__":
    cities = sys.argv[1:] or ["Rome", "Oslo"]
    if len(cities) != 2 or not set(cities) <= set(CITIES):
        raise SystemExit(f"give two of {', '.join(CITIES)}")
    print(asyncio.run(trip(*cities)).model_dump_json(indent=2))
