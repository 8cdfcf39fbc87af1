"""Tools of other frameworks as kits: each with async functions, and with synchronous ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agents import function_tool
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import Tool
from tool_kit import Functions, Kit, async_functions, sync_functions

from replan.ports import ToolSource
from replan.tools import current
from replan.tools.frameworks import LangChainSource, OpenAiAgentsSource, PydanticAiSource


async def _report(message: str, done: int) -> None:
    current().report(message, done, 2)


async def _dispatch(message: str, done: int) -> None:
    await adispatch_custom_event("progress", {"message": message, "progress": done, "total": 2})


def _dispatch_at_once(message: str, done: int) -> None:
    dispatch_custom_event("progress", {"message": message, "progress": done, "total": 2})


def _langchain(functions: Functions) -> ToolSource:
    return LangChainSource([langchain_tool(each) for each in functions])


def _pydantic_ai(functions: Functions) -> ToolSource:
    return PydanticAiSource([Tool(each) for each in functions])


def _openai_agents(functions: Functions) -> ToolSource:
    return OpenAiAgentsSource([function_tool(each, strict_mode=False) for each in functions])


def _kit(make: Callable[[Functions], ToolSource], functions: Callable[..., Functions], report: Any) -> Any:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Kit]:
        kit = Kit()
        kit.turns = 10  # the framework has tasks of its own in between
        kit.source = make(functions(kit, report))
        yield kit

    return opened


def _say(message: str, done: int) -> None:
    current().report(message, done, 2)


KITS = [
    pytest.param(_kit(_langchain, async_functions, _dispatch), id="LangChain, async"),
    pytest.param(_kit(_langchain, sync_functions, _dispatch_at_once), id="LangChain, sync"),
    pytest.param(_kit(_pydantic_ai, async_functions, _report), id="Pydantic AI, async"),
    pytest.param(_kit(_pydantic_ai, sync_functions, _say), id="Pydantic AI, sync"),
    pytest.param(_kit(_openai_agents, async_functions, _report), id="OpenAI Agents, async"),
    pytest.param(_kit(_openai_agents, sync_functions, _say), id="OpenAI Agents, sync"),
]
