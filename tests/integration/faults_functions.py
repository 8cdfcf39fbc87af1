"""The faults that a Python function may have."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from fault_table import Broken

from replan.tools import FunctionSource

SOURCE = "functions"
_HERE = "a function is in this very process: there is no connection, list or format that could break"


def _function(function: Callable[..., Any], *kinds: str, happened: str | None = None) -> Any:
    @contextlib.asynccontextmanager
    async def made() -> AsyncIterator[Broken]:
        source = FunctionSource([function])
        yield Broken(source, function.__name__, kinds=frozenset(kinds), happened=happened)

    return made


async def hang() -> None:
    await asyncio.Event().wait()


def huge() -> str:
    return "x" * 80_000_000


def not_json() -> Any:
    return object()


FAULTS = {
    "killed before": _HERE,
    "killed in": _HERE,
    "killed after": _HERE,
    "hang": _function(hang, "timeout", happened="unknown"),
    "slow list": _HERE,
    "huge result": _function(huge),
    "invalid JSON": _function(not_json, "output", "tool", happened="unknown"),
    "changed schema": _HERE,
    "unauthorized": _HERE,
    "refused": _HERE,
}
