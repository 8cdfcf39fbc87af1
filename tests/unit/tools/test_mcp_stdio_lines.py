"""Whose answer a line of a server's output is, where it cannot be read."""

from __future__ import annotations

import json

import pytest

from replan.tools.mcp.stdio import Lines
from replan.tools.mcp.traffic import Traffic

BODY = {"content": [{"type": "text", "text": "x" * 9_000}]}
IDS = {
    "first": {"jsonrpc": "2.0", "id": 1, "result": BODY},
    "last": {"jsonrpc": "2.0", "result": BODY, "id": 1},
    "text": {"jsonrpc": "2.0", "id": "1", "result": BODY},
    "nowhere": {"jsonrpc": "2.0", "result": BODY},
}


@pytest.mark.parametrize("where", list(IDS))
def test_a_call_that_begins_within_a_large_answer_of_another_is_not_taken_along(where: str) -> None:
    traffic = Traffic()
    lines = Lines(traffic, max_bytes=5_000)
    answer = json.dumps(IDS[where]).encode()
    traffic.open[1] = "tools/call"
    told = lines.feed(answer[:6_000])
    for message in told:
        traffic.received(message)
    traffic.open[2] = "tools/call"
    told += lines.feed(answer[6_000:] + b"\n")
    assert [getattr(message.message, "id", None) for message in told] == [1]


def test_a_late_answer_that_cannot_be_read_is_not_that_of_the_only_open_call() -> None:
    traffic = Traffic()
    traffic.open[2] = "tools/call"
    assert Lines(traffic, max_bytes=5_000).feed(json.dumps(IDS["first"]).encode() + b"\n") == []
    assert Lines(traffic, max_bytes=5_000).feed(b'{"jsonrpc":"2.0","id":1,"result":\n') == []
