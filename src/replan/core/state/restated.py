"""The effects of a task by how plans have written them: a call is known again whose references have other values by now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from replan.core.calls.name_sets import NO_NAMES
from replan.core.calls.site import Slot
from replan.core.calls.telling import Telling
from replan.core.data.canonical import one_form
from replan.core.ids import canonical, digest
from replan.core.state.made_instead import doubt_of, told_instead
from replan.core.state.progress import CallState, StepState
from replan.core.state.written import Form, Written
from replan.core.types import JsonObject, Step, ToolId, ToolSpec

_MOST = 1_000
"""Calls that a call is held against, the latest first, where nothing of it finds them."""
_SHORT = 200
"""Characters of a text that is kept as it is."""


class Again(NamedTuple):
    """A call that is made already, as it is written."""

    call: CallState
    differing: tuple[str, ...]
    """The parameters that have other values now, each with how it is written."""
    failed: CallState | None = None
    """It had failed as it is written, and `call` was made instead."""
    silent: bool = False
    """What has other values tells no two calls apart."""


class Planned(NamedTuple):
    """A call of a plan that is looked at before it runs."""

    forms: dict[str, Form]
    """How what tells it from others is written."""
    values: JsonObject
    """What of that is known."""
    written: JsonObject
    """Its parameters, all of them, as they are written."""
    whole: dict[str, Form]
    """The forms of these."""
    anew: Collection[str]
    """Those that come to something else, as it seems; all others are as they were where they are written alike."""

    @property
    def silent(self) -> list[str]:
        """Parameters that tell it from no other call, or not with all that is in them."""
        return [name for name, form in self.whole.items() if self.forms.get(name) != form]


class _Like(NamedTuple):
    """A call that is written alike, beside one that a part makes."""

    call: CallState
    done: CallState
    """The effect that it had itself, or that was had in its place."""
    differing: Sequence[str]
    same: Sequence[str]


@dataclass(slots=True)
class Restated:
    """Which `once` calls were made as they are written again; it keeps what it has found of them."""

    steps: Callable[[str], StepState | None]
    """The step, or that of the action, of this name, where it may be referred to now."""
    words: Callable[[str, int], Step | None]
    """The same as the plan of this version had it."""
    effect_for: Callable[[CallState, int, ToolSpec], CallState | None] = lambda call, before, tool: call
    """What stands for a call before a plan of this version: its effect, or what was made in its place."""
    given: Callable[[str], bool] = lambda field: True
    """Whether the metadata had this field when the task was begun."""
    is_part: Callable[[int], bool] = lambda version: False
    """Whether the plan of this version went on from a first part."""
    meant_by: Callable[[CallState], int] = lambda call: call.plan
    """The version of the plan that meant this call."""
    _written: Written = field(init=False)
    _telling: dict[ToolId, Telling] = field(default_factory=dict)
    _seen: dict[ToolId, int] = field(default_factory=dict)
    _at: dict[tuple[ToolId, str, object], list[int]] = field(default_factory=dict)
    """By a parameter's form, and by its value: which calls of the tool have it."""
    _forms: dict[tuple[ToolId, int], dict[str, Form]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._written = Written(self.words, self.only_reads, self.given)

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
        parts, names = self.telling(tool).parts, tuple(parameters)
        mine, values = self._written.forms(step.step, now, slot, names, parts), parts(parameters)
        found: list[_Like] = []
        wholly = values == one_form(tool.parameters, parameters)
        for done, call, theirs in self._candidates(mine, tool, values, made, before, wholly=wholly):
            differing, same, other = list[str](), list[str](), parts(call.parameters)
            for name in values.keys() | other.keys():
                if _value(name, values, tool) == _value(name, other, tool):
                    same += [name] if name in parameters or name in call.parameters else []
                elif (
                    (form := mine.get(name)) is not None
                    and form.may_be(theirs.get(name))
                    and not self._tells_of_another(form, step.meant)
                ):
                    differing.append(name)
                else:
                    break
            else:
                like = _Like(call, done, differing, same)
                if not goes_on:
                    return self._again(like, step.step, slot, now, parameters, tool)
                if not _is_next(
                    mine, values, tool, differing, same if parameters.keys() >= {*same} else None
                ):
                    found.append(like)
        apart = self._told_apart([one.call for one in found], tool)
        same_one = next((one for one in found if not _is_another(one, mine, apart)), None)
        return None if same_one is None else self._again(same_one, step.step, slot, now, parameters, tool)

    def _again(
        self, like: _Like, step: Step, slot: Slot, now: int, parameters: JsonObject, tool: ToolSpec
    ) -> Again:
        changed = [
            name
            for name in parameters.keys() | like.call.parameters.keys()
            if _value(name, parameters, tool) != _value(name, like.call.parameters, tool)
        ]
        whole = self._written.forms(step, now, slot, tuple(parameters))
        failed = None if like.done is like.call else like.call
        return Again(like.done, _shown(whole, changed), failed, silent=not like.differing)

    def find_planned(
        self,
        call: Planned,
        tool: ToolSpec,
        made: Sequence[CallState],
        before: int,
        *,
        goes_on: bool = False,
    ) -> Again | None:
        """The same before the plan runs: one that its words alone show to be made already, with something that may be another by now."""
        mine, telling, silent = call.forms, self.telling(tool), call.silent
        parts = telling.parts
        found: list[tuple[Again, CallState]] = []
        for done, other, theirs in self._candidates(mine, tool, call.values, made, before, wholly=not silent):
            told = parts(other.parameters)
            for name in mine.keys() | call.values.keys() | told.keys():
                if name in mine and mine[name].shown:
                    if not mine[name].may_be(theirs.get(name)):
                        break
                elif _value(name, call.values, tool) != _value(name, told, tool):
                    break
            else:
                without = telling.silent.intersection(other.parameters.keys() - call.written.keys())
                if not (anew := {*call.anew, *self._others(call, silent, other, tool), *without}):
                    continue
                failed = None if done is other else other
                again = Again(done, _shown(call.whole, anew), failed, silent=anew <= {*silent, *without})
                if not goes_on:
                    return again
                found.append((again, other))
        apart = self._told_apart([one for _, one in found], tool)
        if not found or not apart.isdisjoint(call.anew):
            return None  # what tells it from those before shows when it is read
        return found[0][0]

    def _others(self, call: Planned, names: Sequence[str], other: CallState, tool: ToolSpec) -> Iterator[str]:
        """Those of the parameters that come to another value than the other call had, as they are written."""
        step = self.words(other.step_id, other.plan) if names else None
        if step is None:
            return
        forms = self._written.forms(step, other.plan, other.slot, tuple(other.parameters))
        for name in names:
            mine, theirs = call.whole[name], forms.get(name)
            if not mine.shown:
                if _value(name, call.written, tool) != _value(name, other.parameters, tool):
                    yield name
            elif theirs is None or mine.cone.choices != theirs.cone.choices or mine.text != theirs.text:
                yield name

    def _candidates(
        self,
        mine: dict[str, Form],
        tool: ToolSpec,
        values: JsonObject,
        made: Sequence[CallState],
        before: int,
        *,
        wholly: bool,
    ) -> Iterator[tuple[CallState, CallState, Mapping[str, Form]]]:
        """The calls that may be it, each with the effect that it had itself or that was had in its place, and how it was written.

        `wholly`: all of its parameters tell it from others.
        """
        plain = wholly and not any(form.shown for form in mine.values())
        if plain and not self.telling(tool).silent:
            return  # nothing is referred to: another value is another call
        if by_readings(mine, values, tool) and any(one.again or one.cone.again for one in mine.values()):
            return  # it goes by something that is meant anew
        self._learn(tool, made)
        for at in self._like(tool, mine, values, len(made)):
            call = made[at]
            done = self.effect_for(call, before, tool) if self.is_of_another(call, before) else None
            # one that says no session may have been made over one; what has failed over one may be tried without
            if done is not None and (done is call or not plain):
                yield done, call, self._forms[tool.id, at]

    def is_of_another(self, call: CallState, planned: int) -> bool:
        """True if another plan than that of this version meant the call, and not as one more: one before, or one that has kept a step of
        this."""
        meant = self.meant_by(call)
        return meant < planned or (meant > planned and not self._says_again(call))

    def forms_of(
        self, step: Step, slot: Slot, version: int, tool: ToolSpec, names: Iterable[str]
    ) -> dict[str, Form]:
        """How what tells this call from others is written in the plan of this version."""
        return self._written.forms(step, version, slot, tuple(names), self.telling(tool).parts)

    def chosen_alike(
        self, names: Collection[str], mine: Mapping[str, Form], call: CallState, tool: ToolSpec, meant: int
    ) -> bool:
        """True if nothing that plans have written tells these parameters from those of the call, which is of this tool."""
        step = self.words(call.step_id, call.plan)
        theirs = self.forms_of(step, call.slot, call.plan, tool, call.parameters) if step is not None else {}
        return all(
            name in mine
            and mine[name].may_be(theirs.get(name))
            and not self._tells_of_another(mine[name], meant)
            for name in names
        )

    def telling(self, tool: ToolSpec) -> Telling:
        """What tells the calls of the tool apart."""
        known = self._telling.get(tool.id)
        if known is None or known.tool is not tool:
            known = self._telling[tool.id] = Telling.of(tool)
            if self._seen.pop(tool.id, None) is not None:  # as another release of it had it
                self._at = {key: found for key, found in self._at.items() if key[0] != tool.id}
        return known

    def _told_apart(self, alike: Sequence[CallState], tool: ToolSpec) -> frozenset[str]:
        """What tells calls that are written alike from one another: a part has said of one of them that it is another one (`repeat`), and
        it has another value there than the first."""
        first = min(alike, key=lambda one: one.plan, default=None)
        found: set[str] = set()
        parts = self.telling(tool).parts
        for one in alike:
            if (
                first is None
                or one.plan <= first.plan
                or not (self.is_part(one.plan) and self._says_again(one))
            ):
                continue
            mine, theirs = parts(one.parameters), parts(first.parameters)
            for name in mine.keys() | theirs.keys():
                if _value(name, mine, tool) != _value(name, theirs, tool):
                    found.add(name)
        return frozenset(found)

    def _says_again(self, call: CallState) -> bool:
        step = self.words(call.step_id, call.plan)
        return step is not None and (
            step.repeat or any(one.repeat for one in step.actions if one.action_id == call.slot.action_id)
        )

    def _tells_of_another(self, form: Form, meant: int) -> bool:
        """True if it goes by an effect that was had anew since, and is another one: what is told of it is another, too."""
        for name in form.cone.effects:
            step = self.steps(name)
            calls = step.calls.values() if step is not None else ()
            if any(_has_effect(call) and call.effect == "once" and call.plan >= meant for call in calls):
                return True
        return False

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

    def _learn(self, tool: ToolSpec, made: Sequence[CallState]) -> None:
        """Go through the calls that were made since."""
        parts = self.telling(tool).parts
        for at in range(self._seen.get(tool.id, 0), len(made)):
            call = made[at]
            step = self.words(call.step_id, call.plan)
            names = tuple(call.parameters)
            forms = self._written.forms(step, call.plan, call.slot, names, parts) if step is not None else {}
            self._forms[tool.id, at] = forms
            keys: Iterator[tuple[str, object]] = (
                (name, _key(value)) for name, value in parts(call.parameters).items()
            )
            for name, key in (*keys, *((name, form.key) for name, form in forms.items())):
                self._at.setdefault((tool.id, name, key), []).append(at)
        self._seen[tool.id] = len(made)


def by_readings(mine: dict[str, Form], values: JsonObject, tool: ToolSpec) -> bool:
    """True if only what other steps give tells which call it is: it has no value of its own. One that is the default says no more than
    if it were left out."""
    telling = list(chain(mine, values))
    referring = [name for name in telling if name in mine and mine[name].shown and not mine[name].own]
    return bool(referring) and all(
        name in referring
        or (name in values and _default(name, tool) is not None and values[name] == _default(name, tool))
        for name in telling
    )


def _is_next(
    mine: dict[str, Form],
    values: JsonObject,
    tool: ToolSpec,
    differing: Sequence[str],
    same: Sequence[str] | None,
) -> bool:
    """True if only a reading tells the call from another, and it has given something else: the next open invoice.

    Not where another reading tells which call it is, and has given the same, or where a value does that the plan before wrote
    (None).
    """
    if same is None or not by_readings(mine, values, tool):
        return False
    return is_read_otherwise(mine, differing, same)


def _is_another(like: _Like, mine: dict[str, Form], apart: Collection[str]) -> bool:
    """True if a reading has given another value for what tells such calls apart: the next mail that is answered in the same words."""
    return is_read_otherwise(mine, [name for name in like.differing if name in apart], like.same)


def is_read_otherwise(mine: Mapping[str, Form], differing: Iterable[str], same: Iterable[str]) -> bool:
    """True if readings have given something else for these, and none but them the same for others."""
    other = NO_NAMES.union(*(mine[name].cone.readings for name in differing))
    told = (mine[name].cone.readings for name in same if name in mine)
    return bool(other) and not any(readings and readings.isdisjoint(other) for readings in told)


def _shown(mine: dict[str, Form], names: Iterable[str]) -> tuple[str, ...]:
    names = list(names)
    shown = {name: mine[name].shown for name in names if name in mine}
    return tuple(sorted(f"{name} ({shown[name]})" if shown.get(name) else name for name in names))


def told_again(found: Again, how: str) -> str:
    """Asks what is meant by a call that was made as it is written. `how`: what has become of what it refers to."""
    if found.failed is not None:
        return told_instead(found.failed, found.call)
    doubt = doubt_of(found.call)
    value = "" if found.silent else ", or write the value that is meant"
    tool = found.call.tool_id
    kept = (
        ""
        if not found.silent
        else f" (a secret, a session or a connection does not tell two effects of {tool!r} apart)"
    )
    return (
        f"step {found.call.step_id!r} has made this call of {tool!r} as it is written here{doubt}, and "
        f"{', '.join(found.differing)} {how}{kept}: if it is another effect, say `repeat: true` with its `repeat_reason`{value}; if it is "
        "the same one, leave it out"
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
