"""What calls were given to be made on behalf with (a session, a token), and where that no longer serves.

A login that is done is answered with the session that it gave. Where a call has failed over that session, the same call over the
same session fails again: a login that does no harm is then made anew, and of one that counts each time the plan is asked whether
it is meant once more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replan.core.again.changes import by_whom
from replan.core.again.like_calls import is_meant_again
from replan.core.again.planned_calls import Call, PlannedCalls
from replan.core.calls.site import ONLY, Slot
from replan.core.calls.telling import without_credentials
from replan.core.failures.faults import NOT_MADE
from replan.core.ids import call_key, split_key
from replan.core.plan.constant import ConstantCall
from replan.core.references.refs import Reference, has_references, references
from replan.core.secrets.receivers import credentials_of
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.state.written import words_of
from replan.core.types import CallKey, JsonObject, Step, ToolSpec

Resolve = Callable[[str], ToolSpec | None]


@dataclass(slots=True)
class Sessions:
    """By the key of a call: what was made over what it gave, before the plan of some version."""

    failed: dict[CallKey, list[CallState]] = field(default_factory=dict)
    """Calls that their tool has refused."""
    served: set[CallKey] = field(default_factory=set)
    """Some call has succeeded over it."""

    @classmethod
    def before(cls, version: int, state: State, resolve: Resolve) -> Sessions:
        found, over = cls(), _Over(state, resolve)
        made = [
            (step, call) for step in state.every_step() for call in step.every_call() if call.plan < version
        ]
        for step, call in made:
            if _is_refusal(call):
                for giver in over.givers(step, call):
                    found.failed.setdefault(giver.key, []).append(call)
        for step, call in made if found.failed else ():
            if call.status == "succeeded" and call.was_made:
                found.served.update(giver.key for giver in over.givers(step, call))
        return found

    def ended(self, key: CallKey) -> bool:
        """True if a call has failed over what this one gave."""
        return key in self.failed

    def served_and_ended(self, state: State, alike: Collection[str]) -> bool:
        """True if what the latest of these calls gave has served, and no longer does: it is no loop that makes it anew."""
        made = [key for base in alike if (key := state.ledger.newest(base)) is not None]
        latest = max(made, key=lambda key: state.ledger.entries[key].at, default="")
        return latest in self.served and self.ended(latest)


def _is_refusal(call: CallState) -> bool:
    """True if its tool was called and has refused it."""
    fault = call.fault
    if call.status != "failed" or fault is None or fault.kind in NOT_MADE:
        return False
    return fault.happened == "no" or call.effect == "reads"


class _Over:
    """The calls over whose outputs others were made."""

    def __init__(self, state: State, resolve: Resolve) -> None:
        self._state, self._resolve = state, resolve
        self._refs: dict[tuple[str, str | None, str, int], list[Reference]] = {}

    def givers(self, step: StepState, call: CallState) -> Iterator[CallState]:
        place = call.step_id, call.slot.action_id, call.tool_id, call.plan
        if place not in self._refs:
            written = self._state.words_of(call.step_id, call.plan) or step.step
            tool = self._resolve(call.tool_id)
            self._refs[place] = [] if tool is None else on_behalf(tool, words_of(written, call.slot))
        found = (_giver(self._state, step, call.slot, ref) for ref in self._refs[place])
        return (giver for giver in found if giver is not None)


def _giver(state: State, step: StepState, slot: Slot, ref: Reference) -> CallState | None:
    """The call that has given what this reference of a step's call is to; None where that is no single one."""
    by, action = _named(step, ref)
    given = step if by is step else state.named(ref.head)
    if given is None:
        return None
    if given is not step:
        if given.items is not None:
            return None
        action = ref.action or (ref.head if ref.head != given.step.step_id else None)
    call = given.calls.get(Slot(action, slot.item if given is step else None))
    return call if call is not None and call.status == "succeeded" else None


def _named(step: StepState, ref: Reference) -> tuple[StepState | None, str | None]:
    """The step itself and its action, where the reference is to that."""
    own = {one.action_id for one in step.step.actions}
    action = ref.action if ref.head == step.step.step_id else ref.head
    return (step, action) if action in own else (None, None)


def on_behalf(tool: ToolSpec, written: JsonObject) -> list[Reference]:
    """The references by which a call is told on whose behalf it is made, and nothing else."""
    if not has_references(written):
        return []
    named = credentials_of(tool)
    rest = without_credentials({name: value for name, value in written.items() if name not in named})
    others = {ref.raw for ref in references(rest)}
    return [ref for ref in references(written) if ref.raw not in others]


