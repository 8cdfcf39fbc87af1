"""The tools over HTTP: each with how it has done, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import service_here

from replan import tool

pytestmark = pytest.mark.anyio


@tool(effect="reads")
async def look(name: str) -> str:
    """Look something up."""
    return name


@tool(effect="reads")
async def unused() -> str:
    """Nobody calls it."""
    return ""


async def test_tools_come_with_how_each_has_done_where_that_is_asked_for(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[look, unused]) as here,
        httpx2.AsyncClient(base_url=f"{here.url}/api/v1") as client,
    ):
        step = {"step_id": "a", "name": "Look", "tool": "look", "parameters": {"name": "x"}}
        made = await client.post(
            "/tasks", json={"task_description": "look", "options": {"plan": {"steps": [step]}}}
        )
        task_id = made.json()["task_id"]
        assert (await client.get(f"/tasks/{task_id}/result?wait=20")).json()["is_success"]
        plain = (await client.get("/tools")).json()
        assert all("stats" not in one for one in plain)
        found: dict[str, Any] = {one["id"]: one for one in (await client.get("/tools?stats=true")).json()}
        assert {name: one["stats"]["calls"] for name, one in found.items() if name in ("look", "unused")} == {
            "look": 1,
            "unused": 0,
        }
        for name in ("look", "unused"):
            assert found[name]["stats"] == (await client.get(f"/tools/{name}/stats")).json()
            assert found[name]["stats"]["tool_id"] == name
        assert (await client.get("/tools?stats=perhaps")).status_code == 422
