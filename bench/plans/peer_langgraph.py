"""LangGraph's prebuilt agent on its ToolNode."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import ToolNode, create_react_agent

from bench.plans.agents import Call
from bench.plans.hands import Turns
from bench.plans.meter import Meter
from replan.core.types import ToolSpec


class _Model(BaseChatModel):
    """A chat model that says the turns."""

    turns: Any
    meter: Any
    definitions: str = ""

    @property
    def _llm_type(self) -> str:
        return "turns"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self.model_copy(
            update={"definitions": "".join(json.dumps(convert_to_openai_tool(one)) for one in tools)}
        )

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        last = next((one.tool_calls for one in reversed(messages) if isinstance(one, AIMessage)), [])
        given = {one.tool_call_id: one.content for one in messages if isinstance(one, ToolMessage)}
        turn = await self.turns.next([json.loads(str(given[str(call["id"])])) for call in last])
        called: list[Any] = [
            {"name": name, "args": dict(parameters), "id": f"{len(self.meter.prompts)}-{n}"}
            for n, (name, parameters) in enumerate(turn.calls)
        ]
        message = AIMessage(turn.text, tool_calls=called)
        asked = (text for one in messages for text in _texts(one))
        await self.meter.ask((self.definitions, *asked), _texts(message))
        return ChatResult(generations=[ChatGeneration(message=message)])


def _texts(message: BaseMessage) -> Iterator[str]:
    yield str(message.content)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            yield call["name"] + json.dumps(call["args"])


async def run(text: str, specs: list[ToolSpec], call: Call, turns: Turns, meter: Meter) -> str:
    def tool(spec: ToolSpec) -> StructuredTool:
        async def made(**parameters: Any) -> str:
            return json.dumps(await call(spec.id, parameters))

        return StructuredTool(
            name=spec.id, description=spec.description, args_schema=dict(spec.parameters), coroutine=made
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its successor is another package
        agent: Any = create_react_agent(
            _Model(turns=turns, meter=meter), ToolNode([tool(one) for one in specs])
        )
    done = await agent.ainvoke({"messages": [("user", text)]}, {"recursion_limit": 400})
    return str(done["messages"][-1].content)
