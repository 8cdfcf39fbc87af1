"""Pydantic AI's Agent with a FunctionModel."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic_ai import Agent, ModelRetry, Tool, UsageLimits, capture_run_messages
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from bench.recovery.agents import AgentOracle, Exchange, Hands
from bench.recovery.oracle import MODEL_SECS
from replan.core.types import ToolSpec


class _Agent:
    def __init__(self, hands: Hands, oracle: AgentOracle) -> None:
        self._oracle = oracle
        self._messages: list[ModelMessage] = []
        self._agent = Agent(
            FunctionModel(self._answer), tools=[_tool(hands, spec) for spec in hands.specs], retries=100
        )

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(MODEL_SECS)
        parts: list[Any] = [part for message in messages for part in message.parts]
        calls = {part.tool_call_id: part for part in parts if isinstance(part, ToolCallPart)}
        history = [
            Exchange(
                calls[part.tool_call_id].tool_name, calls[part.tool_call_id].args_as_dict(), str(part.content)
            )
            for part in parts
            if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_call_id in calls
        ]
        said = self._oracle.answer(history)
        if not said.calls:
            return ModelResponse(parts=[TextPart(said.text)])
        return ModelResponse(parts=[ToolCallPart(name, json.dumps(given)) for name, given in said.calls])

    async def run(self, text: str) -> str:
        with capture_run_messages() as messages:
            try:
                done = await self._agent.run(text, usage_limits=UsageLimits(request_limit=None))
            finally:
                self._messages = list(messages)
        return str(done.output)

    async def record(self) -> str:
        return str(self._messages)


def _tool(hands: Hands, spec: ToolSpec) -> Tool[None]:
    async def call(**parameters: Any) -> str:
        try:
            return await hands.call(spec, parameters)
        except Exception as error:
            raise ModelRetry(f"{type(error).__name__}: {error}") from error

    return Tool.from_schema(call, spec.id, spec.description or spec.id, dict(spec.parameters))


def build(hands: Hands, oracle: AgentOracle) -> _Agent:
    return _Agent(hands, oracle)
