"""Microsoft Agent Framework: its agent with tools, its workflow graphs, and Magentic orchestration."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Executor,
    FunctionInvocationLayer,
    MCPStreamableHTTPTool,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    tool,
)
from agent_framework.orchestrations import MagenticBuilder, StandardMagenticManager
from pydantic import BaseModel

from bench.conformance import mcp_faults
from bench.conformance.agents import FENCED, Asked, Script, Tool, register
from bench.conformance.case import CALL_LIMIT, Calls, Cases, Facts, ended, leave

case = Cases(["agent-framework-core", "agent-framework-orchestrations"])


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A chat client that answers from a script: a text, or the names of tools to call."""

    def __init__(self, script: Callable[[int, Sequence[Message]], str | list[str]], **more: Any) -> None:
        super().__init__(**more)
        self._script = script
        self._turn = 0

    def _said(self, messages: Sequence[Message]) -> list[Content]:
        self._turn += 1
        said = self._script(self._turn, messages)
        if isinstance(said, str):
            return [Content.from_text(said)]
        return [
            Content.from_function_call(f"{self._turn}-{n}", name, arguments="{}")
            for n, name in enumerate(said)
        ]

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **more: Any
    ) -> Any:
        if stream:
            return self._build_response_stream(self._streamed(messages))
        return self._answered(messages)

    async def _answered(self, messages: Sequence[Message]) -> ChatResponse:
        return ChatResponse(messages=[Message("assistant", self._said(messages))])

    async def _streamed(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        yield ChatResponseUpdate(role="assistant", contents=self._said(messages))


def asked_by(script: Script) -> Callable[[int, Sequence[Message]], str | list[str]]:
    def answer(turn: int, messages: Sequence[Message]) -> str | list[str]:
        contents = [content for message in messages for content in message.contents]
        results = [one for one in contents if one.type == "function_result"]
        asked_for = {one.call_id for one in contents if one.type == "function_call"}
        missing = asked_for - {one.call_id for one in results}
        return script(Asked(turn, [str(one.result) for one in results], len(missing)))

    return answer


class ScriptedAgent:
    """An agent on one session."""

    def __init__(self, tools: Sequence[Tool], script: Script, limit: int | None) -> None:
        limits: dict[str, Any] = (
            {} if limit is None else {"function_invocation_configuration": {"max_iterations": limit}}
        )
        client = Scripted(asked_by(script), **limits)
        self._agent = Agent(client, tools=[tool(one, name=one.__name__) for one in tools])
        self._session = self._agent.create_session()

    async def run(self) -> Any:
        return await self._agent.run("do it", session=self._session)

    async def stream(self) -> AsyncIterator[Any]:
        async for update in self._agent.run("do it", stream=True, session=self._session):
            yield update

    async def record(self) -> str:
        return json.dumps(self._session.to_dict(), default=str)


def make(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> ScriptedAgent:
    return ScriptedAgent(tools, script, limit)


register(case, make)


# ── R2: a workflow graph ──────────────────────────────────────────────────────


class Timed(Executor):
    """Takes its time, then sends on."""

    def __init__(self, name: str, secs: float, started: dict[str, float]) -> None:
        super().__init__(id=name)
        self.secs, self.started = secs, started

    @handler
    async def go(self, message: str, ctx: WorkflowContext[str]) -> None:
        self.started[self.id] = time.perf_counter()
        await asyncio.sleep(self.secs)
        await ctx.send_message(message)


@case("R2")
async def a_layer_is_waited_for() -> Facts:
    started: dict[str, float] = {}
    s, a, b, c, d = (
        Timed(name, secs, started)
        for name, secs in (("s", 0.0), ("a", 0.1), ("b", 1.0), ("c", 0.1), ("d", 0.1))
    )
    flow = WorkflowBuilder(start_executor=s)
    for edge in ((s, a), (s, b), (a, c), (c, d)):
        flow.add_edge(*edge)
    await flow.build().run("go")
    return {
        "c_at": round(started["c"] - started["s"], 2),
        "secs": round(time.perf_counter() - started["s"], 2),
    }


# ── Magentic ──────────────────────────────────────────────────────────────────

WORKER = "worker"


def ledger(*, satisfied: bool = False, progress: bool = True) -> str:
    def item(answer: str | bool) -> dict[str, Any]:
        return {"reason": "so it is", "answer": answer}

    return json.dumps(
        {
            "is_request_satisfied": item(satisfied),
            "is_in_loop": item(not progress),
            "is_progress_being_made": item(progress),
            "next_speaker": item(WORKER),
            "instruction_or_question": item("go on"),
        }
    )


class Magentic:
    """One orchestration: a scripted manager, one worker; what it counted."""

    def __init__(self, check: Callable[[Counter[str]], str], **limits: Any) -> None:
        self.seen = Calls()
        self.check = check

        def manage(turn: int, messages: Sequence[Message]) -> str:
            asked = messages[-1].text
            if "is_request_satisfied" in asked:
                self._count("checks")
                return check(self.seen)
            if self.seen["checks"] and "plan" in asked.lower() and "final" not in asked.lower():
                self._count("replan calls")
            return "the final answer" if "final" in asked.lower() else "a plan"

        def work(turn: int, messages: Sequence[Message]) -> str:
            self._count("work")
            return "a partial result"

        retries = {"progress_ledger_retry_count": 1}  # its retries wait, and change nothing else
        manager = StandardMagenticManager(Agent(Scripted(manage), name="manager"), **retries, **limits)
        worker = Agent(Scripted(work), name=WORKER, description="does the work")
        self.flow = MagenticBuilder(participants=[worker], manager=manager).build()

    def _count(self, name: str) -> None:
        self.seen[name] += 1
        if self.seen[name] >= CALL_LIMIT:
            leave({"still_going": CALL_LIMIT, **self.facts(None, "", 0)})

    def facts(self, outputs: Any, died: str, replans: int, streamed: bool = False) -> Facts:
        told = " ".join(map(str, outputs or ()))
        return {
            "replans": replans,
            "checks": self.seen["checks"],
            "work": self.seen["work"],
            "died": died,
            "partial": "partial result" in told or not self.seen["work"],
            "streamed": streamed,
            "told": told[:160],
        }

    async def run(self) -> Facts:
        events: list[Any] = []

        async def read() -> None:
            async for event in self.flow.run("do the work", stream=True):
                events.append(event)  # noqa: PERF401 - kept also when the run dies

        _, died = await ended(read(), 100)
        kinds = [event.data.event_type.value for event in events if event.type == "magentic_orchestrator"]
        outputs = [getattr(event.data, "text", event.data) for event in events if event.type == "output"]
        streamed = any(event.type == "executor_completed" and event.executor_id == WORKER for event in events)
        return self.facts(outputs, died, kinds.count("replanned"), streamed)


@case("R11")
async def the_progress_check_always_fails() -> Facts:
    return await Magentic(lambda seen: "I cannot say").run()


@case("R11", option="max_reset_count=3")
async def the_progress_check_always_fails_limited() -> Facts:
    return await Magentic(lambda seen: "I cannot say", max_reset_count=3).run()


@case("R12")
async def the_progress_check_says_none() -> Facts:
    return await Magentic(lambda seen: ledger(progress=False)).run()


@case("R12", option="max_round_count=10, max_reset_count=3")
async def the_progress_check_says_none_limited() -> Facts:
    return await Magentic(lambda seen: ledger(progress=False), max_round_count=10, max_reset_count=3).run()


@case("C8")
async def the_planner_always_fails() -> Facts:
    """The planner is there for the first plan and gone for every later one."""
    seen = Calls()

    def manage(turn: int, messages: Sequence[Message]) -> str:
        seen.made("model")
        if turn > 2 and "is_request_satisfied" not in messages[-1].text:
            raise RuntimeError("the planner is gone")
        return ledger(progress=False) if turn > 2 else "a plan"

    manager = StandardMagenticManager(Agent(Scripted(manage), name="manager"))
    worker = Agent(Scripted(lambda turn, messages: "a partial result"), name=WORKER, description="works")
    flow = MagenticBuilder(participants=[worker], manager=manager).build()
    done, died = await ended(flow.run("do the work"), 60)
    outputs = str([getattr(one, "text", one) for one in done.get_outputs()]) if done else ""
    return {"model_calls": seen["model"], "died": died, "partial": "partial result" in outputs}


@case("C9")
async def a_ledger_in_a_fence() -> Facts:
    def check(seen: Counter[str]) -> str:
        return f"```json\n{ledger(satisfied=seen['checks'] > 1)}\n```"

    orchestration = Magentic(check)
    facts = await orchestration.run()
    read = orchestration.seen["work"] == 1 and not facts["died"] and facts["replans"] == 0
    return {"read": read, "model_calls": facts["checks"], "died": facts["died"]}


class Verdict(BaseModel):
    done: bool


@case("C9", option="response_format of an agent")
async def an_answer_in_a_fence() -> Facts:
    asked = Calls()

    def answer(turn: int, messages: Sequence[Message]) -> str:
        asked.made("model")
        return FENCED

    async def run() -> bool:
        said = await Agent(Scripted(answer)).run("is it done?", options={"response_format": Verdict})
        return bool(said.value and said.value.done)

    read, died = await ended(run())
    return {"read": bool(read), "model_calls": asked["model"], "died": died}


@case("C25", option="Magentic, max_round_count=0")
async def no_round_allowed() -> Facts:
    orchestration = Magentic(lambda seen: ledger(progress=True), max_round_count=0)
    facts = await orchestration.run()
    return {"model_calls": facts["work"] + facts["checks"], "died": facts["died"]}


# ── C23: tools of an MCP server ───────────────────────────────────────────────


class Connected:
    """Each run is a conversation of its own, on one connection."""

    def __init__(self, server: MCPStreamableHTTPTool, script: Script, options: dict[str, Any]) -> None:
        self._server, self._script, self._options = server, script, options

    async def run(self) -> Any:
        client = Scripted(asked_by(self._script), function_invocation_configuration=self._options)
        return await Agent(client, tools=[self._server]).run("do it")


def connecting(**options: Any) -> mcp_faults.Connect:
    @asynccontextmanager
    async def connected(url: str, script: Script) -> AsyncIterator[Connected]:
        deadline = mcp_faults.DEADLINE_SECS
        async with MCPStreamableHTTPTool("shop", url, request_timeout=deadline) as server:
            yield Connected(server, script, options)

    return connected


DEADLINE = f"request_timeout={mcp_faults.DEADLINE_SECS}"
mcp_faults.register(case, connecting(), option=DEADLINE)
mcp_faults.register(
    case, connecting(include_detailed_errors=True), option=f"{DEADLINE}, include_detailed_errors=True"
)


if __name__ == "__main__":
    case.main()
