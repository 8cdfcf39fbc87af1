"""Calls that must not be made twice, in a family of forks: one of its tasks makes each, and the others have its outcome.

Whoever is about to make one has its start in the log, takes it, and only then makes it. So the log of the task that has
it says what became of it, and one that looks there before it takes the call over misses no try.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from replan.core.again.family_alike import all_under_way, is_looked_after, name_of_all, planned_call
from replan.core.again.like_calls import is_meant_again
from replan.core.calls.site import Slot
from replan.core.events import CallStarted, ForkMade, QuestionAnswered
from replan.core.ids import base_of, split_key
from replan.core.references.kept import KeptBytes
from replan.core.secrets import lost
from replan.core.state.task import Output, State
from replan.core.types import CallKey, StepId
from replan.errors import TaskNotFound
from replan.ports import NewArtifact, Taken
from replan.run.family.logs import logs_of
from replan.run.session.context import Run
from replan.run.session.outputs import read_back
from replan.run.session.pages import pages

FIRST_LOOK_SECS, LAST_LOOK_SECS = 0.2, 5.0
"""Between two looks at a call that another task makes: ever longer, up to this."""
LOOKS_AT_ONE_THAT_WAITS, LOOKS_OF_THE_ELDER = 3, 8
"""So often a task looks at a planned call of another one that waits itself, before what was to stand in for it gives way."""


Became = Literal["done", "not made", "under way", "in doubt"]


class Theirs(NamedTuple):
    """A call that is another task's, and what became of it there."""

    task_id: str
    """Empty: it was deleted."""
    became: Became
    output: Output | None = None
    of_try: str = ""
    """Which of its tries that is."""
    of_call: CallKey = ""
    """The key that it has there, where that is another one."""
    at: float | None = None
    """When it took effect there."""

    @property
    def named(self) -> str:
        return f"task {self.task_id!r}" if self.task_id else "a task that was deleted since"

    @property
    def told_in_doubt(self) -> str:
        return f"{self.named} has made this very call, and nobody knows whether it took effect"


async def enter(run: Run) -> None:
    """A fork is driven: what the first of its family had under way, or has made before it knew of any fork, is that one's."""
    store, state = run.parts.store, run.state
    if state.kin and (state.plans > 1 or (state.fork is not None and state.fork.plan is not None)):
        state.by_kin = (await logs_of(run).all(run.parts.tools.resolve)).by_others()
    if state.fork is None:
        return
    line = await store.rests_on(run.task_id)
    open_ = (*state.running_calls(), *state.in_doubt.values())
    if keys := [one.key for one in open_ if one.effect == "once" and one.started <= state.created]:
        await store.reserve(line[-1].task_id, keys)
    first, upto = line[0]
    told = (one.seq for one in await store.read(first, signals_only=True) if isinstance(one.event, ForkMade))
    aware = next(told, None)
    if aware is not None and aware <= upto:
        return
    made: dict[str, None] = {}
    resolve = run.parts.tools.resolve
    async for records in pages(store, first, upto):
        for one in records:
            if aware is not None and one.seq > aware:
                break
            if isinstance(one.event, CallStarted) and one.event.effect == "once":
                made[one.event.call_key] = None
                if (tool := resolve(one.event.tool_id)) is not None:
                    made[name_of_all(tool, one.event.parameters, state)] = None
    if made:
        await store.reserve(first, list(made))


async def theirs(run: Run, key: str, *, planned: bool = False) -> Theirs | None:
    """What became of the call in another task, once that is known, and whether another one is made there in its place; None: this one makes it.

    `planned`: what is about to be made here stands in for it. Then it does not matter what is made there in its place, and one that is under
    way as long as that task waits for another is told so: that may wait for this one, and so in a circle.
    """
    store, wait, looks = run.parts.store, FIRST_LOOK_SECS, 0
    taken = await store.take(run.claim, key)
    while taken.task_id != run.task_id:
        found = await _look(run, taken.task_id, key, mended=not planned)
        if found.became == "under way":
            looks += 1
            if (
                planned
                and looks >= LOOKS_AT_ONE_THAT_WAITS
                and await _gives_way(run, taken.task_id, key, looks)
            ):
                return found
            with run.waiting_for_another():
                await run.parts.clock.sleep(wait)
            wait = min(2 * wait, LAST_LOOK_SECS)
        elif found.became == "done" and found.of_call and run.state.has_had(found.of_call):
            # there it stands for what this task has had itself, or has for another call: nobody has made this one
            taken = await store.take(run.claim, key, over=taken)
            continue
        elif found.became == "not made" or run.state.tries_elsewhere.get(key) == (try_of(taken), True):
            # not made there, or somebody has told this task so of this very try
            taken = await store.take(run.claim, key, over=taken)
            continue
        else:
            return found._replace(of_try=try_of(taken))
        taken = await store.take(run.claim, key)
    return None


