"""Tools of another team, which the example serves over gRPC: gauges go by their English names, and say so.

replan run --tools examples/connected/tools.py "How high does the Rhine stand in Colonia?"
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from replan import tool

LEVELS = {"Basel": 541.0, "Strasbourg": 302.0, "Mainz": 248.0, "Cologne": 356.0, "Rotterdam": 117.0}
"""In centimetres."""
NOTES = Path(os.environ.get("RHINE_NOTES", "notes.jsonl"))


@dataclass(frozen=True)
class Level:
    station: str
    cm: float


@tool(effect="reads")
def water_level(station: str) -> Level:
    """How high the Rhine stands at a gauge, in centimetres."""
    if station not in LEVELS:
        raise ValueError(f"station {station!r} is not known; known stations: {', '.join(LEVELS)}")
    return Level(station, LEVELS[station])


@tool(effect="reads")
def cm_to_feet(cm: float) -> float:
    """Convert centimetres into feet."""
    return round(cm / 30.48, 2)


@tool(effect="once")
def send_note(to: str, text: str) -> dict[str, str]:
    """Send somebody a note."""
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(json.dumps({"to": to, "text": text}) + "\n")
    return {"sent": text}
