"""Steps that wait for a person's yes: asked for once each, and due again when somebody has spoken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from replan.core.again.consent import is_asked_for
from replan.core.calls.seals import seals_of
from replan.core.events import ApprovalExpired, ApprovalRequested
from replan.core.ids import canonical
from replan.core.secrets import MASK
from replan.core.types import JsonObject, StepId
from replan.core.walk import scalars
from replan.run.calls.build import Call
from replan.run.calls.shown import shown
from replan.run.calls.slots import Host, Place, Places
from replan.run.human_input.origins import origins_of
from replan.run.session.context import Run
from replan.run.session.outputs import pack

_NO_LIMIT = 2**62
_MOST_OF_AN_ITEM = 1_000
"""Characters of an item that are shown beside the parameters that are made of it."""


class Parking:
    """The parked steps of one pass. `due` is told of each that can go on."""

    __slots__ = ("_due", "_ending", "_heard", "_host", "_places", "_run", "_timers", "_waiting")

    def __init__(self, run: Run, places: Places, host: Host, due: Callable[[StepId], None]) -> None:
        self._run = run
        self._due = due
        self._places = places
        self._host = host
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """By the key of the call: when nobody is waited for any longer."""
        self._ending: set[str] = set()
        """Calls whose end by time is on its way."""
        self._waiting: dict[StepId, set[str]] = {}
        """Step → the keys of its calls that wait."""
        self._heard: dict[StepId, set[str]] = {}
        """Step → what it was told of already."""

    def park(self, step_id: StepId, calls: list[Call]) -> None:
        """Ask for what has not been asked for, and wait; what was answered meanwhile is due at once."""
        run = self._run
        for call in calls:
            if not is_asked_for(run.state, call.key, call.step.step_id, call.slot):
                self._ask(call)
        self._waiting[step_id] = {call.key for call in calls}
        self._look_at(step_id)

    def _ask(self, call: Call) -> None:
        """Show the call: secrets masked, a large value cut and kept beside, where a person can see all of it."""
        run, tool = self._run, call.tool
        limit = run.state.policy.max_output_bytes
        seen = run.secrets.masked(shown(tool, call.parameters, limit, run.secrets))
        whole = run.secrets.masked(shown(tool, call.parameters, _NO_LIMIT, run.secrets))
        large = {name: pack(whole[name], 0) for name, value in seen.items() if value != whole[name]}
        run.record(
            ApprovalRequested(
                approval_id=run.parts.ids.new("appr"), call_key=call.key, step_id=call.step.step_id,
                action_id=call.slot.action_id, index=call.slot.item, tool_id=tool.id, effect=tool.effect,
                parameters=seen, parameters_schema=tool.parameters,
                seals=seals_of(run.state.seal_key, tool.id, call.parameters, seen),
                kept={name: one.stored.artifact_id for name, one in large.items() if one.stored is not None},
                item=self._item_of(call, whole), why=call.why_asked, origin=origins_of(call, run.state, run.parts.tools), expires=self._until(),
            ),
            artifacts=[one.stored for one in large.values() if one.stored is not None],
        )  # fmt: skip

    def _until(self) -> float | None:
        secs = self._run.state.policy.approval_expires_secs
        return None if secs is None else self._run.now() + secs

    def _item_of(self, call: Call, whole: JsonObject) -> Any:
        """What the call is made for, as it may be seen. `whole`: the parameters as they may be seen."""
        if call.slot.item is None:
            return None
        hidden = set(scalars(call.parameters)).difference(scalars(whole))  # however short they are
        seen = _without(self._run.secrets.masked(call.item), hidden)
        text = canonical(seen)
        return seen if len(text) <= _MOST_OF_AN_ITEM else f"{text[:_MOST_OF_AN_ITEM]}…"

    def look(self) -> None:
        """See who has been answered. A call that waits although it was answered before would wait for ever."""
        for step_id in list(self._waiting):
            self._look_at(step_id)

    def _look_at(self, step_id: StepId) -> None:
        known = self._run.state.recovery
        answered = known.approvals if known is not None else {}
        heard = {key for key in self._waiting[step_id] if key in answered}
        if heard & self._heard.get(step_id, set()):
            raise RuntimeError(f"step {step_id!r} waits for an approval that was given")
        if heard:
            self._heard.setdefault(step_id, set()).update(heard)
            self.forget(step_id)
            self._due(step_id)
            return
        for key in self._waiting[step_id]:
            asked = known.asked.get(key) if known is not None else None
            if asked is not None and asked.expires is not None and key not in self._ending:
                self._await_end(step_id, asked, asked.expires)

    def _await_end(self, step_id: StepId, asked: ApprovalRequested, expires: float) -> None:
        left, key = expires - self._run.now(), asked.call_key
        if left <= 0:
            self._ending.add(key)
            step = self._run.state.steps[step_id]
            self._host.spawn(step, self._runs_out(step_id, asked), Place(self._places))
            return

        def look() -> None:
            self._timers.pop(key, None)
            if step_id in self._waiting and not self._places.closed:
                self._look_at(step_id)
            self._host.look_idle()

        if (before := self._timers.pop(key, None)) is not None:
            before.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(left, look)

    async def _runs_out(self, step_id: StepId, asked: ApprovalRequested) -> None:
        """By time alone, if the log has nothing that was not heard: what was said before counts, however late it is noticed."""
        key, ended = asked.call_key, False
        event = ApprovalExpired(
            approval_id=asked.approval_id, call_key=key, step_id=asked.step_id, action_id=asked.action_id, index=asked.index,
        )  # fmt: skip
        try:
            while not ended and self._is_open(step_id, key):
                ended = await self._run.decided(event)
        finally:
            self._ending.discard(key)
        if ended and step_id in self._waiting:
            self.forget(step_id)
            self._due(step_id)

    def _is_open(self, step_id: StepId, key: str) -> bool:
        known = self._run.state.recovery
        asked = known is not None and key in known.asked and key not in known.approvals
        return (
            asked
            and key in self._waiting.get(step_id, ())
            and not (self._places.closed or self._run.stopping)
        )

    def soon(self, within: float) -> bool:
        """True if somebody's time is up within so many seconds."""
        until = asyncio.get_running_loop().time() + within
        return any(timer.when() <= until for timer in self._timers.values())

    def close(self) -> None:
        """Look at nothing any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def forget(self, step_id: StepId) -> None:
        """The step is looked at again for another reason."""
        for key in self._waiting.pop(step_id, ()):
            if (timer := self._timers.pop(key, None)) is not None:
                timer.cancel()

    def requests(self) -> list[ApprovalRequested]:
        """What is still asked for."""
        known = self._run.state.recovery
        if known is None or not self._waiting:
            return []
        keys = set().union(*self._waiting.values())
        return [one for one in known.open_approvals() if one.call_key in keys]


def _without(value: Any, hidden: set[str]) -> Any:
    """The value with these texts and numbers masked."""
    if isinstance(value, dict):
        return {name: _without(one, hidden) for name, one in value.items()}
    if isinstance(value, list):
        return [_without(one, hidden) for one in value]
    return MASK if hidden and hidden.intersection(scalars(value)) else value
