"""What HTTP clients and SDKs log has no secret of any task that runs, however it got to them."""

import asyncio
import json
import logging
from pathlib import Path

import pytest
from pydantic import SecretStr
from run_tasks import plan, step
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from live_server import serving
from replan import Replan, tool
from replan.testing import ScriptedModel
from replan.tools.network.addresses import AddressRules
from replan.tools.openapi import OpenApiSource

pytestmark = pytest.mark.anyio

WRITTEN, GIVEN = "pin-of-the-plan-77ab", "pin-of-the-metadata-91cd"


def said_in(caplog: pytest.LogCaptureFixture) -> str:
    formatter = logging.Formatter("%(name)s %(message)s")
    return "\n".join(formatter.format(record) for record in caplog.records)


def pins(url: str) -> OpenApiSource:
    """Two operations that take a PIN, in the query and in the path."""
    pin = {"type": "string", "format": "password"}
    answers = {"200": {"description": "done"}}
    in_query = {"name": "pin", "in": "query", "schema": pin}
    in_path = {"name": "pin", "in": "path", "required": True, "schema": pin}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "pins", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/query": {"get": {"operationId": "by_query", "parameters": [in_query], "responses": answers}},
            "/path/{pin}": {"get": {"operationId": "by_path", "parameters": [in_path], "responses": answers}},
        },
    }
    return OpenApiSource(document, name="pins", rules=AddressRules(allow_private=True))


async def answered(request: Request) -> JSONResponse:
    return JSONResponse({})


@pytest.mark.parametrize("operation", ["by_query", "by_path"])
@pytest.mark.parametrize("pin", [WRITTEN, "${metadata.mine}"], ids=["in the plan", "in the metadata"])
async def test_a_secret_in_an_address_is_masked_in_the_line_of_the_http_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, operation: str, pin: str
) -> None:
    caplog.set_level(logging.DEBUG)
    app = Starlette(routes=[Route("/query", answered), Route("/path/{pin}", answered)])
    with serving(app) as url:
        async with Replan(
            ScriptedModel({}), [pins(url)], db=tmp_path / "log.db", evaluation="steps"
        ) as replan:
            result = await replan.run(
                "enter",
                plan=plan(step("a", operation, parameters={"pin": pin})),
                secrets={"mine": SecretStr(GIVEN)},
            )
    assert result.is_success
    said = said_in(caplog)
    assert "HTTP Request: GET" in said, "it is still told that there was a request"
    assert "***" in said
    assert WRITTEN not in said
    assert GIVEN not in said


@pytest.mark.parametrize(
    "logger",
    ["httpx", "httpx2", "httpcore.http11", "httpcore2.http2", "urllib3.connectionpool", "openai._base_client",
     "mcp.client.streamable_http", "grpc._cython.cygrpc", "botocore.endpoint"],
)  # fmt: skip
async def test_what_any_client_logs_of_a_secret_is_masked_also_in_the_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, logger: str
) -> None:
    @tool(effect="reads", secrets=["pin"])
    def enter(pin: str) -> int:
        """Enter."""
        log = logging.getLogger(logger)
        log.info("HTTP Request: %s %s", "GET", f"http://x/?pin={pin}")
        try:
            raise ValueError(f"405 for http://x/{pin}")
        except ValueError:
            log.exception("GET stream failed")
        return 1

    caplog.set_level(logging.DEBUG)
    async with Replan(ScriptedModel({}), [enter], db=tmp_path / "log.db", evaluation="steps") as replan:
        result = await replan.run(
            "enter",
            plan=plan(step("a", "enter", parameters={"pin": "${metadata.mine}"})),
            secrets={"mine": SecretStr(GIVEN)},
        )
    assert result.is_success
    said = said_in(caplog)
    assert "http://x/?pin=***" in said
    assert "ValueError: 405 for http://x/***" in said
    assert GIVEN not in said


async def test_two_tasks_at_once_keep_each_others_secrets_and_other_loggers_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside: list[str] = []
    both = asyncio.Event()

    @tool(effect="reads", secrets=["pin"])
    async def enter(pin: str) -> int:
        """Enter."""
        inside.append(pin)
        if len(inside) == 2:
            both.set()
        await both.wait()
        logging.getLogger("httpx2").info("both %s", json.dumps([WRITTEN, GIVEN]))
        logging.getLogger("of.the.user").info("my own %s", pin)
        return 1

    caplog.set_level(logging.INFO)
    async with Replan(ScriptedModel({}), [enter], db=tmp_path / "log.db", evaluation="steps") as replan:
        results = await asyncio.gather(
            *(
                replan.run(f"enter as {who}", plan=plan(step("a", "enter", parameters={"pin": pin})))
                for who, pin in (("Ann", WRITTEN), ("Bob", GIVEN))
            )
        )
    assert all(result.is_success for result in results)
    said = said_in(caplog)
    assert said.count('httpx2 both ["***", "***"]') == 2
    assert f"of.the.user my own {GIVEN}" in said, "what a program logs itself is its own business"
