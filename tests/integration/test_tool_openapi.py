"""OpenAPI tools against a real server on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openapi_world import PNG, World, answers, document, operation, query

from live_server import serving
from replan import Replan
from replan.core.failures.faults import classify
from replan.errors import ConfigError, InputError, PlanInvalid, ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools.network.addresses import AddressRules
from replan.tools.openapi import OpenApiSource, from_table, load
from replan.tools.openapi.security import ClientCredentials
from replan.tools.openapi.tokens import ClientTokens

pytestmark = pytest.mark.anyio


class Live:
    """The world, and a source over a document of it."""

    def __init__(self, world: World, url: str) -> None:
        self.world = world
        self.url = url
        self.source: OpenApiSource

    async def call(self, tool: str, /, **parameters: Any) -> Any:
        return await self.source.call(ToolCall(tool, parameters, "the-key", "task", "step"))


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    world = World()
    with serving(world.app) as url:
        found = Live(world, url)
        try:
            yield found
        finally:
            if hasattr(found, "source"):
                await found.source.aclose()


def body(media_type: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema, **more}}}}


# ── credentials ───────────────────────────────────────────────────────────────

SCHEMES = {
    "key_header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "key_query": {"type": "apiKey", "in": "query", "name": "key"},
    "key_cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {
        "type": "oauth2",
        "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {"read": ""}}},
    },
}


@pytest.mark.parametrize(
    ("scheme", "value", "part", "expected"),
    [
        ("key_header", "k1", "headers", ("x-key", "k1")),
        ("key_query", "k 2", "query", "a=1&key=k%202"),
        ("key_cookie", "k3", "headers", ("cookie", "sid=k3")),
        ("bearer", "t4", "headers", ("authorization", "Bearer t4")),
        ("basic", "me:pw:5", "headers", ("authorization", "Basic " + base64.b64encode(b"me:pw:5").decode())),
        (
            "basic",
            {"username": "me", "password": "ü"},
            "headers",
            ("authorization", "Basic " + base64.b64encode("me:ü".encode()).decode()),
        ),
        ("oauth", "ready", "headers", ("authorization", "Bearer ready")),
    ],
)
async def test_credentials_go_to_their_places(
    live: Live, scheme: str, value: Any, part: str, expected: Any
) -> None:
    paths = operation("get", "/x", "x", security=[{scheme: []}], parameters=query(a={"type": "integer"}))
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, auth={scheme: value})
    found = await live.call("x", a=1)
    if part == "query":
        assert found["query"] == expected
    else:
        assert found["headers"][expected[0]] == expected[1]


CLIENT = {"client_id": "me", "client_secret": "s3cret"}


async def test_a_token_is_asked_for_once_and_again_when_it_is_refused(live: Live) -> None:
    paths = operation("get", "/oauth", "x", security=[{"oauth": ["read"]}])
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, auth={"oauth": CLIENT})
    found = await asyncio.gather(*(live.call("x") for _ in range(10)))
    assert found == [{"token": "token-0"}] * 10
    assert live.world.counts["/token"] == 1
    assert "scope=read" in live.world.seen[0]["body"]
    live.world.revoked.add("token-0")
    found = await asyncio.gather(*(live.call("x") for _ in range(10)))
    assert found == [{"token": "token-1"}] * 10
    assert live.world.counts["/token"] == 2


async def test_a_token_that_is_not_given_is_no_call(live: Live) -> None:
    paths = operation("post", "/oauth", "x", security=[{"oauth": []}])
    wrong = {"client_id": "me", "client_secret": "s3cret-not"}
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, auth={"oauth": wrong})
    with pytest.raises(
        ToolCallError, match="no token for 'oauth': the token endpoint answered 401"
    ) as caught:
        await live.call("x")
    assert (caught.value.kind, caught.value.happened, caught.value.status) == ("http", "no", 401)
    assert live.world.counts["/oauth"] == 0


async def test_a_token_that_does_not_come_is_asked_for_again(live: Live) -> None:
    of = ClientCredentials("oauth", f"{live.url}/token", **CLIENT, scopes=())
    live.world.gate.clear()
    async with httpx2.AsyncClient(trust_env=False) as client:
        tokens = ClientTokens(of, lambda: client, ask_secs=0.5)
        with pytest.raises(
            ToolCallError, match=r"no token for 'oauth': no answer within 0\.5 seconds"
        ) as caught:
            await tokens.token()
    assert (caught.value.kind, caught.value.happened) == ("timeout", "no")
    live.world.gate.set()
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await tokens.token()).startswith("token-")
    assert live.world.counts["/token"] == 2


async def test_who_gives_up_does_not_take_the_token_from_others(live: Live) -> None:
    paths = operation("get", "/oauth", "x", security=[{"oauth": []}])
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, auth={"oauth": CLIENT})
    live.world.gate.clear()
    first, second = asyncio.create_task(live.call("x")), asyncio.create_task(live.call("x"))
    assert await asyncio.to_thread(live.world.asked.wait, 10)
    first.cancel()
    live.world.gate.set()
    assert await second == {"token": "token-0"}
    with pytest.raises(asyncio.CancelledError):
        await first
    assert live.world.counts["/token"] == 1


async def test_credentials_are_in_no_message_and_no_schema(live: Live) -> None:
    paths = operation("get", "/status/422", "x", security=[{"bearer": []}], responses=answers({}))
    live.source = OpenApiSource(
        document(paths, schemes=SCHEMES),
        server=live.url,
        auth={"bearer": 'se"cr8'},
        headers={"X-Other": "hidden-too"},
    )
    with pytest.raises(ToolCallError, match=r"you sent \*\*\*") as caught:
        await live.call("x")
    assert "cr8" not in str(caught.value) + str(caught.value.body)  # type: ignore[attr-defined]
    assert "cr8" not in str(await live.source.tools())
    found = live.world.seen[0]["headers"]
    assert (found["authorization"], found["x-other"]) == ('Bearer se"cr8', "hidden-too")


async def test_headers_meet_a_scheme_that_they_are_of(live: Live) -> None:
    paths = operation("get", "/x", "x", security=[{"bearer": [], "key_header": []}])
    headers = {"Authorization": "Bearer mine", "X-Key": "k"}
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, headers=headers)
    assert (await live.call("x"))["headers"]["authorization"] == "Bearer mine"


async def test_credentials_are_used_where_they_are_not_needed(live: Live) -> None:
    paths = operation("get", "/x", "x", security=[{}, {"bearer": []}])
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url, auth={"bearer": "t"})
    assert (await live.call("x"))["headers"]["authorization"] == "Bearer t"
    await live.source.aclose()
    live.source = OpenApiSource(document(paths, schemes=SCHEMES), server=live.url)
    assert "authorization" not in (await live.call("x"))["headers"]


async def test_headers_win_over_parameters_which_are_not_shown(live: Live) -> None:
    named = [
        {"name": name, "in": "header", "required": True, "schema": {}} for name in ("X-Tenant", "X-Other")
    ]
    live.source = OpenApiSource(
        document(operation("get", "/x", "x", parameters=named)),
        server=live.url,
        headers={"x-tenant": "mine", "user-agent": "me/1"},
    )
    (spec,) = await live.source.tools()
    assert list(spec.parameters["properties"]) == ["X-Other"]
    found = (await live.call("x", **{"X-Other": "o"}))["headers"]
    assert (found["x-tenant"], found["x-other"], found["user-agent"]) == ("mine", "o", "me/1")


async def test_the_environment_has_values_by_the_names_of_source_and_scheme(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my-api.json"
    paths = (
        operation("get", "/x", "x", security=[{"bearer": []}]),
        operation("get", "/y", "y", tags=["t"]),
        operation("get", "/oauth", "z", security=[{"oauth": []}]),
    )
    file.write_text(json.dumps(document(*paths, schemes=SCHEMES)))
    bare = load(f"{file}#operation=x&server={live.url}")
    assert await bare.tools() == []
    assert "the token of 'bearer' (OPENAPI_MY_API_BEARER in the environment)" in bare.problems()[0].message
    await bare.aclose()
    client = load(f"{file}#operation=z&server={live.url}")
    assert await client.tools() == []
    wanted = "OPENAPI_MY_API_OAUTH, or OPENAPI_MY_API_OAUTH_CLIENT_ID and OPENAPI_MY_API_OAUTH_CLIENT_SECRET"
    assert f"the access token of 'oauth' ({wanted}, in the environment)" in client.problems()[0].message
    await client.aclose()
    monkeypatch.setenv("OPENAPI_MY_API_OAUTH_CLIENT_ID", CLIENT["client_id"])
    monkeypatch.setenv("OPENAPI_MY_API_OAUTH_CLIENT_SECRET", CLIENT["client_secret"])
    live.source = load(f"{file}#operation=z&server={live.url}")
    assert await live.call("z") == {"token": "token-0"}
    await live.source.aclose()
    monkeypatch.setenv("OPENAPI_MY_API_BEARER", "from-env")
    live.source = load(f"{file}#operation=x&server={live.url}")
    assert live.source.name == "my_api"
    assert (await live.call("x"))["headers"]["authorization"] == "Bearer from-env"
    other = from_table(
        {
            "place": str(file),
            "name": "n",
            "server": live.url,
            "auth": {"bearer": "${MINE:-d}"},
            "tags": ["t"],
        },
        {},
    )
    assert [spec.id for spec in await other.tools()] == ["y"]
    await other.aclose()


# ── what is sent ──────────────────────────────────────────────────────────────


async def test_keys_traces_and_nothing_of_other_calls(live: Live) -> None:
    keyed = [{"name": "X-Idempotency-Key", "in": "header", "schema": {"type": "string"}}]
    live.source = OpenApiSource(
        document(
            operation("post", "/a", "declared", parameters=keyed),
            operation("post", "/b", "undeclared"),
            operation("get", "/c", "reading"),
        ),
        server=live.url,
    )
    first, second, third = [
        (await live.call(name))["headers"] for name in ("declared", "undeclared", "reading")
    ]
    assert first["x-idempotency-key"] == second["idempotency-key"] == "the-key"
    assert "idempotency-key" not in third
    assert first["traceparent"].startswith("00-")
    assert {spec.id: spec.honours_key for spec in await live.source.tools()} == {
        "declared": True,
        "undeclared": False,
        "reading": False,
    }


class Losing:
    """A server that loses its first answer: the connection is reset once the request has been read. `keys`: what came."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.url = ""

    async def __aenter__(self) -> Losing:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        self.keys += [line.split(": ")[1] for line in head if line.lower().startswith("idempotency-key: ")]
        if len(self.keys) == 1:
            writer.transport.abort()
            return
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.mark.parametrize(("honoured", "requests"), [(None, 1), ("Idempotency-Key", 2)])
async def test_in_a_task_a_lost_call_is_made_again_where_its_key_is_honoured(
    honoured: str | None, requests: int, tmp_path: Path
) -> None:
    plan = {"steps": [{"step_id": "pay", "tool": "pay", "parameters": {}}]}
    async with Losing() as server:
        source = OpenApiSource(
            document(operation("post", "/pay", "pay")), server=server.url, idempotency_header=honoured
        )
        async with Replan(tools=[source], db=tmp_path / "replan.db") as replan:
            result = await replan.run("Pay", plan=plan, evaluation="steps", timeout=20)
    assert result.succeeded is (requests == 2)
    assert len(server.keys) == requests
    assert len(set(server.keys)) == 1


