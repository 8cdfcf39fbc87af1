"""New steps that go before a failed one and have an effect by its very tool, or by that of a step after it: in its place, or before it?

Where both write the same effect they are told so (`core.again.still_due`). In other words (another account, another text) either may be meant:
a fee that comes first, or the failed one itself as it can be done. Only the planner knows, so it is asked, and may say the same once more. Where
something among them helps by itself (a folder that is made, a session that none of them needs), that is what they are for, and nothing is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping

from replan.core.plan.repeats import marks
from replan.core.recovery.strategies import refers_to
from replan.core.state.task import ids_of
from replan.core.types import Plan, Step, StepId, ToolId, ToolSpec
from replan.core.words import some

Resolve = Callable[[str], ToolSpec | None]
_MOST = 3


def asks_in_place_of(
    plan: Plan, helped: Collection[StepId], due: Collection[StepId], new: Collection[StepId], resolve: Resolve
) -> list[str]:
    """What to ask about new steps of the plan. `helped`: the failed ones; `due`: all that are yet to run and were there before."""
    by_tool: dict[ToolId, list[StepId]] = {}
    steps = [step for step in plan.steps if step.step_id in due]
    for step in sorted(steps, key=lambda step: step.step_id not in helped):
        for tool in _effects(step, resolve):
            by_tool.setdefault(tool.id, []).append(step.step_id)
    found: dict[tuple[StepId, ...], list[StepId]] = {}
    for step in plan.steps if by_tool else ():
        if step.step_id not in new or step.step_id in due or _says_how(step, resolve):
            continue
        names = (name for tool in _effects(step, resolve) for name in (tool.id, *tool.counterparts))
        if like := tuple(dict.fromkeys(other for name in names for other in by_tool.get(name, ()))):
            found.setdefault(like, []).append(step.step_id)
    owners = {name: step.step_id for step in plan.steps for name in ids_of(step)}
    alike = {name for names in found.values() for name in names}
    if not any(name in helped for like in found for name in like) or _helps(
        plan, alike, due, new, owners, resolve
    ):
        return []
    rest = [step for step in plan.steps if step.step_id in due]
    needed = {name: step.step_id for step in rest for name in refers_to(step, owners) if name != step.step_id}
    return list(_texts(found, helped, needed))


def _helps(
    plan: Plan,
    alike: Collection[StepId],
    due: Collection[StepId],
    new: Collection[StepId],
    owners: Mapping[str, StepId],
    resolve: Resolve,
) -> bool:
    """True if one of the new steps is neither of these nor a reading that these alone need."""
    fresh = {step.step_id: step for step in plan.steps if step.step_id in new and step.step_id not in due}
    before: set[StepId] = set()
    left = [*alike]
    while left:
        step = fresh.get(left.pop())
        if step is not None and step.step_id not in before:
            before.add(step.step_id)
            left += {*step.dependencies, *refers_to(step, owners)}
    return any(
        name not in alike and (name not in before or _acts(step, resolve)) for name, step in fresh.items()
    )


def _acts(step: Step, resolve: Resolve) -> bool:
    tools = (resolve(one.tool) for one in step.actions or (step,))
    return any(tool is None or tool.effect != "reads" for tool in tools)


def _effects(step: Step, resolve: Resolve) -> Iterator[ToolSpec]:
    for name in dict.fromkeys(one.tool for one in step.actions or (step,)):
        if name and (tool := resolve(name)) is not None and tool.effect == "once":
            yield tool


def _says_how(step: Step, resolve: Resolve) -> bool:
    return bool(step.when or step.instead_of or marks(step, resolve))


def _texts(
    found: Mapping[tuple[StepId, ...], list[StepId]],
    helped: Collection[StepId],
    needed: Mapping[StepId, StepId],
) -> Iterator[str]:
    for like, names in found.items():
        failed = [name for name in like if name in helped]
        mine, theirs = _listed(names), _listed(failed or like)
        if not failed:
            yield (
                f"{mine}: {theirs} of the plan before, with the same tool, stays and is yet to run: is it done by {mine} in other words, leave "
                f"{mine} out; are both wanted, answer the same once more"
            )
            continue
        how = f"say `instead_of: {json.dumps(failed[:_MOST])}` on it, and it takes that place"
        if who := next((needed[name] for name in failed if name in needed), None):
            how = f"write {theirs} again, under its own id, as it can be done, and leave {mine} out (step {who!r} needs its output)"
        yield (
            f"{mine}: {theirs} of the plan before, with the same tool, has failed, and is made again once the new steps are done: is {mine} to be "
            f"done in its place, {how}; does it only come before that, so that both are wanted, answer the same once more"
        )


def _listed(names: Collection[StepId]) -> str:
    return f"{'step' if len(names) == 1 else 'steps'} {some(list(map(repr, names)), _MOST)}"
