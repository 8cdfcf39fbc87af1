"""The published rules find no fault in our server and in one written in Node.js, and every planted fault."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replan.errors import InputError
from replan.ports import ToolCall
from replan.tools import FunctionSource
from replan.tools.loading import load_tools
from replan.tools.remote import RemoteSource
from replan.tools.remote.conformance import check
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

pytestmark = pytest.mark.anyio
TOKEN = "a-token-of-the-tests"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    NODE is None, reason="Node.js is not there: the server of another language is not tried"
)

FAULTS: tuple[dict[str, str], ...] = (
    {
        "effect": "effects are told",
        "values": "every JSON value",
        "mixed up": "calls run side by side",
        "progress": "progress comes in order",
        "unknown tool": "an unknown tool",
    },
    {
        "store": "another memory of keys",
        "content": "a key used for another call",
        "freed": "frees its key",
        "cancel all": "leaves the other",
    },
    {
        "cancel": "cancel reaches the tool",
        "disconnect": "a client that goes away",
        "unchanged": "a known revision",
        "tag": "as ETag",
        "health": "the health check",
    },
    {
        "plain": "application/json gets the outcome alone",
        "malformed": "not a request is refused with 400",
        "nowhere": "an unknown path",
    },
    {
        "422": "the status of its kind",
        "fields": "a field that there is not",
        "outcome twice": "one outcome",
        "away": "when to come again",
        "in doubt": "whose end is not known",
    },
    {"401": "a missing or wrong token"},
    {"token": "without the token"},
    {"parameters": "wrong parameters"},
    {"deadline": "a call ends at its deadline"},
    {"words": "keeps its words"},
    {"happened": "keeps its words"},
    {"one by one": "calls run side by side"},
    {"too many": "calls run side by side"},
    {"schema": "every schema is valid"},
    {"keys": "the same key twice"},
    {"join": "the same key at the same time"},
)
"""By server: what it does wrong, and the rule that finds it. Those that a server has together break one rule each."""


@contextlib.asynccontextmanager
async def node(*faults: str, token: str = TOKEN) -> AsyncIterator[str]:
    assert NODE is not None
    process = await asyncio.create_subprocess_exec(
        NODE,
        str(Path(__file__).with_name("remote_node_server.mjs")),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TEST_TOKEN": token, "FAULTS": ",".join(faults)},
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.stdout.read()
        await process.wait()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
async def test_our_own_server_keeps_every_rule(protocol: str) -> None:
    ports = {"port": 0} if protocol == "http" else {"port": None, "grpc_port": 0}
    tools = load_tools("replan.tools.remote.conformance_tools")
    async with running([tools], keys=Keys(), token=TOKEN, **ports) as serving:
        found = await check(serving.urls[0], token=TOKEN)
    odd = [each for each in found if each.verdict != "ok"]
    assert [each.verdict for each in odd] == ["skipped"] * (protocol == "http"), odd
    assert all("Retry-After" in each.rule for each in odd), odd
    assert len(found) >= 20


@needs_node
async def test_a_server_in_another_language_keeps_every_rule() -> None:
    async with node() as url:
        assert [each for each in await check(url, token=TOKEN) if each.verdict != "ok"] == []


@needs_node
@pytest.mark.parametrize("faults", [(), ("origin",)])
async def test_a_server_without_a_token_takes_no_calls_of_web_pages(faults: tuple[str, ...]) -> None:
    async with node(*faults, token="") as url:
        found = [each for each in await check(url) if each.verdict != "ok"]
    assert ["a web page" in each.rule for each in found] == [True] * len(faults), found


async def test_our_own_server_turns_away_with_a_time_to_come_again() -> None:
    tools = load_tools("replan.tools.remote.conformance_tools")
    async with running([tools], keys=Keys(), port=0, max_calls=25) as serving:
        assert [each for each in await check(serving.urls[0]) if each.verdict != "ok"] == []


@needs_node
async def test_a_server_in_another_language_serves_calls() -> None:
    async with node() as url:
        source = RemoteSource([url], token=TOKEN)
        try:
            assert "conformance_echo" in [spec.id for spec in await source.tools()]
            assert await source.call(ToolCall("conformance_count", {"name": "a"}, "key")) == {"count": 1}
            assert await source.call(ToolCall("conformance_count", {"name": "a"}, "key")) == {"count": 1}
        finally:
            await source.aclose()


@needs_node
@pytest.mark.parametrize("faults", FAULTS, ids=", ".join)
async def test_every_planted_fault_is_found(faults: dict[str, str]) -> None:
    async with node(*faults) as url:
        found = [each for each in await check(url, token=TOKEN) if each.verdict == "broken"]
    assert all(each.reason for each in found)
    by_fault = {fault: [each for each in found if rule in each.rule] for fault, rule in faults.items()}
    if len(faults) == 1:
        assert all(by_fault.values()), found
    else:
        assert {fault: len(broken) for fault, broken in by_fault.items()} == dict.fromkeys(faults, 1), found
        assert len(found) == len(faults)


@needs_node
async def test_rules_of_keys_are_skipped_where_a_server_honours_none() -> None:
    async with node("no keys") as url:
        found = await check(url, token=TOKEN)
    skipped = [each for each in found if each.verdict == "skipped"]
    assert all("key" in each.rule for each in skipped)
    assert len(skipped) >= 5
    assert {each.reason for each in skipped} == {"the server says that it honours no keys (keys.store)"}
    assert not [each for each in found if each.verdict == "broken"]


async def test_a_server_without_the_tools_of_the_suite_is_told_what_to_offer() -> None:
    async def other() -> None: ...

    async with running([FunctionSource([other])], keys=Keys(), port=0) as serving:
        with pytest.raises(InputError, match="it has to offer conformance_cancelled"):
            await check(serving.urls[0])


async def test_a_server_that_is_not_there_cannot_be_checked() -> None:
    with pytest.raises(InputError, match="gave no list of tools: cannot connect"):
        await check("http://127.0.0.1:1")
