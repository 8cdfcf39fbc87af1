"""C23's MCP server: the protocol's own library on a port of the loopback, in a process that can be killed.

    python -m bench.conformance.mcp_server PORT FOLDER

Each call of `pay` and `hung` leaves a line in `FOLDER/calls`. While `FOLDER/status` holds a number, every
`tools/call` is answered with that status; while `FOLDER/slow` exists, `pay` takes effect and does not answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer


def application(folder: Path) -> Any:
    server = MCPServer("shop")

    def called(name: str) -> None:
        with (folder / "calls").open("a") as file:
            file.write(f"{name}\n")

    @server.tool()
    async def look() -> str:
        """The tool look."""
        return "all well"

    @server.tool()
    async def pay() -> str:
        """The tool pay."""
        called("pay")
        if (folder / "slow").exists():
            await asyncio.sleep(3600)
        return "paid"

    @server.tool()
    async def hung() -> str:
        """The tool hung."""
        called("hung")
        await asyncio.sleep(3600)
        return "late"

    return server.streamable_http_app()


def refusing(app: Any, folder: Path) -> Any:
    """The application behind what may answer in its place."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        status = folder / "status"
        if scope["type"] != "http" or scope["method"] != "POST" or not status.exists():
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        read = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return read.pop() if read else await receive()

        if json.loads(body).get("method") != "tools/call":
            await app(scope, again, send)
            return
        code = int(status.read_text())
        headers = [(b"content-type", b"text/plain")]
        if code == 401:
            headers.append((b"www-authenticate", b'Bearer error="invalid_token"'))
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"not now"})

    return answer


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    uvicorn.run(
        refusing(application(folder), folder),
        host="127.0.0.1",
        port=port,
        log_level="critical",
        timeout_graceful_shutdown=0,
    )


if __name__ == "__main__":
    main()
