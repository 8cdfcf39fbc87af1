"""An MCP server over stdio that tells everything that it knows: its arguments, its environment, what it is called with."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PASSWORD = {"type": "string", "format": "password"}
TOOLS = [
    {
        "name": "repeat",
        "inputSchema": {"type": "object", "properties": {"word": {"anyOf": [PASSWORD, {"type": "null"}]}}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "deny",
        "inputSchema": {"type": "object", "properties": {"word": PASSWORD}},
        "annotations": {"readOnlyHint": True},
    },
]


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "repeats", "version": "1"},
        }
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    if message["method"] == "tools/call":
        known = [*sys.argv[1:], os.environ.get("REPEATS_TOKEN"), message["params"]["arguments"].get("word")]
        print("stderr:", known, file=sys.stderr, flush=True)
        text = f"I know {json.dumps(known)}"
        return {"content": [{"type": "text", "text": text}], "isError": message["params"]["name"] == "deny"}
    return None


for line in sys.stdin:
    message = json.loads(line)
    result = answer(message)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result or {}}), flush=True)