async def test_a_plan_may_refer_to_more_than_is_declared_but_where_the_schema_is_closed(
    live: Live, tmp_path: Path
) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}}
    declared = answers({**schema, "additionalProperties": False})
    read = operation("get", "/a", "read", responses=declared)
    steps = [
        {"step_id": "one", "tool": "read", "parameters": {}},
        {"step_id": "two", "tool": "same", "parameters": {"value": "${one.output.method}"}},
    ]

    def same(value: str) -> str:
        return value

    live.source = OpenApiSource(document(read), server=live.url)
    async with Replan(tools=[live.source, same], db=tmp_path / "replan.db") as replan:
        with pytest.raises(PlanInvalid, match="the output of 'one' has no 'method'; it has: path"):
            await replan.run("Read", plan={"steps": steps}, evaluation="steps")
    assert live.world.seen == []
    says_nothing = operation("get", "/a", "read", responses=answers(schema))
    live.source = OpenApiSource(document(says_nothing), server=live.url)
    async with Replan(tools=[live.source, same], db=tmp_path / "replan.db") as replan:
        result = await replan.run("Read", plan={"steps": steps}, evaluation="steps")
    assert result.output == "GET"


async def test_what_changes_by_itself_is_volatile() -> None:
    clock = operation("get", "/now", "now", **{"x-replan-volatile": True})
    source = OpenApiSource(document(clock, operation("get", "/name", "name")), server="https://example.org")
    assert {spec.id: spec.volatile for spec in await source.tools()} == {"now": True, "name": False}
    await source.aclose()


