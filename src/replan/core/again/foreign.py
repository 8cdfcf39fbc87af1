"""The effects that others of a family have had, found by what they may be about: each call of a fork asks, and there may be thousands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from replan.core.again.had import Had, effects_of
from replan.core.ids import base_of
from replan.core.plan.index import references_of
from replan.core.references.refs import has_references
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.types import CallKey, JsonObject, StepId, ToolId, ToolSpec

AT_ONCE = 200
"""Effects that are taken up in one go."""


class Foreign:
    """They, in the order of their ends, as the logs of the others had them at one time."""

    __slots__ = (
        "_after",
        "_known",
        "_named",
        "_of_tool",
        "_of_value",
        "_other_than_once",
        "_tries",
        "_unnamed",
        "_within",
        "all",
        "bases",
        "makers",
    )

    def __init__(self, before: Foreign | None = None) -> None:
        """`before`: what was found out about them one by one is kept."""
        self.all: list[Had] = []
        self.makers: dict[CallKey, Had] = {}
        """Who has made each call that was another task's."""
        self.bases: dict[str, list[Had]] = {}
        """The `once` calls by their content."""
        self._known: dict[int, tuple[Had, object]] = before._known if before is not None else {}
        """By call, each with the output that it then had."""
        self._of_tool: dict[ToolId, list[int]] = {}
        self._other_than_once: dict[ToolId, list[int]] = {}
        self._of_value: dict[tuple[ToolId, str, Any], list[int]] = {}
        self._named: dict[str, dict[ToolId, list[int]]] = {}
        self._within: dict[str, dict[ToolId, list[int]]] = {}
        self._unnamed: list[int] = []
        self._after: dict[StepId, list[int]] = {}
        self._tries: dict[tuple[CallKey, float], Had] = {}
        """The same by their keys and starts."""

    def gather(self, others: Mapping[str, State]) -> Iterator[None]:
        """Take them up; now and then it is another's turn."""
        found: dict[tuple[CallKey, float], Had] = {}
        makers: dict[CallKey, Had] = {}
        for task_id, state in others.items():
            for call in effects_of(state):
                found.setdefault((call.key, call.started), self._had(task_id, call))
            for key, call in {**state.in_doubt, **state.took_effect}.items():
                if not call.of_task and key not in makers:
                    makers[key] = self._had(task_id, call)
        self.makers, self._tries = makers, found
        self.all = sorted(found.values(), key=lambda one: one.ended)
        for place, one in enumerate(self.all):
            self._enter(place, one, others[one.task_id])
            if place % AT_ONCE == AT_ONCE - 1:
                yield

    def who_made(self, call: CallState) -> Had | None:
        """Who has made the call, or has it in the history that both share; a `repeatable` one is known by its start, as each makes it."""
        return self.makers.get(call.effect_key) or self._tries.get((call.key, call.started))

    def _had(self, task_id: str, call: Any) -> Had:
        known = self._known.get(id(call))
        if (
            known is not None
            and known[0].call is call
            and known[0].task_id == task_id
            and known[1] is call.output
        ):
            return known[0]
        had = Had(task_id, call)
        self._known[id(call)] = had, call.output
        return had

    def _enter(self, place: int, one: Had, state: State) -> None:
        call, tool = one.call, one.call.tool_id
        if call.effect == "once":
            self.bases.setdefault(base_of(call.key), []).append(one)
        else:
            self._other_than_once.setdefault(tool, []).append(place)
        self._of_tool.setdefault(tool, []).append(place)
        for name, value in call.parameters.items():
            if _is_plain(value):
                self._of_value.setdefault((tool, name, value), []).append(place)
        things = one.deed.things
        for name in things.named:
            self._named.setdefault(name, {}).setdefault(tool, []).append(place)
        for name in things.within:
            self._within.setdefault(name, {}).setdefault(tool, []).append(place)
        if not things.named:
            self._unnamed.append(place)
        step = state.steps.get(call.step_id)
        for head in {ref.head for ref in references_of(step.step)} if step is not None else ():
            self._after.setdefault(head, []).append(place)

    def about(self, made: Had, first: str | None) -> list[Had]:
        """All that may have changed what this call has done, in their order, with few others.

        `first`: the parameter of its tool that says what a call is about; None: there is no other, or it has none.
        """
        tool, things = made.call.tool_id, made.deed.things
        if not things.named:
            return self.all
        found = set(self._unnamed)
        found.update(self._after.get(made.call.step_id, ()))
        value = made.call.parameters.get(first) if first is not None else None
        if first is not None and _is_plain(value):
            found.update(self._of_value.get((tool, first, value), ()))
            found.update(self._other_than_once.get(tool, ()))
        else:
            found.update(self._of_tool.get(tool, ()))
        for name in things.named | made.given:
            found.update(_of_others(self._named, name, tool))
        for name in things.named:
            found.update(_of_others(self._within, name, tool))
        for name in things.within:
            found.update(_of_others(self._named, name, tool))
        return [self.all[place] for place in sorted(found)]


class Writers:
    """The steps of a plan by what they call, and with which values, as far as they are written."""

    __slots__ = ("_of_step", "_of_tool", "_of_value")

    def __init__(self, steps: Iterable[StepState], resolve: Callable[[str], ToolSpec | None]) -> None:
        written = [
            (tool.id, one.parameters, step)
            for step in steps
            for one in step.step.actions or (step.step,)
            if (tool := resolve(one.tool)) is not None
        ]
        counts = Counter((tool, *one) for tool, parameters, _ in written for one in _constant(parameters))
        self._of_step: dict[StepId, dict[ToolId, StepState]] = {}
        self._of_value: dict[tuple[ToolId, str, Any], list[StepState]] = {}
        """Each by the one of its values that the fewest have."""
        self._of_tool: dict[ToolId, list[StepState]] = {}
        """Those that nothing is known of but the tool."""
        for tool_id, parameters, step in written:
            self._of_step.setdefault(step.step.step_id, {})[tool_id] = step
            if values := [(tool_id, *one) for one in _constant(parameters)]:
                self._of_value.setdefault(min(values, key=counts.__getitem__), []).append(step)
            else:
                self._of_tool.setdefault(tool_id, []).append(step)

    def calls(self, step: StepState, tool_id: ToolId) -> bool:
        """True if it calls this tool."""
        return tool_id in self._of_step.get(step.step.step_id, ())

    def may_make(self, one: Had) -> Iterator[StepState]:
        """Those that may have this effect, and few others."""
        tool = one.call.tool_id
        if (step := self._of_step.get(one.call.step_id, {}).get(tool)) is not None:
            yield step
        for name, value in one.call.parameters.items():
            if _is_plain(value):
                yield from self._of_value.get((tool, name, value), ())
        yield from self._of_tool.get(tool, ())


def _constant(parameters: JsonObject) -> list[tuple[str, Any]]:
    return [one for one in parameters.items() if _is_plain(one[1]) and not has_references(one[1])]


def _of_others(index: Mapping[str, Mapping[ToolId, list[int]]], name: str, tool: ToolId) -> Iterable[int]:
    """Those of other tools: what counts of the same one is found otherwise."""
    return [place for other, places in index.get(name, {}).items() if other != tool for place in places]


def _is_plain(value: Any) -> bool:
    """True if an equal value is found by it."""
    return isinstance(value, str | int | float)
