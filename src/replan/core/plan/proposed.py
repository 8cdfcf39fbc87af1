"""What a plan of a model has to be beside what every plan has to be (`core.plan.check`): its values are values, and an effect
that it wants more than once is meant so.

A person's plan is not held to it: who writes `TODO` into a plan of their own may mean it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from typing import NamedTuple

from replan.core.calls.inside import uses_item
from replan.core.calls.telling import unique_text
from replan.core.ids import call_content
from replan.core.plan.index import PlannedCall
from replan.core.plan.placeholders import Stands, masks_among, no_value, placeholders
from replan.core.references.conditions import check_condition, roots
from replan.core.references.refs import has_references, listed
from replan.core.secrets import is_mask
from replan.core.types import Step, StepId, ToolSpec
from replan.core.walk import texts_in

_MOST_GROUPS = 8
"""Ways in which calls of one tool leave parameters open."""


class Proposed(NamedTuple):
    """A plan, or a part of one, as a model has proposed it."""

    steps: Sequence[Step]
    """All of the plan's."""
    new: Set[StepId]
    """Those that the model has written."""
    first: bool
    """Nothing was planned before."""
    stands: Stands
    """Whether a text stands in what the task has to go by."""
    may_repeat: bool = True
    """`repeat` may be said in it."""
    held: Set[StepId] = frozenset()
    """New ones that say `repeat` no more often than they did before: it needs no reason now."""


def proposal_violations(plan: Proposed, resolve: Callable[[str], ToolSpec | None]) -> list[str]:
    """Everything that is wrong with it."""
    never = [
        text
        for step in plan.steps
        if step.step_id in plan.new
        for text in (*_never(step), *_masked_items(step, plan.stands))
    ]
    calls = [(step, *found) for step in plan.steps for found in _calls(step, resolve)]
    alike = _Alike([call for _, call, _, _ in calls])
    return never + [
        text
        for step, call, reason, of_item in calls
        if step.step_id in plan.new and call.tool is not None
        for text in (
            *_not_values(call, call.tool, plan.stands),
            *(() if of_item else _without_item(step, call, call.tool, may_repeat=plan.may_repeat)),
            *(
                ()
                if step.step_id in plan.held
                else _meant_again(step, call, call.tool, reason, alike, first=plan.first)
            ),
        )
    ]


def _never(step: Step) -> Iterator[str]:
    """What settles beforehand that the step does nothing: a condition over nothing, or a list of nothing."""
    if (
        step.when is not None
        and step.when.strip() != "`true`"
        and not check_condition(step.when)
        and not roots(step.when)
    ):
        yield (
            f"step {step.step_id!r}: `when` is {step.when!r}, which looks at no step and no metadata, so it is always the same: "
            "leave the step out, or leave `when` out"
        )
    if step.for_each is not None and listed(step.for_each) == []:
        yield f"step {step.step_id!r}: `for_each` has no items, so nothing would be done: leave the step out"


def _masked_items(step: Step, stands: Stands) -> Iterator[str]:
    """Items of a list that is written out which stand for a secret."""
    items = listed(step.for_each) if step.for_each is not None else None
    for text in texts_in(items or []):
        if has_references(text):
            continue
        found = text if is_mask(text) and not stands(text) else next(masks_among(text, stands), "")
        if found:
            yield f"step {step.step_id!r}: `for_each`: {no_value(found)}: refer to what holds it"
            return


def _calls(step: Step, resolve: Callable[[str], ToolSpec | None]) -> Iterator[tuple[PlannedCall, str, bool]]:
    """The calls of a step, each with the reason to repeat it, and whether it differs from item to item."""
    where = f"step {step.step_id!r}"
    of_item = uses_item(step)
    if not step.actions:
        call = PlannedCall.of(where, resolve(step.tool), step.parameters, step.repeat)
        yield call, step.repeat_reason, None in of_item
    for one in step.actions:
        at = f"{where}, action {one.action_id!r}"
        call = PlannedCall.of(at, resolve(one.tool), one.parameters, one.repeat or step.repeat)
        yield call, one.repeat_reason or step.repeat_reason, one.action_id in of_item


def _not_values(call: PlannedCall, tool: ToolSpec, stands: Stands) -> Iterator[str]:
    for place, piece in placeholders(tool, call.parameters, stands):
        yield (
            f"{call.where}: {place}: {no_value(piece)}: write the value from the task, or a reference "
            "to a step or to metadata that gives it; where nothing does, plan the step that finds it out, or say so "
            "(`ask_first`, `cannot`)"
        )


def _without_item(step: Step, call: PlannedCall, tool: ToolSpec, *, may_repeat: bool) -> Iterator[str]:
    """A call with an effect that would be made the same for every item."""
    if step.for_each is None or tool.effect == "reads" or call.repeat:
        return
    again = ", or say `repeat` if the task wants the very same effect that often" if may_repeat else ""
    yield (
        f"{call.where}: {tool.id!r} has an effect and is called once for each item of `for_each`, but its parameters do "
        f"not use the item, so every call would be the same: use ${{item}} or ${{item.field}}, or leave `for_each` out{again}"
    )


def _meant_again(
    step: Step, call: PlannedCall, tool: ToolSpec, reason: str, alike: _Alike, *, first: bool
) -> Iterator[str]:
    """What says `repeat` needs something to repeat, and in a later plan a reason."""
    if not call.repeat or tool.effect != "once":
        return
    if not first:
        if not reason:
            yield (
                f"{call.where}: `repeat` makes an effect once more than it was done, and here is no reason: write in "
                "`repeat_reason` why the task wants it again, or leave `repeat` out"
            )
    elif step.for_each is None and not alike.has_another(call, tool):
        yield (
            f"{call.where}: `repeat` is for the same effect twice, and nothing in this plan is like this call: leave `repeat` out"
        )


class _Alike:
    """Which calls of a plan may come to the same: what is written of both does not differ.

    A parameter that holds references is open. Calls with the same open ones are compared together.
    """

    def __init__(self, calls: Sequence[PlannedCall]) -> None:
        self._groups: dict[str, dict[frozenset[str], list[PlannedCall]]] = {}
        self._counts: dict[tuple[str, frozenset[str], frozenset[str]], Counter[str]] = {}
        for call in calls:
            if call.tool is not None:
                groups = self._groups.setdefault(call.tool.id, {})
                groups.setdefault(_open(call), []).append(call)

    def has_another(self, call: PlannedCall, tool: ToolSpec) -> bool:
        """True if another call than this one may come to the same, or where that would be too much to tell."""
        groups = self._groups[tool.id]
        mine = _open(call)
        return len(groups) > _MOST_GROUPS or any(
            self._count(tool, theirs, mine | theirs)[_content(call, tool, mine | theirs)] > (theirs == mine)
            for theirs in groups
        )

    def _count(self, tool: ToolSpec, of: frozenset[str], open_: frozenset[str]) -> Counter[str]:
        key = (tool.id, of, open_)
        if key not in self._counts:
            self._counts[key] = Counter(_content(each, tool, open_) for each in self._groups[tool.id][of])
        return self._counts[key]


def _open(call: PlannedCall) -> frozenset[str]:
    return frozenset([name for name, value in call.parameters.items() if has_references(value)])


def _content(call: PlannedCall, tool: ToolSpec, without: frozenset[str]) -> str:
    written = {name: value for name, value in call.parameters.items() if name not in without}
    return unique_text(tool, written) if tool.unique_by else call_content(tool.id, written, tool.parameters)