async def test_bodies_as_their_media_types_write_them(live: Live) -> None:
    anything = {
        "type": "object",
        "properties": {"a": {}, "b": {}, "f": {"type": "string", "format": "binary"}},
    }
    live.source = OpenApiSource(
        document(
            operation("post", "/json", "json", **body("application/json", anything)),
            operation("post", "/form", "form", **body("application/x-www-form-urlencoded", anything)),
            operation("post", "/multi", "multi", **body("multipart/form-data", anything)),
            operation("post", "/text", "text", **body("text/csv", {"type": "string"})),
            operation("post", "/raw", "raw", **body("image/*", {"type": "string", "format": "binary"})),
        ),
        server=live.url,
    )
    assert (await live.call("json", a=[1, None], b="u"))["body"] == '{"a":[1,null],"b":"u"}'
    assert (await live.call("json"))["body"] == "{}"
    assert (await live.call("form", a=["x y", 2], b={"c": 1}))["body"] == "a=x%20y&a=2&b=%7B%22c%22%3A1%7D"
    picture = "data:image/png;name=p.png;base64," + base64.b64encode(PNG).decode()
    multi = await live.call("multi", a="text", b={"c": 1}, f=picture)
    assert (
        'name="f"; filename="p.png"\r\nContent-Type: image/png\r\n\r\n' + PNG.decode("latin-1")
        in multi["body"]
    )
    assert 'name="b"\r\nContent-Type: application/json\r\n\r\n{"c":1}\r\n' in multi["body"]
    text = await live.call("text", body="a;ü")
    assert text["body"].encode("latin-1").decode() == "a;ü"
    assert text["headers"]["content-type"] == "text/csv; charset=utf-8"
    raw = await live.call("raw", body=picture)
    assert (raw["body"], raw["headers"]["content-type"]) == (PNG.decode("latin-1"), "image/png")


