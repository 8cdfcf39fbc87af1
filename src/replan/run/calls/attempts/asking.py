"""The tool asked, and what an error of it means."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from replan.core.data.strict_json import storable
from replan.core.events import StepProgress
from replan.core.failures.faults import classify
from replan.core.state.task import State
from replan.core.types import VERIFY, Fault, JsonObject
from replan.errors import ToolCallError
from replan.ports import Progress, ToolCall
from replan.run.calls.attempts.retries import Retries
from replan.run.calls.attempts.room import is_held, room_for_output
from replan.run.calls.build import Call, own_copy
from replan.run.calls.by_model import ask_model
from replan.run.calls.in_time import within
from replan.run.calls.sealing import keep
from replan.run.session.context import Run
from replan.run.session.outputs import Packed, packed, with_files_read

MOST_CHARS = 20_000
"""Characters of an error's message that are kept: it stands in several events."""
TELL_SECS = 0.1
"""So much before its time is up a source that keeps the time itself may tell what has become of the call."""


class Asking(Retries):
    """The tool asked, and what an error of it means."""

    __slots__ = ()

    async def _with_files(self, call: Call, given: JsonObject | None) -> JsonObject | None:
        """The parameters with files read that go to a tool which takes none; `given` where there are no such."""
        run = self._run
        parameters = call.parameters if given is None else given
        read = await with_files_read(run, run.task_id, call.tool, parameters, run.state.files)
        return given if read is parameters else read

    async def _packed(self, answer: Any) -> Packed:
        """An answer that takes some thought; whoever stops the run lets it come to its end."""
        self.landing |= {asyncio.current_task()}
        made = await packed(answer, room_for_output(self._run))
        is_held(self._run, made)
        return made

    def _stopped(self) -> bool:
        """True if it is us who have cancelled what runs, or are about to, or whoever ends the event loop."""
        driver = self._driver
        return (
            self._run.stopping
            or self.abandoned
            or (driver is not None and driver.cancelling() > self._cancels)
        )

    def _call(self, call: Call, given: JsonObject | None = None) -> Coroutine[Any, Any, Any]:
        run = self._run
        own = left = None
        if call.tool.timeout_secs is not None or call.step.timeout_secs is not None or call.until is not None:
            own, left = self._limits(call)
        elif self._deadline is not None:
            left = max(0.001, self._deadline - asyncio.get_running_loop().time())
        limit = left if own is None else own if left is None else min(own, left)
        ask = run.parts.ask
        once = call.tool.effect == "once"
        if given is None:
            given = dict(call.parameters) if call.short else own_copy(call.parameters)
        request = ToolCall(
            call.tool.id,
            given,
            call.about if call.tool.id.endswith(VERIFY) else call.key,
            run.task_id,
            call.step.step_id,
            call.attempt,
            None if limit is None else limit - min(TELL_SECS, limit / 4),
            partial(_report, run, call.step.step_id),
            None if ask is None else partial(ask, run.task_id, call.step.step_id),
            effect=call.tool.effect,
            late=partial(run.parts.late.expect, (run.name, call.key)) if once else None,
            keep=partial(keep, run),
            open=run.pieces,
            known_file=run.state.files.get,
            trace=run.state.trace,
            keys_in=_keys_in(call, run.state),
            retries=max(0, self._most_retries(call) - call.retries),
        )
        in_time = own is None or (left is not None and left <= own)  # the task's own deadline stops it
        if call.tool.asks_model:
            return ask_model(run, request, None if in_time else own, self.asked)
        if own is None or in_time:
            return run.parts.tools.call(request)
        return within(own, run.parts.tools.call, request)

    def _fault(self, call: Call, error: Exception) -> Fault:
        """What the error means, without the secrets that its message may quote."""
        self._run.secrets.learn(call.tool, call.parameters)
        now = self._run.parts.clock.now()
        try:
            fault = classify(error, call.tool, now=now)
        except Exception:  # noqa: BLE001 - an exception of somebody else may raise what it likes when it is looked at
            unreadable = ToolCallError(
                f"the tool raised {type(error).__name__}, which cannot be read", happened="unknown"
            )
            fault = classify(unreadable, call.tool, now=now)
        text = storable(self._run.secrets.hide(fault.message))
        if len(text) > MOST_CHARS:
            ends = MOST_CHARS // 2
            text = f"{text[:ends]} …({len(text) - 2 * ends} characters left out)… {text[-ends:]}"
        return fault if text == fault.message else fault.model_copy(update={"message": text})


def _report(run: Run, step_id: str, progress: Progress) -> None:
    run.tell(
        StepProgress(
            step_id=step_id, message=progress.message, progress=progress.progress, total=progress.total
        )
    )


def _keys_in(call: Call, state: State) -> str | None:
    """Where an earlier attempt of the call has relied on its key to be kept."""
    known = state.latest_try(call.key) if call.attempt > 1 else None
    return None if known is None else known.keys_in
