"""A graph whose only node is Replan, with checkpoints in a file: run by a process that may be killed.

    frameworks_graph.py FOLDER [die]

With `die`, the process kills itself in the second step. Each step that takes effect adds a line to `effects.txt`.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from replan import Replan, tool
from replan.inside import langgraph_node

PLAN = {
    "steps": [
        {"step_id": "a", "tool": "effect", "parameters": {"name": "a"}},
        {"step_id": "b", "tool": "deadly", "parameters": {"name": "${a.output}b"}},
        {"step_id": "c", "tool": "effect", "parameters": {"name": "${b.output}c"}},
    ]
}
THREAD: Any = {"configurable": {"thread_id": "t1"}}


class State(TypedDict):
    task: str
    result: Any


class FileSaver(InMemorySaver):
    """Checkpoints that are in a file after each write."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        if path.exists():
            storage, writes, blobs = pickle.loads(path.read_bytes())
            for thread, spaces in storage.items():
                for space, found in spaces.items():
                    self.storage[thread][space] = found
            self.writes.update(writes)
            self.blobs.update(blobs)

    def put(self, *arguments: Any, **named: Any) -> Any:
        done = super().put(*arguments, **named)
        self._save()
        return done

    def put_writes(self, *arguments: Any, **named: Any) -> None:
        super().put_writes(*arguments, **named)
        self._save()

    def _save(self) -> None:
        storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(
            pickle.dumps((storage, {k: dict(v) for k, v in self.writes.items()}, dict(self.blobs)))
        )
        os.replace(fresh, self.path)


async def main(folder: Path, *, die: bool) -> None:
    def note(name: str) -> str:
        with (folder / "effects.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        return name

    @tool(effect="once")
    def effect(name: str) -> str:
        return note(name)

    @tool(effect="repeatable")
    def deadly(name: str) -> str:
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
        return note(name)

    async with Replan(tools=[effect, deadly], db=folder / "replan.db") as replan:
        graph: Any = StateGraph(State)
        graph.add_node(
            "work", langgraph_node(replan, submit=lambda state: {"plan": PLAN, "evaluation": "steps"})
        )
        graph.add_edge(START, "work")
        graph.add_edge("work", END)
        app = graph.compile(checkpointer=FileSaver(folder / "checkpoints"))
        fresh = not (await app.aget_state(THREAD)).next
        given = {"task": "three effects"} if fresh else None
        news = []
        async for mode, item in app.astream(
            given, THREAD, stream_mode=["custom", "values"], durability="sync"
        ):
            news.append((mode, item))
        tasks = [row.task_id for row in await replan.tasks()]
    last = [item for mode, item in news if mode == "values"][-1]
    types = [item["type"] for mode, item in news if mode == "custom"]
    print(json.dumps({"result": last["result"], "tasks": tasks, "types": types}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), die="die" in sys.argv[2:]))
