"""Rules of the protocol that only HTTP has."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from replan.tools.remote.client.transport import Endpoint
from replan.tools.remote.messages import EXECUTE_PATH, HEALTH_PATH, LIST_PATH


def http_rules(endpoint: Endpoint, broken: type[Exception]) -> dict[str, Callable[[], Awaitable[None]]]:
    """The rules by their words; each raises `broken` with how it is not kept."""

    async def ask(method: str, path: str, **more: Any) -> Any:
        import httpx2

        headers = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
        headers |= more.pop("headers", {})
        async with httpx2.AsyncClient(trust_env=not endpoint.is_loopback) as client:
            return await client.request(method, endpoint.url + path, headers=headers, **more)

    def refused(answer: Any, *statuses: int) -> None:
        if answer.status_code not in statuses:
            raise broken(f"the status was {answer.status_code}, not {statuses[0]}")
        try:
            error = answer.json()["error"]
            told = isinstance(error["message"], str) and error["happened"] == "no"
        except (ValueError, KeyError, TypeError):
            told = False
        if not told:
            raise broken(f"the body is not an error with message and happened: no: {answer.text[:200]}")

    async def health() -> None:
        answer = await ask("GET", HEALTH_PATH, headers={"Authorization": ""})
        if answer.status_code != 200:
            raise broken(f"GET {HEALTH_PATH} answered {answer.status_code}")

    async def tag() -> None:
        answer = await ask("GET", LIST_PATH)
        if answer.headers.get("etag") != f'"{answer.json().get("revision")}"':
            raise broken(f"the ETag is {answer.headers.get('etag')}")

    async def plain() -> None:
        body = {"tool": "conformance_progress", "parameters": {}}
        answer = await ask("POST", EXECUTE_PATH, json=body, headers={"Accept": "application/json"})
        try:
            right = json.loads(answer.content) == {"output": {"ok": True}}
        except ValueError:
            right = False
        if not right:
            raise broken(f"what came was {answer.text[:200]}")

    async def malformed() -> None:
        for body in (b"{not JSON", b"[]", b'{"parameters": {}}'):
            refused(await ask("POST", EXECUTE_PATH, content=body), 400)

    async def nowhere() -> None:
        refused(await ask("GET", "/v1/no-such-place"), 404)

    return {
        "the health check needs no token": health,
        "the list has its revision as ETag": tag,
        "a client that asks for application/json gets the outcome alone": plain,
        "a body that is not a request is refused with 400": malformed,
        "an unknown path is refused with 404": nowhere,
    }
