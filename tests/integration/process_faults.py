"""The faults that a tool of this very process may have, whatever it is wrapped in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from fault_table import Broken

from replan.ports import ToolSource

_HERE = "the tool is called in this very process: there is no server, connection or list that could break"


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


def faults(
    source_of: Callable[[Callable[..., Any]], ToolSource], *, slow_list: str = _HERE
) -> dict[str, Any]:
    """The rows of a source that is made of one function, as a tool called `t`."""

    def of(function: Callable[..., Any], *kinds: str, happened: str | None = None) -> Any:
        @contextlib.asynccontextmanager
        async def made() -> AsyncIterator[Broken]:
            yield Broken(source_of(function), "t", kinds=frozenset(kinds), happened=happened)

        return made

    return {
        "killed before": _HERE,
        "killed in": _HERE,
        "killed after": _HERE,
        "hang": of(hang, "timeout", happened="unknown"),
        "slow list": slow_list,
        "huge result": of(huge, "output", happened="unknown"),
        "invalid JSON": of(not_json, "output", "tool", happened="unknown"),
        "changed schema": _HERE,
        "unauthorized": of(denied, "tool", "http"),
        "refused": of(refused, "refused", happened="unknown"),  # of how many requests it is one nobody knows
    }