@pytest.mark.parametrize(
    ("declared", "schema", "given", "sent", "text"),
    [
        pytest.param(
            'application/vnd.api+json; ext="a b"',
            {},
            {"a": 1},
            'application/vnd.api+json; ext="a b"',
            '{"a":1}',
            id="JSON:API",
        ),
        pytest.param("application/json;v=2.0", {}, [1], "application/json;v=2.0", "[1]", id="a version"),
        pytest.param(
            "text/plain", {"type": "boolean"}, True, "text/plain; charset=utf-8", "true", id="a truth value"
        ),
        pytest.param("text/plain", {"type": "integer"}, 7, "text/plain; charset=utf-8", "7", id="a number"),
        pytest.param(
            "text/plain", {"type": ["number", "string"]}, 0.5, "text/plain; charset=utf-8", "0.5", id="either"
        ),
        pytest.param(
            "text/plain",
            {"type": "object"},
            "a=1",
            "text/plain; charset=utf-8",
            "a=1",
            id="an object is written by hand",
        ),
        pytest.param(
            "text/plain;charset=iso-8859-1",
            {"type": "string"},
            "ü",
            "text/plain;charset=iso-8859-1",
            "ü",
            id="another charset",
        ),
    ],
)
async def test_a_body_is_sent_as_its_media_type_and_schema_say(
    live: Live, declared: str, schema: Any, given: Any, sent: str, text: str
) -> None:
    live.source = OpenApiSource(
        document(operation("post", "/x", "x", **body(declared, schema))), server=live.url
    )
    found = await live.call("x", body=given)
    assert found["headers"]["content-type"] == sent
    assert found["body"] == text  # the world reads it as latin-1


async def test_a_text_of_a_type_is_checked_before_it_is_sent(live: Live) -> None:
    live.source = OpenApiSource(
        document(operation("post", "/x", "x", **body("text/plain", {"type": "boolean"}))), server=live.url
    )
    with pytest.raises(ToolCallError) as caught:
        await live.call("x", body="yes")
    assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
    assert not live.world.seen


async def test_what_is_accepted_is_asked_for_with_its_parameters(live: Live) -> None:
    answers = {
        "responses": {"200": {"description": "ok", "content": {"application/json;v=2": {"schema": {}}}}}
    }
    live.source = OpenApiSource(document(operation("get", "/x", "x", **answers)), server=live.url)
    assert (await live.call("x"))["headers"]["accept"] == "application/json;v=2"


