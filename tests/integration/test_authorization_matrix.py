"""Every call over HTTP, by whoever may not make it: without a key, with one that is no longer good, of another tenant, without the scope.

The calls are those of the service's own document: one that has no row here fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from access_world import PLAIN, World, world
from authorization_world import (
    ACME,
    BAD,
    GLOBEX,
    NOBODYS,
    OTHERS,
    OWNER,
    VICTIM,
    keys_of,
    standing,
    waiting_task,
    without,
)
from run_tasks import plan, step

from replan.config import Settings
from replan.config.sections import Server
from replan.core.types import JsonObject
from replan.errors import NotSignedIn
from replan.run.access.callers import Caller, Scope
from replan.server.auth.authenticator import known_callers
from replan.server.auth.credentials import Credentials
from replan.server.http.app import make_app
from replan.server.shared import Shared
from replan.server.streams.hub import Hub

pytestmark = pytest.mark.anyio

SUBMIT: JsonObject = {"task_description": "do it", "options": {"plan": PLAIN, "evaluation": "steps"}}


class Row(NamedTuple):
    """What a call needs, and how it is made."""

    scope: Scope
    body: JsonObject | None = None
    keepers: bool = False
    """For whoever keeps the service itself, and for no tenant."""


ROWS: dict[str, Row] = {
    "submit": Row("run", SUBMIT),
    "tasks": Row("read"),
    "task": Row("read"),
    "result": Row("read"),
    "plans": Row("read"),
    "plan": Row("read"),
    "step": Row("read"),
    "output": Row("read"),
    "artifact": Row("read"),
    "waits": Row("read"),
    "approval": Row("read"),
    "events": Row("read"),
    "waiting": Row("read"),
    "tools": Row("read"),
    "tool_stats": Row("read"),
    "workflows": Row("read"),
    "scenes": Row("read"),
    "cancel": Row("run", {}),
    "pause": Row("run", {}),
    "resume": Row("run", {}),
    "hint": Row("run", {"text": "quick"}),
    "judge": Row("run", {}),
    "fork": Row("run", {"hint": "other"}),
    "signal": Row("run", {"token": "cb_1"}),
    "retry": Row("run", {}),
    "skip": Row("run"),
    "settle": Row("approve", {"happened": True}),
    "approve": Row("approve", {"approved": False}),
    "answer": Row("approve", {"text": "yes"}),
    "review": Row("approve", {"approved": False}),
    "metrics": Row("read", keepers=True),
}
OPEN = {"health", "ready"}
"""For probes: they say nothing of any task."""
PARTS = {"version": "1", "step_id": "a", "artifact_id": "art_1", "approval_id": "appr_1", "question_id": "q_1", "tool_id": "look"}  # fmt: skip


class Call(NamedTuple):
    name: str
    method: str
    path: str

    @property
    def of_a_task(self) -> bool:
        return "{task_id}" in self.path


class Front(NamedTuple):
    """The service, over HTTP."""

    there: World
    http: httpx2.AsyncClient
    calls: dict[str, Call]
    keys: dict[str, str]

    async def make(self, call: str, key: str | None, task_id: str = VICTIM, **more: Any) -> httpx2.Response:
        """The call with a key of that name."""
        wanted = self.calls[call]
        path = wanted.path.format_map({**PARTS, "task_id": task_id})
        headers = {"accept": "application/json", **more.pop("headers", {})}
        if key is not None:
            headers["authorization"] = f"Bearer {self.keys[key]}"
        if ROWS[call].body is not None:
            more.setdefault("json", ROWS[call].body)
        return await self.http.request(wanted.method, path, headers=headers, **more)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    settings = Settings(server=Server(auth="keys", failed_signins=""))
    async with world(tmp_path / "log.db") as there:
        parts = there.replan.service.parts
        hub = Hub(there.replan.service)
        known = known_callers(settings, parts.store, parts.clock)
        assert known is not None
        shared = Shared(there.cases, parts, settings, hub, known)
        app = make_app(shared)
        calls = {
            call["operationId"]: Call(call["operationId"], method.upper(), path)
            for path, methods in app.openapi()["paths"].items()
            for method, call in methods.items()
        }
        keys = await keys_of(there)
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            await waiting_task(there, VICTIM)
            yield Front(there, http, calls, keys)
        await hub.aclose()
        await known.aclose()


async def test_every_call_of_the_document_has_a_row_and_needs_a_key(front: Front) -> None:
    assert front.calls.keys() - OPEN == ROWS.keys()
    document = (await front.http.get("/api/v1/openapi.json")).json()
    for methods in document["paths"].values():
        for call in methods.values():
            assert bool(call.get("security")) == (call["operationId"] not in OPEN), call["operationId"]


async def test_without_a_key_that_is_good_no_call_says_anything_and_all_say_the_same(front: Front) -> None:
    before = await standing(front.there)
    said = set()
    for call in ROWS:
        for key in BAD:
            for task_id in (VICTIM, NOBODYS):
                answer = await front.make(call, key, task_id)
                assert answer.status_code == 401, (call, key)
                assert answer.headers["www-authenticate"] == 'Bearer realm="replan"'
                said.add(answer.content)
    assert len(said) == 1
    assert await standing(front.there) == before


async def test_without_a_key_nobody_is_told_what_of_the_request_does_not_fit(front: Front) -> None:
    for name in ROWS:
        call = front.calls[name]
        path = call.path.format_map({**PARTS, "version": "none", "task_id": "x" * 300})
        body = b'{"' if call.method == "POST" else None
        for headers in ({}, {"content-type": "text/plain"}, {"last-event-id": "x"}):
            answer = await front.http.request(
                call.method, f"{path}?limit=none&after=-1", content=body, headers=headers
            )
            assert answer.status_code == 401, name


async def test_without_the_scope_each_call_is_refused_before_it_is_looked_at(front: Front) -> None:
    before = await standing(front.there)
    for call, row in ROWS.items():
        for key in without(row.scope):
            said = [await front.make(call, key, task_id) for task_id in (VICTIM, NOBODYS)]
            assert [one.status_code for one in said] == [403, 403], (call, key)
            assert said[0].content == said[1].content
            assert row.scope in said[0].json()["detail"]
    assert await standing(front.there) == before


async def test_what_tells_of_all_tenants_is_for_none_of_them(front: Front) -> None:
    for call in (name for name, row in ROWS.items() if row.keepers):
        for key in ("only read", "not run", "admin", "other", "boss of another"):
            assert (await front.make(call, key)).status_code == 403
        assert (await front.make(call, "keeper")).status_code == 200


async def test_a_task_of_another_tenant_is_not_there_word_for_word(front: Front) -> None:
    before = await standing(front.there)
    for name, call in front.calls.items():
        if name in OPEN or not call.of_a_task:
            continue
        for key in OTHERS:
            for headers in ({}, {"accept": "text/event-stream", "last-event-id": "3"}):
                theirs = await front.make(name, key, VICTIM, headers=headers)
                none = await front.make(name, key, NOBODYS, headers=headers)
                assert theirs.status_code == none.status_code == 404, (name, key)
                assert theirs.text.replace(VICTIM, "?") == none.text.replace(NOBODYS, "?")
                assert theirs.headers.keys() == none.headers.keys()
    assert await standing(front.there) == before


async def test_lists_have_nothing_of_another_tenant(front: Front) -> None:
    for call in ("tasks", "waiting"):
        for key in OTHERS:
            for query in ({}, {"tenant": ACME}, {"tenant": ""}, {"session_id": ""}, {"limit": 500}):
                answer = await front.make(call, key, params=query)
                assert VICTIM not in answer.text, (call, key, query)
            answer = await front.make(call, key, params={"cursor": VICTIM})
            assert "do it" not in answer.text
        assert VICTIM in (await front.make(call, "only read")).text
        assert VICTIM in (await front.make(call, "keeper")).text


async def test_what_another_tenant_has_done_is_nothing_to_go_on_from(front: Front) -> None:
    before = await standing(front.there)
    body = {**SUBMIT, "context": {"previous_task_id": VICTIM}}
    none = {**SUBMIT, "context": {"previous_task_id": NOBODYS}}
    theirs, nobodys = [await front.make("submit", "other", json=one) for one in (body, none)]
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.text.replace(VICTIM, "?") == nobodys.text.replace(NOBODYS, "?")
    same = [
        (await front.make("submit", key, json=SUBMIT, headers={"idempotency-key": "k"})).json()["task_id"]
        for key in ("other", "only run", "other")
    ]
    assert same[0] == same[2] != same[1]
    assert await standing(front.there) == before


async def test_an_id_that_another_tenant_has_is_as_free_as_any(front: Front) -> None:
    before = await standing(front.there)
    for task_id in (VICTIM, NOBODYS, VICTIM.removeprefix(f"{ACME}:")):
        made = await front.make("submit", "other", json={**SUBMIT, "task_id": task_id})
        assert made.status_code == 202
        assert made.json()["task_id"] == f"{GLOBEX}:{task_id}"
        forked = await front.make(
            "fork", "other", task_id, json={"task_id": f"fork-of-{task_id}", "hint": "x"}
        )
        assert forked.status_code == 202
    assert await standing(front.there) == before


async def test_whoever_may_make_a_call_gets_to_it(front: Front) -> None:
    """What comes of it may be anything but a refusal: there is no such approval, the task has ended, and so on."""
    for number, (name, row) in enumerate(ROWS.items()):
        for key in ("keeper",) if row.keepers else (f"only {row.scope}", "admin", "keeper"):
            own = f"acme:own-{number}-{key.replace(' ', '-')}"
            if front.calls[name].of_a_task:
                await waiting_task(front.there, own)
            answer = await front.make(name, key, own)
            assert answer.status_code not in (401, 403), (name, key, answer.text)
            assert answer.status_code < 500 or answer.status_code == 501, (name, key, answer.text)
            if answer.status_code == 404:
                assert answer.json()["type"] == "urn:replan:problem:no-such-part", (name, answer.text)


async def test_who_did_it_is_in_the_log(front: Front) -> None:
    assert (await front.make("pause", "only run")).status_code == 200
    assert (await front.make("hint", "admin")).status_code == 200
    made = (await front.make("submit", "only run")).json()["task_id"]
    page = (await front.make("events", "only read")).json()["items"]
    told = {event["type"]: event["data"].get("by") for event in page}
    assert told["pause_requested"] == "key:only run"
    assert "key:admin" in told.values()
    first = (await front.make("events", "only read", made)).json()["items"][0]
    assert first["data"]["by"] == "key:only run"
    assert first["data"]["tenant"] == ACME


async def test_whoever_has_waited_for_a_result_is_asked_again_who_it_is(tmp_path: Path) -> None:
    asked = 0

    async def revoked_after_the_first_look(credentials: Credentials) -> Caller:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise NotSignedIn("revoked")
        return OWNER

    async with world(tmp_path / "log.db") as there:
        hub = Hub(there.replan.service)
        shared = Shared(
            there.cases, there.replan.service.parts, there.replan.settings, hub, revoked_after_the_first_look
        )
        done = await there.submit(PLAIN, OWNER)
        await there.done(done.task_id, OWNER)
        runs = await there.submit(plan(step("a", "hold")), OWNER)
        transport = httpx2.ASGITransport(make_app(shared))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1") as http:
            for task_id, wait, code in (
                (done.task_id, 0, 200), (done.task_id, 1, 401), (runs.task_id, 0, 409), (runs.task_id, 0.01, 401),
            ):  # fmt: skip
                asked = 0
                answer = await http.get(f"/tasks/{task_id}/result", params={"wait": wait})
                assert answer.status_code == code, (task_id, wait)
        there.source.let_go.set()
        await hub.aclose()
