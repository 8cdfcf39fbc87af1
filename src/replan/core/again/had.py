"""Effects that were had, and whether a later one may have changed what an earlier one did."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from replan.core.again.planned_calls import with_item
from replan.core.calls.telling import on_behalf_of, what_is_done
from replan.core.calls.things import things_of
from replan.core.ids import base_of, canonical
from replan.core.memo import ByIdentity
from replan.core.references.refs import has_references, listed
from replan.core.state.ledger import Deed
from replan.core.state.progress import CallState
from replan.core.state.task import State
from replan.core.types import Action, Step, ToolSpec
from replan.core.walk import scalars

Resolve = Callable[[str], ToolSpec | None]
_NUMBER = re.compile(r"/?-?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
"""As a text, or as it would be the name of a file."""


@dataclass(slots=True)
class Had:
    """An effect that a task has had."""

    task_id: str
    call: CallState
    _deed: Deed | None = None
    _done: Deed | None = None
    _said: frozenset[str] | None = None
    _values: frozenset[str] | None = None
    _known_by: frozenset[str] | None = None
    _given: frozenset[str] | None = None

    @property
    def ended(self) -> float:
        return self.call.took

    @property
    def known_at(self) -> float:
        """When it was over for whoever has had it: a plan made before does not mean one beyond it."""
        return self.call.ended if self.call.ended is not None else self.call.started

    @property
    def deed(self) -> Deed:
        if self._deed is None:
            self._deed = Deed(base_of(self.call.key), self.call.tool_id, self.call.parameters)
        return self._deed

    def done(self, resolve: Resolve) -> Deed:
        """The same without what says on whose behalf it was done: a session in common makes no two effects about the same. Where it was
        told nothing else ("log out"), it is about that."""
        if self._done is None:
            rest = what_is_done(resolve(self.call.tool_id), self.call.parameters)
            whole = rest is self.call.parameters or not scalars(rest)
            self._done = self.deed if whole else Deed(self.deed.base, self.call.tool_id, rest)
        return self._done

    def said(self, resolve: Resolve) -> frozenset[str]:
        """The texts and numbers that say what it has done."""
        if self._said is None:
            self._said = frozenset(scalars(self.done(resolve).parameters))
        return self._said

    @property
    def values(self) -> frozenset[str]:
        """The texts and numbers that it was made with."""
        if self._values is None:
            self._values = frozenset(scalars(self.call.parameters))
        return self._values

    @property
    def known_by(self) -> frozenset[str]:
        """These, and those that it gave."""
        if self._known_by is None:
            self._known_by = self.values.union(scalars(self.output))
        return self._known_by

    @property
    def output(self) -> Any:
        return self.call.output.value if self.call.output is not None else None

    @property
    def given(self) -> frozenset[str]:
        """What it has given names."""
        if self._given is None:
            self._given = things_of({"": self.output}).named
        return self._given

    @property
    def told(self) -> str:
        return f"step {self.call.step_id!r} ({self.call.tool_id})"


def effects_of(state: State) -> Iterator[CallState]:
    """The effects that a task, or one that it shares its history with, has had itself or may have had."""
    for step in state.every_step():
        for call in step.every_call():
            if call.effect == "reads" or call.reused or call.of_task:
                continue
            if call.status in ("succeeded", "unknown"):
                yield call


def may_make(step: Step, one: Had, then: Step | None, made: Had, resolve: Resolve) -> bool:
    """True if the step may have this effect, or another in its place, as far as it is written. `then`: the step that has had it.

    `made`: what it may have changed. A step that took that back and is written otherwise now does so no more.
    """
    for written in step.actions or (step,):
        tool = resolve(written.tool)
        if tool is None or tool.id != one.call.tool_id:
            continue
        if step.step_id == one.call.step_id and (
            (then is not None and is_written_so(step, then)) or not takes_back(one, made, resolve)
        ):
            return True  # it may have been made in other words there
        items = _named_by_items(step) if step.for_each is not None else {}
        if all(
            one.call.parameters.get(name) == value
            if not has_references(value)
            else _is_among(one.call.parameters.get(name), items.get((_action_of(written), name)))
            for name, value in written.parameters.items()
        ):
            return True
    return False


def _is_among(value: Any, known: frozenset[str] | None) -> bool:
    """True if one of these may be the value. None: nobody knows them."""
    return known is None or canonical(value) in known


def _of_items(step: Step) -> dict[tuple[str, str], frozenset[str]]:
    """By action and parameter: what it is given for the items of a list that is written out, where each of them says so."""
    items = listed(step.for_each) if step.for_each is not None else None
    found: dict[tuple[str, str], frozenset[str]] = {}
    for call in step.actions or (step,):
        for name, value in call.parameters.items() if items else ():
            given = [with_item(value, item) for item in items or ()]
            if not any(map(has_references, given)):
                found[_action_of(call), name] = frozenset(map(canonical, given))
    return found


def _action_of(written: Step | Action) -> str:
    return written.action_id if isinstance(written, Action) else ""


_named_by_items = ByIdentity[dict[tuple[str, str], frozenset[str]]](_of_items)


def is_written_so(step: Step, then: Step) -> bool:
    """True if both call the same with the same."""
    return all(getattr(step, name) == getattr(then, name) for name in ("parameters", "actions", "for_each"))


def is_of_one_thing(one: Had, made: Had, resolve: Resolve, *, is_used: Callable[[], bool]) -> bool:
    """True if a later effect may have changed what this one has made. `is_used`: something is made of that here."""
    same_tool = one.call.tool_id == made.call.tool_id
    if same_tool and one.call.effect == "once":
        return is_of_one_subject(one, made, resolve, is_used)
    mine, theirs = one.done(resolve), made.done(resolve)
    in_common = mine.may_have_changed(theirs)
    given = frozenset[str]() if same_tool else one.deed.things.named & (made.given - made.deed.things.named)
    if not (in_common or given):
        return False
    if not _are_told_apart(one, made, resolve):
        return True
    if in_common and not (_are_alike(one, made, resolve) or _share_numbers_alone(mine, theirs)):
        return True
    return not all(map(_NUMBER.fullmatch, given))


def is_of_one_subject(one: Had, made: Had, resolve: Resolve, is_used: Callable[[], bool]) -> bool:
    """True if two calls of one `once` tool, each of which counts by itself, may be about one thing all the same.

    The first parameter says what a call is about. Where there is no other, it may be what is set: that matters where something is
    made of it.
    """
    first = subject_of(made, resolve)
    if first is None:
        return is_used()
    return bool(one.call.parameters.get(first) == made.call.parameters.get(first))


def are_of_two(one: Had, other: Had, resolve: Resolve) -> bool:
    """True if both are effects of one tool, or of tools that do the same, and about two things: payments to two people."""
    return _are_alike(one, other, resolve) and _are_told_apart(one, other, resolve)


def _are_alike(one: Had, other: Had, resolve: Resolve) -> bool:
    tool = resolve(one.call.tool_id)
    return one.call.tool_id == other.call.tool_id or (
        tool is not None and other.call.tool_id in tool.counterparts
    )


def _are_told_apart(one: Had, other: Had, resolve: Resolve) -> bool:
    """True if one parameter, by its name, says of both what they are about, and says something else of each: two recipients."""
    name = subject_of(one, resolve)
    if name is None or name != subject_of(other, resolve):
        return False
    mine, theirs = one.call.parameters.get(name), other.call.parameters.get(name)
    return mine is not None and theirs is not None and not things_of({"": mine}).meet(things_of({"": theirs}))


def _share_numbers_alone(one: Deed, other: Deed) -> bool:
    """True if nothing but numbers is named by both: an amount, a quantity."""
    mine, theirs = one.things, other.things
    if not (mine.named.isdisjoint(theirs.within) and mine.within.isdisjoint(theirs.named)):
        return False
    return all(_NUMBER.fullmatch(text) for text in mine.named & theirs.named)


def subject_of(made: Had, resolve: Resolve) -> str | None:
    """The parameter that says what a call is about; None: there is no other beside it."""
    tool = resolve(made.call.tool_id)
    behalf = on_behalf_of(tool) if tool is not None else frozenset[str]()
    names = [name for name in tool.parameters.get("properties", {}) if name not in behalf] if tool else []
    names = names or sorted(made.call.parameters)
    return names[0] if len(names) > 1 else None


def takes_back(one: Had, made: Had, resolve: Resolve) -> bool:
    """True if a later effect says nothing of its own: all its values are those of what was made ("delete x" after "create x")."""
    if one.call.tool_id == made.call.tool_id:
        return False
    mine = one.said(resolve)
    return bool(mine) and (
        mine <= made.said(resolve) or mine <= made.said(resolve).union(scalars(made.output))
    )
