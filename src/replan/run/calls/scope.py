"""What references mean for one step, the steps that they are to, and whether they may bring much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from replan.core.calls.inside import own_action
from replan.core.calls.site import Slot
from replan.core.data.pieces import AT_ONCE, MANY, weight
from replan.core.plan.index import references_of
from replan.core.references.conditions import roots
from replan.core.references.derived import derived
from replan.core.references.evaluate import OfASecret
from replan.core.references.paths import PathError, select, static_steps
from replan.core.references.refs import PARAMETERS, Reference
from replan.core.secrets import holds_lost, reveal_known
from replan.core.state.task import State, StepState
from replan.core.types import Step
from replan.errors import UnresolvedReference
from replan.run.session.outputs import Loaded


class Scope:
    """What references mean for one step: finished outputs, metadata, the task, the item."""

    def __init__(
        self, step: Step, state: State, loaded: Loaded, item: Any = None, index: int | None = None
    ) -> None:
        self._step = step
        self._state = state
        self._loaded = loaded
        self._item = item
        self._index = index

    def __call__(self, ref: Reference) -> tuple[Any, str]:
        found, where = self._found(ref)
        if not self._state.hides or not self._may_be_masked(ref):
            return found, where
        real = reveal_known(found)
        if holds_lost(real):
            _check_known(ref, real)
        made = bool(ref.path) and static_steps(ref.path) is None
        if not (ref.computed or made):
            return real, where
        seen = self._state.secrets.masked(found) if ref.head in _HELD_OPEN else found
        if ref.computed:
            _check_open(ref, seen, real)
        if made and seen is not real:
            self._learn_made(ref, seen, real)
        return real, where

    def _learn_made(self, ref: Reference, seen: Any, real: Any) -> None:
        """What is computed from a secret is one."""
        known = self._state.secrets
        try:
            for text in derived(ref.path, seen, real):
                if known.hide(text) == text:  # one in which a secret stands as it is is hidden already
                    known.add(text)
        except OfASecret as error:
            raise UnresolvedReference(ref.raw, where="this task", why=error.why) from None

    def _may_be_masked(self, ref: Reference) -> bool:
        step = self._state.named(ref.head)
        return step is None or any(call.output and call.output.masked for call in step.calls.values())

    def _found(self, ref: Reference) -> tuple[Any, str]:
        match ref.head:
            case "metadata":
                return self._metadata(whole=not ref.path), "the metadata"
            case "task":
                words = {"description": str(self._state.description), "id": self._state.keyed_by}
                return words, "the task"  # a secret that the words quote stays masked
            case "item" if self._index is not None:
                return self._item, f"item {self._index + 1}"
            case "index" if self._index is not None:
                return self._index, "the index"
        return self._output(ref)

    def _metadata(self, *, whole: bool) -> Mapping[str, Any]:
        """The metadata that the step sees; as a whole without their secrets."""
        known = self._state.secret_metadata(self._step.step_id) if whole else None
        return self._state.metadata_of(self._step.step_id) if known is None else known.shown

    def _output(self, ref: Reference) -> tuple[Any, str]:
        if self._step.actions and (own := own_action(self._step, ref)) is not None:
            return self._own(ref, own)
        action = ref.action
        step = self._state.steps.get(ref.head) or self._state.earlier.get(ref.head)
        if step is None:
            step = self._state.step_of_action(ref.head)
            action = ref.head
        if step is None:
            step, action = self._state.previous.get(ref.head), None
        if step is None or not step.has_output:
            status = step.status if step else "unknown"
            has = [name for name, one in self._state.steps.items() if one.has_output]
            others = f"; steps that have one: {', '.join(has[:20])}" if has else ""
            why = f"{ref.head!r} has no output ({status}){others}"
            raise UnresolvedReference(ref.raw, where="this task", why=why)
        value = self._loaded.output_of(step)
        names = [one.action_id for one in step.step.actions]
        if action is not None and action not in names:
            why = f"step {step.step.step_id!r} has no action {action!r}"
            raise UnresolvedReference(ref.raw, where="this task", available=names, why=why)
        if action is not None:
            value = [one[action] for one in value] if step.items is not None else value[action]
        return value, f"the output of {ref.head!r}"

    def _own(self, ref: Reference, action: str) -> tuple[Any, str]:
        """What another action of the same step has given, of the same item."""
        step = self._state.steps.get(self._step.step_id)
        call = step.calls.get(Slot(action, self._index)) if step is not None else None
        if call is None or call.output is None:
            raise UnresolvedReference(ref.raw, where="this task", why=f"action {action!r} has no output")
        return self._loaded.value_of(call.output), f"the output of {action!r}"


def _check_known(ref: Reference, value: Any) -> None:
    """Raise if just the part that is meant is lost; what is lost beside it does no harm."""
    try:
        part = select(ref.path, value) if ref.path else value
    except PathError:
        return  # which is said better where it is resolved
    if holds_lost(part):
        raise UnresolvedReference(ref.raw, where="this task", why=_LOST)


def _check_open(ref: Reference, shown: Any, real: Any) -> None:
    """Raise if the part that is meant is a secret: what is worked out of one would have to be one, and could not be told from others."""
    try:
        parts = [select(ref.path, value) if ref.path else value for value in (shown, real)]
    except PathError:
        return
    if parts[0] != parts[1]:
        raise UnresolvedReference(
            ref.raw,
            where="this task",
            why="it is a secret, which nothing is computed with: give it to a parameter as it is",
        )


_HELD_OPEN = frozenset({"metadata", "item"})
"""What is at hand as it is, not as it may be seen."""
_LOST = (
    "what it refers to held a secret, which no log keeps, and the process that knew it is another one or has ended: "
    "get it anew in a step of its own"
)


def takes_much(step: StepState, state: State, *, items: bool = False) -> bool:
    """True if the step's parameters and what its references may bring are large. `items`: whatever its `for_each` is over."""
    wanted = step.step
    room = AT_ONCE - weight([wanted.parameters, *[one.parameters for one in wanted.actions]], AT_ONCE)
    for one in _referred(wanted, state, items=items):
        room -= _EACH * len(one.calls)
        for call in one.calls.values() if room >= 0 else ():
            if call.output is not None:
                kept = call.output.artifact
                room -= kept.size if kept is not None else weight(call.output.value, AT_ONCE)
            if room < 0:
                return True
    return room < 0