async def test_a_key_that_many_operations_need_is_told_in_one_line() -> None:
    made = [operation("get", f"/{n}", f"op{n}") for n in range(40)]
    source = OpenApiSource(
        {
            **document(*made, operation("get", "/free", "free", security=[])),
            "security": [{"key": []}],
            "components": {"securitySchemes": {"key": SCHEMES["key_header"]}},
        },
        server="https://example.org",
        name="shop",
        environment={},
    )
    assert [spec.id for spec in await source.tools()] == ["free"]
    (problem,) = source.problems()
    assert "left out 40 operations (op0, op1, op2, …)" in problem.message
    assert "OPENAPI_SHOP_KEY" in problem.message
    await source.aclose()


@pytest.mark.parametrize("value", ["..", ".", "", "a/b", "a?b#c", "%2e%2e", "ü"])
async def test_a_value_in_the_path_stays_in_its_segment(live: Live, value: str) -> None:
    named = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    live.source = OpenApiSource(
        document(operation("get", "/a/{id}/b", "x", parameters=named)), server=live.url
    )
    if value in ("..", ".", ""):
        with pytest.raises(ToolCallError) as caught:
            await live.call("x", id=value)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
        assert not live.world.seen
    else:
        found = await live.call("x", id=value)
        assert found["path"] == f"/a/{value}/b"
        assert found["query"] == ""


async def test_a_path_may_have_a_query_of_its_own(live: Live) -> None:
    asked = query(a={"type": "integer"})
    live.source = OpenApiSource(
        document(operation("get", "/x?beta=true#two", "x", parameters=asked)), server=live.url
    )
    assert (await live.call("x", a=1))["query"] == "beta=true&a=1"
    assert (await live.call("x"))["query"] == "beta=true"


async def test_a_header_cannot_bring_others_in(live: Live) -> None:
    named = [{"name": "X-A", "in": "header", "schema": {"type": "string"}}]
    live.source = OpenApiSource(document(operation("get", "/x", "x", parameters=named)), server=live.url)
    with pytest.raises(ToolCallError, match="X-A: a header may not contain line breaks") as caught:
        await live.call("x", **{"X-A": "a\r\nX-Evil: 1"})
    assert caught.value.kind == "parameter"
    assert (await live.call("x", **{"X-A": "ü"}))["headers"]["x-a"].encode("latin-1").decode() == "ü"


async def test_how_a_message_is_sent_is_no_parameter(live: Live) -> None:
    names = ["Host", "Content-Length", "Transfer-Encoding", "Connection", "accept-encoding", "X Y"]
    parameters = [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]
    parameters.append({"name": "user-agent", "in": "header", "schema": {"type": "string"}})
    paths = operation("get", "/x", "x", parameters=parameters)
    live.source = OpenApiSource(document(paths), server=live.url)
    (tool,) = await live.source.tools()
    assert set(tool.parameters["properties"]) == {"user-agent"}
    found = await live.call("x", **{"user-agent": "me"})
    assert found["headers"]["user-agent"] == "me"


async def test_an_operation_may_have_a_server_of_its_own(live: Live) -> None:
    own = operation("get", "/x", "x", servers=[{"url": "/under/{v}", "variables": {"v": {"default": "v1"}}}])
    file_url = document(own, operation("get", "/y", "y"))
    with serving_document(file_url) as place:
        live.source = OpenApiSource(place, server_variables={"v": "v2"})
        problems = [str(problem.message) for problem in live.source.problems()]
        assert [spec.id for spec in await live.source.tools()] == ["x", "y"]
        assert problems == []
        assert live.source._listing is not None
        assert live.source._listing.tools["x"].base_url.endswith("/under/v2")


@contextlib.contextmanager
def serving_document(root: dict[str, Any]) -> Any:
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def give(request: Any) -> Any:
        return JSONResponse(root)

    with serving(Starlette(routes=[Route("/docs/openapi.json", give)])) as url:
        yield f"{url}/docs/openapi.json"


# ── redirects and addresses ───────────────────────────────────────────────────


