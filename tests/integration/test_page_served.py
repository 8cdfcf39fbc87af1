"""The page as it is served: its files, its policy, and the cookie that a key is exchanged for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from service_here import Here, service_here

from replan.ports import HasKeys
from replan.server.auth.cookie import COOKIE
from replan.server.auth.keys import create_key

pytestmark = pytest.mark.anyio
OWN = {"X-Replan-Page": "1"}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with service_here(tmp_path) as found:
        yield found


@pytest.fixture
async def asking(tmp_path: Path) -> AsyncIterator[Here]:
    async with service_here(tmp_path, auth="keys") as found:
        yield found


async def key_of(here: Here, *scopes: str, tenant: str = "acme") -> tuple[str, str]:
    store = here.replan.service.parts.store
    assert isinstance(store, HasKeys)
    text, stored = await create_key(
        store.keys(), name="desk", tenant=tenant, scopes=scopes, now=here.replan.service.parts.clock.now()
    )
    return text, stored.key_id


async def test_the_page_may_load_nothing_but_its_own_files(here: Here) -> None:
    async with httpx2.AsyncClient(base_url=here.url) as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["x-content-type-options"] == "nosniff"
        names = json.loads(page.text.partition('<script type="importmap">')[2].partition("</script>")[0])[
            "imports"
        ]
        for address in names.values():
            file = await client.get(address)
            assert file.status_code == 200
            assert file.headers["content-type"].startswith("text/javascript")
            assert "immutable" in file.headers["cache-control"]


@pytest.mark.parametrize(
    "path",
    [
        "/page/other/js/main.js",
        "/page/{digest}/../../pyproject.toml",
        "/page/{digest}/index.html",
        "/page/{digest}/js/none.js",
    ],
)
async def test_what_is_no_file_of_the_page_is_not_there(here: Here, path: str) -> None:
    from replan.page.assets import assets

    async with httpx2.AsyncClient(base_url=here.url) as client:
        answer = await client.get(path.format(digest=assets().digest))
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_where_nobody_is_asked_there_is_nothing_to_sign_in_to(here: Here) -> None:
    async with httpx2.AsyncClient(base_url=here.url) as client:
        found = (await client.get("/page/session")).json()
    assert found["asked"] is False
    assert found["scopes"] == ["admin", "approve", "read", "run"]


async def signed_in(client: httpx2.AsyncClient, key: str) -> httpx2.Response:
    return await client.post("/page/session", json={"key": key}, headers=OWN)


async def test_a_key_is_given_once_for_a_cookie_that_no_script_reads(asking: Here) -> None:
    key, _ = await key_of(asking, "read", "run")
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        assert (await client.get("/")).status_code == 200  # the page itself says nothing of anybody
        assert (await client.get("/api/v1/tasks")).status_code == 401
        answer = await signed_in(client, key)
        assert answer.status_code == 200
        assert answer.json() | {"version": ""} == {
            "by": "key:desk", "tenant": "acme", "scopes": ["read", "run"], "asked": True, "mode": "user", "version": "",
        }  # fmt: skip
        cookie = answer.headers["set-cookie"]
        assert cookie == f"{COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict"
        assert (await client.get("/api/v1/tasks")).status_code == 200


async def test_the_cookie_of_a_key_that_was_revoked_is_none(asking: Here) -> None:
    key, key_id = await key_of(asking, "read")
    store: Any = asking.replan.service.parts.store
    await store.keys().revoke_key(key_id, asking.replan.service.parts.clock.now())
    async with httpx2.AsyncClient(base_url=asking.url, cookies={COOKIE: key}) as client:
        assert (await client.get("/api/v1/tasks")).status_code == 401
        assert (await signed_in(client, key)).status_code == 401


async def test_what_changes_something_needs_the_page_s_own_header_beside_the_cookie(asking: Here) -> None:
    key, _ = await key_of(asking, "read", "run")
    task = {"task_description": "x", "options": {"plan": {"steps": []}}}
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        await signed_in(client, key)
        refused = await client.post("/api/v1/tasks", json=task)
        assert refused.status_code == 403
        assert refused.json()["type"].endswith("wrong-origin")
        taken = await client.post("/api/v1/tasks", json=task, headers=OWN)
        assert taken.status_code != 403
        assert taken.status_code != 401


async def test_a_cookie_gives_no_scope_that_its_key_has_not(asking: Here) -> None:
    key, _ = await key_of(asking, "read")
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        await signed_in(client, key)
        answer = await client.post("/api/v1/tasks", json={"task_description": "x"}, headers=OWN)
        assert answer.status_code == 403
        assert answer.json()["type"].endswith("not-allowed")


async def test_a_header_counts_before_the_cookie(asking: Here) -> None:
    key, _ = await key_of(asking, "read")
    async with httpx2.AsyncClient(base_url=asking.url, cookies={COOKIE: key}) as client:
        assert (await client.get("/api/v1/tasks")).status_code == 200
        assert (await client.get("/api/v1/tasks", headers={"X-API-Key": "rpk_no"})).status_code == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"key": "rpk_0123456789abcdef_" + "0" * 64}, OWN, 401),
        ({"key": "with spaces; Path=/x"}, OWN, 401),
        ({"key": ""}, OWN, 422),
        ({}, OWN, 422),
        ({"key": "rpk_0123456789abcdef_" + "0" * 64}, {}, 403),
    ],
)
async def test_what_is_no_key_gets_no_cookie(
    asking: Here, body: Any, headers: dict[str, str], status: int
) -> None:
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        answer = await client.post("/page/session", json=body, headers=headers)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


async def test_signing_out_takes_the_cookie_away(asking: Here) -> None:
    key, _ = await key_of(asking, "read")
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        await signed_in(client, key)
        assert (await client.delete("/page/session")).status_code == 403
        gone = await client.delete("/page/session", headers=OWN)
        assert gone.status_code == 204
        assert (await client.get("/api/v1/tasks")).status_code == 401


async def test_over_tls_the_cookie_goes_back_over_tls_alone(asking: Here) -> None:
    key, _ = await key_of(asking, "read")
    async with httpx2.AsyncClient(base_url=asking.url) as client:
        answer = await client.post(
            "/page/session", json={"key": key}, headers={**OWN, "Origin": "https://tasks.example.org"}
        )
    assert answer.headers["set-cookie"].endswith("; Secure")
