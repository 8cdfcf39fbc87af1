"""Every tool of the MCP server, by whoever may not call it; and who gets to the server at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import mcp_types as types
import pytest
from access_world import PLAIN, SECS, World, world
from authorization_world import (
    ACME,
    BAD,
    GLOBEX,
    LESSER,
    NOBODYS,
    OWNER,
    VICTIM,
    keys_of,
    standing,
    waiting_task,
)
from mcp import Client
from run_tasks import plan, step

from replan.config import Settings
from replan.config.sections import Server
from replan.core.types import JsonObject
from replan.errors import NotSignedIn
from replan.run.access.callers import SCOPES, Caller, Scope
from replan.server.auth.authenticator import known_callers
from replan.server.auth.credentials import Credentials
from replan.server.auth.staying import Staying
from replan.server.http.app import make_app
from replan.server.mcp.catalogue import OFFERED
from replan.server.mcp.mounted import Mounted
from replan.server.mcp.server import Tools
from replan.server.shared import Shared
from replan.server.streams.hub import Hub

pytestmark = pytest.mark.anyio

NEW: JsonObject = {"task": "do it", "options": {"plan": PLAIN, "evaluation": "steps"}}
ROWS: dict[str, tuple[Scope, JsonObject | None]] = {
    "run_task": ("run", NEW),
    "submit_task": ("run", NEW),
    "preview_task": ("run", NEW),
    "list_tasks": ("read", {}),
    "list_tools": ("read", {}),
    "list_workflows": ("read", {}),
    "list_scenes": ("read", {}),
    "wait_task": ("read", None),
    "get_task": ("read", None),
    "get_result": ("read", None),
    "get_step": ("read", None),
    "get_output": ("read", None),
    "get_events": ("read", None),
    "waiting": ("read", None),
    "approve": ("approve", None),
    "review_plan": ("approve", None),
    "answer": ("approve", None),
    "hint": ("run", None),
    "cancel": ("run", None),
    "pause": ("run", None),
    "resume": ("run", None),
    "retry_step": ("run", None),
    "settle_step": ("approve", None),
    "judge_again": ("run", None),
    "fork_task": ("run", None),
}
"""The scope, and the arguments of those that are about no task that is there."""
MORE: JsonObject = {
    "step_id": "a", "approval_id": "appr_1", "version": 1, "approved": False, "question_id": "q_1", "text": "quick", "happened": True, "wait_secs": 0,
}  # fmt: skip
OTHERS = [Caller("key:bob", GLOBEX, frozenset(LESSER)), Caller("key:boss", GLOBEX, SCOPES)]


class Front(NamedTuple):
    there: World
    here: Shared
    client: Client
    callers: list[Caller]
    """The last of them calls."""

    async def told(self, tool: str, caller: Caller, task_id: str) -> str:
        """What the tool says; `OK` if it does what it is for."""
        self.callers.append(caller)
        fields = OFFERED[tool].takes.model_fields
        given = ROWS[tool][1]
        if given is None:
            named = {"task_id": task_id} if "task_id" in fields else {}
            given = {**{name: value for name, value in MORE.items() if name in fields}, **named}
        result = await self.client.call_tool(tool, given)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        return content.text if result.is_error else "OK"


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with world(tmp_path / "log.db") as there:
        parts, hub = there.replan.service.parts, Hub(there.replan.service)
        known = known_callers(Settings(server=Server(auth="keys")), parts.store, parts.clock)
        assert known is not None
        here = Shared(there.cases, parts, there.replan.settings, hub, known)
        callers: list[Caller] = []

        async def caller_of(ctx: Any) -> Caller:
            return callers[-1]

        await waiting_task(there, VICTIM)
        async with Client(Tools(here, caller_of).server("1.0"), mode="legacy") as client:
            yield Front(there, here, client, callers)
        await hub.aclose()
        await known.aclose()


def test_every_tool_has_a_row_with_its_scope() -> None:
    assert {name: offered.scope for name, offered in OFFERED.items()} == {
        name: scope for name, (scope, _) in ROWS.items()
    }


async def test_without_a_key_that_is_good_nobody_gets_to_the_server(front: Front) -> None:
    app = make_app(front.here)
    Mounted(front.here).mount(app)
    keys = await keys_of(front.there)
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "get_task", "arguments": {"task_id": VICTIM}},
    }
    said = set()
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http:
        for method in ("POST", "GET", "DELETE"):
            for key in BAD:
                headers = {} if key is None else {"authorization": f"Bearer {keys[key]}"}
                answer = await http.request(
                    method,
                    "/mcp",
                    headers={**headers, "mcp-session-id": "x"},
                    json=body if method == "POST" else None,
                )
                assert answer.status_code == 401, (method, key)
                said.add(answer.content)
    assert len(said) == 1


async def test_without_the_scope_a_tool_is_not_offered_and_refuses(front: Front) -> None:
    before = await standing(front.there)
    for tool, (scope, _) in ROWS.items():
        for caller in (
            Caller("key:x", ACME, frozenset(LESSER) - {scope}),
            Caller("key:y", ACME, frozenset()),
        ):
            said = {await front.told(tool, caller, task_id) for task_id in (VICTIM, NOBODYS)}
            assert len(said) == 1, (tool, said)
            assert f"needs the scope {scope!r}" in said.pop(), tool
            assert tool not in {one.name for one in (await front.client.list_tools()).tools}
    assert await standing(front.there) == before


async def test_a_task_of_another_tenant_is_not_there_word_for_word(front: Front) -> None:
    before = await standing(front.there)
    for tool, (_, given) in ROWS.items():
        for caller in OTHERS if given is None else ():
            theirs, none = [await front.told(tool, caller, task_id) for task_id in (VICTIM, NOBODYS)]
            assert theirs.replace(VICTIM, "?") == none.replace(NOBODYS, "?"), tool
            assert "there is no task" in theirs, (tool, theirs)
    for caller in OTHERS:
        front.callers.append(caller)
        for tool in ("list_tasks", "waiting"):
            assert VICTIM not in str(await front.client.call_tool(tool, {}))
    assert await standing(front.there) == before


async def test_whoever_may_call_a_tool_gets_to_it(front: Front) -> None:
    for number, (tool, (scope, given)) in enumerate(ROWS.items()):
        for caller in (
            OWNER._replace(scopes=frozenset({scope})),
            OWNER._replace(scopes=frozenset({"admin"})),
        ):
            own = f"acme:own-{number}-{len(front.callers)}"
            if given is None:
                await waiting_task(front.there, own)
            said = await front.told(tool, caller, own)
            assert "scope" not in said, (tool, said)
            assert "there is no task" not in said, (tool, said)
            assert "do not fit" not in said, (tool, said)


async def test_a_yes_that_comes_after_the_key_was_revoked_is_no_yes(front: Front) -> None:
    caller: list[Caller] = [OWNER]

    async def caller_of(ctx: Any) -> Caller:
        if not caller:
            raise NotSignedIn("revoked")
        return caller[0]

    async def elicit(ctx: Any, params: Any) -> types.ElicitResult:
        caller.clear()
        return types.ElicitResult(action="accept", content={"approve": True})

    server = Tools(front.here, caller_of).server("1.0")
    async with Client(server, mode="legacy", elicitation_callback=elicit) as client:
        result = await client.call_tool("wait_task", {"task_id": VICTIM, "wait_secs": 5})
    assert result.is_error
    assert (await front.there.waits(VICTIM, OWNER)).waiting_for.kind == "approval"


async def test_a_call_that_waits_ends_with_the_key_of_whoever_waits(front: Front) -> None:
    revoked = False

    async def known(credentials: Credentials) -> Caller:
        if revoked:
            raise NotSignedIn("revoked")
        return OWNER

    async def caller_of(ctx: Any) -> Caller:
        return OWNER

    staying = Staying(known, check_secs=0.01)
    server = Tools(front.here, caller_of, lambda _, doing: staying.unless_gone(Credentials(), doing)).server(
        "1.0"
    )
    task_id = (await front.there.submit(plan(step("a", "hold")), OWNER)).task_id
    async with Client(server, mode="legacy") as client:
        waits = asyncio.create_task(client.call_tool("wait_task", {"task_id": task_id, "wait_secs": 60}))
        await front.there.source.entered.wait()
        revoked = True
        async with asyncio.timeout(SECS):
            result = await waits
    assert (result.is_error, "revoked" in str(result.content)) == (True, True)
