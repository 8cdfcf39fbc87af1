"""Whole tasks whose every tool comes from the kit."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from replan import Replan
from replan.tools.kit import load

pytestmark = pytest.mark.anyio

STEPS: list[dict[str, Any]] = [
    {
        "step_id": "due",
        "tool": "add_time",
        "parameters": {"moment": "2026-03-27", "amount": 3, "unit": "weekdays"},
    },
    {"step_id": "read", "tool": "read_file", "parameters": {"path": "orders.json"}},
    {
        "step_id": "cities",
        "tool": "sql_query",
        "parameters": {"statement": "SELECT name, country FROM cities ORDER BY name"},
    },
    {
        "step_id": "sums",
        "tool": "run_python",
        "parameters": {
            "code": "import json\n"
            "country = {row['name']: row['country'] for row in input['cities']}\n"
            "result = {}\n"
            "for order in json.loads(input['orders']):\n"
            "    where = country[order['city']]\n"
            "    result[where] = result.get(where, 0) + order['price']\n",
            "input": {"orders": "${read.output.text}", "cities": "${cities.output.rows}"},
        },
    },
    {
        "step_id": "write",
        "tool": "write_file",
        "parameters": {
            "path": "out/report.md",
            "text": "Due ${due.output.date}: ${sums.output.result}",
        },
    },
    {
        "step_id": "note",
        "tool": "sql_execute",
        "parameters": {
            "statement": "INSERT INTO reports (day, bytes) VALUES (?, ?)",
            "values": ["${due.output.date}", "${write.output.size}"],
        },
    },
]


async def test_files_sql_time_and_python_together(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "orders.json").write_text(
        json.dumps([{"city": "Ulm", "price": 3}, {"city": "Lyon", "price": 4}, {"city": "Ulm", "price": 5}])
    )
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE cities (name TEXT, country TEXT)")
        connection.executemany("INSERT INTO cities VALUES (?, ?)", [("Ulm", "DE"), ("Lyon", "FR")])
        connection.execute("CREATE TABLE reports (day TEXT, bytes INTEGER)")
    connection.close()
    tools = [
        load(f"files={work},write=yes"),
        load(f"sql={tmp_path / 'shop.db'},write=yes"),
        load("time"),
        load("python"),
    ]
    async with Replan(tools=tools, db=tmp_path / "replan.db") as replan:
        result = await replan.run("Report the orders", plan={"steps": STEPS}, evaluation="steps")
    assert result.status == "succeeded", result
    report = (work / "out" / "report.md").read_text()
    assert report.startswith("Due 2026-04-01: ")
    assert json.loads(report.partition(": ")[2]) == {"DE": 8, "FR": 4}
    connection = sqlite3.connect(tmp_path / "shop.db")
    assert connection.execute("SELECT * FROM reports").fetchall() == [("2026-04-01", len(report))]
    connection.close()
