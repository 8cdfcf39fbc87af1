"""LangGraph's prebuilt agent on its ToolNode."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode, create_react_agent

from bench.recovery.agents import AgentOracle, Exchange, Hands
from bench.recovery.oracle import MODEL_SECS
from replan.core.types import ToolSpec


class _Model(BaseChatModel):
    """A chat model that is the oracle."""

    oracle: Any

    @property
    def _llm_type(self) -> str:
        return "oracle"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        await asyncio.sleep(MODEL_SECS)
        calls = {
            call["id"]: call for one in messages if isinstance(one, AIMessage) for call in one.tool_calls
        }
        history = [
            Exchange(calls[one.tool_call_id]["name"], calls[one.tool_call_id]["args"], str(one.content))
            for one in messages
            if isinstance(one, ToolMessage)
        ]
        said = self.oracle.answer(history)
        called = [
            {"name": name, "args": dict(parameters), "id": f"{self.oracle.turns}-{n}"}
            for n, (name, parameters) in enumerate(said.calls)
        ]
        message = AIMessage(said.text, tool_calls=called)
        return ChatResult(generations=[ChatGeneration(message=message)])


class _Agent:
    def __init__(self, hands: Hands, oracle: AgentOracle) -> None:
        node = ToolNode([_tool(hands, spec) for spec in hands.specs], handle_tool_errors=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its successor is another package
            self._graph = create_react_agent(_Model(oracle=oracle), node, checkpointer=InMemorySaver())
        self._config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 400}

    async def run(self, text: str) -> str:
        done = await self._graph.ainvoke({"messages": [("user", text)]}, self._config)
        return str(done["messages"][-1].content)

    async def record(self) -> str:
        saved = await self._graph.checkpointer.aget_tuple(self._config)
        return "" if saved is None else str(saved.checkpoint["channel_values"]) + str(saved.pending_writes)


def _tool(hands: Hands, spec: ToolSpec) -> StructuredTool:
    async def call(**parameters: Any) -> str:
        return await hands.call(spec, parameters)

    return StructuredTool(
        name=spec.id,
        description=spec.description or spec.id,
        args_schema=dict(spec.parameters),
        coroutine=call,
    )


def build(hands: Hands, oracle: AgentOracle) -> _Agent:
    return _Agent(hands, oracle)
