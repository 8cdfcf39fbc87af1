"""The faults that a tool of the OpenAI Agents SDK may have: it is a function of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import function_tool
from fault_table import Broken

from replan.tools.frameworks import OpenAiAgentsSource

SOURCE = "the OpenAI Agents SDK"
_HERE = "the tool is called in this very process: there is no server, connection or list that could break"


def _tool(function: Callable[..., Any], *kinds: str, happened: str | None = None) -> Any:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        source = OpenAiAgentsSource(function_tool(function, name_override="t"))
        yield Broken(source, "t", kinds=frozenset(kinds), happened=happened)

    return made


async def hang() -> None:
    await asyncio.Event().wait()


def huge() -> str:
    return "x" * 80_000_000


def not_json() -> Any:
    return object()


def denied() -> None:
    raise PermissionError("401 Unauthorized: the key is not valid")


def refused() -> None:
    raise ConnectionRefusedError("[Errno 111] Connection refused")


FAULTS = {
    "killed before": _HERE,
    "killed in": _HERE,
    "killed after": _HERE,
    "hang": _tool(hang, "timeout", happened="unknown"),
    "slow list": _HERE,
    "huge result": _tool(huge),
    "invalid JSON": _tool(not_json, "output", "tool", happened="unknown"),
    "changed schema": _HERE,
    "unauthorized": _tool(denied, "tool", "http"),
    "refused": _tool(refused, "refused", happened="no"),
}
