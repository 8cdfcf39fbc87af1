"""The faults that the kit's tools may have: requests to a server that is really killed, and programs that are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from fault_table import Broken

from replan.ports import ToolCall
from replan.tools.kit import AddressRules, http, shell

SOURCE = "kit"
_HERE = "the kit's tools are listed in this very process, and never change: there is no list to wait for or to differ"

_SERVER = """
import http.server, os, signal, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass
    def say(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
    def do_GET(self):
        if self.path == "/die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.path == "/last":
            self.say(200, b"the last answer")
            self.connection.close()
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.path == "/huge":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                pass
        elif self.path == "/false":
            self.say(200, b'{"a": ', "application/json")
        elif self.path == "/closed":
            self.say(401, b"who are you?")
        else:
            self.say(200, b"hello")
    do_POST = do_GET
class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class _Server:
    """A server in a process of its own."""

    def __init__(self) -> None:
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SERVER, str(self.port), stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(await self._process.stdout.readline())

    async def kill(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def again(self) -> None:
        await self.kill()
        await self.start()


def _request(
    method: str,
    path: str,
    *kinds: str,
    happened: str | None = None,
    kill_before: bool = False,
    mend: bool = False,
) -> Callable[[], contextlib.AbstractAsyncContextManager[Broken]]:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        server = _Server()
        await server.start()
        rules = AddressRules(allow_hosts=(f"127.0.0.1:{server.port}",))
        source = http(rules, methods=["GET", "POST"], most_bytes=1_000_000, most_file_bytes=4_000_000)
        url = f"http://127.0.0.1:{server.port}"
        broken = Broken(source, f"http_{method}", {"url": url + path}, frozenset(kinds), happened)
        if kill_before:
            broken.prepare = server.kill
        if mend:
            broken.mend = server.again
            broken.works = ToolCall("http_get", {"url": f"{url}/"}, "again")
        try:
            yield broken
        finally:
            await source.aclose()
            await server.kill()

    return made


@contextlib.asynccontextmanager
async def _hang() -> AsyncIterator[Broken]:
    parameters: dict[str, Any] = {"program": "sleep", "arguments": ["600"]}
    yield Broken(shell(["sleep"]), "run_command", parameters, frozenset({"timeout"}), "unknown")


@contextlib.asynccontextmanager
async def _refused() -> AsyncIterator[Broken]:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        source = http(AddressRules(allow_private=True))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        yield Broken(source, "http_get", {"url": url}, frozenset({"refused"}), "no")
        await source.aclose()


FAULTS = {
    "killed before": _request("post", "/", "refused", happened="no", kill_before=True, mend=True),
    "killed in": _request("post", "/die", "connection_lost", happened="unknown", mend=True),
    "killed after": _request("post", "/last", mend=True),
    "hang": _hang,
    "slow list": _HERE,
    "huge result": _request("post", "/huge", "output", happened="unknown"),
    "invalid JSON": _request("post", "/false", "output", happened="unknown"),
    "changed schema": _HERE,
    "unauthorized": _request("post", "/closed", "http", happened="no"),
    "refused": _refused,
}