# ── asked with a plan ──


def told_ended(
    state: State, calls: Mapping[str, Sequence[Call]], every: Callable[[], Iterable[Call]], resolve: Resolve
) -> dict[str, str]:
    """By step: what to ask about done `once` calls of a new plan whose answer another call of it would fail with again.

    `calls`: what its steps do; `every`: the same with readings.
    """
    done = dict(_answered(state, calls))
    if not done:
        return {}
    sessions = Sessions.before(state.plans + 1, state, resolve)
    done = {name: found for name, found in done.items() if sessions.ended(found[1])}
    told: dict[str, str] = {}
    for one in every() if done else ():
        for ref in on_behalf(one.tool, one.written):
            login, key = done.get(ref.action or ref.head, (None, ""))
            if login is None or login.step.step_id in told:
                continue
            same = (call for call in sessions.failed[key] if _is_that(one, call))
            if (before := next(same, None)) is not None:
                told[login.step.step_id] = _ask(state, login, one, before)
    return told


def _answered(
    state: State, calls: Mapping[str, Sequence[Call]]
) -> Iterator[tuple[str, tuple[Call, CallKey]]]:
    """By the name of a step or an action: calls of the plan that are answered with what was done, and with what."""
    for mine in calls.values():
        for one in mine:
            if one.tool.effect != "once" or one.again or not one.base or one.slot.item is not None:
                continue
            if (key := state.ledger.newest(one.base)) is not None:
                yield one.slot.action_id or one.step.step_id, (one, key)


def _is_that(one: Call, failed: CallState) -> bool:
    """True if the planned call is the one that has failed, as far as its words tell, but for the session."""
    if one.tool.id != failed.tool_id:
        return False
    told = {name: value for name, value in one.written.items() if not has_references(value)}
    return all(failed.parameters.get(name) == value for name, value in told.items())


def renews(
    state: State, steps: Collection[Step], constants: Mapping[str, ConstantCall], resolve: Resolve
) -> bool:
    """True if the steps state a login that is made anew unasked, as what it gave has ended: what failed over that may be tried again."""
    sessions = Sessions.before(state.plans + 1, state, resolve)
    if not sessions.failed:
        return False
    planned = PlannedCalls(state, steps, constants, resolve)
    calls = (one for step in steps for one in planned.of(step, readings=True) if one.tool.effect != "once")
    keys = {key for one in calls if one.base and (key := state.ledger.newest(one.base)) is not None}
    return any(map(sessions.ended, keys))


def _ask(state: State, login: Call, one: Call, before: CallState) -> str:
    by = by_whom(state, login.tool.id, login.base)
    place = f", {login.slot.words()}" if login.slot != ONLY else ""
    return (
        f"step {login.step.step_id!r}{place} makes the call of {login.tool.id!r} that {by} has made, so it is answered with what that "
        f"gave, and step {one.step.step_id!r} would call {one.tool.id!r} with just what it failed with in step {before.step_id!r}; if "
        "what it gave no longer serves (a session that has ended), set `repeat: true` on it, with its `repeat_reason`, and it is made "
        "anew; if it does, leave it out, refer to what was given, and change what the failure was about"
    )


# ── as a call is made ──


def serving(
    step: StepState, slot: Slot, base: str, number: int, tool: ToolSpec, state: State, resolve: Resolve
) -> int:
    """Which of the like calls this one is, where what the one of this number gave no longer serves: the latest that is done; where
    that does not either, a new one of a tool whose calls do no harm."""
    key = call_key(base, number)
    if step.meant < 2 or is_meant_again(step.step, slot.action_id):
        return number
    if state.reusable(key, tool, step.step) is None:
        return number
    made = step.calls.get(slot)
    if made is not None and made.key == key and made.plan >= state.plans:
        return number
    sessions = sessions_of(state, resolve)
    newest = state.ledger.newest(base)
    if newest is None or not sessions.ended(key):
        return number
    found = split_key(newest)[1]
    if sessions.ended(newest) and tool.effect != "once":
        found = state.ledger.unused(base)
    if found != number:
        state.ledger.occupy(call_key(base, found), (step.step.step_id, slot))
    return found


def sessions_of(state: State, resolve: Resolve) -> Sessions:
    """What the plan has found."""
    known: tuple[int, Sessions] | None = state.sessions
    if known is None or known[0] != state.plans:
        known = state.sessions = state.plans, Sessions.before(state.plans, state, resolve)
    return known[1]
