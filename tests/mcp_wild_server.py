"""An MCP server over stdio that answers anything with anything: python mcp_wild_server.py SEED. The same for a seed.

An even seed is wild with calls only: it starts and lists as it should.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

chance = random.Random(int(sys.argv[1]))
WORDS: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    {"a": {}},
    "tools",
    "2025-06-18",
]


def put(raw: bytes) -> None:
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def right(message: dict[str, Any]) -> Any:
    match message.get("method"):
        case "initialize":
            info = {"name": "wild", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
        case _:
            return {"content": [{"type": "text", "text": "3"}]}


def bent(value: Any) -> Any:
    """The value with something in it changed, left out or added."""
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        return {**value, key: bent(value[key])}
    if isinstance(value, list) and value and chance.random() < 0.8:
        return [bent(value[0]), *value[1:], *([chance.choice(WORDS)] if chance.random() < 0.3 else [])]
    return chance.choice(WORDS)


def answer(message: dict[str, Any]) -> None:
    number = message.get("id")
    whole = {"jsonrpc": "2.0", "id": number, "result": right(message)}
    calm = int(sys.argv[1]) % 2 == 0 and message.get("method") != "tools/call"
    match -1 if calm else chance.randrange(24):
        case 0 | 1 | 2 | 3:
            put(json.dumps(bent(whole)).encode() + b"\n")
        case 4 | 5:
            put(json.dumps({**whole, "result": bent(whole["result"])}).encode() + b"\n")
        case 6:
            put(json.dumps(whole).encode()[: chance.randrange(60)] + b"\n")
        case 7:
            put(bytes(chance.randrange(256) for _ in range(200)) + b"\n")
        case 8:
            put(b'{"jsonrpc": "2.0", "id": 1, "result": ' + b"[" * 100_000 + b"\n")
        case 9:
            put(json.dumps({"jsonrpc": "2.0", "id": number, "error": chance.choice(WORDS)}).encode() + b"\n")
        case 10:
            error = {"code": chance.choice([-32602, -32603, 7]), "message": "no"}
            put(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n")
        case 11:
            asked = chance.choice(
                ["elicitation/create", "roots/list", "sampling/createMessage", "ping", "what"]
            )
            put(
                json.dumps(
                    {"jsonrpc": "2.0", "id": 5, "method": asked, "params": chance.choice(WORDS)}
                ).encode()
                + b"\n"
            )
        case 12:
            for _ in range(50):
                told = chance.choice(
                    ["notifications/progress", "notifications/tools/list_changed", "notifications/what"]
                )
                put(
                    json.dumps({"jsonrpc": "2.0", "method": told, "params": {"progress": "x"}}).encode()
                    + b"\n"
                )
        case 13:
            put(b"x" * 300_000)
        case 14:
            os.close(1)
        case 15:
            os._exit(chance.randrange(3))
        case 16:
            pass
        case 17:
            put((json.dumps(whole) + "\n").encode() * 3)
        case _:
            put(json.dumps(whole).encode() + b"\n")


for line in sys.stdin:
    answer(json.loads(line))
