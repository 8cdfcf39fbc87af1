"""Replan inside of other frameworks: as a node of a LangGraph graph, and as a tool of their agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replan.tools.lazily import attribute

if TYPE_CHECKING:
    from replan.inside.langchain import as_langchain_tool
    from replan.inside.langgraph import langgraph_node
    from replan.inside.openai_agents import as_openai_agents_tool
    from replan.inside.pydantic_ai import as_pydantic_ai_tool

__all__ = ["as_langchain_tool", "as_openai_agents_tool", "as_pydantic_ai_tool", "langgraph_node"]

_HOMES = {
    "as_langchain_tool": ("langchain", "langchain-core"),
    "as_openai_agents_tool": ("openai_agents", "openai-agents"),
    "as_pydantic_ai_tool": ("pydantic_ai", "pydantic-ai-slim"),
    "langgraph_node": ("langgraph", "langgraph"),
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _HOMES, name)
