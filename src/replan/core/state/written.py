"""How plans write the parameters of their calls: what they choose themselves, and what they leave to what other steps give.

Two parameters are told apart by what plans write in them, and in the steps that they go by. What a reading gives is no choice of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replan.core.calls.name_sets import NO_NAMES, Names, NameSet
from replan.core.calls.site import Slot
from replan.core.calls.things import things_of
from replan.core.ids import canonical, digest
from replan.core.references.refs import (
    Reference,
    has_references,
    listed,
    meaning,
    references,
    rewritten,
    whole,
)
from replan.core.types import Action, JsonObject, Step

_DEEP = 50
"""Steps that refer to one another, as far as they are followed."""
_BLANK = "${}"
"""What stands for a reference where only what is written around it counts."""
_OF_ITEM = frozenset({"item", "index"})
_NONE: frozenset[str] = frozenset()
Parts = Callable[[JsonObject], JsonObject]
"""What of parameters counts."""


class Cone(NamedTuple):
    """What a step goes by, and what that goes by."""

    choices: NameSet = NO_NAMES
    """What plans have written there: the values that readings are given, and every effect."""
    tools: frozenset[str] = _NONE
    readings: NameSet = NO_NAMES
    """The steps and actions that only read."""
    again: bool = False
    """Among them is an effect that is had once more."""
    effects: NameSet = NO_NAMES
    """The steps and actions that have an effect, and do not say that they mean it once more."""


class Form(NamedTuple):
    """How one parameter is written, whatever the steps are called that it refers to."""

    cone: Cone
    text: str
    """What is written around its references."""
    paths: Mapping[str, frozenset[str]]
    """By the tools of what it refers to: the paths into that."""
    shown: str
    """Its references; empty for a value."""
    again: bool = False
    """It refers to a reading that the plan says it makes again."""
    own: bool = False
    """It is an object or a list with values of its own beside them."""

    @property
    def key(self) -> str:
        """The same for all that may be written alike."""
        return _key(self.cone)

    def may_be(self, other: Form | None) -> bool:
        """True if nothing that plans have written tells the two apart."""
        if other is None or self.cone.choices != other.cone.choices or self.cone.again:
            return False  # what is told of an effect that is had once more is told of another one
        if self.text != other.text and _BLANK not in (self.text, other.text):
            return False
        if shared := self.paths.keys() & other.paths.keys():
            return all(self.paths[tools] == other.paths[tools] for tools in shared)
        on_the_way = not self.cone.tools.isdisjoint(other.cone.tools)  # one reading more stands between
        return on_the_way or _all(self.paths) == _all(other.paths)


def _key(cone: Cone) -> str:
    return f"{cone.choices.print:x}"


def _all_tools(cones: Sequence[Cone], own: Iterable[str] = ()) -> frozenset[str]:
    """One set for all that go by the same tools."""
    most = max((one.tools for one in cones), key=len, default=_NONE)
    found = most.union(own, *(one.tools for one in cones))
    return most if len(found) == len(most) else found


def _all(paths: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return _NONE.union(*paths.values())


@dataclass(slots=True)
class Written:
    """The words of plans; it keeps what it has found of them."""

    words: Callable[[str, int], Step | None]
    """The step, or that of the action, of this name, as the plan of this version has it."""
    only_reads: Callable[[Step], bool]
    """Whether the step has no effect, as far as is known."""
    given: Callable[[str], bool] = lambda field: True
    """Whether the metadata had this field when the task was begun: what tools have written there is no choice."""
    _cones: dict[tuple[int, str], Cone] = field(default_factory=dict)
    _choices: Names = field(default_factory=Names)
    _steps: Names = field(default_factory=Names)
    _latest: list[tuple[Step, int, Slot, tuple[str, ...], Parts | None, dict[str, Form]]] = field(
        default_factory=list
    )
    """What was looked at last: the items of a list are written in the same words."""

    def those(self, steps: Iterable[str]) -> NameSet:
        """These steps and actions, to be held against what cones have of them."""
        return self._steps.those(steps)

    def forms(
        self, step: Step, version: int, slot: Slot, names: tuple[str, ...], parts: Parts | None = None
    ) -> dict[str, Form]:
        """How these parameters are written, without those that only the value of an item tells; one that is left out is that of
        the metadata. `parts`: only what it leaves of them."""
        item = self._item(step, slot)
        place = slot if item is not None else slot._replace(item=None)
        for known in self._latest:
            if known[0] is step and known[1:5] == (version, place, names, parts):
                return known[5]
        words = words_of(step, slot)
        words = {name: words.get(name, f"${{metadata.{name}}}") for name in names}
        forms = {
            name: self._form(one, version, item)
            for name, one in (parts(words) if parts is not None else words).items()
        }
        told = {name: form for name, form in forms.items() if form is not None}
        self._latest = [*self._latest[-1:], (step, version, place, names, parts, told)]
        return told

    def _item(self, step: Step, slot: Slot) -> Any:
        """The item as the plan writes it, where it refers to something; None: its value tells it."""
        items = listed(step.for_each) if step.for_each and slot.item is not None else None
        item = (
            items[slot.item]
            if items is not None and slot.item is not None and slot.item < len(items)
            else None
        )
        return item if item is not None and has_references(item) else None

    def _form(self, written: Any, version: int, item: Any) -> Form | None:
        if not has_references(written):
            text = digest(canonical(written))
            return Form(Cone(NameSet.alone(text)), text, {}, "")
        heads = list(references(written))
        if any(ref.head in _OF_ITEM for ref in heads):
            inner = _in_item(written, item)
            return None if inner is None else self._form(inner, version, None)
        found = [self._of(ref, version) for ref in heads]
        blank = rewritten(written, _blank)
        shape = [] if isinstance(blank, str) else [digest(canonical(blank))]
        order = (
            [f" {_key(one)}" for one in found] if len(found) > 1 else []
        )  # "copy A to B" is not "copy B to A"
        paths: dict[str, set[str]] = {}
        for ref, step in zip(heads, (self.words(ref.head, version) for ref in heads), strict=True):
            tools = " ".join(sorted(_tools(step, ref))) if step is not None else meaning(ref)
            paths.setdefault(tools, set()).add(meaning(ref._replace(head="", action=None)))
        return Form(
            Cone(
                self._choices.those(shape).union(*(one.choices for one in found)),
                _all_tools(found),
                NO_NAMES.union(*(one.readings for one in found)),
                any(one.again for one in found),
                NO_NAMES.union(*(one.effects for one in found)),
            ),
            "".join([blank if isinstance(blank, str) else shape[0], *order]),
            {tools: frozenset(texts) for tools, texts in paths.items()},
            ", ".join(dict.fromkeys(ref.raw for ref in heads)),
            any(self._is_made_again(ref, version) for ref in heads),
            not isinstance(blank, str) and any(one != _BLANK for one in _leaves(blank)),
        )

    def _is_made_again(self, ref: Reference, version: int) -> bool:
        step = self.words(ref.head, version)
        return step is not None and step.repeat and self.only_reads(step)

    def _of(self, ref: Reference, version: int, depth: int = 0) -> Cone:
        """What a reference goes by."""
        step = self.words(ref.head, version) if depth < _DEEP else None
        if step is None:
            by_tools = ref.head == "metadata" and bool(ref.path) and not self.given(ref.path)
            return Cone() if by_tools else Cone(self._choices.those([meaning(ref)]))
        return self._cone(step, version, _action(step, ref), depth + 1)

    def _cone(self, step: Step, version: int, alone: Action | None, depth: int) -> Cone:
        name = alone.action_id if alone is not None else step.step_id
        if (known := self._cones.get((version, name))) is not None:
            return known
        meant = [alone] if alone is not None else step.actions or [step]
        written: list[Any] = [[[one.tool, one.parameters] for one in meant], step.for_each or ""]
        reads = self.only_reads(step)
        own = (
            {digest(canonical(rewritten(written, _blank)))} if not reads or _chooses(written) else set[str]()
        )
        if reads:
            own.update(self._changes(step, meant, version))
        parts = [self._of(ref, version, depth) for ref in references(written) if ref.head not in _OF_ITEM]
        again = not reads and (step.repeat or any(one.repeat for one in meant))
        found = Cone(
            self._choices.those(own).union(*(one.choices for one in parts)),
            _all_tools(parts, [one.tool for one in meant]),
            self.those([name] if reads else []).union(*(one.readings for one in parts)),
            again or any(one.again for one in parts),
            self.those([] if reads or again else [name]).union(*(one.effects for one in parts)),
        )
        self._cones[version, name] = found
        return found

    def _changes(self, step: Step, meant: Sequence[Action | Step], version: int) -> Iterator[str]:
        """The effects that a reading waits for and that are about the same thing: it reads what they have made."""
        mine = [_constants(one.parameters) for one in meant]
        for name in step.dependencies:
            other = self.words(name, version)
            if other is None or self.only_reads(other):
                continue
            for one in other.actions or [other]:
                theirs = things_of(_constants(one.parameters))
                if any(things_of(parameters).meet(theirs) for parameters in mine if parameters):
                    yield digest(canonical(rewritten([one.tool, one.parameters], _blank)))


def words_of(step: Step, slot: Slot) -> JsonObject:
    """The parameters of this call as the plan has written them."""
    actions = (one.parameters for one in step.actions if one.action_id == slot.action_id)
    return next(actions, step.parameters)


def _action(step: Step, ref: Reference) -> Action | None:
    return next((one for one in step.actions if one.action_id in (ref.head, ref.action)), None)


def _tools(step: Step, ref: Reference) -> list[str]:
    alone = _action(step, ref)
    return [alone.tool] if alone is not None else [one.tool for one in step.actions] or [step.tool]


def _blank(ref: Reference) -> str:
    return meaning(ref) if ref.head in _OF_ITEM else _BLANK


def _chooses(written: list[Any]) -> bool:
    """True if a reading is given some value that a plan has written."""
    calls, items = written
    given = listed(items) if items else None
    return any(
        value != _BLANK
        for value in _leaves(rewritten([[one for _, one in calls], given or []], lambda ref: _BLANK))
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _constants(parameters: JsonObject) -> JsonObject:
    return {name: value for name, value in parameters.items() if not has_references(value)}


def _in_item(written: Any, item: Any) -> Any:
    """What the plan writes in the item where this parameter is the item, or a field of it; None if it is neither."""
    ref = whole(written) if isinstance(written, str) and item is not None else None
    if ref is None or ref.head != "item":
        return None
    return item if not ref.path else item.get(ref.path) if isinstance(item, dict) else None
