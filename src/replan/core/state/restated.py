"""The effects of a task by how plans have written them: a call is known again whose references have other values by now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from replan.core.calls.site import Slot
from replan.core.ids import canonical, digest
from replan.core.state.progress import CallState, StepState
from replan.core.state.written import Form, Written
from replan.core.types import JsonObject, Step, StepId, ToolId, ToolSpec

_MOST = 1_000
"""Calls that a call is held against, the latest first, where nothing of it finds them."""
_SHORT = 200
"""Characters of a text that is kept as it is."""


class Again(NamedTuple):
    """A call that is made already, as it is written."""

    call: CallState
    differing: tuple[str, ...]
    """The parameters that have other values now, each with how it is written."""


class Planned(NamedTuple):
    """A call of a plan that is looked at before it runs."""

    forms: dict[str, Form]
    values: JsonObject
    """Those of its parameters that are known."""
    anew: Collection[str]
    """Those that come to something else, as it seems; all others are as they were where they are written alike."""


@dataclass(slots=True)
class Restated:
    """Which `once` calls were made as they are written again; it keeps what it has found of them."""

    steps: Callable[[str], StepState | None]
    """The step, or that of the action, of this name, where it may be referred to now."""
    words: Callable[[str, int], Step | None]
    """The same as the plan of this version had it."""
    _written: Written = field(init=False)
    _seen: dict[ToolId, int] = field(default_factory=dict)
    _at: dict[tuple[ToolId, str, object], list[int]] = field(default_factory=dict)
    """By a parameter's form, and by its value: which calls of the tool have it."""
    _forms: dict[tuple[ToolId, int], dict[str, Form]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._written = Written(self.words, self.only_reads)

    def only_reads(self, step: Step) -> bool:
        """True if the step has made calls, and none of them had an effect."""
        known = self.steps(step.step_id)
        return (
            known is not None and bool(known.calls) and all(c.effect == "reads" for c in known.calls.values())
        )

    def find(
        self,
        step: StepState,
        slot: Slot,
        tool: ToolSpec,
        parameters: JsonObject,
        made: Sequence[CallState],
        before: int,
        now: int,
        *,
        goes_on: bool = False,
    ) -> Again | None:
        """A call that a plan before this version has made, where nothing that the plan writes itself tells the two apart.

        Each parameter is the same, or comes from what other steps give and is not chosen otherwise; what comes from the item of a list has
        to be the same, since it is what tells the items apart. `made`: the calls of this tool, in their order, each in the words of its
        time; `now`: the version of the plan. Of a call with no value of its own, only readings tell which it is: one that is read again
        as the plan says, or by a part that makes up for nothing (`goes_on`), and gives something else, makes it another call.
        """
        mine = self._written.forms(step.step, now, slot, tuple(parameters))
        for done, call, theirs in self._candidates(mine, tool, parameters, made, before):
            differing, same = list[str](), list[str]()
            for name in parameters.keys() | call.parameters.keys():
                if _value(name, parameters, tool) == _value(name, call.parameters, tool):
                    same.append(name)
                elif (form := mine.get(name)) is not None and form.may_be(theirs.get(name)):
                    differing.append(name)
                else:
                    break
            else:
                if not (goes_on and _is_next(mine, parameters, differing, same)):
                    return Again(done, _shown(mine, differing))
        return None

    def find_planned(
        self, call: Planned, tool: ToolSpec, made: Sequence[CallState], before: int
    ) -> Again | None:
        """The same before the plan runs: one that its words alone show to be made already, with something that may be another by now."""
        mine = call.forms
        for done, other, theirs in self._candidates(mine, tool, call.values, made, before):
            for name in mine.keys() | call.values.keys() | other.parameters.keys():
                if name in mine and mine[name].shown:
                    if not mine[name].may_be(theirs.get(name)):
                        break
                elif _value(name, call.values, tool) != _value(name, other.parameters, tool):
                    break
            else:
                return Again(done, _shown(mine, call.anew))
        return None

    def _candidates(
        self,
        mine: dict[str, Form],
        tool: ToolSpec,
        values: JsonObject,
        made: Sequence[CallState],
        before: int,
    ) -> Iterator[tuple[CallState, CallState, Mapping[str, Form]]]:
        """The calls that may be it, each with the effect that it had itself or that was had in its place, and how it was written."""
        if not any(form.shown for form in mine.values()):
            return  # nothing is referred to: another value is another call
        if _by_readings(mine, values) and any(form.again or form.cone.again for form in mine.values()):
            return  # it goes by something that is meant anew
        self._learn(tool.id, made)
        for at in self._like(tool, mine, values, len(made)):
            call = made[at]
            done = self._done(call) if call.plan < before else None
            if done is not None:
                yield done, call, self._forms[tool.id, at]

    def _done(self, call: CallState) -> CallState | None:
        """The effect that this call had, or may have had; where it failed, what its step was made with in its place."""
        if call.status in ("succeeded", "unknown"):
            return call
        step = self.steps(call.step_id) if call.status == "failed" else None
        mends = (one for one in (step.every_call() if step is not None else ()) if one.slot == call.slot)
        return next((one for one in mends if _has_effect(one) and one.plan >= call.plan), None)

    def _like(self, tool: ToolSpec, mine: dict[str, Form], values: JsonObject, count: int) -> Iterable[int]:
        """The calls that may be it: those that have the parameter which the fewest have."""
        found: list[list[list[int]]] = []
        for name in mine.keys() | values.keys():
            if _default(name, tool) is None:
                keys: list[object] = [_key(values[name])] if name in values else []
                keys += [mine[name].key] if name in mine else []
                found.append([self._at.get((tool.id, name, key), []) for key in keys])
        if not found:
            return range(count - 1, max(-1, count - 1 - _MOST), -1)
        return chain.from_iterable(map(reversed, min(found, key=lambda lists: sum(map(len, lists)))))

    def _learn(self, tool_id: ToolId, made: Sequence[CallState]) -> None:
        """Go through the calls that were made since."""
        for at in range(self._seen.get(tool_id, 0), len(made)):
            call = made[at]
            step = self.words(call.step_id, call.plan)
            names = tuple(call.parameters)
            forms = self._written.forms(step, call.plan, call.slot, names) if step is not None else {}
            self._forms[tool_id, at] = forms
            keys: Iterator[tuple[str, object]] = (
                (name, _key(value)) for name, value in call.parameters.items()
            )
            for name, key in (*keys, *((name, form.key) for name, form in forms.items())):
                self._at.setdefault((tool_id, name, key), []).append(at)
        self._seen[tool_id] = len(made)


def _by_readings(mine: dict[str, Form], values: Iterable[str]) -> bool:
    """True if the call has no value of its own."""
    return all(name in mine and mine[name].shown for name in chain(mine, values))


def _is_next(
    mine: dict[str, Form], parameters: JsonObject, differing: Sequence[str], same: Sequence[str]
) -> bool:
    """True if only a reading tells the call from another, and it has given something else: the next open invoice.

    Not where another reading tells which call it is, and has given the same, or where a value does that the plan before wrote.
    """
    if not (_by_readings(mine, parameters) and all(name in parameters for name in same)):
        return False
    other = frozenset[StepId]().union(*(mine[name].cone.readings for name in differing))
    told = (mine[name].cone.readings for name in same)
    return bool(other) and not any(readings and readings.isdisjoint(other) for readings in told)


def _shown(mine: dict[str, Form], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(f"{name} ({mine[name].shown})" if mine[name].shown else name for name in names))


def told_again(found: Again, how: str) -> str:
    """Asks what is meant by a call that was made as it is written. `how`: what has become of what it refers to."""
    doubt = ", nobody knows whether it took effect" if found.call.status == "unknown" else ""
    return (
        f"step {found.call.step_id!r} has made this call of {found.call.tool_id!r} as it is written here{doubt}, and "
        f"{', '.join(found.differing)} {how}: leave it out if that is the effect that is wanted, write the value that is meant if it "
        "is another effect, or say `repeat: true`"
    )


def _has_effect(call: CallState) -> bool:
    return call.effect != "reads" and call.status in ("succeeded", "unknown") and not call.reused


def _value(name: str, parameters: JsonObject, tool: ToolSpec) -> Any:
    """The parameter's value; its default where it is left out."""
    return parameters[name] if name in parameters else _default(name, tool)


def _default(name: str, tool: ToolSpec) -> Any:
    schema = tool.parameters.get("properties", {}).get(name)
    return schema.get("default") if isinstance(schema, dict) else None


def _key(value: Any) -> object:
    """A value, told from a form; a large one by its digest."""
    if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _SHORT):
        return ("", value)
    return ("", digest(canonical(value)), "")
