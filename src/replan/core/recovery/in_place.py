"""What a task has made in place of its failed calls of tools that do the same: one effect stands for one of them at most.

Which one, its plan says: `instead_of`, the same step, the same first parameter. What nothing says that of may have been made for any, and nobody knows
for which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from replan.core.calls.telling import unique_text, what_is_done
from replan.core.ids import base_of, canonical
from replan.core.state.made_instead import takes_effect
from replan.core.state.progress import CallState
from replan.core.state.task import State
from replan.core.types import StepId, ToolSpec
from replan.core.walk import scalars

Resolve = Callable[[str], ToolSpec | None]


class Instead(NamedTuple):
    """An effect that was had in place of a failed call, or may have been."""

    call: CallState
    stands: bool
    """It is known to be in place of that call, not of another one, or of none."""


class InPlace:
    """The failed calls of one tool, and of those that do the same, as a task's log has them by now, and what was made since."""

    def __init__(self, state: State, tool: ToolSpec, resolve: Resolve) -> None:
        self._state, self._tool, self._resolve = state, tool, resolve
        self._same = {tool.id, *tool.counterparts}
        self._subjects: dict[int, str] = {}
        """By call: what it is about."""
        self._alls: dict[int, str] = {}
        made = (state.made.get(name, ()) for name in sorted(self._same))
        self._failed = [call for call in chain.from_iterable(made) if call.status == "failed"]
        self._whole: dict[str, int] = {}
        """By all that failed calls were to do: the first plan that has tried it."""
        self._about: dict[str, dict[str, int]] = {}
        """The same by what they were about: from one account all payments are."""
        for call in self._failed:
            whole = self._all_of(call)
            self._whole[whole] = min(call.plan, self._whole.get(whole, call.plan))
            self._about.setdefault(self._subject(call), {})[whole] = self._whole[whole]
        self._others: list[CallState] | None = None
        """The effects of tools that nobody has declared to do the same."""
        self._open: dict[str, StepId] | None = None
        """By their contents: the failed calls that no effect is known to be in place of."""

    def of(self, failed: CallState) -> Instead | None:
        """What was made in place of this one, or may have been."""
        if (known := self._known(failed)) is not None:
            return Instead(known, stands=True)
        found = self._state.made_in_place(
            failed, self._tool, lambda one: takes_effect(one) and self._is_free(one, failed)
        )
        if found is not None:
            return Instead(found, stands=self._is_only_one(found))
        other = self._by_another_tool(failed)
        return Instead(other, stands=False) if other is not None else None

    def _known(self, failed: CallState) -> CallState | None:
        """What was made in its step, or in its place about the same."""
        state = self._state
        mended = state.mended({base_of(failed.key)}, state.plans + 1, failed.step_id)
        if mended is not None:
            return mended[1]
        return state.made_in_place(
            failed, self._tool, lambda one: takes_effect(one) and self._is_of(one, failed)
        )

    def _is_of(self, one: CallState, failed: CallState) -> bool:
        """True if it does the same, or is alone about the same, or its step has the place of the failed one."""
        if self._all_of(one) == self._all_of(failed):
            return True
        if not self._is_free(one, failed):
            return False
        about = self._subject(failed)
        is_about = self._subject(one) == about and len(self._about.get(about, ())) == 1
        return is_about or (one.step_id, one.slot) == (failed.step_id, failed.slot)

    def _is_free(self, one: CallState, failed: CallState) -> bool:
        """True if it neither does what another call before it has failed at, nor is about that alone: else it is in the place of that one."""
        if self._whole.get(self._all_of(one), one.plan) < one.plan:
            return False
        about = self._subject(one)
        return about == self._subject(failed) or all(
            plan >= one.plan for plan in self._about.get(about, {}).values()
        )

    def _is_only_one(self, effect: CallState) -> bool:
        """True if there is one failed call alone that this may be in place of."""
        if self._open is None:
            open_ = (call for call in self._failed if self._known(call) is None)
            self._open = {unique_text(self._spec(call), call.parameters): call.step_id for call in open_}
        meant = self._meant_for(effect)
        return sum(not meant or name in meant for name in self._open.values()) <= 1

    def _by_another_tool(self, failed: CallState) -> CallState | None:
        """The latest effect of a tool that nobody has declared to do the same: where a plan says that it is in place of this one, or it is about
        the same and was not planned beside it."""
        if self._others is None:
            names = (name for name in self._state.made if name not in self._same)
            calls = chain.from_iterable(self._state.made[name] for name in names)
            self._others = sorted(calls, key=lambda one: one.started, reverse=True) if self._failed else []
        return next((one for one in self._others if self._may_stand(one, failed)), None)

    def _may_stand(self, one: CallState, failed: CallState) -> bool:
        state = self._state
        if one.plan <= failed.plan or not (takes_effect(one) or state.is_under_way(one)):
            return False
        meant = self._meant_for(one)
        about = self._all_of(one) == self._all_of(failed) or (
            self._names(one, failed) and self._whole.get(self._all_of(one), one.plan) >= one.plan
        )
        if meant:
            return failed.step_id in meant and (about or self._is_free(one, failed))
        step = state.words_of(one.step_id, one.plan)
        return about and step is not None and not state.was_planned_beside(step, failed)

    def _meant_for(self, one: CallState) -> tuple[StepId, ...]:
        step = self._state.words_of(one.step_id, one.plan)
        return step.instead_of if step is not None else ()

    def _names(self, one: CallState, failed: CallState) -> bool:
        """True if it is about the same, or names that."""
        about = self._subject(failed)
        if not about or self._subject(one) == about:
            return bool(about)
        return any(
            canonical(text) == about
            for text in scalars(what_is_done(self._resolve(one.tool_id), one.parameters))
        )

    def _subject(self, call: CallState) -> str:
        """What it is about: its first parameter that says on nobody's behalf it is made; empty if there is none."""
        if id(call) not in self._subjects:
            self._subjects[id(call)] = next(map(canonical, self._values(call)), "")
        return self._subjects[id(call)]

    def _all_of(self, call: CallState) -> str:
        """All that it does, whoever does it, on whosever behalf."""
        if id(call) not in self._alls:
            self._alls[id(call)] = canonical(what_is_done(self._resolve(call.tool_id), call.parameters))
        return self._alls[id(call)]

    def _values(self, call: CallState) -> Iterator[object]:
        tool = self._resolve(call.tool_id)
        done = what_is_done(tool, call.parameters)
        names = tool.parameters.get("properties", ()) if tool is not None else sorted(done)
        return (done[name] for name in names if done.get(name) is not None)

    def _spec(self, call: CallState) -> ToolSpec:
        return self._resolve(call.tool_id) or self._tool
