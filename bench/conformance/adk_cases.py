"""Google ADK: `LlmAgent` in an `InMemoryRunner`, with a model that answers from a script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models import BaseLlm, LlmResponse
from google.adk.plugins import ReflectAndRetryToolPlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
from google.genai import types
from pydantic import BaseModel

from bench.conformance import mcp_faults
from bench.conformance.agents import FENCED, Asked, Script, Tool, register
from bench.conformance.case import Calls, Cases, Facts, ended

case = Cases(["google-adk"])


class Scripted(BaseLlm):
    """A model that answers from a script."""

    model: str = "scripted"
    script: Any
    turns: list[int] = []

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.turns.append(1)
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        results = [part.function_response for part in parts if part.function_response]
        asked_for = {part.function_call.id for part in parts if part.function_call}
        missing = asked_for - {one.id for one in results}
        texts = [str(one.response) for one in results]
        said = self.script(Asked(len(self.turns), texts, len(missing)))
        if isinstance(said, str):
            made = [types.Part(text=said)]
        else:
            made = [types.Part(function_call=types.FunctionCall(name=name, args={})) for name in said]
        yield LlmResponse(content=types.Content(role="model", parts=made))


class ScriptedAgent:
    """An agent on one session in memory."""

    def __init__(
        self, tools: Sequence[Any], script: Script, limit: int | None, plugins: Sequence[Any] = ()
    ) -> None:
        agent = LlmAgent(name="one", model=Scripted(script=script), tools=list(tools))
        self._runner = InMemoryRunner(agent=agent, app_name="bench", plugins=list(plugins))
        self._config = RunConfig() if limit is None else RunConfig(max_llm_calls=limit)
        self._session = ""

    async def stream(self) -> AsyncIterator[Any]:
        sessions = self._runner.session_service
        if not self._session:
            self._session = (await sessions.create_session(app_name="bench", user_id="u")).id
        message = types.Content(role="user", parts=[types.Part(text="do it")])
        running = self._runner.run_async(
            user_id="u", session_id=self._session, new_message=message, run_config=self._config
        )
        async for event in running:
            yield event

    async def run(self) -> Any:
        return [event async for event in self.stream()]

    async def record(self) -> str:
        session = await self._runner.session_service.get_session(
            app_name="bench", user_id="u", session_id=self._session
        )
        return str(session.events) if session else ""


def make(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(tools, script, limit)


def reflecting(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(tools, script, limit, [ReflectAndRetryToolPlugin()])


register(case, make)
register(case, reflecting, ["R4", "R6", "C2"], option="ReflectAndRetryToolPlugin")


class Verdict(BaseModel):
    done: bool


@case("C9")
async def an_answer_in_a_fence() -> Facts:
    asked = Calls()

    def script(_: Asked) -> str:
        asked.made("model")
        return FENCED

    agent = LlmAgent(name="one", model=Scripted(script=script), output_schema=Verdict, output_key="verdict")
    runner = InMemoryRunner(agent=agent, app_name="bench")
    session = await runner.session_service.create_session(app_name="bench", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text="is it done?")])

    async def run() -> Any:
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass
        kept = await runner.session_service.get_session(app_name="bench", user_id="u", session_id=session.id)
        return kept.state.get("verdict")

    verdict, died = await ended(run())
    return {"read": verdict == {"done": True}, "model_calls": asked["model"], "died": died}


# ── C23: tools of an MCP server ───────────────────────────────────────────────


class Connected:
    """Each run is a conversation of its own, on one toolset."""

    def __init__(self, toolset: McpToolset, script: Script) -> None:
        self._toolset, self._script = toolset, script

    async def run(self) -> Any:
        return await ScriptedAgent([self._toolset], self._script, None).run()


@asynccontextmanager
async def connected(url: str, script: Script) -> AsyncIterator[Connected]:
    deadline = float(mcp_faults.DEADLINE_SECS)
    params = StreamableHTTPConnectionParams(url=url, sse_read_timeout=deadline)
    toolset = McpToolset(connection_params=params)
    try:
        yield Connected(toolset, script)
    finally:
        await toolset.close()


mcp_faults.register(case, connected, option=f"sse_read_timeout={mcp_faults.DEADLINE_SECS}")


if __name__ == "__main__":
    case.main()
