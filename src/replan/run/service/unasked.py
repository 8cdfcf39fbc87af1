"""Tasks that were begun where nobody is asked, and go on where a person's yes is wanted to more calls.

Such a call could not be made, and the task would end for it: it is not gone on with there before somebody says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from replan.core.begun import Begun
from replan.core.limits.needs import ANY_TOOL
from replan.core.limits.policy import Policy, asks_about
from replan.core.state.task import State
from replan.core.types import ToolSpec
from replan.core.waits.tools import tools_of
from replan.errors import InputError
from replan.run.service.resumable import tools_needed


class LeftAlone(InputError):
    """It is not gone on with here; what it may call `unasked` keeps it from workers that want as much."""

    def __init__(self, why: str, unasked: Sequence[str], approval: str) -> None:
        super().__init__(why)
        self.unasked = tuple(unasked)
        self.approval = approval
        self.line = ""
        """Where it waits from now on; empty: where it did."""


def by_command(task_id: str, approval: str) -> str:
    """What goes on with such a task as it was begun."""
    return f"`replan tasks resume {task_id} --approve {approval}` goes on with it as it was begun"


def made_unasked(
    state: State, begun: Begun, named: Iterable[str] = (), *, later: bool = False
) -> tuple[str, ...]:
    """The tools that it may call from here on without a person's yes; none where a person can be asked.

    `named`: those of a plan that was given, and has not been read yet. `later`: also what it may call once somebody has failed steps
    tried again, and whatever tool a later plan takes, where nobody knows which there were (`ANY_TOOL`).
    """
    ends = state.cancel is not None and not state.cancel.until_resumed
    if state.policy.interactive or ends:
        return ()
    if state.plan is None:
        found = [*named, *tools_needed(state)] or list(begun.ids or ())
    else:
        found = [
            name
            for step in state.steps.values()
            if (not step.closed or (later and step.status in ("failed", "skipped")))
            and not step.step.requires_approval
            for name in tools_of(step.step)
        ]
        if state.heals or state.reflects:  # it may be planned anew, with any of them
            if state.selection is not None:
                found += [tool.tool_id for tool in state.selection.tools]
            elif begun.ids is not None:
                found += begun.ids
            elif later and state.policy.approval == "never":
                found.append(ANY_TOOL)
    return tuple(name for name in dict.fromkeys(found) if not _asked_before(state, name))


def _asked_before(state: State, name: str) -> bool:
    """Its calls need a yes already, by what the task was begun with."""
    tool = state.made_with.tools.get(name) if state.made_with is not None else None
    if tool is None:
        return state.policy.approval == "all"
    return tool.requires_approval or asks_about(state.policy.approval, tool)


def asked_here(tools: Iterable[ToolSpec], mode: str) -> list[str]:
    """Those of the tools to whose calls a person's yes is wanted here: by their rules, or by the mode of `[approval]`."""
    return [tool.id for tool in tools if tool.requires_approval or asks_about(mode, tool)]


def unasked_of(names: Iterable[str], policy: Policy, resolve: Callable[[str], ToolSpec | None]) -> list[str]:
    """Those of the tools that a task which is submitted so may call without a person's yes; none where a person can be asked."""
    if policy.interactive:
        return []
    known = ((name, resolve(name)) for name in names)
    return [
        name
        for name, tool in known
        if tool is None or not (tool.requires_approval or asks_about(policy.approval, tool))
    ]


def why_left(asked: Sequence[str], whose: str, how: str) -> str:
    """Why a task is not gone on with there, and what somebody may say."""
    shown = ", ".join(map(repr, asked[:5])) + (f" and {len(asked) - 5} more" if len(asked) > 5 else "")
    return (
        f"the configuration {whose} wants a person's yes to calls of {shown} ([approval] mode, [tools.rules] requires_approval), and it was "
        f"begun where nobody is asked, so that they would not be made: {how}"
    )