def _referred(step: Step, state: State, *, items: bool) -> Iterable[StepState]:
    """The steps that references may be to: of many that only come before it, those that some are to."""
    if not (items or state.earlier or state.previous) and len(step.dependencies) <= MANY:
        return [state.steps[name] for name in step.dependencies if name in state.steps]
    heads = {ref.head for ref in references_of(step.model_copy(update={"for_each": None}) if items else step)}
    found = map(state.named, heads)
    return [one for one in found if one is not None]


_EACH = 64


def followed_by(step: Step, state: State) -> list[str]:
    """What the step's references and its condition name of the tasks that this one follows."""
    heads = {ref.head for ref in references_of(step)}
    for root, part in roots(step.when) if step.when else ():
        heads |= {f"{root}.{part}", f"{root}.{part}.{PARAMETERS}"}
    return sorted(heads & state.previous.keys())


def _heads(step: Step) -> set[str]:
    """What its references and its condition begin with."""
    heads = {ref.head for ref in references_of(step)}
    heads.update(root for root, _ in (roots(step.when) if step.when else ()))
    return heads


def _names(step: Step) -> list[str]:
    """What references to it, and to what its actions give, begin with."""
    return [step.step_id, *(action.action_id for action in step.actions)]


def steps_referred(step: StepState, state: State) -> list[StepState]:
    """The steps whose outputs this one's references and condition may need."""
    found = [state.steps[name] for name in step.step.dependencies if name in state.steps]
    if state.kept_apart and found:  # what it only waits for need not be read from the store
        heads = _heads(step.step)
        found = [one for one in found if not heads.isdisjoint(_names(one.step))]
    if state.previous:
        found += [state.previous[name] for name in followed_by(step.step, state)]
    if state.earlier:
        heads = _heads(step.step)
        named = (state.earlier.get(head) or state.step_of_action(head) for head in sorted(heads))
        left = {one.step.step_id: one for one in named if one is not None}
        found += [one for name, one in left.items() if state.earlier.get(name) is one]
    return found
