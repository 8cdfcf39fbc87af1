"""Rules of the protocol that only HTTP has."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from replan.tools.remote.client.transport import Endpoint
from replan.tools.remote.messages import EXECUTE_PATH, HEALTH_PATH, LIST_PATH

_WAIT_SECS = 5.0
_AT_ONCE = 40
"""Calls by which it is found out whether a server turns any away."""


def http_rules(
    endpoint: Endpoint, broken: type[Exception], skipped: type[Exception]
) -> dict[str, Callable[[], Awaitable[None]]]:
    """The rules by their words; each raises `broken` with how it is not kept, or `skipped` with why that cannot be told."""

    # Made once: to read the certificates takes longer than a request.
    trusted = ssl.create_default_context() if endpoint.scheme == "https" else False

    async def ask(method: str, path: str, **more: Any) -> Any:
        import httpx2

        headers = {"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {}
        headers = {name: value for name, value in (headers | more.pop("headers", {})).items() if value}
        try:
            async with httpx2.AsyncClient(trust_env=not endpoint.is_loopback, verify=trusted) as client:
                return await client.request(method, endpoint.url + path, headers=headers, **more)
        except httpx2.HTTPError as error:
            raise broken(f"{method} {path}: {str(error) or type(error).__name__}") from error

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

    async def statuses() -> None:
        wrong = {"tool": "conformance_count", "parameters": {}}
        refused(await ask("POST", EXECUTE_PATH, json=wrong), 422)
        refused(await ask("POST", EXECUTE_PATH, json={"tool": "no_such_tool", "parameters": {}}), 404)

    async def unknown_fields() -> None:
        call = {"tool": "conformance_echo", "parameters": {"value": 1}}
        for more in ({"no_such_field": 1}, {"deadline_sec": 5}):
            refused(await ask("POST", EXECUTE_PATH, json={**call, **more}), 400)

    async def one_outcome() -> None:
        body = {"tool": "conformance_progress", "parameters": {}}
        answer = await ask("POST", EXECUTE_PATH, json=body, headers={"Accept": "application/x-ndjson"})
        try:
            told = [json.loads(line) for line in answer.content.splitlines() if line.strip()]
            kinds = ["progress" if "progress" in one else "outcome" for one in told]
        except (ValueError, TypeError):
            kinds = []
        if kinds.count("outcome") != 1 or kinds[-1] != "outcome":
            raise broken(f"what came was {answer.text[:300]}")

    async def turned_away() -> None:
        body = {"tool": "conformance_wait", "parameters": {"name": "turned-away"}, "deadline_secs": 0.5}
        asked = [ask("POST", EXECUTE_PATH, json=body, timeout=_WAIT_SECS) for _ in range(_AT_ONCE)]
        away = [one for one in await asyncio.gather(*asked) if one.status_code in (429, 503)]
        if not away:
            raise skipped(f"none of {_AT_ONCE} calls at once was turned away")
        for answer in away:
            refused(answer, answer.status_code)
            if not answer.headers.get("retry-after", "").isdigit():
                raise broken(f"{answer.status_code} without a Retry-After in seconds")

    async def no_token() -> None:
        call = {"tool": "conformance_echo", "parameters": {"value": 1}}
        for headers in ({"Authorization": ""}, {"Authorization": f"Bearer {secrets.token_hex(8)}"}):
            refused(await ask("POST", EXECUTE_PATH, json=call, headers=headers), 401)
            refused(await ask("GET", LIST_PATH, headers=headers), 401)

    async def web_page() -> None:
        call = {"tool": "conformance_echo", "parameters": {"value": 1}}
        page = {"Origin": "https://example.com"}
        refused(await ask("POST", EXECUTE_PATH, json=call, headers=page), 403)

    of_callers: dict[str, Callable[[], Awaitable[None]]] = (
        {"a missing or wrong token is refused with 401": no_token}
        if endpoint.token
        else {"a web page is refused with 403 by a server without a token": web_page}
    )
    return of_callers | {
        "the health check needs no token": health,
        "the list has its revision as ETag": tag,
        "a client that asks for application/json gets the outcome alone": plain,
        "a body that is not a request is refused with 400": malformed,
        "an unknown path is refused with 404": nowhere,
        "a refusal has the status of its kind (404, 422)": statuses,
        "a field that there is not is refused with 400": unknown_fields,
        "a stream has one outcome, and that last": one_outcome,
        "who is turned away hears when to come again (Retry-After)": turned_away,
    }