async def test_a_redirect_to_another_origin_loses_credentials(live: Live) -> None:
    other = World()
    with serving(other.app) as elsewhere:
        live.world.redirect_to = f"{elsewhere}/landed"
        paths = operation("get", "/redirect", "x", security=[{"bearer": [], "key_cookie": []}])
        live.source = OpenApiSource(
            document(paths, schemes=SCHEMES),
            server=live.url,
            auth={"bearer": "t", "key_cookie": "c"},
            headers={"X-Secret": "s"},
            rules=AddressRules(allow_private=True),
        )
        found = await live.call("x")
        assert found["path"] == "/landed"
        assert not {"authorization", "cookie", "x-secret"} & set(other.seen[0]["headers"])
        live.world.redirect_to = "/here"
        assert (await live.call("x"))["headers"]["authorization"] == "Bearer t"


async def test_a_redirect_to_a_private_address_is_refused(live: Live) -> None:
    other = World()
    with serving(other.app) as elsewhere:
        for target in (
            f"{elsewhere}/landed",
            "http://169.254.169.254/latest/meta-data",
            "file:///etc/passwd",
        ):
            live.world.redirect_to = target
            live.source = OpenApiSource(document(operation("get", "/redirect", "x")), server=live.url)
            with pytest.raises(ToolCallError, match="redirects to a place that is refused") as caught:
                await live.call("x")
            assert caught.value.kind == "parameter"
            await live.source.aclose()
        assert not other.seen


async def test_a_private_server_that_only_the_document_names_is_refused(live: Live) -> None:
    root = document(operation("post", "/x", "x"), servers=[{"url": live.url}])
    with serving_document(
        root
    ) as place:  # its own host and port are allowed, as they were given; others are not
        live.source = OpenApiSource(place)
        with pytest.raises(ToolCallError, match="a loopback address") as caught:
            await live.call("x")
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")
        assert not live.world.seen


async def test_other_methods_do_not_follow_redirects(live: Live) -> None:
    live.world.redirect_to = "/elsewhere"
    live.source = OpenApiSource(
        document(operation("post", "/redirect", "x"), operation("post", "/see-other", "made")),
        server=live.url,
    )
    for status in (302, 307, 308):
        live.world.redirect_status = status
        with pytest.raises(
            ToolCallError, match=rf"redirects \({status}\), which is followed for GET only"
        ) as caught:
            await live.call("x")
        assert caught.value.happened == "unknown"
    found = await live.call("made")
    assert (found["method"], found["path"], found["body"]) == ("GET", "/made/1", "")


async def test_a_circle_of_redirects_ends(live: Live) -> None:
    live.world.redirect_to = "/redirect"
    live.source = OpenApiSource(document(operation("get", "/redirect", "x")), server=live.url)
    with pytest.raises(ToolCallError, match="more than 5 times"):
        await live.call("x")


# ── answers ───────────────────────────────────────────────────────────────────


async def test_answers_by_their_kind(live: Live) -> None:
    live.source = OpenApiSource(
        document(
            *(operation("get", f"/{name}", name) for name in ("text", "bytes", "empty")),
            operation("head", "/x", "head"),
        ),
        server=live.url,
    )
    assert await live.call("text") == "naïve ☃"
    assert await live.call("bytes") == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert await live.call("empty") is None
    head = await live.call("head")
    assert (head["status"], head["headers"]["x-kind"]) == (200, "echo")


async def test_a_large_answer_is_given_up(live: Live) -> None:
    live.source = OpenApiSource(
        document(operation("get", "/huge", "x")), server=live.url, max_result_bytes=1_000_000
    )
    with pytest.raises(ToolCallError, match="larger than 1,000,000 bytes") as caught:
        await live.call("x")
    assert caught.value.kind == "output"


@pytest.mark.parametrize(
    ("code", "category", "transient", "happened"),
    [
        (400, "parameter_error", False, "no"),
        (401, "external_error", False, "no"),
        (404, "parameter_error", False, "no"),
        (408, "external_error", True, "unknown"),
        (429, "external_error", True, "no"),
        (500, "server_error", True, "unknown"),
        (503, "server_error", True, "unknown"),
    ],
)
async def test_errors_keep_status_words_and_wait(
    live: Live, code: int, category: str, transient: bool, happened: str
) -> None:
    live.source = OpenApiSource(document(operation("post", f"/status/{code}", "x")), server=live.url)
    with pytest.raises(ToolCallError) as caught:
        await live.call("x")
    fault = classify(caught.value)
    assert (fault.kind, fault.status, fault.happened, fault.transient) == ("http", code, happened, transient)
    assert f"because of {code}" in fault.message
    assert '"code": "too_long"' in fault.message
    assert fault.retry_after == (7.0 if code in (429, 503) else None)
    if code != 404:
        assert fault.category == category


