"""Whose tool an object is: told by its class, without importing a framework."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from replan.ports import ToolSource


class _Framework(NamedTuple):
    module: str
    source: str


_LANGCHAIN = _Framework("langchain", "LangChainSource")
_PYDANTIC_AI = _Framework("pydantic_ai", "PydanticAiSource")
_OPENAI_AGENTS = _Framework("openai_agents", "OpenAiAgentsSource")
_CLASSES = {
    ("langchain_core", "BaseTool"): _LANGCHAIN,
    ("langchain_core", "BaseToolkit"): _LANGCHAIN,
    ("pydantic_ai", "Tool"): _PYDANTIC_AI,
    ("pydantic_ai", "AbstractToolset"): _PYDANTIC_AI,
    ("agents", "FunctionTool"): _OPENAI_AGENTS,
}
"""By top-level package and name of a class: the modules inside of a package move between releases."""


def adopt(thing: Any) -> ToolSource | None:
    """The source for a tool, toolset or toolkit of another framework, or a list of those of one; else None.

    LangChain: `BaseTool` (also what `@tool` makes), `BaseToolkit`. Pydantic AI: `Tool`, any toolset. OpenAI Agents:
    `FunctionTool` (what `@function_tool` makes). Raises `InputError` for one that cannot be used at all.
    """
    if isinstance(thing, list | tuple):
        owners = {_framework_of(each) for each in thing}
        if len(owners) != 1:
            return None
        (owner,) = owners
        return None if owner is None else _source(owner, list(thing))
    owner = _framework_of(thing)
    return None if owner is None else _source(owner, [thing])


def gather(things: Iterable[Any]) -> tuple[list[ToolSource], list[Any]]:
    """One source a framework for all of its objects among `things`, lists of them included, and what is left.

    Sources come in the order in which their frameworks first appear; the rest keeps its order.
    """
    found: dict[_Framework, list[Any]] = {}
    rest: list[Any] = []
    for thing in things:
        parts = list(thing) if isinstance(thing, list | tuple) and thing else [thing]
        owners = [_framework_of(part) for part in parts]
        if all(owner is None for owner in owners):
            rest.append(thing)
            continue
        for part, owner in zip(parts, owners, strict=True):
            if owner is None:
                rest.append(part)
            else:
                found.setdefault(owner, []).append(part)
    return [_source(owner, objects) for owner, objects in found.items()], rest


def _framework_of(thing: Any) -> _Framework | None:
    for base in type(thing).__mro__:
        owner = _CLASSES.get((base.__module__.partition(".")[0], base.__qualname__))
        # `agents` is a name that others give their own package too.
        if owner is not None and (owner is not _OPENAI_AGENTS or hasattr(thing, "on_invoke_tool")):
            return owner
    return None


def _source(owner: _Framework, objects: list[Any]) -> ToolSource:
    module = importlib.import_module(f"replan.tools.frameworks.{owner.module}")
    source: ToolSource = getattr(module, owner.source)(objects)
    return source
