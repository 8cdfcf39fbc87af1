"""OpenAI Agents SDK: `Agent` and `Runner`, with a model that answers from a script and a SQLite session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    ModelResponse,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStreamableHttp
from agents.models.interface import Model
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from pydantic import BaseModel, field_validator

from bench.conformance import agents_kinds, mcp_answers, mcp_faults
from bench.conformance.agents import FENCED, Asked, Script, Tool, call_of, register
from bench.conformance.case import Calls, Cases, Facts, ended

case = Cases(["openai-agents"])
set_tracing_disabled(True)


class Scripted(Model):
    """A model that answers from a script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.turn = 0

    def _output(self, sent: Any) -> list[Any]:
        self.turn += 1
        items = [item for item in sent if isinstance(item, dict)] if isinstance(sent, list) else []
        results = [item for item in items if item.get("type") == "function_call_output"]
        asked_for = {item["call_id"] for item in items if item.get("type") == "function_call"}
        missing = asked_for - {item["call_id"] for item in results}
        said = self.script(Asked(self.turn, [str(item["output"]) for item in results], len(missing)))
        if isinstance(said, str):
            text = ResponseOutputText(annotations=[], text=said, type="output_text")
            return [
                ResponseOutputMessage(
                    id=f"m{self.turn}", content=[text], role="assistant", status="completed", type="message"
                )
            ]
        return [
            ResponseFunctionToolCall(
                arguments=json.dumps(arguments),
                call_id=f"{self.turn}-{n}",
                name=name,
                type="function_call",
            )
            for n, (name, arguments) in enumerate(map(call_of, said))
        ]

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - passed by name
        *args: Any,
        **more: Any,
    ) -> ModelResponse:
        return ModelResponse(output=self._output(input), usage=Usage(), response_id=None)

    async def stream_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        *args: Any,
        **more: Any,
    ) -> AsyncIterator[Any]:
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=self._output(input),
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


class ScriptedAgent:
    """An agent on one session."""

    def __init__(self, tools: list[FunctionTool], script: Script, limit: int | None) -> None:
        self._agent = Agent(name="one", model=Scripted(script), tools=list(tools))
        self._session = SQLiteSession("1")
        self._more: dict[str, Any] = {} if limit is None else {"max_turns": limit}

    async def run(self) -> Any:
        return await Runner.run(self._agent, "do it", session=self._session, **self._more)

    async def stream(self) -> AsyncIterator[Any]:
        streamed = Runner.run_streamed(self._agent, "do it", **self._more)
        async for event in streamed.stream_events():
            yield event

    async def record(self) -> str:
        return str(await self._session.get_items())


def make(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent([function_tool(tool) for tool in tools], script, limit)


def make_raising(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    made = [function_tool(tool, failure_error_function=None) for tool in tools]
    return ScriptedAgent(made, script, limit)


register(case, make)
agents_kinds.register(case, make)
register(case, make_raising, ["R4", "C2"], option="failure_error_function=None")


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

        def script(_: Asked) -> str:
            return json.dumps({"name": left.pop(0) if len(left) > 1 else left[0]})

        agent = Agent(name="one", model=Scripted(script), output_type=Person)
        result, _ = await ended(Runner.run(agent, "who?"))
        return result and result.final_output

    corrected = await with_names("Ann", "Ann Lee")
    return {"corrected": corrected == Person(name="Ann Lee"), "success": await with_names("Ann") is not None}


class Verdict(BaseModel):
    done: bool


@case("C9")
async def an_answer_in_a_fence() -> Facts:
    asked = Calls()

    def script(_: Asked) -> str:
        asked.made("model")
        return FENCED

    agent = Agent(name="one", model=Scripted(script), output_type=Verdict)
    result, died = await ended(Runner.run(agent, "is it done?"))
    return {"read": bool(result and result.final_output.done), "model_calls": asked["model"], "died": died}


@case("C2", option="timeout=0.05 on the tool")
async def timed_out_by_the_framework() -> Facts:
    calls = Calls()

    async def pay() -> str:
        """Pay."""
        calls.made("pay")
        await asyncio.sleep(5)
        return "paid"

    tool = function_tool(pay, timeout=0.05)
    agent = Agent(name="one", model=Scripted(lambda a: ["pay"] if a.turn < 4 else "done"), tools=[tool])
    _, died = await ended(Runner.run(agent, "do it"))
    return {"effects": calls["pay"], "died": died, "in_doubt": False}


# ── C23: tools of an MCP server ───────────────────────────────────────────────


class Connected:
    """Each run is a conversation of its own, on one connection."""

    def __init__(self, server: Any, script: Script) -> None:
        self._server, self._script = server, script

    async def run(self) -> Any:
        return await Runner.run(
            Agent(name="one", model=Scripted(self._script), mcp_servers=[self._server]), "do it"
        )


def connecting(**options: Any) -> mcp_faults.Connect:
    @asynccontextmanager
    async def connected(url: str, script: Script) -> AsyncIterator[Connected]:
        deadline = mcp_faults.DEADLINE_SECS
        server = MCPServerStreamableHttp({"url": url}, client_session_timeout_seconds=deadline, **options)
        async with server:
            yield Connected(server, script)

    return connected


DEADLINE = f"client_session_timeout_seconds={mcp_faults.DEADLINE_SECS}"
mcp_faults.register(case, connecting(), option=DEADLINE)
mcp_faults.register(
    case, connecting(failure_error_function=None), option=f"{DEADLINE}, failure_error_function=None"
)
mcp_answers.register(case, connecting())


if __name__ == "__main__":
    case.main()
