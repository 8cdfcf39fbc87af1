"""The OpenAI Agents SDK: an Agent, its Runner and a session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, FunctionTool, ModelResponse, Runner, SQLiteSession, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.recovery.agents import AgentOracle, Exchange, Hands
from bench.recovery.oracle import MODEL_SECS
from replan.core.types import ToolSpec

set_tracing_disabled(True)


class _Model(Model):
    """A model that is the oracle."""

    def __init__(self, oracle: AgentOracle) -> None:
        self._oracle = oracle

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - passed by name
        *args: Any,
        **more: Any,
    ) -> ModelResponse:
        await asyncio.sleep(MODEL_SECS)
        items = [one for one in input if isinstance(one, dict)] if isinstance(input, list) else []
        calls = {one["call_id"]: one for one in items if one.get("type") == "function_call"}
        history = [
            Exchange(
                calls[one["call_id"]]["name"],
                json.loads(calls[one["call_id"]]["arguments"]),
                str(one["output"]),
            )
            for one in items
            if one.get("type") == "function_call_output"
        ]
        said = self._oracle.answer(history)
        turn = self._oracle.turns
        output: list[Any] = [
            ResponseFunctionToolCall(
                arguments=json.dumps(given), call_id=f"{turn}-{n}", name=name, type="function_call"
            )
            for n, (name, given) in enumerate(said.calls)
        ]
        if not output:
            text = ResponseOutputText(annotations=[], text=said.text, type="output_text")
            output = [
                ResponseOutputMessage(
                    id=f"m{turn}", content=[text], role="assistant", status="completed", type="message"
                )
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


class _Agent:
    def __init__(self, hands: Hands, oracle: AgentOracle) -> None:
        self._agent = Agent(
            name="one", model=_Model(oracle), tools=[_tool(hands, spec) for spec in hands.specs]
        )
        self._session = SQLiteSession("1")

    async def run(self, text: str) -> str:
        done = await Runner.run(self._agent, text, session=self._session, max_turns=200)
        return str(done.final_output)

    async def record(self) -> str:
        try:
            return str(await self._session.get_items())
        finally:
            self._session.close()


def _tool(hands: Hands, spec: ToolSpec) -> FunctionTool:
    async def call(_: Any, arguments: str) -> str:
        try:
            return await hands.call(spec, json.loads(arguments))
        except Exception as error:  # noqa: BLE001 - as the SDK's own decorator does
            return f"An error occurred while running the tool. Please try again. Error: {error}"

    return FunctionTool(
        name=spec.id,
        description=spec.description or spec.id,
        params_json_schema=dict(spec.parameters),
        on_invoke_tool=call,
        strict_json_schema=False,
    )


def build(hands: Hands, oracle: AgentOracle) -> _Agent:
    return _Agent(hands, oracle)
