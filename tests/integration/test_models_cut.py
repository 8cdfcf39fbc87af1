"""Answers that were cut off before their end, behind an endpoint that says nothing else than what the test tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from replan import Replan, tool

pytestmark = pytest.mark.anyio
PLAN = json.dumps(
    {
        "steps": [{"step_id": "b", "tool": "order", "parameters": {"item": "cup"}}],
        "ask_first": "Shall I really order? It costs 900 euros.",
    }
)
CUT = PLAN[: PLAN.index(', "ask_first"')]
DONE = json.dumps({"steps": [{"step_id": "b", "tool": "order", "parameters": {"item": "cup"}}]})
DIMENSIONS = {"completeness": 95, "correctness": 95, "efficiency": 90, "reliability": 90}
VERDICT = json.dumps(
    {"overall_score": 95, "is_successful": True, "dimensions": DIMENSIONS, "status": "failed"}
)
GOOD = json.dumps(
    {"overall_score": 95, "is_successful": True, "dimensions": DIMENSIONS, "final_output": "done"}
)
USED = {"prompt_tokens": 3000, "completion_tokens": 60, "total_tokens": 3060}


class Said:
    """What the endpoint answers to plans and to verdicts, each with its reason to end; and what it was asked."""

    def __init__(
        self, plan: tuple[str, str | None], verdict: tuple[str, str | None] = (GOOD, "stop")
    ) -> None:
        self.plan, self.verdict = plan, verdict
        self.asked: list[dict[str, Any]] = []

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if head.startswith(b"get"):
                body, kind = (
                    b'{"object": "list", "data": [{"id": "m", "object": "model"}]}',
                    "application/json",
                )
            else:
                length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                self.asked.append(asked)
                body, kind = self._answer(asked)
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()

    def _answer(self, asked: dict[str, Any]) -> tuple[bytes, str]:
        plan = "You plan tool calls" in json.dumps(asked["messages"])
        text, reason = self.plan if plan else self.verdict
        streamed = bool(asked.get("stream"))
        head = {"id": "c", "created": 1, "model": "m", "object": "chat.completion" + ".chunk" * streamed}
        if not streamed:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            return json.dumps({**head, "choices": [choice], "usage": USED}).encode(), "application/json"
        pieces = [{"role": "assistant", "content": text[:20]}, {"content": text[20:]}]
        events = [{**head, "choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in pieces]
        if reason is not None:
            events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        events.append({**head, "choices": [], "usage": USED})
        lines = [*map(json.dumps, events), "[DONE]"]
        return "".join(f"data: {line}\n\n" for line in lines).encode(), "text/event-stream"


@pytest.fixture
def orders() -> list[str]:
    return []


@contextlib.asynccontextmanager
async def made(said: Said, orders: list[str], folder: Path) -> AsyncIterator[Replan]:
    @tool(effect="once")
    def order(item: str) -> str:
        """Order an item."""
        orders.append(item)
        return "ordered"

    async with said.listening() as url, Replan(tools=[order], db=folder / "log.db", endpoint=url) as replan:
        yield replan


@pytest.mark.parametrize("reason", ["length", "max_tokens", None])
async def test_a_plan_that_was_cut_before_its_question_is_not_run(
    reason: str | None, orders: list[str], tmp_path: Path
) -> None:
    said = Said((CUT, reason))
    async with made(said, orders, tmp_path) as replan:
        result = await replan.run("Order a cup")
    assert (result.status, orders) == ("failed", [])
    assert "limit of output tokens" in str(result.reason)
    assert len(said.asked) <= 5
    assert "cut off before its end" in json.dumps(said.asked[1]["messages"])


async def test_a_verdict_that_was_cut_before_its_no_is_no_yes(orders: list[str], tmp_path: Path) -> None:
    cut = VERDICT[: VERDICT.index(', "status"')]
    async with made(Said((DONE, "stop"), (cut, "length")), orders, tmp_path) as replan:
        result = await replan.run("Order a cup")
    assert (result.is_success, orders) == (False, ["cup"])
    assert "limit of output tokens" in str(result.reason)


async def test_thoughts_that_use_up_the_limit_are_told_as_that(orders: list[str], tmp_path: Path) -> None:
    said = Said(("", "length"))
    async with made(said, orders, tmp_path) as replan:
        result = await replan.run("Order a cup")
    assert "limit of output tokens" in str(result.reason)
    assert len(said.asked) <= 4


ODD = [
    DONE[:-1] + ",}",
    f"The parameters of {{order}} are known.\n{DONE}",
    repr(json.loads(DONE)),
    f"```json\n{DONE[:-1]}, // that is all\n}}\n```",
]
"""Whole, and as no strict reader of JSON takes it."""


@pytest.mark.parametrize("reason", ["stop", None])
@pytest.mark.parametrize("text", ODD)
async def test_what_comes_to_its_end_and_is_no_strict_json_is_not_taken_for_cut(
    text: str, reason: str | None, orders: list[str], tmp_path: Path
) -> None:
    said = Said((text, reason))
    async with made(said, orders, tmp_path) as replan:
        result = await replan.run("Order a cup")
    assert (result.is_success, orders) == (True, ["cup"])
    assert "cut off before its end" not in json.dumps([one["messages"] for one in said.asked])


@pytest.mark.parametrize(
    ("text", "reason"), [(DONE, "length"), (DONE, None), (f"```json\n{DONE}\n```", None)]
)
async def test_what_is_whole_by_itself_is_taken_whatever_the_reason(
    text: str, reason: str | None, orders: list[str], tmp_path: Path
) -> None:
    async with made(Said((text, reason)), orders, tmp_path) as replan:
        result = await replan.run("Order a cup")
    assert (result.is_success, orders) == (True, ["cup"])
