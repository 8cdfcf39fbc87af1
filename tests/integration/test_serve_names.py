"""By which names the service is called, for which pages, and how many sessions of MCP one caller opens at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import SECS, service_here

from replan.server.mcp.sessions import IDLE_SECS, MOST_EACH, Sessions

pytestmark = pytest.mark.anyio
OWN, PAGE = "replan.example", "https://app.example"
BEGIN = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip
ACCEPT = {"accept": "application/json, text/event-stream"}


def client(url: str) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=None)
    return httpx2.AsyncClient(base_url=url, trust_env=False, timeout=SECS, limits=limits)


@pytest.mark.parametrize(
    ("auth", "path", "status"),
    [
        ("keys", "/health", 200),
        ("keys", "/api/v1/health", 200),
        ("keys", "/ready", 200),
        ("keys", "/api/v1/ready", 200),
        ("keys", "/metrics", 421),
        ("keys", "/api/v1/tasks", 421),
        ("off", "/health", 200),
        ("off", "/ready", 421),
        ("off", "/mcp", 421),
    ],
)
async def test_probes_that_know_its_address_alone_are_answered(
    tmp_path: Path, auth: str, path: str, status: int
) -> None:
    async with service_here(tmp_path, auth=auth, allowed_hosts=(OWN,)) as here, client(here.url) as http:
        assert (await http.get(path)).status_code == status


async def test_mcp_is_called_by_the_names_and_for_the_pages_of_the_service(tmp_path: Path) -> None:
    async def begun(http: httpx2.AsyncClient, **headers: str) -> Any:
        return await http.post("/mcp", json=BEGIN, headers={**ACCEPT, **headers})

    async with (
        service_here(tmp_path, allowed_hosts=(OWN, "127.0.0.1"), cors_origins=(PAGE,)) as here,
        client(here.url) as http,
    ):
        assert (await begun(http, host=OWN)).status_code == 200
        assert (await begun(http, host="evil.example")).json()["type"] == "urn:replan:problem:wrong-host"
        page = await begun(http, origin=PAGE)
        assert page.status_code == 200
        assert "Mcp-Session-Id" in page.headers["access-control-expose-headers"]
        other = await begun(http, origin="https://evil.example")
        assert other.json()["type"] == "urn:replan:problem:wrong-origin"
        asked = {
            "access-control-request-method": "DELETE",
            "access-control-request-headers": "mcp-session-id",
        }
        assert (await http.options("/mcp", headers={"origin": PAGE, **asked})).status_code == 200


async def test_of_many_sessions_at_once_no_more_are_opened_than_there_is_room_for(tmp_path: Path) -> None:
    async with service_here(tmp_path) as here, client(here.url) as http:
        came = await asyncio.gather(
            *(http.post("/mcp", json=BEGIN, headers=ACCEPT) for _ in range(MOST_EACH + 30))
        )
    assert Counter(one.status_code for one in came) == {200: MOST_EACH, 429: 30}


async def test_callers_whose_sessions_are_closed_are_forgotten() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    for number in range(5_000):
        now += IDLE_SECS / 100
        sessions.used(f"caller {number}", "s")
    assert len(sessions) <= 1_000
