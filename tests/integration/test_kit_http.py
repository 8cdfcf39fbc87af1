"""Requests over HTTP: what they give, which addresses they reach, and what a failure means."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from replan.core.failures.faults import classify
from replan.errors import InputError, ToolCallError
from replan.ports import ToolCall
from replan.tools.kit import AddressRules, http

pytestmark = pytest.mark.anyio

Reply = Callable[[str, str, dict[str, str], bytes], bytes]


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def served(reply: Reply) -> AsyncIterator[str]:
    """A server that gives what `reply(method, path, headers, body)` says; its URL. Nothing for b""."""
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            method, path, _ = lines[0].split()
            headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            said = reply(method, path, headers, body)
            if said:
                writer.write(said)
                await writer.drain()
            else:
                await silent.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        silent.set()


def echo(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    said = {"method": method, "path": path, "headers": headers, "body": body.decode()}
    return answer(b"" if method == "HEAD" else json.dumps(said).encode(), "Content-Type: application/json")


def source_of(*methods: str, **more: Any) -> Any:
    return http(AddressRules(allow_private=True), methods=methods or ("GET", "HEAD"), **more)


@contextlib.asynccontextmanager
async def closing(source: Any) -> AsyncIterator[Any]:
    try:
        yield source
    finally:
        await source.aclose()


async def call(source: Any, tool: str, /, **parameters: Any) -> Any:
    return await source.call(ToolCall(tool, parameters, "the-key", task_id="t", deadline_secs=10))


async def test_effects_and_what_is_sent() -> None:
    every = ("GET", "HEAD", "PUT", "DELETE", "POST", "PATCH")
    async with served(echo) as url, closing(source_of(*every, headers={"X-App": "a"})) as source:
        effects = {spec.id: (spec.effect, spec.volatile) for spec in await source.tools()}
        assert effects == {
            "http_get": ("reads", True),
            "http_head": ("reads", True),
            "http_put": ("repeatable", False),
            "http_delete": ("repeatable", False),
            "http_post": ("once", False),
            "http_patch": ("once", False),
        }
        for method in every:
            more = {} if method in ("GET", "HEAD", "DELETE") else {"json": {"ü": 1}}
            found = await call(
                source, f"http_{method.lower()}", url=f"{url}/x?y=1", headers={"X-Own": "b"}, **more
            )
            assert found["status"] == 200
            if method == "HEAD":
                continue
            said = found["json"]
            assert (said["method"], said["path"]) == (method, "/x?y=1")
            assert (said["headers"]["x-app"], said["headers"]["x-own"]) == ("a", "b")
            assert said["headers"]["traceparent"].startswith("00-")
            assert said["headers"].get("idempotency-key") == (
                "the-key" if method in ("POST", "PATCH") else None
            )
            assert said["body"] == ('{"ü":1}' if more else "")
        found = await call(source, "http_post", url=url, text="hé")
        assert found["json"]["headers"]["content-type"] == "text/plain; charset=utf-8"


async def test_only_methods_that_were_asked_for_are_tools() -> None:
    assert [spec.id for spec in await http().tools()] == ["http_get", "http_head"]
    with pytest.raises(InputError, match="there are GET"):
        http(methods=["FETCH"])
    with pytest.raises(InputError, match="line break") as caught:
        http(headers={"X-Key": "secret\r\nvalue"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        (b'{"a": [1]}', ("Content-Type: application/json; charset=utf-8",), {"json": {"a": [1]}}),
        (b'{"title": "x"}', ("Content-Type: application/problem+json",), {"json": {"title": "x"}}),
        ("grün".encode("latin-1"), ("Content-Type: text/plain; charset=iso-8859-1",), {"text": "grün"}),
        ("grün".encode(), ("Content-Type: text/html",), {"text": "grün"}),
        (b"\xff\xfe\x00", ("Content-Type: image/png",), {"data_url": "data:image/png;base64,//4A"}),
        (b"plain", (), {"text": "plain"}),
    ],
)
async def test_an_answer_comes_as_what_it_is(
    body: bytes, headers: tuple[str, ...], expected: dict[str, Any]
) -> None:
    async with served(lambda *_: answer(body, *headers)) as url, closing(source_of()) as source:
        found = await call(source, "http_get", url=url)
        assert {part: found[part] for part in ("json", "text", "data_url") if part in found} == expected


@pytest.mark.parametrize(
    ("status", "headers", "kind", "happened", "wait"),
    [
        ("400 Bad", (), "http", "no", None),
        ("401 Unauthorized", (), "http", "no", None),
        ("404 Not Found", (), "http", "no", None),
        ("408 Timeout", (), "http", "unknown", None),
        ("429 Slow", ("Retry-After: 7",), "http", "no", 7.0),
        ("500 Oops", (), "http", "unknown", None),
        ("503 Later", ("Retry-After: 3",), "http", "unknown", 3.0),
        ("302 Found", ("Location: /else",), "parameter", "unknown", None),
        ("307 Moved", ("Location: /else",), "parameter", "unknown", None),
    ],
)
async def test_a_status_says_what_happened(
    status: str, headers: tuple[str, ...], kind: str, happened: str, wait: float | None
) -> None:
    reply = answer(b'{"error": "because of X"}', "Content-Type: application/json", *headers, status=status)
    async with served(lambda *_: reply) as url, closing(source_of("POST")) as source:
        with pytest.raises(ToolCallError) as caught:
            await call(source, "http_post", url=f"{url}/p?token=s3cret", json={})
        fault = classify(caught.value)
        assert (fault.kind, fault.happened, fault.retry_after) == (kind, happened, wait)
        assert ("because of X" in fault.message) == (kind == "http")
        assert "s3cret" not in fault.message


async def test_redirects_are_followed_for_reading_and_the_result_of_see_other_is_given() -> None:
    def reply(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        if path == "/old":
            return answer(b"", "Location: /new", status="302 Found" if method == "GET" else "303 See Other")
        return answer(b"new")

    async with served(reply) as url, closing(source_of("GET", "POST")) as source:
        found = await call(source, "http_get", url=f"{url}/old")
        assert (found["text"], found["url"]) == ("new", f"{url}/new")
        found = await call(source, "http_post", url=f"{url}/old")
        assert (found["status"], found["headers"]["location"]) == (303, "/new")
    async with (
        served(lambda *_: answer(b"", "Location: /", status="302 Found")) as url,
        closing(source_of()) as source,
    ):
        with pytest.raises(ToolCallError, match="redirect"):
            await call(source, "http_get", url=url)


async def test_what_has_not_changed_since_it_was_fetched_is_an_answer() -> None:
    def reply(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        assert headers["if-none-match"] == '"7"'
        return answer(b"", "Content-Type: application/json", 'ETag: "7"', status="304 Not Modified")

    async with served(reply) as url:
        source = http(AddressRules(allow_private=True))
        call = ToolCall("http_get", {"url": url, "headers": {"If-None-Match": '"7"'}}, "key")
        assert await source.call(call) == {
            "status": 304,
            "url": url,
            "headers": {"content-type": "application/json", "etag": '"7"', "content-length": "0"},
        }
        await source.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://x.example/",
        "no url",
        "",
        "http://",
        "http://[::1",
        "http://a:99999/",
        "//x",
    ],
)
async def test_a_bad_url_is_refused(url: str) -> None:
    async with closing(source_of()) as source:
        with pytest.raises(ToolCallError) as caught:
            await call(source, "http_get", url=url)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


@pytest.mark.parametrize(
    "headers", [{"Host": "x"}, {"a b": "c"}, {"X": "a\nb"}, {"Content-Length": "0"}, {"": "x"}]
)
async def test_a_bad_header_is_refused(headers: dict[str, str]) -> None:
    async with served(echo) as url, closing(source_of()) as source:
        with pytest.raises(ToolCallError, match="headers") as caught:
            await call(source, "http_get", url=url, headers=headers)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


async def test_private_addresses_are_refused_unless_allowed() -> None:
    async with served(echo) as url, closing(http()) as source:
        with pytest.raises(ToolCallError, match="loopback") as caught:
            await call(source, "http_get", url=url)
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


async def test_a_large_answer_a_false_one_and_a_silent_one() -> None:
    async with served(lambda *_: answer(b"x" * 2000)) as url, closing(source_of(most_bytes=1000)) as source:
        with pytest.raises(ToolCallError, match="larger than 1,000 bytes"):
            await call(source, "http_get", url=url)
    false = answer(b"{no", "Content-Type: application/json")
    async with served(lambda *_: false) as url, closing(source_of("POST")) as source:
        with pytest.raises(ToolCallError, match="says that it is JSON") as caught:
            await call(source, "http_post", url=url)
        assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
    async with served(lambda *_: b"") as url, closing(source_of(timeout_secs=0.2)) as source:
        with pytest.raises((ToolCallError, httpx2.TimeoutException)) as late:
            await call(source, "http_get", url=url)
        assert classify(late.value).kind == "timeout"


async def test_a_closed_source_opens_again() -> None:
    async with served(echo) as url, closing(source_of()) as source:
        await call(source, "http_get", url=url)
        await source.aclose()
        await source.aclose()
        assert (await call(source, "http_get", url=url))["status"] == 200


@pytest.mark.parametrize(
    "name", ["Idempotency-Key", "idempotency-key", "X-Idempotency-Key", "idempotency_key"]
)
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_the_key_is_of_the_call_and_never_a_models(name: str, method: str) -> None:
    async with served(echo) as url, closing(source_of(method)) as source:
        said = await source.call(
            ToolCall(
                f"http_{method.lower()}", {"url": url, "headers": {name: "a model's", "X-A": "b"}}, "the-key"
            )
        )
    sent = said["json"]["headers"]
    assert sent[name.lower()] == "the-key"
    assert sent["x-a"] == "b"
    assert "a model's" not in str(sent)


async def test_a_trace_of_a_model_takes_the_place_of_none() -> None:
    async with served(echo) as url, closing(source_of("POST")) as source:
        given = {"url": url, "headers": {"Traceparent": "00-1-1-01"}}
        said = await source.call(ToolCall("http_post", given, "the-key"))
    assert said["json"]["headers"]["traceparent"] != "00-1-1-01"
