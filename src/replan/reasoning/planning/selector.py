"""Choosing the tools for a task, where there are too many to plan with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from replan.core.events import SelectedTool, ToolSelectionCompleted
from replan.core.kinds.known import NOTHING_OFFERED, Offered
from replan.core.types import ToolSpec
from replan.errors import AnswerInvalid
from replan.reasoning.evaluation.scores import read_scores
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.describe import data_text, one_line, task_data, tool_index
from replan.reasoning.prompting.history import cut, shorten
from replan.reasoning.prompting.noes import noes_in
from replan.reasoning.prompting.offered import guided, offered_text, with_choice
from replan.reasoning.prompting.prompts import fence, load
from replan.reasoning.prompting.read_values import text
from replan.reasoning.prompting.recovery_text import (
    ROOM,
    guidance_lines,
    guidance_text,
    joined,
    lines_text,
    section,
)
from replan.reasoning.prompting.recovery_view import Reselection, UsedTool
from replan.reasoning.prompting.schemas import selection_schema
from replan.reasoning.prompting.tool_names import ToolNames
from replan.reasoning.prompting.view import TaskView

_INDEX_CHARS = {"standard": 120_000, "small": 6_000}
_DATA_CHARS = {"standard": 6_000, "small": 800}
_SUMMARY_CHARS = 200
_MOST_USED = 60


class Retriever(Protocol):
    """Narrows very many tools to some dozens without a model."""

    def narrow(self, query: str, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]: ...


async def select_tools(
    talk: Talk,
    *,
    task: TaskView,
    tools: Sequence[ToolSpec],
    threshold: float,
    retrieve: Retriever | None = None,
    again: Reselection | None = None,
    offered_kinds: Offered = NOTHING_OFFERED,
) -> ToolSelectionCompleted:
    """The tools that the model takes for the task, best first.

    `again`: what went before, for the selection in replanning mode; without it nothing did. `offered_kinds`: the kinds of
    task and the workflows that it may name.
    Unknown ids and scores under `threshold` (0 to 100) are dropped and recorded. A model that names no tool
    at all says that none is needed: an empty selection. Where everything named was dropped, that goes back once with
    the nearest names; a selection that cannot be used then leaves every tool that was offered, and says why.
    """
    offered = list(retrieve.narrow(task.description, tools)) if retrieve is not None else list(tools)
    names = ToolNames(tools)
    style = talk.style
    data = task_data(task, limit=_DATA_CHARS[style])
    values = {
        "task": fence("task", task.description),
        "tools": fence("tools", tool_index(offered, limit=_INDEX_CHARS[style], effects=style != "small")),
        "data": guided(
            data_text(task, data, style),
            joined(offered_text(offered_kinds, "selection", style), guidance_text(task, style)),
        ),
    }
    if style != "small":
        values["threshold"] = f"{threshold:g}"
    if again is None:
        prompt = load("select", style).render(**values)
    else:
        values |= _past(again, style)
        prompt = load("select_again", style).render(**values)
    dropped: dict[str, None] = {}

    def read(answer: Any) -> ToolSelectionCompleted:
        found, missed = _read(answer, names, threshold)
        found, unknown = _chosen(found, offered_kinds, refuses=bool(noes_in(answer)))
        dropped.update(dict.fromkeys((*found.dropped, *unknown)))
        if found.dropped and not found.tools and found.workflow is None:
            nearest = names.nearest_to(task.description, missed)
            raise Violations([_nothing_left(found.dropped, nearest, threshold)])
        return found

    try:
        selected = await ask_typed(
            talk,
            "selection",
            prompt,
            schema_name="tool_selection",
            json_schema=with_choice(
                selection_schema(style, [tool.id for tool in offered], again=again is not None),
                offered_kinds,
                style,
            ),
            read=read,
            alone=True,
            needed=("tools",),
        )
    except AnswerInvalid as error:
        selected = ToolSelectionCompleted(
            phase="tool_selection",
            tools=tuple(SelectedTool(tool_id=tool.id) for tool in offered),
            reasoning=f"every tool is offered: {error}",
            dropped=tuple(dropped),
            asked=False,
        )
    selected = selected.model_copy(update={"dropped": tuple(dropped)})
    if again is not None:
        selected = selected.model_copy(update={"phase": "replanning_tool_selection"})
    else:
        selected = selected.model_copy(update={"changes_summary": ""})
    return selected


def _chosen(
    found: ToolSelectionCompleted, offered: Offered, *, refuses: bool
) -> tuple[ToolSelectionCompleted, tuple[str, ...]]:
    """The selection with the workflow that it names, and why that is not taken: there is none, or a question or a no stands beside it."""
    if not offered.workflows and not offered.scenes:
        return found, ()
    workflow = None if refuses else offered.workflow(found.workflow_id)
    named = {
        "task_type": offered.task_type(found.task_type),
        "workflow": workflow,
        "workflow_id": workflow.workflow_id if workflow is not None else None,
    }
    lost = found.workflow_id if workflow is None else None
    why = "was named beside a question or a no" if refuses else "does not exist, or its tools are not here"
    unknown = (f"the workflow {lost[:200]!r} {why}",) if lost else ()
    return found.model_copy(update=named), unknown


def _nothing_left(dropped: Sequence[str], nearest: Sequence[str], threshold: float) -> str:
    """What is wrong with a selection of which nothing is left, and what would be right."""
    near = f" The nearest tools are: {', '.join(nearest)}." if nearest else ""
    return (
        f"no tool is left of this selection: {'; '.join(dropped)}.{near} Name tools exactly as listed, with a score from "
        f"0 to 100, of at least {threshold:g} for each that is needed; an empty list if none is."
    )


def _read(answer: Any, names: ToolNames, threshold: float) -> tuple[ToolSelectionCompleted, list[str]]:
    """The selection, and the names of what was dropped of it, as far as they are known."""
    raw = answer["tools"]
    if not isinstance(raw, list):
        raise Violations(["`tools` has to be a list of {tool_id, score, reason}"])
    named = [item if isinstance(item, dict) else {"tool_id": item} for item in raw]
    scores = read_scores({str(at): item.get("score", 100) for at, item in enumerate(named)})
    best: dict[str, SelectedTool] = {}
    dropped: dict[str, str] = {}
    """What is told of each, and its name."""
    for at, item in enumerate(named):
        asked = str(item.get("tool_id", item.get("id", item.get("tool", ""))) or "").strip()
        tool = names.find(asked)
        score = scores[str(at)]
        if tool is None:
            dropped[f"{asked!r} does not exist"] = asked
        elif score < threshold:
            dropped[f"{tool.id} scored {score:g}, under {threshold:g}"] = tool.id
        elif tool.id not in best or score > best[tool.id].score:
            best[tool.id] = SelectedTool(tool_id=tool.id, score=score, reason=str(item.get("reason") or ""))
    workflow = answer.get("workflow_id")
    found = ToolSelectionCompleted(
        phase="tool_selection",
        tools=tuple(sorted(best.values(), key=lambda tool: -tool.score)),
        task_type=str(answer.get("task_type") or "default").strip() or "default",
        workflow_id=_word(workflow),
        reasoning=str(answer.get("reasoning") or ""),
        dropped=tuple(dropped),
        changes_summary=text(answer.get("changes_summary")),
    )
    return found, list(dropped.values())


def _word(value: Any) -> str | None:
    """A name, or None where the model wrote something that means none."""
    text = value.strip() if isinstance(value, str) else ""
    return None if text.lower() in ("", "none", "null", "n/a") else text


def _past(again: Reselection, style: str) -> dict[str, str]:
    """What went before, as far as there is any of it."""
    used = "\n".join(_used(tool) for tool in again.used[:_MOST_USED])
    if len(again.used) > _MOST_USED:
        used += f"\n({len(again.used) - _MOST_USED} more)"
    analysis, strategy = again.analysis, again.strategy
    if style != "small":
        analysis = "" if any(line.endswith(f": {analysis}") for line in again.history) else analysis
        strategy = "" if "strategy" in again.guidance else strategy
    told = guidance_lines(again.guidance, (), style)
    return {
        "used": section("Used before:", "used", used),
        "history": section("What has been done:", "history", lines_text(again.history, style)),
        "findings": joined(
            section("What the failure was:", "analysis", shorten(analysis, ROOM[style].words)),
            section("Guidance:", "guidance", told),
            f"How the plan is to be made anew: {strategy}" if strategy else "",
        ),
    }


def _used(tool: UsedTool) -> str:
    name = f" ({cut(one_line(tool.tool_name), 120)})" if tool.tool_name not in ("", tool.tool_id) else ""
    line = f"{tool.tool_id}{name}: {tool.execution_status}"
    if tool.failure_reason:
        line += f"; failed because: {cut(one_line(tool.failure_reason), _SUMMARY_CHARS)}"
    if tool.execution_summary:
        line += f"; {cut(one_line(tool.execution_summary), _SUMMARY_CHARS)}"
    return line
