"""The repetition guard over whole rounds (specification §9): what has been seen before, and when going on is pointless.

In code, from events; no model can talk it away. Counts end a task that says something new for ever:
rounds that bring neither a better judgement nor a failure that was not known (a few more where a reading gives something else each
time), and rounds without a better judgement, whatever is new in them. First parts (`more`) that get on are not judged: the rounds that are allowed bound them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from replan.core.plan.fingerprint import labels_of, prints_of
from replan.core.recovery.said_no import is_stated_again_and_again
from replan.core.state.fold_recovery import rounds_of
from replan.core.state.recovery import Recovery, RoundNote
from replan.core.state.task import State
from replan.core.types import Plan, ToolId

MOST_BARREN = 4
"""Rounds in a row that bring nothing: no better score, and no failure that was not seen before."""
MOST_STIRRED = 8
"""The same, though a reading of the plan gives something else each time: a session made anew, the time of day."""
MOST_STALLED = 20
"""Rounds in a row without a better score, though something else fails each time."""
MOST_POLLED = 40
"""Rounds in a row without a better score, though each shows that a poll has moved on."""


class Barrier(NamedTuple):
    """What stands against another round, whatever a model says."""

    why: str
    limit: str | None = None
    """The older limit that it is, if it is one."""


def must_stop(state: State) -> Barrier | None:
    """What stands against another round that mends; None if there may be one."""
    known, older = state.recovery or Recovery(), state.policy.older
    if older.max_task_replanning_attempts is not None and known.replans >= older.max_task_replanning_attempts:
        return _used_up("max_task_replanning_attempts", older.max_task_replanning_attempts)
    if older.max_reflection_rounds is not None and known.reflections >= older.max_reflection_rounds:
        return _used_up("max_reflection_rounds", older.max_reflection_rounds)
    return is_pointless(state)


def _used_up(limit: str, allowed: int) -> Barrier:
    return Barrier(f"{limit} = {allowed} is reached", limit)


def is_pointless(state: State) -> Barrier | None:
    """What makes another round pointless by what those before have brought; None if it may have a point."""
    known = state.recovery or Recovery()
    if is_stated_again_and_again(state):
        return Barrier(
            "a person has said no to what the plan states once more, and it has brought nothing else"
        )
    if (
        barren := _in_a_row(known.rounds, lambda note: not (note.better or note.news or note.moved))
    ) >= MOST_STIRRED or (
        barren := _in_a_row(
            known.rounds, lambda note: not (note.better or note.news or note.moved or note.stirred)
        )
    ) >= MOST_BARREN:
        return Barrier(
            f"the last {barren} rounds brought nothing new: the same failures, and no better result"
        )
    if (stalled := _in_a_row(known.rounds, lambda note: not (note.better or note.got_on))) >= MOST_POLLED or (
        stalled := _in_a_row(known.rounds, lambda note: not (note.better or note.got_on or note.moved))
    ) >= MOST_STALLED:
        return Barrier(f"the last {stalled} rounds brought no better result, whatever was changed")
    return None


def may_reflect(state: State) -> bool:
    """False if the older limit on overall reflections is used up."""
    limit, known = state.policy.older.max_reflection_rounds, state.recovery
    return limit is None or (known.reflections if known is not None else 0) < limit


def _in_a_row(rounds: Sequence[RoundNote], holds: Callable[[RoundNote], bool]) -> int:
    count = 0
    for note in reversed(rounds):
        if not holds(note):
            break
        count += 1
    return count


def plan_repeats(
    state: State,
    plan: Plan,
    volatile: Collection[ToolId] = (),
    *,
    sets_again: bool = False,
    reads_anew: bool = False,
    acts_again: bool = False,
    renews: bool = False,
) -> str:
    """What is wrong with a plan that has been tried before; empty if it is new.

    A plan whose failure was out of our reach may be tried again; so may a poll (it calls a `volatile` tool) as long
    as its result changes, and a plan that does something once more (`repeat`) as long as that makes the result better.
    `sets_again`: it sets what another has set otherwise, so that it may be tried again if something was done since its last try.
    `reads_anew`: some reading of it may give something else by now, `acts_again`: it says of an effect that it is meant once more:
    where it goes on from a first part it is no second try. `renews`: it logs in anew, where what failed was over a session: as a poll.
    """
    if state.recovery is None:
        return ""
    succeeded = {name for name, step in state.steps.items() if step.status == "succeeded"}
    kept = {step.step_id for step in plan.steps} & succeeded
    before = labels_of(state.plan, state.recovery.labels) if state.plan is not None else {}
    done = [*state.earlier, *succeeded]
    prints = prints_of(plan, kept, {**state.recovery.labels, **before}, done)
    if (reads_anew or acts_again) and state.replanning is not None and state.replanning.continues:
        return ""
    polls = renews or any(
        name in volatile
        for step in plan.steps
        if step.step_id not in kept  # what stays is not read again
        for name in (step.tool, *(a.tool for a in step.actions))
    )
    given = (state.recovery.results.get(one) for one in prints)
    results = next(filter(None, given), [])
    if polls and (len(results) == 1 or (results and results[-1] != results[-2])):
        return ""
    if sets_again and state.ledger.deeds > max(state.recovery.deeds.get(one, 0) for one in prints):
        return ""
    once_more = prints_of(plan, kept, {**state.recovery.labels, **before})[0]
    for one in prints:
        done_part = one in state.recovery.parts and not reads_anew
        if done_part or state.recovery.prints.get(one) is False or once_more in state.recovery.barren:
            return (
                "this plan is the same as an earlier one of this task, which was insufficient: the same tools, parameters and order; "
                "change what matters: another tool, other parameters, or other steps"
            )
    return ""


def repeats(state: State) -> list[str]:
    """What has been seen more than once in this task, in words for a prompt."""
    told: list[str] = []
    rounds = rounds_of(state)
    counts: dict[str, int] = {}
    for note in rounds:
        for sign in note.signatures:
            counts[sign] = counts.get(sign, 0) + 1
    again = sum(count > 1 for count in counts.values())
    if again:
        most = max(counts.values())
        told.append(
            f"{again} failure{'s' if again > 1 else ''} of this task came again after replanning, up to {most} times"
        )
    if stop := must_stop(state):
        told.append(f"another round is not allowed: {stop.why}")
    return told


def repeated_in_step(state: State) -> list[str]:
    """Steps whose recovery saw one error twice, in words."""
    told = []
    for name, step in state.steps.items():
        mine = step.healing
        if mine is not None and any(mine.repeated(slot) for slot in mine.slots()):
            told.append(f"step {name!r} failed with the same error again after it was changed")
    return told