async def taken_over(run: Run, key: str, found: Theirs) -> bool:
    """Take the call over from whoever has it; False if that one has tried it once more since."""
    store = run.parts.store
    taken = await store.take(run.claim, key)
    if taken.task_id != run.task_id and try_of(taken) == found.of_try:
        taken = await store.take(run.claim, key, over=taken)
    return taken.task_id == run.task_id


def try_of(taken: Taken) -> str:
    """The name of the try that whoever has the call is at."""
    return f"{taken.task_id}#{taken.times}"


async def known_elsewhere(run: Run, key: str) -> Theirs | None:
    """The same of a call that is in doubt here: nothing is taken over, as nothing is made."""
    wait = FIRST_LOOK_SECS
    while (taken := await run.parts.store.take(run.claim, key)).task_id != run.task_id:
        found = await _look(run, taken.task_id, key)
        if found.became == "done" and found.of_call:  # something else stands for it there: nobody has made it
            found = found._replace(became="not made")
        if found.became != "under way":
            return found._replace(of_try=try_of(taken))
        with run.waiting_for_another():
            await run.parts.clock.sleep(wait)
        wait = min(2 * wait, LAST_LOOK_SECS)
    return None


async def driven(run: Run, task_id: str) -> tuple[bool, State]:
    """Whether somebody drives the task, and what it has come to; `TaskNotFound` if it was deleted."""
    if not task_id:
        raise TaskNotFound(task_id)
    # before its log: whoever lets go of it then has written all
    summary = await run.parts.store.summary(task_id)
    state = await logs_of(run).state(task_id, summary.created)
    return summary.held and not state.ended, state


async def waits(run: Run, state: State) -> bool:
    """True if another task has what this one is about to make: whoever waited for what it may yet make in place of a failed call would wait for
    what stands beside that in its step, too, and so in a circle. There is no need to: who makes something in place of a failed call looks
    before it whether others have made that one since."""
    keys = all_under_way(state, run.parts.tools.resolve)
    owners = await run.parts.store.who_has(run.task_id, keys) if keys else {}
    return any(owner not in ("", state.task_id) for owner in owners.values())


async def _gives_way(run: Run, task_id: str, key: str, looks: int) -> bool:
    """True if what stands in for the call of this key is to wait no more for it, as that task waits as well. Where its call stands in for another
    one, too, each may wait for the other: the younger task is the first to give way."""
    try:
        _, state = await driven(run, task_id)
    except TaskNotFound:
        return False
    call, mine = state.latest_try(key), run.state
    stands_in = call is not None and planned_call(
        state, call.step_id, call.slot, key, run.parts.tools.resolve
    )
    elder = (mine.created, mine.task_id) < (state.created, state.task_id)
    return (looks >= LOOKS_OF_THE_ELDER or not (stands_in and elder)) and await waits(run, state)


async def _look(run: Run, task_id: str, key: str, *, mended: bool = False) -> Theirs:
    try:
        held, state = await driven(run, task_id)
    except TaskNotFound:
        return Theirs("", "in doubt")
    if (
        key in state.in_doubt and (said := _said_of(state, key)) is not None
    ):  # which its driver has yet to take in
        return Theirs(
            task_id, "done" if said.happened else "not made", Output(said.output, masked=said.masked)
        )
    became = _became(state, key, driven=held)
    call = state.latest_try(key)
    if became == "not made" and mended and held and call is not None and is_looked_after(state, call):
        # it may be made in other words there
        became = "not made" if await waits(run, state) else "under way"
    done = state.took_effect.get(key)
    if done is None:
        return Theirs(task_id, became)
    return Theirs(task_id, became, done.output, of_call=done.of_call, at=done.took)