@pytest.mark.parametrize("header", ["true", "1234", "12"])
async def test_headers_that_look_like_json_leave_an_error_whole(live: Live, header: str) -> None:
    live.source = OpenApiSource(
        document(operation("post", "/numbers", "x")), server=live.url, headers={"X-Version": header}
    )
    with pytest.raises(ToolCallError, match="500 Internal") as caught:
        await live.call("x")
    assert (caught.value.kind, caught.value.status, caught.value.happened) == ("http", 500, "unknown")
    assert set(caught.value.body) == {"ok", "id", "half"}  # type: ignore[attr-defined]
    str(caught.value).encode()


@pytest.mark.parametrize("target", ["http://[::1", "//[", "http://h:99999/", "http://h:port/", "/\x01"])
async def test_done_and_sent_on_to_what_is_no_address_is_not_taken_for_undone(
    live: Live, target: str
) -> None:
    live.world.redirect_to = target
    live.source = OpenApiSource(document(operation("post", "/sent-on", "x")), server=live.url)
    with pytest.raises(ToolCallError) as caught:
        await live.call("x")
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


async def test_an_error_that_nobody_foresaw_is_not_taken_for_undone(live: Live) -> None:
    def report(_: Progress) -> None:
        raise LookupError("the key is k3y-k3y")

    live.source = OpenApiSource(PAGED, server=live.url, paginate=True, headers={"X-Key": "k3y-k3y"})
    with pytest.raises(ToolCallError, match=r"LookupError.*the key is \*\*\*") as caught:
        await live.source.call(ToolCall("linked", {}, "key", report=report))
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


async def test_an_answer_with_a_text_that_is_no_unicode_is_refused_and_not_changed(live: Live) -> None:
    live.source = OpenApiSource(document(operation("get", "/half", "half")), server=live.url)
    with pytest.raises(ToolCallError, match=r"udce9' at names\[0\] is no text") as caught:
        await live.call("half")
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


async def test_json_is_read_though_it_is_called_text_and_a_web_page_is_no_answer(live: Live) -> None:
    counted = {"type": "object", "properties": {"count": {"type": "integer"}}}
    root = document(
        operation("get", "/lies", "lies", responses=answers(counted)),
        operation("get", "/html", "html", responses=answers(counted)),
    )
    live.source = OpenApiSource(root, server=live.url)
    assert await live.call("lies") == {"count": "many"}
    with pytest.raises(ToolCallError, match="a web page where JSON is declared: Log in") as caught:
        await live.call("html")
    assert caught.value.kind == "output"
    await live.source.aclose()
    live.source = OpenApiSource(root, server=live.url, answers="checked")
    with pytest.raises(
        ToolCallError, match="not as the document says: count: 'many' is not of type 'integer'"
    ):
        await live.call("lies")


async def test_a_deadline_of_the_call_is_kept(live: Live) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Route

    async def hang(request: Any) -> Any:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    with serving(Starlette(routes=[Route("/x", hang, methods=["POST"])])) as url:
        live.source = OpenApiSource(document(operation("post", "/x", "x")), server=url)
        with pytest.raises(ToolCallError, match=r"no answer within 0\.2 seconds") as caught:
            await live.source.call(ToolCall("x", {}, "key", deadline_secs=0.2))
        assert (caught.value.kind, caught.value.happened) == ("timeout", "unknown")


# ── pages ─────────────────────────────────────────────────────────────────────

NUMBERS = {"type": "array", "items": {"type": "integer"}}
PAGED = document(
    operation(
        "get",
        "/linked",
        "linked",
        parameters=query(page={"type": "integer"}, away={}),
        responses=answers(NUMBERS),
    ),
    operation(
        "get",
        "/cursor",
        "cursor",
        parameters=query(cursor={"type": "string"}),
        responses=answers(
            {"type": "object", "properties": {"data": {"type": "array", "items": {"type": "object"}}}}
        ),
    ),
    operation("get", "/numbered", "numbered", parameters=query(page={"type": "integer"})),
    operation("get", "/unnumbered", "unnumbered", parameters=query(page={"type": "integer"})),
    operation(
        "get", "/offsets", "offsets", parameters=query(offset={"type": "integer"}, limit={"type": "integer"})
    ),
)


