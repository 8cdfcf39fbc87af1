"""A real Consul agent, as an older release of Debian has it: fetched and unpacked, not installed. And a stand-in for it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

SUITE = "bullseye"
"""The last release that has the package."""
_KEPT = Path(tempfile.gettempdir()) / "replan-consul" / "consul"


@lru_cache(maxsize=1)
def consul() -> str | None:
    """Where it is; None where it cannot be had."""
    if (found := shutil.which("consul")) is not None:
        return found
    if not _KEPT.exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError, StopIteration):
            _fetch()
    return str(_KEPT) if _KEPT.exists() else None


def _fetch() -> None:
    """From where this machine's own packages come, in lists of our own: nothing of the system is changed."""
    source = next(_sources())
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder) / "lists"
        (lists / "partial").mkdir(parents=True)
        (Path(folder) / "archives" / "partial").mkdir(parents=True)
        named = Path(folder) / "sources.list"
        named.write_text(source, encoding="utf-8")
        options = {
            "Dir::Etc::sourcelist": named, "Dir::Etc::sourceparts": "-", "Dir::State::lists": lists,
            "Dir::Cache": folder, "Acquire::Check-Valid-Until": "false", "Acquire::Retries": "1",
        }  # fmt: skip
        apt = [
            "apt-get",
            "-qq",
            *(part for name, value in options.items() for part in ("-o", f"{name}={value}")),
        ]
        for command in ([*apt, "update"], [*apt, "download", "consul"]):
            subprocess.run(command, cwd=folder, timeout=120, check=True, capture_output=True)
        package = next(Path(folder).glob("consul_*.deb"))
        unpacked = Path(folder) / "unpacked"
        subprocess.run(["dpkg", "-x", package, unpacked], timeout=60, check=True, capture_output=True)
        _KEPT.parent.mkdir(parents=True, exist_ok=True)
        ours = _KEPT.with_suffix(f".{os.getpid()}")  # others may be at it
        shutil.copy2(unpacked / "usr" / "bin" / "consul", ours)
        ours.replace(_KEPT)


def _sources() -> Iterator[str]:
    """The line of this machine's own Debian, with another release."""
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    for file in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            words = line.split()
            urls = [word for word in words if "://" in word] if words and words[0] in ("deb", "URIs:") else []
            if urls and urls[0].rstrip("/").endswith("/debian"):
                yield f"deb [signed-by={keyring}] {urls[0]} {SUITE} main\n"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        found = []
        for _ in range(count):
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(one.getsockname()[1])
        return found


class RealAgent:
    """An agent of its own cluster, which keeps nothing on disk: what is started again has lost all."""

    def __init__(self, *, config: dict[str, Any] | None = None, https: int = -1) -> None:
        self.port, self.dns_port, *self._others = free_ports(6)
        self._config = config or {}
        self._https = https
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = consul()
        assert program is not None
        serf_lan, serf_wan, server, grpc = self._others
        config = {
            "ports": {
                "http": self.port, "dns": self.dns_port, "serf_lan": serf_lan, "serf_wan": serf_wan,
                "server": server, "grpc": grpc, "https": self._https,
            },
            "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "disable_update_check": True, "log_level": "err",
            **self._config,
        }  # fmt: skip
        command = [program, "agent", "-dev", "-hcl", json.dumps(config)]
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said, cwd="/")
            until = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError):
                    if self.ask("GET", "/v1/status/leader"):
                        return
                if self._process.poll() is not None or time.monotonic() > until:
                    said.seek(0)
                    raise AssertionError(said.read().decode())
                time.sleep(0.02)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        return asked(self.port, method, path, body, token)


def asked(port: int, method: str, path: str, body: Any = None, token: str = "") -> Any:
    """What the agent at that port says."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"X-Consul-Token": token} if token else {},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text.strip() else None


if __name__ == "__main__":
    print(consul() or "no Consul agent can be had here")
