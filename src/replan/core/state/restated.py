"""The effects of a task by how plans have written them: a call is known again whose references have other values by now, or that
had failed in the words of the plan and was made in others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from replan.core.calls.site import Slot
from replan.core.ids import base_of, canonical, digest
from replan.core.references.refs import Reference, has_references, meaning, references, rewritten
from replan.core.state.progress import CallState, StepState
from replan.core.types import Action, JsonObject, Step, StepId, ToolId, ToolSpec

_DEEP = 50
"""Steps that refer to one another, as far as they are followed."""
_MOST = 1_000
"""Calls that a call is held against, the latest first, where nothing of it finds them."""
_SHORT = 200
"""Characters of a text that is kept as it is."""
_OF_ITEM = frozenset({"item", "index"})


class Again(NamedTuple):
    """A call that is made already, as it is written."""

    call: CallState
    differing: tuple[str, ...]
    """The parameters that have other values now, each with how it is written."""


class _Form(NamedTuple):
    """How a parameter is written, whatever the steps are called that it refers to."""

    text: str
    shown: str


@dataclass(slots=True)
class Restated:
    """Which `once` calls were made as they are written again; it keeps what it has found of them."""

    steps: Callable[[str], StepState | None]
    """The step, or that of the action, of this name, where it may be referred to now."""
    words: Callable[[str, int], Step | None]
    """The same as the plan of this version had it."""
    _labels: dict[tuple[int, StepId], str] = field(default_factory=dict)
    _seen: dict[ToolId, int] = field(default_factory=dict)
    _at: dict[tuple[ToolId, str, object], list[int]] = field(default_factory=dict)
    """By a parameter's form, and by its value: which calls of the tool have it."""
    _forms: dict[tuple[ToolId, int], dict[str, _Form]] = field(default_factory=dict)
    _latest: tuple[Step, int, str | None, tuple[str, ...], dict[str, _Form]] | None = None
    """What was looked at last: the items of a list are written in the same words."""

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
        """A call that a plan before this version has made in the same words, where only what they refer to has changed.

        Each parameter is the same or is written the same; what comes from the item of a list has to be the same, since it is what tells
        the items apart. `made`: the calls of this tool, in their order, each in the words of its time; `now`: the version of the plan. Of a call with no value
        of its own, only readings tell which it is: one that is read again as the plan says, or by a part that makes up for nothing (`goes_on`),
        and gives something else, makes it another call.
        """
        mine = self._written(step.step, now, slot, parameters)
        if not any(form.shown for form in mine.values()):
            return None  # nothing is referred to: another value is another call
        words = _words(step.step, slot)
        by_readings = all(name in mine and mine[name].shown for name in parameters)
        if by_readings and self._reads_again(words):
            return None
        self._learn(tool.id, made)
        for at in self._like(tool, mine, parameters, len(made)):
            call = made[at]
            done = self._done(call)
            if call.plan >= before or done is None:
                continue
            theirs = self._forms[tool.id, at]
            differing = []
            for name in parameters.keys() | call.parameters.keys():
                if _value(name, parameters, tool) == _value(name, call.parameters, tool):
                    continue
                form = mine.get(name)
                if form is None or form.text != theirs.get(name, _NO_FORM).text:
                    break
                if goes_on and by_readings and self._goes_by_reading(words.get(name)):
                    break
                differing.append(f"{name} ({form.shown})")
            else:
                return Again(done, tuple(sorted(differing)))
        return None

    def _done(self, call: CallState) -> CallState | None:
        """The effect that this call had, or may have had; where it failed, what its step was made with in its place."""
        if call.status in ("succeeded", "unknown"):
            return call
        step = self.steps(call.step_id) if call.status == "failed" else None
        mends = (one for one in (step.every_call() if step is not None else ()) if one.slot == call.slot)
        return next((one for one in mends if _has_effect(one) and one.plan >= call.plan), None)

    def _like(
        self, tool: ToolSpec, mine: dict[str, _Form], parameters: JsonObject, count: int
    ) -> Iterable[int]:
        """The calls that may be it: those that have the parameter which the fewest have."""
        found: list[list[list[int]]] = []
        for name, value in parameters.items():
            if _default(name, tool) is None:
                keys: list[object] = [_key(value)]
                keys += [mine[name].text] if name in mine else []
                found.append([self._at.get((tool.id, name, key), []) for key in keys])
        if not found:
            return range(count - 1, max(-1, count - 1 - _MOST), -1)
        return chain.from_iterable(map(reversed, min(found, key=lambda lists: sum(map(len, lists)))))

    def _learn(self, tool_id: ToolId, made: Sequence[CallState]) -> None:
        """Go through the calls that were made since."""
        for at in range(self._seen.get(tool_id, 0), len(made)):
            call = made[at]
            step = self.words(call.step_id, call.plan)
            forms = self._written(step, call.plan, call.slot, call.parameters) if step is not None else {}
            self._forms[tool_id, at] = forms
            keys: Iterator[tuple[str, object]] = (
                (name, _key(value)) for name, value in call.parameters.items()
            )
            for name, key in (*keys, *((name, form.text) for name, form in forms.items())):
                self._at.setdefault((tool_id, name, key), []).append(at)
        self._seen[tool_id] = len(made)

    def _written(self, step: Step, version: int, slot: Slot, parameters: JsonObject) -> dict[str, _Form]:
        """How the parameters are written that do not depend on the item; one that is left out is that of the metadata."""
        names = tuple(parameters)
        known = self._latest
        if known is None or known[0] is not step or known[1:4] != (version, slot.action_id, names):
            words = _words(step, slot)
            forms = {name: self._form(words.get(name, f"${{metadata.{name}}}"), version) for name in names}
            told = {name: form for name, form in forms.items() if form is not None}
            known = self._latest = (step, version, slot.action_id, names, told)
        return known[4]

    def _chooses_nothing(self, step: Step, calls: list[list[Any]]) -> bool:
        """True if it is one reading, with no value that a plan has written."""
        known = self.steps(step.step_id) if len(calls) == 1 and not step.for_each else None
        return (
            known is not None
            and _only_reads(known)
            and all(has_references(value) for value in calls[0][1].values())
        )

    def _reads_again(self, written: Any) -> bool:
        """True if what is written refers to a reading that the plan says it makes again."""
        known = (self.steps(ref.head) for ref in references(written))
        return any(one is not None and one.step.repeat and _only_reads(one) for one in known)

    def _goes_by_reading(self, written: Any, depth: int = 0) -> bool:
        """True if what is written refers to a reading, or to what goes by one."""
        for ref in references(written):
            known = self.steps(ref.head) if depth < _DEEP else None
            if known is None:
                continue
            if any(call.effect == "reads" for call in known.calls.values()):
                return True
            meant = known.step.actions or [known.step]
            if self._goes_by_reading(
                [known.step.for_each or "", *(one.parameters for one in meant)], depth + 1
            ):
                return True
        return False

    def _form(self, written: Any, version: int) -> _Form | None:
        if not has_references(written):
            return _Form(digest(canonical(written)), "")
        heads = list(references(written))
        if any(ref.head in _OF_ITEM for ref in heads):
            return None
        shown = ", ".join(dict.fromkeys(ref.raw for ref in heads))
        return _Form(digest(canonical(rewritten(written, self._ref(version, 0)))), shown)

    def _ref(self, version: int, depth: int) -> Callable[[Reference], str]:
        """A reference in the words of the step that it is to."""

        def of(ref: Reference) -> str:
            step = self.words(ref.head, version) if depth < _DEEP else None
            if step is None:
                return meaning(ref)
            alone = next((one for one in step.actions if one.action_id in (ref.head, ref.action)), None)
            label = self._label(step, version, alone, depth + 1)
            return f"${{{label}.{meaning(ref._replace(head='', action=None))}}}"

        return of

    def _label(self, step: Step, version: int, action: Action | None, depth: int) -> str:
        """What the step, or one action of it, calls, with what. An effect that says `repeat` is another one, and is none again."""
        name = action.action_id if action is not None else step.step_id
        if (known := self._labels.get((version, name))) is not None:
            return known
        meant = [action] if action is not None else step.actions or [step]
        calls = [[one.tool, one.parameters] for one in meant]
        if self._chooses_nothing(step, calls):  # a session made anew by another tool is still the session
            calls = []
        known_step = self.steps(name)
        repeats = step.repeat or any(one.repeat for one in meant)
        again = name if repeats and not (known_step is not None and _only_reads(known_step)) else ""
        text = digest(canonical([rewritten([*calls, step.for_each or ""], self._ref(version, depth)), again]))
        self._labels[version, name] = text
        return text


