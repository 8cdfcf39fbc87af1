"""Paying at a bank that loses answers, with a verifier: what is in doubt is looked up, never made again blindly.

`python -m examples.payments` starts the bank, and runs a plan with these tools.
"""

from __future__ import annotations

import json
import os
import urllib.parse
import urllib.request
from typing import Any

from replan import ToolContext, tool


def bank(path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["BANK_URL"] + path, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=5) as response:
        return json.load(response)


@tool(effect="reads")
def open_invoices() -> list[dict[str, Any]]:
    """The invoices that are to be paid: to whom, and how many cents."""
    names = ("Ada", "Bo", "Cai", "Dag", "Eva", "Fay", "Gil", "Hal", "Ida", "Jon", "Kay", "Lea")
    return [{"to": name, "cents": 1_000 + number} for number, name in enumerate(names)]


def paid(ctx: ToolContext) -> dict[str, Any] | None:
    """The payment that was made for this very call, if there is one: the bank keeps the call's key as its memo."""
    found = bank("/payments?" + urllib.parse.urlencode({"memo": ctx.key}))["payments"]
    return found[0] if found else None


@tool(effect="once", timeout=5, verify=paid, verify_after_secs=3)
def pay(to: str, cents: int, ctx: ToolContext) -> dict[str, Any]:
    """Pay so many cents to somebody."""
    payment: dict[str, Any] = bank("/payments", {"to": to, "cents": cents, "memo": ctx.key})
    return payment


@tool(effect="reads")
def total(payments: list[dict[str, Any]]) -> int:
    """How many cents the payments come to."""
    return sum(payment["cents"] for payment in payments)
