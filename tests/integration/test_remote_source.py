"""Endpoints, limits, lists that change, and what is refused: a tool service over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from remote_wrong_servers import LIST, lists, wrong_grpc, wrong_http

from replan import File, Replan
from replan.cli.doctor import asked
from replan.config import Settings
from replan.errors import InputError, ToolCallError
from replan.ports import Progress, ToolCall
from replan.tools import Catalog, FunctionSource, ToolContext, tool
from replan.tools.remote import RemoteSource, Tls, load
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = pytest.mark.anyio
both = pytest.mark.parametrize("protocol", ["http", "grpc"])


@tool(effect="reads")
async def echo(value: Any) -> Any:
    """Give the value back."""
    return value


@tool(effect="reads")
async def text_of(size: int) -> str:
    """A text of that size."""
    return "x" * size


@tool
async def about(ctx: ToolContext) -> dict[str, Any]:
    """What the tool knows of its call."""
    return {"key": ctx.key, "step": ctx.step_id, "attempt": ctx.attempt, "deadline": ctx.deadline_secs}


def _ports(protocol: str, port: int = 0) -> dict[str, Any]:
    return {"port": port} if protocol == "http" else {"port": None, "grpc_port": port}


@contextlib.asynccontextmanager
async def _served(
    protocol: str, *functions: Any, source: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[RemoteSource]:
    tools = FunctionSource(functions or (echo, text_of, about))
    async with running([tools], keys=Keys(), **_ports(protocol), **more) as serving:
        made = RemoteSource(serving.urls, **(source or {}))
        try:
            yield made
        finally:
            await made.aclose()


@both
async def test_a_call_says_who_makes_it_and_how_long_it_has(protocol: str) -> None:
    async with _served(protocol) as source:
        call = ToolCall("about", {}, "the key", "a task", "a step", 3, 20.0)
        told = await source.call(call)
        assert 0 < told.pop("deadline") <= 21.0  # gRPC rounds it up
        assert told == {"key": "the key", "step": "a step", "attempt": 3}


@tool(effect="reads")
def drawn(mib: int) -> dict[str, Any]:
    """Bytes within an object."""
    return {"picture": File(iter([b"\xff" * 2**20] * mib), "image/png")}


@tool(effect="reads")
def size_of(file: File) -> int:
    """How large it is."""
    return sum(map(len, file))


@both
async def test_bytes_come_as_files_and_go_as_values(protocol: str, tmp_path: Path) -> None:
    async with _served(protocol, drawn, size_of) as source:
        taken = {spec.id: spec.parameters for spec in await source.tools()}["size_of"]
        assert taken["properties"]["file"]["type"] == "string"
        assert "x-replan-file" not in str(taken), "the service cannot open the files of the task"
        steps = [
            {"step_id": "a", "tool": "drawn", "parameters": {"mib": 2}},
            {
                "step_id": "b",
                "tool": "size_of",
                "parameters": {"file": "${a.output.picture}"},
                "dependencies": ["a"],
            },
        ]
        async with Replan(tools=[source], db=tmp_path / "log.db", evaluation="steps") as replan:
            result = await replan.run("go", plan={"steps": steps}, task_id="t")
            assert result.final_output == 2 * 2**20, result.failure
            assert (await replan.output("t", "a"))["picture"].startswith("artifact:bin_")


@both
async def test_large_values_go_both_ways_and_limits_hold(protocol: str) -> None:
    async with _served(protocol, source={"max_result_bytes": 12 * 2**20}, max_request_bytes=2**20) as source:
        assert len(await source.call(ToolCall("text_of", {"size": 10 * 2**20}, "1"))) == 10 * 2**20
        with pytest.raises(ToolCallError, match="larger than 12,582,912 bytes") as caught:
            await source.call(ToolCall("text_of", {"size": 13 * 2**20}, "2"))
        assert (caught.value.kind, caught.value.happened) == ("output", "unknown")
        with pytest.raises(ToolCallError, match="takes no more than 1,048,576") as caught:
            await source.call(ToolCall("echo", {"value": "x" * 2**21}, "3"))
        assert (caught.value.kind, caught.value.happened) == ("parameter", "no")


@both
async def test_a_server_does_not_send_more_than_its_own_limit(protocol: str) -> None:
    async with _served(protocol, max_result_bytes=1000) as source:
        with pytest.raises(ToolCallError, match="larger than 1,000 bytes") as caught:
            await source.call(ToolCall("text_of", {"size": 2000}, "1"))
        assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


@both
async def test_a_busy_server_turns_calls_away_until_there_is_room(protocol: str) -> None:
    go, begun = asyncio.Event(), asyncio.Event()

    @tool
    async def hold() -> int:
        begun.set()
        await go.wait()
        return 1

    async with _served(protocol, hold, max_calls=1, source={"max_retries": 0}) as source:
        first = asyncio.create_task(source.call(ToolCall("hold", {}, "1")))
        await begun.wait()
        with pytest.raises(ToolCallError, match=r"limit of concurrent calls \(1\)") as caught:
            await source.call(ToolCall("hold", {}, "2"))
        error = caught.value
        assert (error.kind, error.status, error.happened, error.retry_after) == ("http", 429, "no", 0.5)
        go.set()
        assert await first == 1
        assert await source.call(ToolCall("hold", {}, "2")) == 1


async def test_a_call_that_was_turned_away_is_made_again_after_the_wait_that_is_asked_for() -> None:
    busy = b"HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\nConnection: close\r\n\r\n"
    done = head + b'{"output":1}'
    async with wrong_http(LIST, busy, done) as url:
        source = RemoteSource([url])
        begun = asyncio.get_running_loop().time()
        assert await source.call(ToolCall("garbage", {}, "key")) == 1
        assert asyncio.get_running_loop().time() - begun >= 1.0
        await source.aclose()


async def test_an_endpoint_that_failed_three_times_in_a_row_is_left_alone_for_a_second() -> None:
    asked = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        writer.close()

    dead = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with running([FunctionSource([echo])], keys=Keys(), port=0) as serving:
        source = RemoteSource([f"http://127.0.0.1:{dead.sockets[0].getsockname()[1]}", *serving.urls])
        await source.tools()
        asked, begun = 0, asyncio.get_running_loop().time()
        for number in range(20):
            assert await source.call(ToolCall("echo", {"value": number}, f"{number}")) == number
        assert 3 <= asked <= 3 + (asyncio.get_running_loop().time() - begun)
        await source.aclose()
    dead.close()
    await dead.wait_closed()


@both
async def test_a_wrong_token_is_told_and_never_shown(protocol: str) -> None:
    async with _served(protocol, token="right-token", source={"token": "wrong-token"}) as source:
        with pytest.raises(ToolCallError, match="missing or wrong") as caught:
            await source.tools()
        assert (caught.value.kind, caught.value.status, caught.value.happened) == ("http", 401, "no")
        assert "[tool_service] endpoint and token, or APP_TOOL_SERVICE_TOKEN" in str(caught.value)
        assert "wrong-token" not in str(caught.value)
        assert "wrong-token" not in repr(vars(source))


@both
async def test_another_endpoint_takes_over_and_the_first_is_taken_up_again(protocol: str) -> None:
    def give(name: str) -> FunctionSource:
        @tool(effect="reads")
        async def where() -> str:
            return name

        return FunctionSource([where])

    second = running([give("second")], keys=Keys(), **_ports(protocol))
    async with second as serving, contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(running([give("first")], keys=Keys(), **_ports(protocol)))
        source = RemoteSource([*first.urls, *serving.urls])
        call = ToolCall("where", {}, "key")
        assert await source.call(call) == "first"
        await stack.aclose()
        assert [await source.call(call) for _ in range(5)] == ["second"] * 5
        port = int(first.urls[0].rpartition(":")[2])
        async with running([give("first")], keys=Keys(), **_ports(protocol, port)):
            async with asyncio.timeout(30):
                while await source.call(call) != "first":
                    pass
        await source.aclose()


async def test_a_fallback_may_speak_the_other_protocol_and_be_down_at_the_start() -> None:
    tools = FunctionSource([echo])
    async with running([tools], keys=Keys(), port=None, grpc_port=0) as serving:
        source = RemoteSource(["http://127.0.0.1:1", *serving.urls])
        assert [spec.id for spec in await source.tools()] == ["echo"]
        (problem,) = source.problems()
        assert "cannot connect to http://127.0.0.1:1" in problem.message
        assert await source.call(ToolCall("echo", {"value": 1}, "key")) == 1
        await source.aclose()


async def test_where_none_lists_the_one_that_is_there_says_why() -> None:
    async with running([FunctionSource([echo])], keys=Keys(), token="a-token", port=0) as serving:
        source = RemoteSource(["http://127.0.0.1:1", *serving.urls], token="another")
        with pytest.raises(ToolCallError) as caught:
            await source.tools()
        catalog = Catalog([source])
        await catalog.open()
        (problem,) = catalog.problems
        await catalog.aclose()
    assert caught.value.status == 401
    for told in (caught.value, problem):
        assert str(told).count("APP_TOOL_SERVICE_TOKEN") == 1


async def test_endpoints_without_a_shared_memory_make_no_promise_of_keys(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        serving = [
            await stack.enter_async_context(
                running([FunctionSource([about])], keys=Keys(tmp_path / f"{n}.db"), port=0)
            )
            for n in range(2)
        ]
        alone, together = RemoteSource(serving[0].urls), RemoteSource([each.urls[0] for each in serving])
        assert [spec.honours_key for spec in await alone.tools()] == [True]
        assert [spec.honours_key for spec in await together.tools()] == [False]
        assert any("do not share one memory" in told.message and told.works for told in together.problems())
        await alone.aclose()
        await together.aclose()
        ours, other = (each.urls[0] for each in serving)
        for second, state in ((other, "note"), ("http://127.0.0.1:9", "problem")):
            service = {"endpoint": ours, "fallback_endpoint": second, "protocol": "http"}
            settings = Settings.model_validate({"tool_service": service})
            found = await asyncio.to_thread(lambda settings=settings: list(asked.tools(settings, [])))
            assert [one.state for one in found if one.name == "tools tool_service"] == ["ok"]
            told = {one.state for one in found if one.name == "tools"}
            assert state in told
            assert all(one.todo for one in found if one.name == "tools")


@both
async def test_a_list_that_changes_is_taken_up(protocol: str) -> None:
    class Changing(FunctionSource):
        def watch(self, changed: Any) -> None:
            self.changed = changed

        def put(self, *functions: Any) -> None:
            super().__init__(functions)
            self.changed()

    tools = Changing([echo])
    async with running([tools], keys=Keys(), **_ports(protocol)) as serving:
        catalog = Catalog([RemoteSource(serving.urls)])
        await catalog.open()
        renewed = asyncio.Event()
        catalog.watch(renewed.set)
        assert [spec.id for spec in catalog.specs()] == ["echo"]
        tools.put(echo, about)
        async with asyncio.timeout(20):
            while [spec.id for spec in catalog.specs()] != ["echo", "about"]:
                await renewed.wait()
                renewed.clear()
        await catalog.aclose()


@both
async def test_names_are_helped_with(protocol: str) -> None:
    async with _served(protocol) as source:
        with pytest.raises(ToolCallError, match="the nearest are: text_of"):
            await source.call(ToolCall("textof", {}, "key"))


async def test_one_bad_tool_is_left_out_and_told() -> None:
    tools = [
        {"id": "good", "effect": "reads", "parameters": {"type": "object"}},
        {"id": "", "effect": "reads"},
        "no object",
        {"id": "wordy", "effect": "sometimes", "parameters": {"type": "object"}},
        {"id": "listless", "effect": "reads", "parameters": [1]},
    ]
    async with lists(tools) as url:
        source = RemoteSource([url])
        assert [(spec.id, spec.effect) for spec in await source.tools()] == [
            ("good", "reads"),
            ("wordy", "once"),
        ]
        told = " | ".join(f"{each.tool}: {each.message}" for each in source.problems())
        for words in (
            "tool 1: left out: its id is missing",
            "tool 2 is not an object",
            "wordy: its effect is 'sometimes'",
            "listless: left out: parameters",
        ):
            assert words in told
        await source.aclose()


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        pytest.param(b"<html>", "no list of tools as the protocol has it", id="no JSON"),
        pytest.param(b'{"protocol": "replan-tools/9", "tools": []}', "replan-tools/9", id="another protocol"),
        pytest.param(b'{"protocol": "replan-tools/1"}', "`tools` is a list", id="no tools"),
    ],
)
async def test_a_list_that_is_none_is_an_error_in_words(listing: bytes, words: str) -> None:
    async with wrong_http(listing) as url:
        source = RemoteSource([url])
        with pytest.raises(ToolCallError, match=words):
            await source.tools()
        await source.aclose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://host:1", "is not an endpoint of a tool service"),
        ("http://", "is not an endpoint of a tool service"),
        ("grpc://host", "gRPC has no usual port"),
        ("grpc://host:1/path", "with gRPC no path"),
        ("http://host:99999", "is not an endpoint"),
        ("http://user:secret@host", "not a place for a password"),
    ],
)
def test_what_is_no_endpoint_is_told(url: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load(url)
    assert "secret" not in str(caught.value)


async def test_others_are_not_served_without_a_token() -> None:
    with pytest.raises(InputError, match="everybody could call your tools"):
        async with running([FunctionSource([echo])], keys=Keys(), host="0.0.0.0", port=0):
            pass
    async with running([FunctionSource([echo])], keys=Keys(), host="0.0.0.0", port=0, insecure=True):
        pass


@both
async def test_a_taken_port_is_told(protocol: str) -> None:
    async with running([FunctionSource([echo])], keys=Keys(), **_ports(protocol)) as serving:
        port = int(serving.urls[0].rpartition(":")[2])
        with pytest.raises(InputError, match=r"listen on 127\.0\.0\.1"):
            async with running([FunctionSource([echo])], keys=Keys(), **_ports(protocol, port)):
                pass


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/execute", b"{", 400),
        ("POST", "/v1/execute", b'{"tool": "echo", "wrong": 1}', 400),
        ("POST", "/v1/execute", b'{"tool": "echo", "attempt": 0}', 400),
        ("POST", "/v1/execute", b'{"tool": "echo", "deadline_secs": -1}', 400),
        ("POST", "/v1/execute", b'{"tool": "echo", "parameters": {"value": NaN}}', 400),
        ("POST", "/v1/execute", b"[" * 100_000, 400),
        ("POST", "/v1/execute", b'{"tool": "' + b"x" * 3000 + b'"}', 413),
        ("GET", "/v1/execute", b"", 405),
        ("GET", "/", b"", 404),
        ("GET", "/v1/tools?wait=long", b"", 400),
    ],
)
async def test_a_bad_request_gets_words_and_has_no_effect(
    method: str, path: str, body: bytes, status: int
) -> None:
    tools, limit = FunctionSource([echo]), 200_000 if len(body) > 10_000 else 2000
    async with running([tools], keys=Keys(), port=0, max_request_bytes=limit) as serving:
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.request(method, serving.urls[0] + path, content=body)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error["message"]
        assert error["happened"] == "no"


@pytest.mark.parametrize(
    ("head", "body", "kind", "happened", "wait"),
    [
        ("502 Bad Gateway", "<html>", "http", "unknown", None),
        ("500 Internal Server Error", "", "http", "unknown", None),
        ("503 Service Unavailable\r\nRetry-After: 7", "", "http", "unknown", 7),
        ("404 Not Found", "nothing here", "http", "no", None),
        ("302 Found\r\nLocation: /payments/17", "", "http", "unknown", None),
        ("303 See Other\r\nLocation: /payments/17", "see other", "http", "unknown", None),
        ("307 Temporary Redirect\r\nLocation: http://elsewhere.invalid/", "", "http", "unknown", None),
        ("204 No Content", "", "http", "unknown", None),
        ("429 Too Many Requests", '{"error": {"kind": "http", "message": "busy", "happened": "no"}}', "http", "no", None),
        ("500 Oops", '{"error": {"kind": "unavailable", "message": "x", "happened": "no"}}', "unavailable", "no", None),
    ],
)  # fmt: skip
async def test_a_status_without_the_words_of_the_protocol_says_as_much_as_it_can(
    head: str, body: str, kind: str, happened: str, wait: float | None
) -> None:
    answer = f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
    async with wrong_http(LIST, answer) as url:
        source = RemoteSource([url], max_retries=0)
        with pytest.raises(ToolCallError) as caught:
            await source.call(ToolCall("garbage", {}, "key"))
        await source.aclose()
    found = caught.value
    assert (found.kind, found.happened, found.retry_after) == (kind, happened, wait)
    assert found.status == int(head[:3])


async def test_empty_lines_of_a_stream_are_read_over() -> None:
    lines = b'\n\n{"progress": {"message": "half"}}\n\r\n\n{"output": 1}\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"
    seen: list[Progress] = []
    async with wrong_http(LIST, head + lines) as url:
        source = RemoteSource([url])
        assert await source.call(ToolCall("garbage", {}, "key", report=seen.append)) == 1
        await source.aclose()
    assert [each.message for each in seen] == ["half"]


@pytest.mark.prove
async def test_a_call_that_says_nothing_gets_an_empty_line_within_30_s() -> None:
    @tool
    async def hold() -> None:
        await asyncio.Event().wait()

    async with (
        running([FunctionSource([hold])], keys=Keys(), port=0) as serving,
        httpx2.AsyncClient(base_url=serving.urls[0], trust_env=False, timeout=30) as client,
        client.stream(
            "POST", "/v1/execute", json={"tool": "hold"}, headers={"Accept": "application/x-ndjson"}
        ) as answer,
    ):
        assert await anext(answer.aiter_raw()) == b"\n"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not there: no certificate can be made")
    folder = tmp_path_factory.mktemp("tls")
    made = Tls(folder / "certificate.pem", folder / "key.pem")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    return made


@both
async def test_tls_is_checked(protocol: str, tls: Tls) -> None:
    async with running([FunctionSource([echo])], keys=Keys(), tls=tls, **_ports(protocol)) as serving:
        trusting = RemoteSource(serving.urls, ca_file=tls.certificate)
        assert serving.urls[0].startswith(f"{protocol}s://")
        assert await trusting.call(ToolCall("echo", {"value": 1}, "key")) == 1
        await trusting.aclose()
        distrusting = RemoteSource(serving.urls)
        with pytest.raises(ToolCallError) as caught:
            await distrusting.tools()
        assert (caught.value.kind, caught.value.happened) == ("refused", "no")
        await distrusting.aclose()


async def test_the_standard_health_check_of_grpc_answers() -> None:
    import grpc.aio

    async with (
        running([FunctionSource([echo])], keys=Keys(), port=None, grpc_port=0, token="t") as serving,
        grpc.aio.insecure_channel(serving.urls[0].removeprefix("grpc://")) as channel,
    ):
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert await check(b"") == b"\x08\x01"
        with pytest.raises(grpc.aio.AioRpcError, match="no service 'other'"):
            await check(b"\x0a\x05other")


async def test_a_web_page_cannot_call_tools_of_a_server_without_a_token() -> None:
    made: list[str] = []

    @tool
    def pay(to: str) -> str:
        made.append(to)
        return to

    async with running([FunctionSource([pay])], keys=Keys(), port=0) as serving, httpx2.AsyncClient() as web:
        url, body = f"{serving.urls[0]}/v1/execute", b'{"tool": "pay", "parameters": {"to": "eve"}}'
        for origin in ("https://evil.example", "null", serving.urls[0]):
            # As a browser sends without asking first: a plain text, and where it comes from.
            headers = {"Content-Type": "text/plain", "Origin": origin}
            answer = await web.post(url, content=body, headers=headers)
            assert (answer.status_code, answer.json()["error"]["happened"]) == (403, "no")
        assert made == []
        assert (await web.post(url, content=body)).json() == {"output": "eve"}


@both
@pytest.mark.parametrize(
    "wrong",
    [
        {"token": "secret\n"},
        {"token": "se cret"},
        {"token": "sécret"},
        {"headers": {"X-Key": "secret\r\nX-Other: secret"}},
        {"headers": {"X-Key": "sécret"}},
        {"headers": {"X Key": "secret"}},
    ],
)
async def test_a_token_or_header_that_cannot_be_sent_is_refused_and_not_shown(
    protocol: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError) as caught:
        RemoteSource(["127.0.0.1:8470"], protocol=protocol, **wrong)  # type: ignore[arg-type]
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@tool(effect="once")
async def hang() -> str:
    """Say that it works, and never end."""
    await asyncio.Event().wait()
    return ""


@tool(effect="once", timeout=0.4)
async def hang_by_its_own_limit() -> str:
    """The same, with a limit of its own."""
    await asyncio.Event().wait()
    return ""


@both
@pytest.mark.parametrize("name", ["hang", "hang_by_its_own_limit"])
async def test_the_limit_of_a_service_s_calls_holds_within_a_task(
    protocol: str, name: str, tmp_path: Path
) -> None:
    secs = 0.3 if name == "hang" else 9.0
    async with (
        _served(protocol, hang, hang_by_its_own_limit, source={"timeout_secs": secs}) as source,
        Replan(tools=[source], db=tmp_path / "log.db", evaluation="steps") as replan,
    ):
        begun = asyncio.get_running_loop().time()
        result = await replan.run("Wait", plan={"steps": [{"step_id": "a", "tool": name}]})
        took = asyncio.get_running_loop().time() - begun
    assert not result.succeeded
    assert took < 8.0, took
    assert result.failure is not None
    assert result.failure.code == "outcome_unknown"


@both
async def test_a_step_may_have_longer_than_the_service_says(protocol: str, tmp_path: Path) -> None:
    async with (
        _served(protocol, slowly, source={"timeout_secs": 0.2}) as source,
        Replan(tools=[source], db=tmp_path / "log.db", evaluation="steps") as replan,
    ):
        steps = [{"step_id": "a", "tool": "slowly", "timeout_secs": 20}]
        assert (await replan.run("Wait", plan={"steps": steps})).succeeded


@tool(effect="once")
async def slowly() -> str:
    """Take a while."""
    await asyncio.sleep(0.5)
    return "done"


@pytest.mark.parametrize("answer", [b"\xff\xff\xff", b"\x12\x05a", b""])
async def test_what_is_no_message_leaves_it_open_what_happened(answer: bytes) -> None:
    async with wrong_grpc(answer) as url:
        source = RemoteSource([url], max_retries=0)
        with pytest.raises(ToolCallError, match=r"protocol|neither") as caught:
            await source.call(ToolCall("garbage", {}, "key"))
        await source.aclose()
    assert (caught.value.kind, caught.value.happened) == ("output", "unknown")


@pytest.mark.parametrize("url", ["http://[::1/v1", "grpc://u:pw@[::1", "http://[::1]:x/"])
def test_an_address_that_cannot_be_read_is_told_without_what_is_secret(url: str) -> None:
    with pytest.raises(InputError, match=r"not an endpoint|not a place") as caught:
        RemoteSource([url])
    assert "pw" not in str(caught.value)