def _said_of(state: State, key: str) -> QuestionAnswered | None:
    """What a person has said of a call in doubt: that it took effect, or that it did not."""
    if (known := state.recovery) is None:
        return None
    asked = (name for name, one in known.questions.items() if one.call_key == key)
    said = (known.answers[name] for name in asked if name in known.answers)
    return next((one for one in said if one.happened is not None), None)


def _became(state: State, key: str, *, driven: bool) -> Became:
    if key in state.took_effect:
        return "done"
    call = state.latest_try(key)
    if key in state.in_doubt:
        return "not made" if call is not None and state.waits_for_likes(call) else "in doubt"
    if call is None:
        return "not made"
    if call.status == "running":
        return "under way" if driven else "in doubt"
    if call.status == "retrying" and driven:
        return "under way"
    clean = call.fault is None or call.fault.happened == "no" or state.undone.get(key, 0) > 0
    return "not made" if clean else "in doubt"


class Beyond(NamedTuple):
    """The plan means the effect once more, beyond what another task has made."""

    reason: str


async def refusal(run: Run, step_id: StepId, slot: Slot, key: CallKey, found: Theirs) -> str | Beyond:
    """Why what another task has made does not stand for the call here; empty if it does."""
    step, ledger, base = run.state.steps[step_id], run.state.ledger, base_of(key)
    family = await logs_of(run).all(run.parts.tools.resolve)
    made = family.maker(key)
    if made is None:
        return ""
    _, number = split_key(key)
    if is_meant_again(step.step, slot.action_id) and number not in ledger.elsewhere.get(base, ()):
        meant = run.state.meant_at(step.meant)
        if made.known_at <= meant:
            ledger.elsewhere = {**ledger.elsewhere, base: family.numbers_before(base, meant)}
            return Beyond(f"{found.named} has made this very call, and the plan means it once more")
    return family.why_not(step, slot, key, made)


async def why_not_after(run: Run, step_id: StepId) -> str:
    """Why the step has no effect now: another task of the family has taken back what it comes after. Empty if it may have one."""
    state = run.state
    if step_id in state.counted:
        return ""
    family = await logs_of(run).all(run.parts.tools.resolve)
    if text := family.why_not_after(state.steps[step_id]):
        state.by_kin = family.by_others()
    return text


async def undone_since(run: Run, key: CallKey) -> str:
    """What others have done since about what this call has done, in words; empty if nothing that is no part of this task."""
    family = await logs_of(run).all(run.parts.tools.resolve)
    if text := family.gone_since(key):
        run.state.by_kin = family.by_others()  # nor does it stand for a step of a later plan
    return text


class Copied(NamedTuple):
    """What a call has given in another task, as it is recorded in this one."""

    output: Output
    value: Any
    stored: tuple[NewArtifact, ...] = ()


async def copied(run: Run, found: Theirs) -> Copied:
    """The output of a call that another task has made."""
    output = found.output or Output(None)
    if output.masked:
        run.state.any_lost = True  # from here on it has what no log keeps
    kept = output.artifact
    files = output.files if kept is None or kept.media_type is None else (*output.files, kept)
    stored = [await _copied_file(run, found.task_id, file.artifact_id) for file in files]
    if kept is None:
        value = lost(output.value) if output.masked else output.value
        return Copied(output._replace(value=value), value, tuple(stored))
    if kept.media_type is not None:
        return Copied(output, KeptBytes.of(kept.artifact_id), tuple(stored))
    data = await run.parts.store.artifact(found.task_id, kept.artifact_id)
    value = await read_back(data, masked=output.masked)
    return Copied(output, value, (NewArtifact(kept.artifact_id, data), *stored))


async def _copied_file(run: Run, task_id: str, artifact_id: str) -> NewArtifact:
    """A file of another task for this one: its content is in the store once."""
    store = run.parts.store
    return NewArtifact(artifact_id, kept=await store.keep(store.pieces(task_id, artifact_id)))
