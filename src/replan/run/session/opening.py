"""How a drive gets its task: claimed, its log read and folded; and how it gives it back."""

from __future__ import annotations

import contextlib

from replan.beside import beside
from replan.core.data.pieces import AT_ONCE, MANY, PLAN_AT_ONCE, weight
from replan.core.events import AnyEvent, Record, TaskForked, TaskResumed, TaskStarted, TaskSubmitted, misread
from replan.core.secrets import KnownSecrets, is_said, lost
from replan.core.state.fold import fold
from replan.core.state.task import State, TaskName
from replan.errors import ReplanError, StoreUnusable
from replan.ports import Claim
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts
from replan.run.session.known_secrets import known_to, may_hold_secrets
from replan.run.session.library_logs import keep_from_logs
from replan.run.session.pages import PAGE, pages
from replan.run.session.said import seen_in
from replan.run.session.shielding import see_through


class Claimed:
    """`async with`: the claimed task, its log folded. At the end what is recorded is written, and the task given back.

    Written out, since a task that waits holds it: a generator and what makes it one take ten times as much.
    """

    __slots__ = ("_parts", "_run", "_steal", "_task_id")

    def __init__(self, task_id: str, parts: Parts, *, steal: bool = False) -> None:
        self._task_id = task_id
        self._parts = parts
        self._steal = steal

    async def __aenter__(self) -> Run:
        parts = self._parts
        claim = await parts.store.claim(self._task_id, steal=self._steal)
        try:
            run = self._run = await _read(claim, parts)
        except BaseException:
            await see_through(_release(parts, claim))
            raise
        parts.under_way.begins(run.task_id, run.standing, run.secrets)
        return run

    async def __aexit__(self, *_: object) -> None:
        parts, run = self._parts, self._run
        try:
            parts.under_way.ends(run.task_id)
            await see_through(run.close())
        finally:
            await see_through(_release(parts, run.claim))


async def _read(claim: Claim, parts: Parts) -> Run:
    task_id = claim.task_id
    records = await parts.store.read(task_id, 0, PAGE)
    _check_read(records, parts)
    created = records[0].ts if records else 0.0
    if len(records) == PAGE or any(isinstance(one.event, TaskForked) for one in records):
        created = (await parts.store.summary(task_id)).created  # a fork's first event is another task's
    name = TaskName(task_id, created)
    records = await _as_said(name, parts, records)
    light = name in parts.light
    passed = parts.light.pop(name, None)
    large = len(records) > MANY or any(
        weight(one.event.plan, PLAN_AT_ONCE) > PLAN_AT_ONCE
        for one in records[:1]
        if isinstance(one.event, TaskSubmitted) and not light
    )
    aside = large or any(_tells_much(one.event) for one in records[:1])
    state = await beside(_opened, name, parts, records) if aside else _opened(name, parts, records)
    if len(records) == PAGE:
        async for more in pages(parts.store, task_id, records[-1].seq):
            _check_read(more, parts)
            more = await _as_said(name, parts, more)
            await beside(_folded_on, more, state)
    run = Run(parts, claim, state)
    run.large, run.passed = large, passed
    if run.state.policy.interactive or len(records) > 1 or may_hold_secrets(parts.tools):
        run.state.seal_key = await parts.store.seal_key()
    return run


async def _as_said(name: TaskName, parts: Parts, records: list[Record]) -> list[Record]:
    """The records with what was said here as it was said, with its secrets."""
    await parts.given.all_said(name.task_id)
    return parts.given.as_said(name, records)


async def _release(parts: Parts, claim: Claim) -> None:
    with contextlib.suppress(ReplanError):
        await parts.store.release(claim)


def _tells_much(event: AnyEvent) -> bool:
    """True for a request that is gone through beside the loop for its secrets: they may be files with many."""
    return isinstance(event, TaskSubmitted) and (
        bool(event.secrets) or weight([event.metadata, event.context], AT_ONCE) > AT_ONCE
    )


def _opened(name: TaskName, parts: Parts, records: list[Record]) -> State:
    """The state that a log comes to, with what is known to be secret."""
    state = State()
    if not records or not isinstance(first := records[0].event, TaskSubmitted):
        state.secrets = KnownSecrets(parts.secrets)
    else:
        whole = parts.given.restored(name, first)
        state.secrets = known_to(whole, parts.tools, parts.secrets)
        keep_from_logs(state.secrets)
        seen = state.secrets.masked_event(whole)
        state.any_lost = first.masked
        fold([records[0]._replace(event=seen)], state)
        records = records[1:]
    return _folded_on(records, state)


def _folded_on(records: list[Record], state: State) -> State:
    """The state with what comes next in its log."""
    if state.submitted is not None and any(one.event.masked for one in records):
        state.any_lost = True
        records = [one._replace(event=lost(one.event)) if one.event.masked else one for one in records]
    for one in records:
        state.secrets.add_all(seen_in(one.event))
    if state.secrets.any:
        records = [one if not is_said(one.event) else _said(one, state) for one in records]
    return fold(records, state)


def _said(record: Record, state: State) -> Record:
    """What was said where nobody knew that a secret is in it."""
    seen = state.secrets.masked_event(record.event)
    if seen is record.event:
        return record
    state.said_in_clear = True
    return record._replace(event=seen)


def _check_read(records: list[Record], parts: Parts) -> None:
    """Raise if one of them cannot be read for what it is."""
    if odd := next((one for one in records if misread(one.event)), None):
        by = next(
            (
                one.event.version
                for one in reversed(records)
                if isinstance(one.event, TaskStarted | TaskResumed)
            ),
            "",
        )
        whose = (
            f" (it was driven with Replan {by}, and this is {parts.version})"
            if by not in ("", parts.version)
            else ""
        )
        raise StoreUnusable(
            f"task {odd.task_id!r} is not driven: number {odd.seq} of its log ({odd.type}) cannot be read, so that what was done "
            f"might be done again; drive it with the release of Replan that has written it{whose}"
        )
