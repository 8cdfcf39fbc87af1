"""Over A2A and AG-UI callers have what they have elsewhere: their tenant, their scopes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import service_here

from replan import tool
from replan.server.auth.keys import create_key

pytest.importorskip("a2a.types")
pytest.importorskip("ag_ui.core")
pytestmark = pytest.mark.anyio
KEYS = {"ours": ("acme", ["run", "read"]), "theirs": ("other", ["run", "read"]), "reader": ("acme", ["read"])}


@tool(effect="once", requires_approval=True)
def pay(amount: int) -> dict[str, int]:
    """Pay an amount."""
    return {"paid": amount}


PLAN = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"amount": 3}}]}


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(name: str, **more: Any) -> dict[str, Any]:
    part = {"text": "A task of another agent"}
    return {"message": {"messageId": name, "role": "ROLE_USER", "parts": [part], **more}, "metadata": {"options": {"plan": PLAN}}}  # fmt: skip


async def test_another_tenant_sees_nothing_and_no_scope_is_passed_over(tmp_path: Path) -> None:
    async with service_here(tmp_path, tools=[pay], a2a=True, ag_ui=True, auth="keys") as here:
        store: Any = here.replan.service.parts.store
        keys = {
            name: (await create_key(store.keys(), name=name, tenant=tenant, scopes=scopes, now=time.time()))[
                0
            ]
            for name, (tenant, scopes) in KEYS.items()
        }
        async with httpx2.AsyncClient(base_url=here.url, timeout=30.0, trust_env=False) as http:

            async def ask(who: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
                headers = {"authorization": f"Bearer {keys[who]}", "a2a-version": "1.0"}
                answer = await http.post("/a2a", json=rpc(method, params), headers=headers)
                found: dict[str, Any] = answer.json()
                return found

            made = (await ask("ours", "SendMessage", message("m1")))["result"]["task"]
            assert made["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            for method in ("GetTask", "CancelTask"):
                assert (await ask("theirs", method, {"id": made["id"]}))["error"]["code"] == -32001
            assert (await ask("theirs", "ListTasks", {}))["result"]["tasks"] == []
            into = await ask(
                "theirs", "SendMessage", message("m2", taskId=made["id"])
            )  # whose task it is comes before what is wrong with it
            assert into["error"]["code"] == -32001
            assert (await ask("reader", "GetTask", {"id": made["id"]}))["result"]["id"] == made["id"]
            for method, params in (("CancelTask", {"id": made["id"]}), ("SendMessage", message("m3"))):
                assert "scope 'run'" in (await ask("reader", method, params))["error"]["message"]
            # A yes needs the scope `approve`, whichever protocol it comes over.
            wait = made["status"]["message"]["parts"][1]["data"]["waiting"][0]
            yes = {"approved": True, "hash": wait["hash"]}
            answered = message("m4", taskId=made["id"], parts=[{"data": yes}]) | {"metadata": {}}
            assert "scope 'approve'" in (await ask("ours", "SendMessage", answered))["error"]["message"]
            resume = [{"interruptId": f"{made['id']}/{wait['id']}", "status": "resolved", "payload": yes}]
            run = {"threadId": "t", "runId": "r1", "messages": [], "resume": resume}
            statuses = {}
            for who in ("ours", "theirs"):
                headers = {"authorization": f"Bearer {keys[who]}"}
                statuses[who] = (await http.post("/ag-ui", json=run, headers=headers)).status_code
            assert statuses == {"ours": 403, "theirs": 404}