_NO_FORM = _Form("", "")


def _has_effect(call: CallState) -> bool:
    return call.effect != "reads" and call.status in ("succeeded", "unknown") and not call.reused


def _only_reads(step: StepState) -> bool:
    return bool(step.calls) and all(call.effect == "reads" for call in step.calls.values())


def _words(step: Step, slot: Slot) -> JsonObject:
    """The parameters of this call as the plan has written them."""
    actions = (one.parameters for one in step.actions if one.action_id == slot.action_id)
    return next(actions, step.parameters)


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


def mended(step: StepState, bases: Collection[str]) -> list[CallState]:
    """The effects that the step has had itself where a call of one of these contents had failed, by another call each."""
    mine = step.healing
    if mine is None or mine.tried().isdisjoint(bases):
        return []
    places = {slot for slot in mine.slots() if any(one.base in bases for one in mine.failures(slot))}
    lost = {one.base for one in mine.earlier if one.fresh and one.base}
    if len(step.calls) == 1 and len(lost) == 1 and not lost.isdisjoint(bases):
        places.update(step.calls)  # it has the place of the step that failed with it, and of nothing else
    # written anew, it may have other places
    anywhere = bool(places) and mine.repairs > mine.repairs_before and step.status == "succeeded"
    return [
        call
        for call in step.every_call()
        if (call.slot in places or (anywhere and call.plan >= step.born))
        and call.status == "succeeded"
        and call.effect != "reads"
        and not call.reused
        and base_of(call.key) not in bases
    ]
