"""What a plan of a model has to be beside what every plan has to be (`core.plan.check`): its values are values, and an effect
that it wants more than once is meant so.

A person's plan is not held to it: who writes `TODO` into a plan of their own may mean it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from replan.core.ids import call_content
from replan.core.plan.index import PlannedCall
from replan.core.plan.placeholders import Stands, placeholders
from replan.core.references.conditions import roots
from replan.core.references.paths import check_path
from replan.core.references.refs import has_references, listed, references
from replan.core.types import Step, StepId, ToolSpec

_MOST_PAIRS = 1_000


class Proposed(NamedTuple):
    """A plan, or a part of one, as a model has proposed it."""

    steps: Sequence[Step]
    """All of the plan's."""
    new: Collection[StepId]
    """Those that the model has written."""
    first: bool
    """Nothing was planned before."""
    stands: Stands
    """Whether a text stands in what the task has to go by."""
    may_repeat: bool = True
    """`repeat` may be said in it."""


def proposal_violations(plan: Proposed, resolve: Callable[[str], ToolSpec | None]) -> list[str]:
    """Everything that is wrong with it."""
    never = [text for step in plan.steps if step.step_id in plan.new for text in _never(step)]
    calls = [(step, call) for step in plan.steps for call in _calls(step, resolve)]
    every = [call for _, call in calls]
    return never + [
        text
        for step, call in calls
        if step.step_id in plan.new and call.tool is not None
        for text in (
            *_not_values(call, call.tool, plan.stands),
            *_without_item(step, call, call.tool, may_repeat=plan.may_repeat),
            *_meant_again(step, call, call.tool, plan, every),
        )
    ]


def _never(step: Step) -> Iterator[str]:
    """What settles beforehand that the step does nothing: a condition over nothing, or a list of nothing."""
    if (
        step.when is not None
        and step.when.strip() != "`true`"
        and not check_path(step.when)
        and not roots(step.when)
    ):
        yield (
            f"step {step.step_id!r}: `when` is {step.when!r}, which looks at no step and no metadata, so it is always the same: "
            "leave the step out, or leave `when` out"
        )
    if step.for_each is not None and listed(step.for_each) == []:
        yield f"step {step.step_id!r}: `for_each` has no items, so nothing would be done: leave the step out"


def _calls(step: Step, resolve: Callable[[str], ToolSpec | None]) -> Iterator[PlannedCall]:
    where = f"step {step.step_id!r}"
    if not step.actions:
        yield PlannedCall.of(where, resolve(step.tool), step.parameters, step.repeat)
    for one in step.actions:
        at = f"{where}, action {one.action_id!r}"
        yield PlannedCall.of(at, resolve(one.tool), one.parameters, one.repeat or step.repeat)


def _not_values(call: PlannedCall, tool: ToolSpec, stands: Stands) -> Iterator[str]:
    for place, piece in placeholders(tool, call.parameters, stands):
        yield (
            f"{call.where}: {place}: {piece[:60]!r} is a placeholder, not a value: write the value from the task, or a reference "
            "to a step or to metadata that gives it; where nothing does, plan the step that finds it out, or say so "
            "(`ask_first`, `cannot`)"
        )


def _without_item(step: Step, call: PlannedCall, tool: ToolSpec, *, may_repeat: bool) -> Iterator[str]:
    """A call with an effect that would be made the same for every item."""
    if step.for_each is None or tool.effect == "reads" or call.repeat:
        return
    if not any(ref.head in ("item", "index") for ref in references(call.parameters)):
        again = ", or say `repeat` if the task wants the very same effect that often" if may_repeat else ""
        yield (
            f"{call.where}: {tool.id!r} has an effect and is called once for each item of `for_each`, but its parameters do "
            f"not use the item, so every call would be the same: use ${{item}} or ${{item.field}}, or leave `for_each` out{again}"
        )


def _meant_again(
    step: Step, call: PlannedCall, tool: ToolSpec, plan: Proposed, calls: Sequence[PlannedCall]
) -> Iterator[str]:
    """What says `repeat` needs something to repeat, and in a later plan a reason."""
    if not call.repeat or tool.effect != "once":
        return
    if not plan.first:
        own = next(
            (one.repeat_reason for one in step.actions if call.where.endswith(f" {one.action_id!r}")), ""
        )
        if not (own or step.repeat_reason):
            yield (
                f"{call.where}: `repeat` makes an effect once more than it was done, and here is no reason: write in "
                "`repeat_reason` why the task wants it again, or leave `repeat` out"
            )
    elif step.for_each is None and not any(
        _may_be_alike(call, other, tool) for other in calls[:_MOST_PAIRS] if other is not call
    ):
        yield (
            f"{call.where}: `repeat` is for the same effect twice, and nothing in this plan is like this call: leave `repeat` out"
        )


def _may_be_alike(one: PlannedCall, other: PlannedCall, tool: ToolSpec) -> bool:
    """True if the calls may come to one: what is written of both does not differ."""
    if other.tool is None or other.tool.id != tool.id:
        return False
    open_ = {
        name for call in (one, other) for name, value in call.parameters.items() if has_references(value)
    }
    mine, theirs = (
        {name: value for name, value in call.parameters.items() if name not in open_} for call in (one, other)
    )
    return call_content(tool.id, mine, tool.parameters) == call_content(tool.id, theirs, tool.parameters)
