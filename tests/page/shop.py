"""A little shop: its tools, and tasks of them that run, wait, recover and fail. `Gate` holds calls up until a test lets them go."""

from __future__ import annotations

import asyncio
from typing import Any

from replan import tool
from replan.testing import ScriptedModel

ORDERS = [
    {"order": number, "customer": name, "late": number % 2 == 0}
    for number, name in enumerate(("Rossi", "Weber", "Chen", "Silva"), 4711)
]


class Gate:
    """Calls of `slow` wait here. It belongs to the loop of the service."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def let_go(self) -> None:
        self.open.set()


def tools(gate: Gate) -> list[Any]:
    tries: dict[str, int] = {}

    @tool(effect="reads")
    async def read_orders(shop: str = "main") -> list[dict[str, Any]]:
        """Read the open orders."""
        return ORDERS

    @tool(effect="reads")
    async def check_stock(order: int) -> dict[str, Any]:
        """See whether an order can be filled."""
        return {"order": order, "there": order != 4713}

    @tool(effect="reads")
    async def rates(source: str) -> dict[str, float]:
        """Get exchange rates."""
        if source == "old":
            raise ConnectionError("HTTP 503 from rates.example")
        return {"CHF": 1.06, "USD": 0.92}

    @tool(effect="reads")
    async def flaky(name: str) -> str:
        """Answers the second time."""
        tries[name] = tries.get(name, 0) + 1
        if tries[name] == 1:
            raise ConnectionError("the line was cut")
        return f"{name} is there"

    @tool(effect="reads")
    async def slow(name: str) -> str:
        """Takes its time."""
        await gate.open.wait()
        return f"{name} at last"

    @tool(effect="once")
    async def send_mail(to: str, subject: str, body: str) -> dict[str, str]:
        """Send a letter."""
        return {"sent": to}

    @tool(effect="reads")
    async def large(size: int) -> list[dict[str, Any]]:
        """Gives much."""
        return [{"row": row, "text": "x" * 80} for row in range(size)]

    return [read_orders, check_stock, rates, flaky, slow, send_mail, large]


def step(step_id: str, name: str, tool_id: str, *needs: str, **more: Any) -> dict[str, Any]:
    parameters = more.pop("parameters", {})
    return {
        "step_id": step_id,
        "name": name,
        "tool": tool_id,
        "parameters": parameters,
        "dependencies": list(needs),
        **more,
    }


LETTER = {
    "to": "a.rossi@example.org",
    "subject": "Your order is late",
    "body": "Dear Ms Rossi, your order 4711 will arrive on Friday.",
}

GOOD = {"steps": [
    step("orders", "Read open orders", "read_orders"),
    step("stock", "Check stock per order", "check_stock", "orders", for_each="${orders}", parameters={"order": "${item.order}"}),
    step("again", "Ask the warehouse", "flaky", parameters={"name": "warehouse"}),
    step("much", "Read all rows", "large", "again", parameters={"size": 60}),
]}  # fmt: skip
WAITS = {"steps": [
    step("orders", "Read open orders", "read_orders"),
    step("mail", "Send 3 letters", "send_mail", "orders", parameters=LETTER),
    step("report", "Write the report", "flaky", "mail", parameters={"name": "report"}),
]}  # fmt: skip
GOES = {"steps": [
    step("orders", "Read open orders", "read_orders"),
    step("hold", "Wait for the bank", "slow", "orders", parameters={"name": "bank"}),
    step("after", "Close the books", "flaky", "hold", parameters={"name": "books"}),
]}  # fmt: skip
BAD = {"steps": [
    step("orders", "Read open orders", "read_orders"),
    step("rates", "Get exchange rates", "rates", parameters={"source": "old"}),
    step("euros", "Convert to euros", "flaky", "rates", "orders", parameters={"name": "euros"}),
    step("mail", "Send the letters", "send_mail", "euros", parameters=LETTER),
]}  # fmt: skip
HOSTILE = "<img src=x onerror=alert(1)> \u202eevil\u202c <script>alert(2)</script>"


def model() -> ScriptedModel:
    """Thinks about what has failed, and finds nothing better; a task without a plan gets one that works at the second try."""
    mended = {
        "root_cause_category": "external_error", "root_cause": "The source of the rates is out of reach.", "is_recoverable": True,
        "confidence": 0.8, "suggested_action": {"type": "retry_with_params", "data": {"source": "bank"}},
    }  # fmt: skip
    return ScriptedModel(
        {
            "execution_plan": {"reasoning": "Rates first, then the letter.", "steps": BAD["steps"][:3]},
            "step_reflection": mended,
            "evaluation": {
                "overall_score": 95, "is_successful": True, "final_output": "Two customers wait for late orders.",
                "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90},
                "successes": ["the orders were read"], "failures": [],
            },
            "overall_reflection": {
                "problem_nature": "external", "should_replan": False, "reflection_text": "No other source is known.",
                "root_causes": ["the rates are out of reach"],
            },
        }
    )  # fmt: skip
