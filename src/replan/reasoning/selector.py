"""Choosing the tools for a task, where there are too many to plan with."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any, Protocol

from replan.core.events import SelectedTool, ToolSelectionCompleted
from replan.core.types import ToolSpec
from replan.errors import ModelError
from replan.reasoning.ask import Talk, Violations, ask_typed
from replan.reasoning.describe import task_data, tool_index
from replan.reasoning.prompts import fence, load
from replan.reasoning.schemas import selection_schema
from replan.reasoning.scores import read_scores
from replan.reasoning.view import TaskView

_INDEX_CHARS = {"standard": 120_000, "small": 6_000}
_DATA_CHARS = {"standard": 6_000, "small": 800}


class Retriever(Protocol):
    """Narrows very many tools to some dozens without a model."""

    def narrow(self, query: str, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]: ...


class NothingSelected(ModelError):
    """The selection left no tool; `nearest` are the ids that come closest to the task, `dropped` why."""

    def __init__(self, nearest: Sequence[str], dropped: Sequence[str]) -> None:
        self.nearest = tuple(nearest)
        self.dropped = tuple(dropped)
        text = "no tool was selected for this task"
        if dropped:
            text += f": {'; '.join(dropped)}"
        text += f". The nearest tools are: {', '.join(nearest)}" if nearest else ". There are no tools"
        super().__init__(text)


async def select_tools(
    talk: Talk,
    *,
    task: TaskView,
    tools: Sequence[ToolSpec],
    threshold: float,
    retrieve: Retriever | None = None,
) -> ToolSelectionCompleted:
    """The tools that the model takes for the task, best first.

    Unknown ids and scores under `threshold` (0 to 100) are dropped and recorded. A model that names no tool
    at all says that none is needed: an empty selection. `NothingSelected` when everything named was dropped.
    """
    offered = list(retrieve.narrow(task.description, tools)) if retrieve is not None else list(tools)
    names = _Names(tools)
    style = talk.style
    data = task_data(task, tools, limit=_DATA_CHARS[style])
    prompt = load("select", style).render(
        task=fence("task", task.description),
        tools=fence("tools", tool_index(offered, limit=_INDEX_CHARS[style])),
        data=fence("data", data) if data else "",
    )
    selected = await ask_typed(
        talk,
        "selection",
        prompt,
        schema_name="tool_selection",
        json_schema=selection_schema(style, [tool.id for tool in offered]),
        read=lambda answer: _read(answer, names, threshold),
    )
    if not selected.tools and selected.dropped:
        raise NothingSelected(names.nearest_to(task.description, selected.dropped), selected.dropped)
    return selected


def _read(answer: Any, names: _Names, threshold: float) -> ToolSelectionCompleted:
    raw = answer["tools"]
    if not isinstance(raw, list):
        raise Violations(["`tools` has to be a list of {tool_id, score, reason}"])
    named = [item if isinstance(item, dict) else {"tool_id": item} for item in raw]
    scores = read_scores({str(at): item.get("score", 100) for at, item in enumerate(named)})
    best: dict[str, SelectedTool] = {}
    dropped: dict[str, None] = {}
    for at, item in enumerate(named):
        asked = str(item.get("tool_id", item.get("id", item.get("tool", ""))) or "").strip()
        tool = names.find(asked)
        score = scores[str(at)]
        if tool is None:
            dropped[f"{asked!r} does not exist"] = None
        elif score < threshold:
            dropped[f"{tool.id} scored {score:g}, under {threshold:g}"] = None
        elif tool.id not in best or score > best[tool.id].score:
            best[tool.id] = SelectedTool(tool_id=tool.id, score=score, reason=str(item.get("reason") or ""))
    workflow = answer.get("workflow_id")
    return ToolSelectionCompleted(
        phase="tool_selection",
        tools=tuple(sorted(best.values(), key=lambda tool: -tool.score)),
        task_type=str(answer.get("task_type") or "default").strip() or "default",
        workflow_id=workflow.strip() if isinstance(workflow, str) and workflow.strip() else None,
        reasoning=str(answer.get("reasoning") or ""),
        dropped=tuple(dropped),
    )


class _Names:
    """Tools by whatever they may be called: id, alias, name; case, `-` and spaces do not matter."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = tools
        self._by_name: dict[str, ToolSpec | None] = {}
        for tool in tools:
            self._by_name[_fold(tool.id)] = tool
        for tool in tools:
            for name in {_fold(name) for name in (*tool.aliases, tool.name) if name}:
                known = self._by_name.get(name, tool)
                # a name that two tools share means neither, unless it is the id of one
                shared = known is not tool and (known is None or _fold(known.id) != name)
                self._by_name[name] = None if shared else known

    def find(self, name: str) -> ToolSpec | None:
        return self._by_name.get(_fold(name))

    def nearest_to(self, description: str, dropped: Sequence[str], count: int = 5) -> list[str]:
        """Ids by likeness to what was named, then by words shared with the task."""
        ids = [tool.id for tool in self._tools]
        like: dict[str, None] = {}
        for note in dropped:
            asked = note.removesuffix(" does not exist").strip("'\"").split(" scored ")[0]
            like.update(dict.fromkeys(difflib.get_close_matches(asked, ids, n=3, cutoff=0.5)))
        words = _words(description)
        ranked = sorted(
            self._tools, key=lambda tool: -len(words & _words(f"{tool.id} {tool.name} {tool.description}"))
        )
        like.update(dict.fromkeys(tool.id for tool in ranked[:count]))
        return list(like)[:count]


def _fold(name: str) -> str:
    return re.sub(r"[\s\-]+", "_", name.strip().casefold())


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.casefold().replace("_", " ")) if len(word) > 2}
