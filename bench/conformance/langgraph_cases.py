"""LangGraph: its prebuilt agent with its ToolNode, LangChain's newer agent on it, plain graphs, and its SQLite checkpointer."""

from __future__ import annotations

import asyncio
import inspect
import operator
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent
from langgraph.types import Command, RetryPolicy

from bench.conformance import agents_kinds
from bench.conformance.agents import Asked, Script, Tool, answering, call_of, named, register
from bench.conformance.agents_kinds import HIDDEN
from bench.conformance.case import Calls, Cases, Facts, ended
from bench.conformance.kill import killed_and_resumed

case = Cases(["langgraph", "langgraph-prebuilt", "langgraph-checkpoint-sqlite", "langchain"])


class Scripted(BaseChatModel):
    """A chat model that answers from a script."""

    script: Callable[[Asked], str | list[str]]
    turns: list[int] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        self.turns.append(1)
        turn = len(self.turns)
        results = [one for one in messages if isinstance(one, ToolMessage)]
        asked_for = {call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
        missing = asked_for - {one.tool_call_id for one in results}
        said = self.script(Asked(turn, [str(one.content) for one in results], len(missing)))
        if isinstance(said, str):
            message = AIMessage(said)
        else:
            asked = [call_of(each) for each in said]
            called = [
                {"name": name, "args": args, "id": f"{turn}-{n}"} for n, (name, args) in enumerate(asked)
            ]
            message = AIMessage("", tool_calls=called)
        return ChatResult(generations=[ChatGeneration(message=message)])


def wrapped(tools: Sequence[Tool]) -> list[StructuredTool]:
    def one(tool: Any) -> StructuredTool:
        kind = "coroutine" if inspect.iscoroutinefunction(tool) else "func"
        return StructuredTool.from_function(**{kind: tool}, name=tool.__name__)

    return [one(tool) for tool in tools]


class GraphAgent:
    """A compiled agent on one thread of its checkpointer."""

    def __init__(self, graph: Any, limit: int | None) -> None:
        self.graph = graph
        self.config: dict[str, Any] = {"configurable": {"thread_id": "1"}}
        if limit is not None:
            self.config["recursion_limit"] = limit

    async def run(self) -> Any:
        return await self.graph.ainvoke({"messages": [("user", "do it")]}, self.config)

    def stream(self) -> AsyncIterator[Any]:
        return self.graph.astream({"messages": [("user", "do it")]}, self.config)

    async def record(self) -> str:
        return await kept_in(self.graph, self.config)


async def kept_in(graph: Any, config: dict[str, Any]) -> str:
    """The state's values and the writes of finished tasks that wait for their superstep, as a text."""
    saved = await graph.checkpointer.aget_tuple(config)
    if saved is None:
        return ""
    return str(saved.checkpoint["channel_values"]) + str(saved.pending_writes)


def prebuilt(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> GraphAgent:
    return GraphAgent(
        create_react_agent(Scripted(script=script), wrapped(tools), checkpointer=InMemorySaver()), limit
    )


def handling(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> GraphAgent:
    node = ToolNode(wrapped(tools), handle_tool_errors=True)
    return GraphAgent(create_react_agent(Scripted(script=script), node, checkpointer=InMemorySaver()), limit)


def newer(tools: Sequence[Tool], script: Script, *, limit: int | None = None) -> GraphAgent:
    return GraphAgent(
        create_agent(Scripted(script=script), wrapped(tools), checkpointer=InMemorySaver()), limit
    )


register(case, prebuilt)
register(case, handling, ["R4", "C2", "C22"], option="handle_tool_errors=True")
agents_kinds.register(case, prebuilt)
agents_kinds.register(case, handling, ["E2", "E3", "E14", "S10", "S16"], option="handle_tool_errors=True")
register(case, newer, ["R4", "R5", "C16", "C22", "C25"], option="langchain.agents.create_agent")


# ── R1: resume after one of three has failed ──────────────────────────────────


async def resumed(agent_of: Callable[[list[StructuredTool], Any, Any], Any]) -> Facts:
    calls = Calls()
    died = {"now": True}

    async def failing() -> str:
        calls.made("failing")
        await asyncio.sleep(0.1)
        if died["now"]:
            raise ConnectionError("gone")
        return "there again"

    def script(asked: Asked) -> str | list[str]:
        return ["pay", "slow", "failing"] if not asked.results else "done"

    tools = [
        answering(calls, "pay", "paid"),
        answering(calls, "slow", "slow result", 0.3),
        named("failing", failing),
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncSqliteSaver.from_conn_string(f"{folder}/graph.db") as saver:
            graph = agent_of(wrapped(tools), Scripted(script=script), saver)
            config = {"configurable": {"thread_id": "1"}}
            _, first = await ended(graph.ainvoke({"messages": [("user", "do it")]}, config))
            await asyncio.sleep(0.4)
            kept = await kept_in(graph, config)
            died["now"] = False
            _, second = await ended(graph.ainvoke(None, config))
    return {
        "died": first,
        "kept": sum(text in kept for text in ("paid", "slow result")),
        "pay": calls["pay"],
        "slow": calls["slow"],
        "failing": calls["failing"],
        "resumed": not second,
    }


@case("R1")
async def prebuilt_agent_resumed() -> Facts:
    return await resumed(lambda tools, model, saver: create_react_agent(model, tools, checkpointer=saver))


@case("R1", option="one ToolNode for all calls")
async def tool_node_resumed() -> Facts:
    def build(tools: list[StructuredTool], model: Any, saver: Any) -> Any:
        return create_react_agent(model, tools, checkpointer=saver, version="v1")

    return await resumed(build)


# ── R2: a step waits for what it needs ────────────────────────────────────────


class Times(TypedDict):
    out: Annotated[list[str], operator.add]


@case("R2")
async def a_layer_is_waited_for() -> Facts:
    started: dict[str, float] = {}

    def node(name: str, secs: float) -> Any:
        async def run(state: Times) -> dict[str, list[str]]:
            started[name] = time.perf_counter()
            await asyncio.sleep(secs)
            return {"out": [name]}

        return run

    graph = StateGraph(Times)
    for name, secs in (("a", 0.1), ("b", 1.0), ("c", 0.1), ("d", 0.1)):
        graph.add_node(name, node(name, secs))
    for edge in ((START, "a"), (START, "b"), ("a", "c"), ("c", "d"), ("b", END), ("d", END)):
        graph.add_edge(*edge)
    compiled = graph.compile()
    zero = time.perf_counter()
    await compiled.ainvoke({"out": []})
    return {"c_at": round(started["c"] - zero, 2), "secs": round(time.perf_counter() - zero, 2)}


# ── C1: three steps, one raises; across kill and resume each effect is made once ──


def effects_graph(folder: Path, saver: Any) -> Any:
    """Three nodes side by side: two leave a line in a file, one raises in the first process."""

    def node(name: str, secs: float) -> Any:
        async def run(state: Times) -> dict[str, list[str]]:
            with (folder / "effects").open("a") as file:
                file.write(f"{name}\n")
            await asyncio.sleep(secs)
            if name == "bad" and not (folder / "mended").exists():
                raise RuntimeError("boom")
            return {"out": [name]}

        return run

    graph = StateGraph(Times)
    for name, secs in (("one", 0.05), ("two", 0.1), ("bad", 0.4)):
        graph.add_node(name, node(name, secs))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile(checkpointer=saver)


async def drive(folder: Path, resume: bool) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
        graph = effects_graph(folder, saver)
        config = {"configurable": {"thread_id": "1"}}
        await graph.ainvoke(None if resume else {"out": []}, config)


@case("C1")
async def killed() -> Facts:
    """A first process is killed while `bad` still runs, a second dies of `bad`, a third goes through."""
    return await killed_and_resumed("bench.conformance.langgraph_cases", resumes=2)


# ── C2: the framework's own retry ─────────────────────────────────────────────


@case("C2", option="RetryPolicy on the node")
async def retried_by_policy() -> Facts:
    calls = Calls()

    async def pay(state: Times) -> dict[str, list[str]]:
        calls.made("pay")
        raise TimeoutError("no answer in 30 s")

    graph = StateGraph(Times)
    graph.add_node("pay", pay, retry_policy=RetryPolicy(initial_interval=0.01, retry_on=TimeoutError))
    graph.add_edge(START, "pay")
    _, died = await ended(graph.compile().ainvoke({"out": []}))
    return {"effects": calls["pay"], "died": died, "in_doubt": False}


# ── E3: the policy's own choice of what to retry ──────────────────────────────


@case("E3", option="RetryPolicy on the node")
async def hidden_timeouts_retried_by_policy() -> Facts:
    calls = Calls()

    def node(how: str) -> Any:
        async def pay(state: Times) -> dict[str, list[str]]:
            calls.made(how)
            HIDDEN[how]()
            return {"out": ["paid"]}

        return pay

    for how in HIDDEN:
        graph = StateGraph(Times)
        graph.add_node("pay", node(how), retry_policy=RetryPolicy(initial_interval=0.01))
        graph.add_edge(START, "pay")
        await ended(graph.compile().ainvoke({"out": []}))
    return {"effects": {how: calls[how] for how in HIDDEN}}


# ── E9, E10, E11: what a node reads of others, and conditions ─────────────────


class Account(TypedDict, total=False):
    account: str
    acc: Any


@case("E9")
async def two_writers_of_one_state() -> Facts:
    paid: list[str] = []

    def writing(name: str, secs: float) -> Any:
        async def write(state: Account) -> Account:
            await asyncio.sleep(secs)
            return {"account": name}

        return write

    async def pay(state: Account) -> Account:
        paid.append(state["account"])
        return {}

    graph = StateGraph(Account)
    for name, node in (
        ("a", writing("A", 0.2)),
        ("b", writing("B", 0.0)),
        ("after_a", pay),
        ("after_b", pay),
    ):
        graph.add_node(name, node)
    for edge in ((START, "a"), (START, "b"), ("a", "after_a"), ("b", "after_b")):
        graph.add_edge(*edge)
    _, died = await ended(graph.compile().ainvoke({}))
    return {"paid": paid, "died": died}


async def conditional(output: Any, condition: Callable[[Account], bool]) -> Facts:
    calls = Calls()

    async def acc(state: Account) -> Account:
        return {"acc": output}

    async def pay(state: Account) -> Account:
        calls.made("pay")
        return {}

    graph = StateGraph(Account)
    graph.add_node("look", acc)
    graph.add_node("pay", pay)
    graph.add_edge(START, "look")
    graph.add_conditional_edges("look", lambda state: "pay" if condition(state) else END, ["pay", END])
    _, died = await ended(graph.compile().ainvoke({}))
    return {"effects": calls["pay"], "died": died}


@case("E10")
async def a_condition_on_a_text_with_json() -> Facts:
    return await conditional('{"status": "blocked"}', lambda state: state["acc"]["status"] != "blocked")


@case("E11")
async def a_condition_without_its_field() -> Facts:
    return await conditional({}, lambda state: state["acc"]["status"] != "blocked")


# ── E12: a person gives other parameters ──────────────────────────────────────


@case("E12", option="HumanInTheLoopMiddleware of create_agent")
async def an_edit_of_one_parameter() -> Facts:
    paid: list[Any] = []

    async def pay(amount: int, currency: str = "USD", note: str = "") -> str:
        paid.extend([amount, currency, note])
        return "paid"

    def script(asked: Asked) -> str | list[str]:
        return ['pay {"amount": 5, "currency": "EUR", "note": "rent"}'] if not asked.results else "done"

    agent = create_agent(
        Scripted(script=script),
        wrapped([named("pay", pay)]),
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    edited = {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 10}}}

    async def run() -> None:
        await agent.ainvoke({"messages": [("user", "do it")]}, config)
        await agent.ainvoke(Command(resume={"decisions": [edited]}), config)

    _, died = await ended(run())
    return {"paid": paid, "died": died}


if __name__ == "__main__":
    case.main()
