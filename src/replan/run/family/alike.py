"""Effects that nothing tells apart, in a family of forks: one of its tasks at a time has such a one, and each that one has had stands for one call
of another.

Whoever is about to have one has its start in the log, takes the call, then what all of them are known by, and only then looks at what the others
have had. So two that are about to have one at once do not miss each other, and whoever comes second has the outcome of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from replan.core.again.family_alike import (
    Alike,
    Mending,
    alike,
    mending,
    name_of_all,
    planned_call,
    under_way,
)
from replan.core.again.in_family import Family
from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Slot
from replan.core.ids import base_of, call_key, split_key
from replan.core.state.task import Output, State, of_likes
from replan.core.types import CallKey, JsonObject, StepId, ToolSpec
from replan.errors import TaskNotFound
from replan.run.family.logs import logs_of
from replan.run.family.relatives import (
    FIRST_LOOK_SECS,
    LAST_LOOK_SECS,
    Theirs,
    driven,
    taken_over,
    theirs,
    try_of,
    waits,
)
from replan.run.session.context import Run


class Wanted(NamedTuple):
    """A call that is about to be made."""

    step_id: StepId
    slot: Slot
    tool: ToolSpec
    parameters: JsonObject
    """As the log would have them."""
    key: CallKey
    several: Callable[[], bool] = lambda: False
    """Whether the plan that brought it marks more such calls with `repeat`, as it has to: they are the effect that often in all. One that is marked
    alone is one more."""


class Asked(NamedTuple):
    """Another task has had what this call would do over again, and nobody has said that it is meant."""

    reason: str
    unsure: bool = False
    """Nobody knows whether that one has had it."""


class Again(NamedTuple):
    """Another task has made this very call, and nobody knows whether it took effect; the tool tells by the key whether it has: it may be made here."""

    reason: str


class Spent(NamedTuple):
    """Another task has made this very call, which stands for another one here: this one is made as a further one."""

    found: Theirs


async def of_family(run: Run, call: Wanted) -> Theirs | Asked | Again | Spent | None:
    """What others have had that stands for this call, or is in its way; None: it may be made."""
    logs = logs_of(run)
    found = await theirs(run, call.key)
    if found is not None and found.became == "in doubt" and await _tells_by_its_key(run, call, found):
        reason = found.told_in_doubt
        other = await _of_others(run, call)
        if other is not None or not await taken_over(run, call.key, found):
            return other or await of_family(run, call)
        return Again(reason)
    if found is None or found.became != "done":
        return found or await _of_others(run, call)
    effect = found.of_call or call.key
    if run.state.has_had(effect) or logs.claims.setdefault(effect, call.key) != call.key:
        return await _of_others(run, call) or Spent(found)
    return found


async def _tells_by_its_key(run: Run, call: Wanted, found: Theirs) -> bool:
    """True if the tool would not do once more what that task may have done: it knows the key that the call was made with there."""
    if not call.tool.honours_key:
        return False
    try:
        _, state = await driven(run, found.task_id)
    except TaskNotFound:
        return not call.tool.keys_in
    made = state.latest_try(call.key)
    return made is not None and made.keys_in == call.tool.keys_in


async def further_key(run: Run, call: Wanted) -> CallKey:
    """The key of a further one of the like calls, which nobody of the family has by now."""
    base, ledger = base_of(call.key), run.state.ledger
    family = await logs_of(run).all(run.parts.tools.resolve)
    calls = (one for state in family.others.values() for one in state.made.get(call.tool.id, ()))
    theirs_ = {split_key(one.key)[1] for one in calls if base_of(one.key) == base}
    mine = {*ledger.others(base, (call.step_id, call.slot)).values(), split_key(call.key)[1]}
    return call_key(base, 1 + max(theirs_ | mine))


async def _of_others(run: Run, call: Wanted) -> Theirs | Asked | None:
    """What another task has had, and nothing tells from this call."""
    step = run.state.steps[call.step_id]
    planned = planned_call(run.state, call.step_id, call.slot, call.key, run.parts.tools.resolve)
    if planned is not None:
        tool, before, key = planned
        found = await _very_call(run, tool, key) or await _found(run, call, tool, before, key, changed=True)
        if found is not None:
            return Asked(found.told(tool), not found.counts) if isinstance(found, Alike) else found
    found = await _found(run, call, call.tool, call.parameters, call.key, changed=planned is not None)
    if not isinstance(found, Alike):
        return found
    logs = logs_of(run)
    if not found.answers(call.tool, call.parameters):
        in_all = _is_meant(run, call) and call.several()
        if in_all:
            logs.spoken_for[found.key] = step.born, (call.step_id, call.slot)
        return Asked(found.told(call.tool, in_all=in_all), not found.counts)
    # before anything is waited for: a like call beside this one has another, or is made
    logs.claims[found.key] = call.key
    family = await logs.all(run.parts.tools.resolve)
    if text := family.why_not(step, call.slot, call.key, found.had):
        del logs.claims[found.key]
        return Asked(text)
    made = found.had.call
    return Theirs(found.had.task_id, "done", made.output or Output(None), of_call=found.key)


async def _very_call(run: Run, tool: ToolSpec, key: CallKey) -> Theirs | Asked | None:
    """What became of the planned call itself, where another task has tried it since."""
    found = await theirs(run, key, planned=True) if tool.effect == "once" else None
    if found is None or found.became not in ("done", "under way"):
        return found
    made = "has made" if found.became == "done" else "is about to make"
    return Asked(
        f"{found.named} {made} the call of {tool.id!r} which this one stands in for: leave it out if that is the effect that is wanted, or "
        "set `repeat: true`, with its `repeat_reason`, if it is wanted once more",
        unsure=found.became != "done",
    )


async def _found(
    run: Run, call: Wanted, tool: ToolSpec, parameters: JsonObject, key: CallKey, *, changed: bool
) -> Alike | Theirs | None:
    """The first of what others have had like this, once it is known."""
    if (gone := await _taken(run, call.key, tool, parameters, changed=changed)) is not None:
        return gone
    logs, step = logs_of(run), run.state.steps[call.step_id]
    family = await logs.all(run.parts.tools.resolve)
    meant = run.state.meant_at(step.meant) if _is_meant(run, call) and not call.several() else None
    doubts: list[Alike] = []
    place = call.step_id, call.slot
    claimed = {effect for effect, by in logs.claims.items() if by != call.key}
    # nor what another one that this plan has marked beside it was not made for
    claimed |= {
        effect for effect, (born, other) in logs.spoken_for.items() if born == step.born and other != place
    }
    for one in alike(family, tool, parameters, key, call.step_id, claimed):
        if not (one.is_sure or one.failed is not None):
            doubts.append(one)
        elif meant is None or changed or one.had.known_at > meant:
            return one
    return await _in_doubt(run, call.key, doubts, family) if doubts else None


def _is_meant(run: Run, call: Wanted) -> bool:
    return is_meant_again(run.state.steps[call.step_id].step, call.slot.action_id)


async def _in_doubt(run: Run, key: CallKey, doubts: Sequence[Alike], family: Family) -> Theirs | None:
    """A doubt elsewhere is one here, until somebody has told this task so of these very tries. One that is about to be made there waits for
    this task, which has the name of all; and one that was begun there and never taken was not made."""
    store = run.parts.store
    owners = await store.who_has(run.task_id, [one.had.call.key for one in doubts])
    open_ = [
        one
        for one in doubts
        if one.had.call.status == "unknown"
        or (
            owners.get(one.had.call.key) == one.had.task_id
            and not (await store.summary(one.had.task_id)).held
        )
    ]
    known = run.state.likes_not_had(key)
    tries = {one.key: family.tries(one.had.call) for one in open_}
    if all(known.get(like) == tried for like, tried in tries.items()):
        return None
    return Theirs(open_[0].had.task_id, "in doubt", of_try=of_likes(tries))


async def _taken(
    run: Run, key: CallKey, tool: ToolSpec, parameters: JsonObject, *, changed: bool
) -> Theirs | None:
    """Take what all such calls are known by, once no other task that is driven is about to have one. `key`: of the call here."""
    store, wait = run.parts.store, FIRST_LOOK_SECS
    name = name_of_all(tool, parameters, run.state)
    taken = await store.take(run.claim, name)
    while taken.task_id != run.task_id:
        try:
            held, state = await driven(run, taken.task_id)
        except TaskNotFound:
            if run.state.tries_elsewhere.get(key) != (try_of(taken), True):
                return Theirs("", "in doubt", of_try=try_of(taken))
            held, state = False, None
        if state is not None and held and await _has_one(run, state, tool, parameters, changed=changed):
            with run.waiting_for_another():
                await run.parts.clock.sleep(wait)
            wait = min(2 * wait, LAST_LOOK_SECS)
            taken = await store.take(run.claim, name)
        else:
            taken = await store.take(run.claim, name, over=taken)
    return None


async def _has_one(run: Run, state: State, tool: ToolSpec, parameters: JsonObject, *, changed: bool) -> bool:
    """True if the task, which is driven, makes such a call, or looks for what else to make in its place. One that it has begun, and another task
    has, waits for that one: whoever waited for it in turn would wait in a circle."""
    store, resolve = run.parts.store, run.parts.tools.resolve
    keys = under_way(state, tool, parameters)
    mended = Mending([], looked_after=False) if changed else mending(state, tool, parameters, resolve)
    every = [*keys, *mended.begun]
    owners = await store.who_has(run.task_id, every) if every else {}
    if state.task_id in owners.values() or any(key not in owners for key in mended.begun):
        return True
    return mended.looked_after and not await waits(run, state)
