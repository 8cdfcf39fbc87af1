"""Pydantic AI: its `Agent` with tools and a `FunctionModel`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, field_validator
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    PromptedOutput,
    Tool,
    ToolApproved,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from bench.conformance import agents, agents_kinds, mcp_answers, mcp_faults
from bench.conformance.agents import FENCED, Asked, Script, call_of, register
from bench.conformance.case import Calls, Cases, Facts, ended

case = Cases(["pydantic-ai-slim"])


class ScriptedAgent:
    """An agent whose next run goes on from the messages of the last, as its documentation shows."""

    def __init__(
        self,
        tools: Sequence[agents.Tool],
        script: Script,
        limit: int | None,
        toolsets: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        self._script = script
        self._turns = 0
        self._history: list[ModelMessage] = []
        self._limits = None if limit is None else UsageLimits(request_limit=limit)
        self._agent = Agent(
            FunctionModel(self._answer, stream_function=self._stream_answer),
            tools=[Tool(tool, takes_ctx=False, name=tool.__name__) for tool in tools],
            toolsets=toolsets,
            **options,
        )

    def _said(self, messages: list[ModelMessage]) -> str | list[str]:
        self._turns += 1
        parts = [part for message in messages for part in message.parts]
        results = [part for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        asked_for = {part.tool_call_id for part in parts if isinstance(part, ToolCallPart)}
        missing = asked_for - {part.tool_call_id for part in results}
        said = [
            part.model_response_str() if isinstance(part, ToolReturnPart) else str(part.content)
            for part in results
        ]
        return self._script(Asked(self._turns, said, len(missing)))

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = self._said(messages)
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(said)])
        return ModelResponse(parts=[ToolCallPart(*call_of(each)) for each in said])

    async def _stream_answer(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        said = self._said(messages)
        if isinstance(said, str):
            yield said
            return
        for n, name in enumerate(said):
            yield {n: DeltaToolCall(name=name, json_args="{}", tool_call_id=f"{self._turns}-{n}")}

    async def run(self) -> Any:
        with capture_run_messages() as messages:
            try:
                return await self._agent.run(
                    "do it", message_history=self._history, usage_limits=self._limits
                )
            finally:
                self._history = list(messages)

    async def stream(self) -> AsyncIterator[Any]:
        async with self._agent.run_stream_events("do it", usage_limits=self._limits) as events:
            async for event in events:
                yield event

    async def record(self) -> str:
        return str(self._history)


def make(tools: Sequence[agents.Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(tools, script, limit)


def make_limited(tools: Sequence[agents.Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(tools, script, limit, tool_timeout=0.1)


register(case, make)
agents_kinds.register(case, make)
agents_kinds.register(case, make_limited, ["E1"], option="tool_timeout")


@case("C2", option="tool_timeout")
async def timed_out_by_the_framework() -> Facts:
    """The framework's own timeout tells the model to try again."""
    calls = Calls()

    async def pay() -> str:
        calls.made("pay")
        await asyncio.sleep(5)
        return "paid"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("pay", {})])

    agent = Agent(FunctionModel(answer), tools=[Tool(pay, takes_ctx=False)], tool_timeout=0.05)
    _, died = await ended(agent.run("do it"))
    return {"effects": calls["pay"], "died": died, "in_doubt": False}


@case("E12", option="ToolApproved(override_args=…)")
async def an_edit_of_one_parameter() -> Facts:
    paid: list[Any] = []

    async def pay(amount: int, currency: str = "USD", note: str = "") -> str:
        paid.extend([amount, currency, note])
        return "paid"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if paid:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(
            parts=[ToolCallPart("pay", {"amount": 5, "currency": "EUR", "note": "rent"}, tool_call_id="1")]
        )

    agent = Agent(
        FunctionModel(answer),
        tools=[Tool(pay, takes_ctx=False, requires_approval=True)],
        output_type=[str, DeferredToolRequests],
    )

    async def run() -> None:
        first = await agent.run("do it")
        agreed = DeferredToolResults(approvals={"1": ToolApproved(override_args={"amount": 10})})
        await agent.run(message_history=first.all_messages(), deferred_tool_results=agreed)

    _, died = await ended(run())
    return {"paid": paid, "died": died}


class Person(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def whole(cls, name: str) -> str:
        if " " not in name:
            raise ValueError("give the first and the last name")
        return name


@case("S4")
async def a_validator_refuses() -> Facts:
    async def with_names(*names: str) -> Any:
        left = list(names)

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            name = left.pop(0) if len(left) > 1 else left[0]
            return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"name": name})])

        result, _ = await ended(Agent(FunctionModel(answer), output_type=Person).run("who?"))
        return result and result.output

    corrected = await with_names("Ann", "Ann Lee")
    return {"corrected": corrected == Person(name="Ann Lee"), "success": await with_names("Ann") is not None}


class Verdict(BaseModel):
    done: bool


@case("C9")
async def an_answer_in_a_fence() -> Facts:
    asked = Calls()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.made("model")
        return ModelResponse(parts=[TextPart(FENCED)])

    agent = Agent(FunctionModel(answer), output_type=PromptedOutput(Verdict))
    result, died = await ended(agent.run("is it done?"))
    return {"read": bool(result and result.output.done), "model_calls": asked["model"], "died": died}


# ── C23: tools of an MCP server ───────────────────────────────────────────────


class Connected:
    """Each run is a conversation of its own, on one connection."""

    def __init__(self, toolset: Any, script: Script) -> None:
        self._toolset, self._script = toolset, script

    async def run(self) -> Any:
        return await ScriptedAgent([], self._script, None, [self._toolset]).run()


@asynccontextmanager
async def connected(url: str, script: Script) -> AsyncIterator[Connected]:
    async with MCPToolset(url, read_timeout=mcp_faults.DEADLINE_SECS) as toolset:
        yield Connected(toolset, script)


@asynccontextmanager
async def connected_by_run(url: str, script: Script) -> AsyncIterator[Connected]:
    """Where nobody has entered the toolset, each run enters it for itself."""
    yield Connected(MCPToolset(url, read_timeout=mcp_faults.DEADLINE_SECS), script)


DEADLINE = f"read_timeout={mcp_faults.DEADLINE_SECS}"
mcp_faults.register(case, connected_by_run, option=DEADLINE)
mcp_faults.register(case, connected, option=f"{DEADLINE}, one connection for all runs")
mcp_answers.register(case, connected_by_run)


if __name__ == "__main__":
    case.main()
