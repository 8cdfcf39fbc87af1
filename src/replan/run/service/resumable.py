"""Whether a task can go on here: with the tools that it has still to call, and a log that can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from replan.core.events import misread
from replan.core.state.fold import fold
from replan.core.state.progress import TaskStatus
from replan.core.state.task import State
from replan.core.waits.moments import told
from replan.core.waits.tools import tools_of
from replan.ports import Denies, Store, Tools
from replan.run.session.given import wanted_again

BY_HAND = "python"
"""The source of functions that a program gives one by one: whoever leaves one out may have forgotten it."""
OVERDUE_SECS = 60.0
_UNFINISHED: tuple[TaskStatus, ...] = (
    "queued", "planning", "executing", "evaluating", "reflecting", "replanning", "waiting",
)  # fmt: skip


def tools_needed(state: State) -> list[str]:
    """Names of the tools that the task has still to call, or may plan with."""
    if state.plan is None:
        return [tool.tool_id for tool in state.selection.tools] if state.selection else []
    names = [name for step in state.steps.values() if not step.closed for name in tools_of(step.step)]
    return list(dict.fromkeys(names))


def tools_missing(state: State, tools: Tools) -> list[str]:
    """Those of them that are not here, and that it would be wrong to go on without.

    One that its source no longer has is gone: where there is a model, recovery finds another way.
    """
    missing = [name for name in tools_needed(state) if tools.resolve(name) is None]
    if not missing or not state.heals or state.made_with is None:
        return missing
    troubled = {getattr(problem, "source", "") for problem in tools.problems}
    here = {spec.source for spec in tools.specs()} - troubled - {BY_HAND, ""}
    known = state.made_with.tools
    return [name for name in missing if name not in known or known[name].source not in here]


def why_missing(state: State, missing: Sequence[str], tools: Tools) -> str:
    """Why these are not to be had here, and what to do about it."""
    denied = [name for name in missing if isinstance(tools, Denies) and tools.denied(name)]
    gone = [name for name in missing if name not in denied]
    told = []
    if denied:
        told.append(
            f"it goes on with {_listed(denied)}, and {'that' if len(denied) == 1 else 'these'} may not be used here ([tools] deny): go on "
            "with it where it may, or fork it with another plan"
        )
    if gone:
        known = state.made_with.tools if state.made_with is not None else {}
        sources = {known[name].source for name in gone if name in known}
        theirs = [one for one in tools.problems if not sources or getattr(one, "source", "") in sources]
        problems = [str(one) for one in theirs if getattr(one, "tool", None) in (None, *gone)]
        why = f" ({'; '.join(problems[:3])})" if problems else ": give those that it was submitted with"
        told.append(f"it goes on with {_listed(gone)}, not to be found among the tools here{why}")
    return "; ".join(told)


class CannotGoOn(NamedTuple):
    """A task that has not ended, and that nobody can drive on as it is."""

    task_id: str
    why: str
    kind: Literal["log", "tools", "late", "secrets"]
    """Its log cannot be read; tools are missing here; it should have gone on by itself; it was begun with secrets that a process which is
    gone had alone."""


async def cannot_go_on(
    store: Store, tools: Tools, now: Callable[[], float], limit: int = 200
) -> list[CannotGoOn]:
    """Those of the newest unfinished tasks that nobody drives and that could not go on here, each with the reason.

    Tasks that wait for a worker are not among them: what those lack the queue says.
    """
    rows = await store.list_tasks(status=_UNFINISHED, limit=limit)
    return [
        found
        for row in rows
        if not row.held and not row.queue and (found := await _why_not(row.task_id, store, tools, now))
    ]


async def _why_not(task_id: str, store: Store, tools: Tools, now: Callable[[], float]) -> CannotGoOn | None:
    records = await store.read(task_id)
    if odd := next((one for one in records if misread(one.event)), None):
        why = f"number {odd.seq} of its log ({odd.type}) is of another release of Replan: drive it with that"
        return CannotGoOn(task_id, why, "log")
    state = fold(records)
    if state.ended or state.cancel is not None:
        return None
    lost = (
        ()
        if state.submitted is None
        else [name for name, source in state.submitted.secrets.items() if not source]
    )
    if lost and (state.waiting.secrets if state.waiting is not None else state.started):
        # One that waits for a person or a place may have them still, where it has been begun.
        return CannotGoOn(task_id, f"it {wanted_again(dict.fromkeys(lost, ''))}", "secrets")
    if missing := tools_missing(state, tools):
        return CannotGoOn(task_id, why_missing(state, missing, tools), "tools")
    waiting = state.waiting
    if waiting is not None and waiting.until is not None and now() > waiting.until + OVERDUE_SECS:
        why = f"it waited until {told(waiting.until)}, and nobody has taken it up since: replan tasks resume {task_id}"
        return CannotGoOn(task_id, why, "late")
    return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
