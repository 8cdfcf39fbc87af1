"""A stand-in for a Consul agent, which also does what no agent should. `test_registry_consul` holds it against the real one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class StandIn:
    """Registers, lists and waits as an agent does. `fault` has it answer otherwise: status, content type and body, or `None`: nothing."""

    def __init__(self, *, token: str = "") -> None:
        self.port = 0
        self.index = 10
        self.services: dict[str, dict[str, Any]] = {}
        self.passing: dict[str, bool] = {}
        self.asked: list[str] = []
        self.fault: Callable[[str], tuple[int, str, bytes] | None] | None = None
        self.index_shown: Callable[[int], str | None] = str
        self.lists: list[Any] | None = None
        """In place of what is registered."""
        self.connections = 0
        self._token = token
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Gone, with every connection."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            serving = [task for task in self._open.values() if task is not None]
            for writer in self._open:
                writer.transport.abort()
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
            await server.wait_closed()

    def forget(self) -> None:
        """As an agent that was started again has."""
        self.services.clear()
        self.passing.clear()
        self.index = 5
        self.change()

    def set(self, service: str, *ports: int, **more: Any) -> None:
        """These and no others offer it."""
        self.services = {
            key: one for key, one in self.services.items() if one["Name"] != service
        } | {
            f"{service}-{port}": {"ID": f"{service}-{port}", "Name": service, "Address": "127.0.0.1", "Port": port, **more}
            for port in ports
        }  # fmt: skip
        self.passing |= dict.fromkeys(self.services, True)
        self.change()

    def change(self) -> None:
        self.index += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # ── the server ──

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open[writer] = asyncio.current_task()
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = first.split(" ")
                self.asked.append(f"{method} {path}")
                answer = await self._answer(method, path, headers, body)
                if answer is None:
                    await asyncio.Event().wait()
                status, kind, content, index = answer  # type: ignore[misc]
                shown = f"X-Consul-Index: {index}\r\n" if index is not None else ""
                typed = f"Content-Type: {kind}\r\n" if kind else ""
                writer.write(
                    f"HTTP/1.1 {status} X\r\n{typed}{shown}Content-Length: {len(content)}\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.pop(writer, None)
            writer.close()

    async def _answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, str, bytes, str | None] | None:
        if self.fault is not None:
            found = self.fault(path)
            return None if found is None else (*found, None)
        if self._token and headers.get("x-consul-token") != self._token:
            return 403, "text/plain", b"Permission denied", None
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        where = parts.path.removeprefix("/v1/")
        if method == "PUT" and where == "agent/service/register":
            service = json.loads(body)
            self.services[service["ID"]] = service
            self.passing[service["ID"]] = all(
                check.get("Status") == "passing" for check in service.get("Checks", [])
            )
            self.change()
            return 200, "", b"", None
        name = unquote(where.rpartition("/")[2])
        if method == "PUT" and where.startswith("agent/service/deregister/"):
            self.services.pop(name, None)
            self.change()
            return 200, "", b"", None
        if where.startswith("agent/service/"):
            if name not in self.services:
                return 404, "text/plain; charset=utf-8", f"unknown service ID: {name}".encode(), None
            return 200, "application/json", json.dumps(_of_agent(self.services[name])).encode(), None
        if where.startswith("health/service/"):
            await self._wait(query)
            listed = json.dumps(self._listed(name)).encode()
            return 200, "application/json", listed, self.index_shown(self.index)
        return 404, "text/plain", b"", None

    async def _wait(self, query: dict[str, str]) -> None:
        seen = int(query.get("index", 0))
        secs = float(query.get("wait", "300s").rstrip("s"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(secs):
                while 0 < seen == self.index:
                    await self._changed.wait()

    def _listed(self, name: str) -> list[Any]:
        if self.lists is not None:
            return self.lists
        return [
            {"Node": {"Address": "127.0.0.1"}, "Service": _of_agent(one), "Checks": []}
            for key, one in self.services.items()
            if one["Name"] == name and self.passing.get(key)
        ]


def _of_agent(service: dict[str, Any]) -> dict[str, Any]:
    """As the agent shows what was registered."""
    defaults = {"Address": "", "Tags": [], "Meta": {}, "Weights": {"Passing": 1, "Warning": 1}}
    return {
        **defaults,
        **{key: value for key, value in service.items() if key not in ("Name", "Checks")},
        "Service": service["Name"],
    }
