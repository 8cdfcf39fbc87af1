"""Pydantic AI's Agent with a FunctionModel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic_ai import Agent, Tool, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.plans.agents import Call
from bench.plans.hands import Turns
from bench.plans.meter import Meter
from replan.core.types import ToolSpec


async def run(text: str, specs: list[ToolSpec], call: Call, turns: Turns, meter: Meter) -> str:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = [part for part in messages[-2].parts if isinstance(part, ToolCallPart)] if messages[1:] else []
        given = {
            part.tool_call_id: part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)
        }
        turn = await turns.next([json.loads(str(given[one.tool_call_id])) for one in last])
        parts: list[Any] = [ToolCallPart(name, json.dumps(parameters)) for name, parameters in turn.calls]
        response = ModelResponse(parts=parts or [TextPart(turn.text)])
        defined = (
            json.dumps(
                {
                    "type": "function",
                    "function": {
                        "name": one.name,
                        "description": one.description,
                        "parameters": one.parameters_json_schema,
                    },
                }
            )
            for one in info.function_tools
        )
        await meter.ask((*defined, *(told for one in messages for told in _texts(one))), _texts(response))
        return response

    def tool(spec: ToolSpec) -> Tool[None]:
        async def made(**parameters: Any) -> str:
            return json.dumps(await call(spec.id, parameters))

        return Tool.from_schema(made, spec.id, spec.description, dict(spec.parameters))

    agent = Agent(FunctionModel(answer), tools=[tool(one) for one in specs])
    done = await agent.run(text, usage_limits=UsageLimits(request_limit=None))
    return done.output


def _texts(message: ModelMessage) -> Iterator[str]:
    for part in message.parts:
        match part:
            case ToolCallPart():
                yield part.tool_name + str(part.args)
            case _:
                yield str(getattr(part, "content", ""))
