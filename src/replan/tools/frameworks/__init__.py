"""Tools that were written for LangChain, Pydantic AI or the OpenAI Agents SDK, taken as they are.

Nothing here needs a framework to be installed: one is imported when an object of it is given, which it made itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from replan.tools.frameworks.recognise import adopt, gather
from replan.tools.lazily import attribute

if TYPE_CHECKING:
    from replan.tools.frameworks.langchain import LangChainSource
    from replan.tools.frameworks.openai_agents import OpenAiAgentsSource
    from replan.tools.frameworks.pydantic_ai import PydanticAiSource

__all__ = ["LangChainSource", "OpenAiAgentsSource", "PydanticAiSource", "adopt", "gather"]

_HOMES = {
    "LangChainSource": ("langchain", "langchain-core"),
    "OpenAiAgentsSource": ("openai_agents", "openai-agents"),
    "PydanticAiSource": ("pydantic_ai", "pydantic-ai-slim"),
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, _HOMES, name)
