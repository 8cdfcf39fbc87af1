"""The pictures of the page in the README: `python tests/page/pictures.py docs` draws them anew, of a task that runs for them."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from page_world import Served, served
from playwright.sync_api import sync_playwright

from conftest import CHROMIUM, FLAGS
from replan import tool
from replan.testing import ScriptedModel

WIDE, HIGH = 1360, 820


def tools() -> list[Any]:
    @tool(effect="reads")
    async def read_table(name: str) -> list[dict[str, Any]]:
        """Read a table."""
        await asyncio.sleep(0.5 if name == "orders" else 0.8)
        return [{"order": 4711 + number, "late": number % 3 == 0} for number in range(24)]

    @tool(effect="reads")
    async def http_get(url: str) -> dict[str, Any]:
        """Get a page."""
        await asyncio.sleep(0.4)
        raise ConnectionError("HTTP 503 from rates.example")

    @tool(effect="reads")
    async def ecb_rates(day: str = "today") -> dict[str, float]:
        """Rates of the European Central Bank."""
        await asyncio.sleep(0.6)
        return {"CHF": 1.06}

    @tool(effect="reads")
    async def check_stock(order: int) -> dict[str, Any]:
        """See whether an order can be filled."""
        await asyncio.sleep(0.15)
        return {"order": order, "there": order % 5 != 0}

    @tool(effect="reads")
    async def filter_rows(what: str) -> list[int]:
        """Rows that fit."""
        await asyncio.sleep(0.3)
        return [4711, 4714, 4717]

    @tool(effect="reads")
    async def convert(currency: str) -> list[float]:
        """Amounts in another currency."""
        await asyncio.sleep(0.5)
        return [11.0, 12.5]

    @tool(effect="reads")
    async def write_letter(about: str) -> str:
        """Write a letter."""
        await asyncio.sleep(0.9)
        return "Dear Ms Rossi, your order 4711 will arrive on Friday."

    @tool(effect="reads")
    async def write_report(title: str) -> str:
        """Write a report."""
        await asyncio.sleep(60)
        return title

    @tool(effect="once")
    async def send_mail(to: list[str], subject: str, body: str) -> str:
        """Send a letter."""
        return "sent"

    return [
        read_table,
        http_get,
        ecb_rates,
        check_stock,
        filter_rows,
        convert,
        write_letter,
        write_report,
        send_mail,
    ]


def step(step_id: str, name: str, tool_id: str, needs: str = "", **more: Any) -> dict[str, Any]:
    parameters = more.pop("parameters", {})
    return {
        "step_id": step_id,
        "name": name,
        "tool": tool_id,
        "parameters": parameters,
        "dependencies": needs.split(),
        **more,
    }


LETTER = {
    "to": ["a.rossi@example.org", "m.weber@example.org", "l.chen@example.org"],
    "subject": "Your order is late", "body": "${letters}",
}  # fmt: skip
STEPS = [
    step("stock", "Read stock", "read_table", parameters={"name": "stock"}),
    step("orders", "Read open orders", "read_table", parameters={"name": "orders"}),
    step("rates", "Get exchange rates", "http_get", parameters={"url": "https://rates.example/eur"}),
    step("open", "Drop cancelled orders", "filter_rows", "orders", parameters={"what": "not cancelled"}),
    step(
        "check",
        "Check stock per order",
        "check_stock",
        "stock open",
        for_each="${orders}",
        parameters={"order": "${item.order}"},
    ),
    step("euros", "Convert to euros", "convert", "rates open", parameters={"currency": "EUR"}),
    step("short", "Find short orders", "filter_rows", "check", parameters={"what": "short"}),
    step("late", "Find late orders", "filter_rows", "euros", parameters={"what": "late"}),
    step("who", "Look up customers", "filter_rows", "short late", parameters={"what": "customers"}),
    step("letters", "Write the letters", "write_letter", "who", parameters={"about": "late orders"}),
    step("mail", "Send 3 letters", "send_mail", "letters", parameters=LETTER),
    step("report", "Write the report", "write_report", "who", parameters={"title": "Late orders"}),
]


def model() -> ScriptedModel:
    other = {
        "root_cause_category": "external_error", "root_cause": "The page of the rates is down; the bank publishes them too.",
        "is_recoverable": True, "confidence": 0.9, "suggested_action": {"type": "retry_with_tool", "data": {"tool_id": "ecb_rates", "parameters": {}}},
    }  # fmt: skip
    return ScriptedModel({
        "tool_selection": {"tools": [{"tool_id": name, "score": 95} for name in sorted({one["tool"] for one in STEPS} | {"ecb_rates"})]},
        "execution_plan": {"reasoning": "Orders, stock and rates side by side; then who is late, and a letter to each.", "steps": STEPS},
        "step_reflection": other,
    })  # fmt: skip


def drawn(found: Served, page: Any, folder: Path) -> None:
    text = "Write to the customers whose orders are late or short"
    task_id = found.do(found.replan.submit(text))
    page.goto(f"{found.url}/#/task/{task_id}")
    page.locator("form.ask").wait_for(timeout=60_000)
    page.wait_for_timeout(800)
    page.screenshot(path=folder / "page_approve.png")
    page.get_by_label("Colours").select_option("dark")
    page.goto(f"{found.url}/#/task/{task_id}?step=rates")
    page.wait_for_timeout(800)
    page.screenshot(path=folder / "page_step.png")
    found.do(found.replan.cancel(task_id))


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as kept, sync_playwright() as driver:
        how: dict[str, Any] = {
            "tools": tools(),
            "model": model(),
            "approval": "destructive",
            "interactive": True,
        }
        with served(Path(kept), **how) as found:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = browser.new_page(viewport={"width": WIDE, "height": HIGH}, locale="en-GB")
            drawn(found, page, folder)
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
