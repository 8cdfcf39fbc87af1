"""Replan as a node of a LangGraph graph: durable, with its progress in the graph's stream and a person in the loop.

    pip install . langgraph                  # in a clone
    python examples/inside_langgraph.py

No model is asked: the plan is given. The graph stops at an interrupt until the payment is agreed to, then goes on
with the very same task; nothing that is done is done again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from replan import Replan, tool
from replan.inside import langgraph_node

BILLS = {"rent": 900, "power": 80}


@tool(effect="reads")
def bill(name: str) -> int:
    """What a bill is over, in euros."""
    return BILLS[name]


@tool(effect="once")
def pay(name: str, euros: int) -> str:
    """Pay a bill."""
    return f"paid {euros} EUR for {name}"


class State(TypedDict):
    name: str
    task: NotRequired[str]
    result: NotRequired[Any]


def describe(state: State) -> dict[str, str]:
    return {"task": f"Pay the bill {state['name']}"}


def plan(state: State) -> dict[str, Any]:
    """Further arguments of `Replan.submit`; without a plan, the model makes one."""
    name = state["name"]
    steps = [
        {"step_id": "look", "tool": "bill", "parameters": {"name": name}},
        {"step_id": "pay", "tool": "pay", "parameters": {"name": name, "euros": "${look.output}"}},
    ]
    return {"plan": {"steps": steps}, "evaluation": "steps"}


def graph(replan: Replan) -> Any:
    made: Any = StateGraph(State)
    made.add_node("describe", describe)
    made.add_node("work", langgraph_node(replan, submit=plan))
    made.add_edge(START, "describe")
    made.add_edge("describe", "work")
    made.add_edge("work", END)
    return made.compile(checkpointer=InMemorySaver())


async def main(name: str, agree: bool, db: str | Path | None = None) -> list[Any]:
    """What the graph asked, and how it ended."""
    thread: Any = {"configurable": {"thread_id": "bills"}}
    async with Replan(tools=[bill, pay], db=db, approval="destructive", interactive=True) as replan:
        app = graph(replan)
        async for event in app.astream({"name": name}, thread, stream_mode="custom"):
            print(f"  {event['type']} {event['step_id'] or ''}")
        (asked,) = (await app.aget_state(thread)).interrupts
        print(f"{asked.value['text']} {asked.value['parameters']} -> {agree}")
        answer = agree if agree else {"approved": False, "reason": "not this month"}
        try:
            state = await app.ainvoke(Command(resume=answer), thread)
        except Exception as error:  # noqa: BLE001  (the node raises why the task failed)
            return [asked.value, str(error)]
    return [asked.value, state["result"]]


if __name__ == "__main__":
    print(asyncio.run(main("rent", agree=True))[1])
