"""What a call has given: recorded, or taken from the ledger."""

from __future__ import annotations

import time
from typing import Any

from replan.core.events import CallCompleted
from replan.core.plain_calls import PlainEnd
from replan.core.secrets import reveal_known
from replan.core.state.task import Output
from replan.core.types import JsonObject, ToolSpec, unchecked
from replan.run.calls.attempts.beginning import Beginning
from replan.run.calls.attempts.recorded import recorded
from replan.run.calls.build import Call
from replan.run.calls.sealing import may_be_sealed
from replan.run.session.outputs import Packed, Sealed, added_metadata

_call_completed = unchecked(CallCompleted)


class Outputs(Beginning):
    """What a call has given: recorded, or taken from the ledger."""

    __slots__ = ()

    def _says_nothing_secret(self, tool: ToolSpec) -> bool:
        """True if no output of the tool holds a secret: `may_be_sealed`, asked once for each tool."""
        if self._run.secrets.any:
            return False
        if self._open is not tool:
            if may_be_sealed(self._run, tool):
                return False
            self._open = tool
        return True

    def _completed(self, call: Call, packed: Packed, started: float) -> JsonObject | PlainEnd:
        secs, parts = time.perf_counter() - started, self._run.parts
        parts.record.count(call.tool, secs, memory=parts.store)
        sealed = isinstance(packed, Sealed)
        if call.plain and not (packed.artifact or packed.files or sealed or call.tool.output_params):
            return tuple.__new__(PlainEnd, (call.step.step_id, call.key, call.tool.id, packed.value, secs))
        if call.about:
            call.answer = reveal_known(packed.value) if sealed else packed.value
        self._run.record(
            _call_completed(
                **call.labels(),
                output=None if packed.artifact else packed.value,
                artifact=packed.artifact,
                files=packed.files,
                duration_secs=secs,
                masked=sealed,
            ),
            artifacts=packed.new,
        )
        return added_metadata(call.tool, packed.value)

    def known(self, call: Call) -> Output | None:
        """The recorded output of this very call, if the ledger has it; None if the call has to be made."""
        return recorded(self._run, call)

    def reuse(self, call: Call, output: Output, value: Any) -> JsonObject:
        """Take the recorded output for this call. `value`: what the output holds, where metadata come from it."""
        self._run.record(
            CallCompleted(
                **call.labels(),
                output=output.value,
                artifact=output.artifact,
                files=output.files,
                reused=True,
                masked=output.masked,
            )
        )
        return added_metadata(call.tool, value)