@pytest.mark.parametrize(
    ("tool", "items", "pages"),
    [
        ("linked", [10, 11, 20, 21, 30, 31, 40, 41], 4),
        ("cursor", [{"id": "a"}, {"id": "b"}, {"id": "c"}], 3),
        ("numbered", [1, 2, 3], 3),
        ("unnumbered", ["always", "the same"], 1),
        ("offsets", [0, 1, 2, 3, 4], 3),
    ],
)
async def test_pages_are_followed(live: Live, tool: str, items: list[Any], pages: int) -> None:
    live.source = OpenApiSource(PAGED, server=live.url, paginate=[tool])
    assert await live.call(tool) == {"items": items, "pages": pages, "complete": True}
    (spec,) = [spec for spec in await live.source.tools() if spec.id == tool]
    assert spec.output_schema is not None
    assert set(spec.output_schema["properties"]) == {"items", "pages", "complete"}


async def test_a_page_limit_is_told(live: Live) -> None:
    live.source = OpenApiSource(PAGED, server=live.url, paginate=True, page_limit=2)
    assert await live.call("linked") == {"items": [10, 11, 20, 21], "pages": 2, "complete": False}
    assert await live.call("linked", away="http://example.org/x") == {
        "items": [10, 11],
        "pages": 1,
        "complete": False,
    }
    specs = {spec.id: spec.output_schema for spec in await live.source.tools()}
    assert specs["linked"]["properties"]["items"]["items"] == {"type": "integer"}  # type: ignore[index]
    assert specs["numbered"] is None  # nothing is declared that could have pages


# ── places ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("a: [", "no valid YAML"),
        ("just words", "it is a text, not an object"),
        ("[]", "it is a list"),
        ('{"swagger": "2.0", "paths": {}}', "a Swagger 2.0 document; convert it"),
        ('{"openapi": "3.2.0", "paths": {}}', "'3.2.0'; 3.0 and 3.1 can be read"),
        ('{"openapi": "3.0.0"}', 'has no "paths"'),
        ('{"info": {}}', 'it has no "openapi"'),
    ],
)
async def test_what_is_no_document_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "openapi.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=words.replace("[", "\\[")):
        await OpenApiSource(file).tools()


async def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document(operation("get", "/a", "a"))))
    source = OpenApiSource(file, server="https://example.org")
    assert [spec.id for spec in await source.tools()] == ["a"]
    file.write_text(json.dumps(document(operation("get", "/bb", "bb"))))
    assert [spec.id for spec in await source.tools()] == ["bb"]
    file.unlink()
    with pytest.raises(InputError, match="there is no file"):
        await source.tools()


async def test_a_server_without_the_document_is_told(live: Live) -> None:
    source = OpenApiSource(f"{live.url}/status/404")
    with pytest.raises(ToolCallError, match="the server answers 404") as caught:
        await source.tools()
    assert caught.value.kind == "unavailable"
    await source.aclose()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: load(""), "needs a document"),
        (lambda: load("x.yaml#label=a"), "'label' is not a filter"),
        (lambda: load("x.yaml#pets"), "is not a filter"),
        (lambda: load("ftp://example.org/x"), "right are a file, or an http or https URL"),
        (lambda: OpenApiSource("x.yaml", server="example.org"), "not an address of a server"),
        (lambda: OpenApiSource("x.yaml", server="https://me:pw@example.org"), "credentials go into auth"),
        (lambda: OpenApiSource("x.yaml", tags="pets"), "tags is a list of texts"),
        (lambda: from_table({}), "place is missing"),
        (lambda: from_table({"place": "x", "tag": []}), "did you mean tags"),
        (
            lambda: from_table({"place": "x", "auth": {"k": "${NOT_SET}"}}, {}),
            r"auth\.k: the environment variable NOT_SET is not set",
        ),
        (lambda: from_table({"place": "x", "page_limit": "3"}), "page_limit is a whole number"),
        (lambda: from_table({"place": "x", "allow_hosts": ["a b"]}), "'a b' is not a host"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "pw@" not in str(caught.value)
    assert isinstance(caught.value, ConfigError) == ("from_table" in make.__code__.co_names)
