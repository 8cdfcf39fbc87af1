"""What is shown over the protocols of agents to whoever may act on tasks and not read them; and MCP requests that share an id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from access_world import Held
from service_here import Here, service_here
from service_process import plan, step

from replan.ports import HasKeys
from replan.run.access.callers import Scope
from replan.server.auth.keys import create_key
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio
ASKED = plan(step("p", "pay") | {"requires_approval": True}, step("o", "look", "p"))
KEEN = {"accept": "application/json, text/event-stream"}


def source() -> Held:
    return Held({"look": FakeTool(output="confidential-77"), "pay": FakeTool(output="paid", effect="once")})


async def key_of(here: Here, *scopes: Scope) -> dict[str, str]:
    store = here.replan.service.parts.store
    assert isinstance(store, HasKeys)
    name = "-".join(scopes)
    text, _ = await create_key(store.keys(), name=name, tenant="t", scopes=frozenset(scopes), now=1.0)
    return {"authorization": f"Bearer {text}", **KEEN}


def rpc(method: str, number: Any, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def run_of(**more: Any) -> dict[str, Any]:
    return {
        "threadId": "x",
        "runId": "r",
        "state": {},
        "messages": [],
        "tools": [],
        "context": [],
        "forwardedProps": {},
        **more,
    }


async def test_a_yes_of_whoever_may_not_read_is_taken_and_no_result_is_shown_for_it(tmp_path: Path) -> None:
    async with (
        service_here(tmp_path, tools=[source()], auth="keys", a2a=True, ag_ui=True) as here,
        httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http,
    ):
        boss, approver = await key_of(here, "admin"), await key_of(here, "approve")
        assert (
            await http.post("/api/v1/tasks", json={**ASKED, "task_id": "q"}, headers=boss)
        ).status_code == 202
        await http.get("/api/v1/tasks/q/result", params={"wait": 20}, headers=boss)
        (waits,) = (await http.get("/api/v1/tasks/q/waiting", headers=boss)).json()
        yes = {"approved": True, "hash": waits["hash"]}
        entry = {"interruptId": f"q/{waits['waiting_for']['id']}", "status": "resolved", "payload": yes}
        run = await http.post("/ag-ui", json=run_of(resume=[entry]), headers=approver)
        assert (run.status_code, run.json()["type"].rpartition(":")[2]) == (403, "not-allowed")
        part = {"kind": "data", "data": yes}
        sent = {"kind": "message", "role": "user", "messageId": "m", "taskId": "q", "parts": [part]}
        streamed = await http.post("/a2a", json=rpc("message/stream", 1, message=sent), headers=approver)
        assert "needs the scope 'read'" in streamed.text
        assert len((await http.get("/api/v1/tasks/q/waiting", headers=boss)).json()) == 1
        answer = await http.post("/a2a", json=rpc("message/send", 1, message=sent), headers=approver)
        assert answer.json()["result"]["status"]["state"] == "completed", answer.text
        assert "confidential-77" not in answer.text
        read = await http.post("/a2a", json=rpc("tasks/get", 1, id="q"), headers=boss)
        assert "confidential-77" in read.text


async def test_of_mcp_requests_with_one_id_the_later_is_refused_and_begins_nothing(tmp_path: Path) -> None:
    tools = source()
    async with (
        service_here(tmp_path, tools=[tools]) as here,
        httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False, headers=KEEN) as http,
    ):
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = await http.post("/mcp", json=rpc("initialize", 0, **hello))
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        given = {"task": "t", "options": plan(step("h", "hold"))["options"]}
        call = rpc("tools/call", 1, name="run_task", arguments=given)
        first = asyncio.create_task(http.post("/mcp", json=call, headers=session))
        await tools.entered.wait()
        second = await http.post("/mcp", json={**call, "id": "1"}, headers=session)
        assert (second.status_code, second.json()["id"]) == (400, "1")
        assert "give each request an id of its own" in second.json()["error"]["message"]
        tools.let_go.set()
        assert '"result"' in (await first).text
        assert len(await here.replan.tasks()) == 1
        again = rpc("tools/call", 1, name="list_tasks", arguments={})
        assert '"result"' in (await http.post("/mcp", json=again, headers=session)).text


async def test_a_run_whose_key_is_revoked_says_so(tmp_path: Path) -> None:
    tools = source()
    async with (
        service_here(tmp_path, tools=[tools], auth="keys", ag_ui=True) as here,
        httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http,
    ):
        caller = await key_of(here, "run", "read")
        assert (await http.get("/api/v1/tasks", params={"session_id": ""}, headers=caller)).status_code == 422
        words = {"id": "1", "role": "user", "content": "do it"}
        asked = run_of(messages=[words], forwardedProps=plan(step("h", "hold")))
        run = asyncio.create_task(http.post("/ag-ui", json=asked, headers=caller))
        await tools.entered.wait()
        store = here.replan.service.parts.store
        assert isinstance(store, HasKeys)
        (key,) = await store.keys().list_keys()
        await store.keys().revoke_key(key.key_id, 2.0)
        told = (await run).text
        tools.let_go.set()
    assert "not-signed-in" in told
    assert "about to end" not in told
