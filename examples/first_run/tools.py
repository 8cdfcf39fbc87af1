"""The tools of a small coffee shop: SQL over its orders, a file with its targets, a rate service, a logbook.

    replan run --tools examples/first_run/tools.py "What was the revenue of February 2025 in yen?"

Whatever can be computed is computed here, so that a small model only has to say what is needed and from where.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import threading
import urllib.parse
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

from replan import tool

DATA = Path(__file__).parent / "data"

Month = Literal["2025-01", "2025-02", "2025-03"]
Currency = Literal["USD", "GBP", "NOK", "JPY"]


# ── SQL over the data ─────────────────────────────────────────────────────────


def database() -> sqlite3.Connection:
    """The orders as a table, in memory and read-only."""
    db = sqlite3.connect(":memory:")
    with (DATA / "orders.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    db.execute(f"CREATE TABLE orders ({', '.join(header)})")
    db.executemany(f"INSERT INTO orders VALUES ({', '.join('?' * len(header))})", rows)
    db.execute("PRAGMA query_only = ON")
    return db


@dataclass(frozen=True)
class Sales:
    revenue_eur: float


@tool(effect="reads")
def sales(month: Month) -> Sales:
    """The revenue in EUR of a month: its paid orders."""
    query = (
        "SELECT TOTAL(quantity * unit_price_eur) FROM orders WHERE status = 'paid' AND substr(day, 1, 7) = ?"
    )
    with closing(database()) as db:
        [revenue] = db.execute(query, (month,)).fetchone()
    return Sales(round(revenue, 2))


# ── a file ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Target:
    target_eur: float


@tool(effect="reads")
def sales_target(month: Month) -> Target:
    """The revenue in EUR that was planned for a month."""
    for line in (DATA / "targets.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if cells[0] == month:
            return Target(float(cells[1]))
    raise LookupError(f"targets.md has no target for {month}")


# ── HTTP to a service ─────────────────────────────────────────────────────────


class RateService(BaseHTTPRequestHandler):
    """`GET /rate?to=USD` → `{"rate": 1.08, "as_of": "2025-03-31"}`, from data/rates.json."""

    def do_GET(self) -> None:
        known = json.loads((DATA / "rates.json").read_text(encoding="utf-8"))
        wanted = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("to", [""])[0]
        found = wanted in known["rates"]
        answer = {"rate": known["rates"][wanted], "as_of": known["as_of"]} if found else {"error": "unknown"}
        body = json.dumps(answer).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent: stderr shows the plan."""


@cache
def rate_service() -> str:
    """The address of the rate service, started at the first use on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), RateService)
    threading.Thread(target=server.serve_forever, name="rate-service", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


@dataclass(frozen=True)
class Rate:
    rate: float
    as_of: str


@tool(effect="reads", timeout=10)
def exchange_rate(currency: Currency) -> Rate:
    """The exchange rate: how much of a currency one euro buys."""
    # A proxy that the environment names cannot reach this machine's loopback.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{rate_service()}/rate?to={currency}", timeout=5) as reply:
        answer = json.load(reply)
    return Rate(answer["rate"], answer["as_of"])


# ── arithmetic ────────────────────────────────────────────────────────────────


# A text and declared as one: the checks refuse a plan that puts it where a number belongs.
@tool(effect="reads", output_schema={"type": "string", "minLength": 1})
def compare(revenue_eur: float, target_eur: float) -> str:
    """Say how far a revenue lies above or below a target."""
    apart = round(revenue_eur - target_eur, 2)
    return f"{abs(apart):.2f} EUR {'below' if apart < 0 else 'above'} the target"


@tool(effect="reads")
def convert(revenue_eur: float, rate: float) -> float:
    """Convert a revenue in EUR into another currency, with the rate that exchange_rate gives."""
    return round(revenue_eur * rate, 2)


# ── an effect ─────────────────────────────────────────────────────────────────


def logbook() -> Path:
    """Where the shop's logbook is: `SHOP_LOGBOOK`, else `out/logbook.md` under the working directory."""
    return Path(os.environ.get("SHOP_LOGBOOK", "out/logbook.md"))


@dataclass(frozen=True)
class Written:
    file: str


@tool(effect="once")
def write_logbook(text: str) -> Written:
    """Write a line into the shop's logbook."""
    file = logbook()
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as book:
        book.write("- " + " ".join(text.split()) + "\n")
    return Written(file.name)
