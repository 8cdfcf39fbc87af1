"""E4 and S8's MCP server: written by hand on the standard library, since a proper one does not answer like this."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bench.conformance.agents import Asked, Script
from bench.conformance.case import Calls, Cases, Facts, ended
from bench.conformance.mcp_faults import Connect

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ERROR = {"code": -32600, "message": "the session of the ledger is closed"}
CHART = {
    "content": [
        {"type": "text", "text": "A chart of it"},
        {"type": "image", "mimeType": "image/png", "data": PIXEL},
    ],
    "structuredContent": {"total": 4711},
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "chart")]


class Handler(BaseHTTPRequestHandler):
    """Streamable HTTP with whole answers."""

    protocol_version = "HTTP/1.1"
    calls: Calls

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(200, b"")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if "id" not in asked:
            self._send(202, b"")
            return
        answer = {"jsonrpc": "2.0", "id": asked["id"], **self._answer(asked)}
        self._send(200, json.dumps(answer).encode())

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        params = asked.get("params") or {}
        match asked["method"], params.get("name"):
            case "initialize", _:
                told = {"capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
                return {"result": {"protocolVersion": "2025-06-18", **told}}
            case "tools/list", _:
                return {"result": {"tools": TOOLS}}
            case "tools/call", "pay":
                self.calls.made("pay")
                return {"error": ERROR}
            case "tools/call", "chart":
                return {"result": CHART}
            case "ping", _:
                return {"result": {}}
            case method, _:
                return {"error": {"code": -32601, "message": f"no method {method}"}}

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Mcp-Session-Id", "1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(calls: Calls) -> Iterator[str]:
    """The address of a server that counts payments in `calls`."""
    handler = type("Counting", (Handler,), {"calls": calls})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()


async def error_about_a_session(connect: Connect) -> Facts:
    calls = Calls()
    script: Script = lambda asked: ["pay"] if asked.turn == 1 else "done"  # noqa: E731

    async def run() -> None:
        with serving(calls) as url:
            async with connect(url, script) as session:
                await session.run()

    _, died = await ended(run())
    return {"calls": calls["pay"], "died": died}


async def three_kinds_of_parts(connect: Connect) -> Facts:
    seen: list[str] = []

    def script(asked: Asked) -> str | list[str]:
        seen.extend(asked.results)
        return ["chart"] if asked.turn == 1 else "done"

    async def run() -> None:
        with serving(Calls()) as url:
            async with connect(url, script) as session:
                await session.run()

    await ended(run())
    told = " ".join(seen)
    return {
        "kept": {"structured": "4711" in told, "text": "A chart of it" in told, "image": PIXEL[:40] in told}
    }


def register(cases: Cases, connect: Connect, *, parts: bool = False, option: str = "") -> None:
    """Put these programs among a peer's cases. `parts`: results of tools are shown to the script whole."""
    programs = {"E4": error_about_a_session} | ({"S8": three_kinds_of_parts} if parts else {})
    for row, program in programs.items():

        def bound(program: Any = program) -> Any:
            return program(connect)

        bound.__name__ = program.__name__ + (f"/{option}" if option else "")
        cases(row, option=option)(bound)
