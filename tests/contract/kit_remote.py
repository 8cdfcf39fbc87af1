"""A tool service over real sockets as a kit: its server in this process, functions behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from kit_functions import catalog, in_the_loop, in_threads
from tool_kit import Kit

from replan.tools.remote import RemoteSource
from replan.tools.remote.keys import Keys
from replan.tools.remote.server import running

TOKEN = "a-token-of-the-tests"


def served(
    inner: Callable[[], Kit], protocol: str
) -> Callable[[], contextlib.AbstractAsyncContextManager[Kit]]:
    @contextlib.asynccontextmanager
    async def open_kit() -> AsyncIterator[Kit]:
        kit = inner()
        ports = {"port": 0, "grpc_port": None} if protocol == "http" else {"port": None, "grpc_port": 0}
        async with running([kit.source], keys=Keys(), token=TOKEN, **ports) as serving:
            kit.source = RemoteSource(serving.urls, token=TOKEN)
            kit.turns = 50
            try:
                yield kit
            finally:
                await kit.source.aclose()

    return open_kit


KITS = [
    pytest.param(served(in_threads, "http"), id="remote over HTTP: sync functions"),
    pytest.param(served(in_the_loop, "http"), id="remote over HTTP: async functions"),
    pytest.param(served(in_the_loop, "grpc"), id="remote over gRPC: async functions"),
    pytest.param(served(catalog(in_threads), "grpc"), id="remote over gRPC: catalog of sync functions"),
]
