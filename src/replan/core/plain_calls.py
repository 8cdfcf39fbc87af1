"""Plain calls as the log takes them: one value for the two events that it stands for, neither of which has to be made.

A plain call is the only one of its step, made for the first time, and ends well: so are most. What is recorded of it is
`step_started` with `call_started`, and `call_completed` with `step_completed`; the log has these, and nobody who reads it
meets what is here.
"""

from __future__ import annotations

from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pydantic_core import to_json

from replan.core import events as e
from replan.core.types import CallKey, Effect, JsonObject, StepId, ToolId, unchecked


class _Start(NamedTuple):
    step_id: StepId
    call_key: CallKey
    tool_id: ToolId
    effect: Effect
    parameters: JsonObject


class _End(NamedTuple):
    step_id: StepId
    call_key: CallKey
    tool_id: ToolId
    output: Any
    duration_secs: float


class PlainStart(_Start):
    """A step and its only call begin."""

    __slots__ = ()
    stored: ClassVar[bool] = True
    signal: ClassVar[bool] = False

    def events(self) -> list[e.AnyEvent]:
        """The two events that this is."""
        return [
            _step_started(step_id=self.step_id),
            _call_started(
                call_key=self.call_key,
                step_id=self.step_id,
                tool_id=self.tool_id,
                effect=self.effect,
                parameters=self.parameters,
            ),
        ]

    def text(self) -> str:
        """The same as `dump_together` writes them, without the brackets around. Ids of steps and keys are plain words."""
        step = self.step_id
        return (
            f'["step_started",{{"step_id":"{step}","items":null}}],["call_started",{{"call_key":"{self.call_key}","step_id":"{step}",'
            f'"action_id":null,"index":null,"attempt":1,"tool_id":{encode_basestring(self.tool_id)},"effect":"{self.effect}",'
            f'"parameters":{_json(self.parameters)}}}]'
        )


class PlainEnd(_End):
    """A plain call has given its output, and with that its step has succeeded."""

    __slots__ = ()
    stored: ClassVar[bool] = True
    signal: ClassVar[bool] = False

    def events(self) -> list[e.AnyEvent]:
        """The two events that this is."""
        return [
            _call_completed(
                call_key=self.call_key,
                step_id=self.step_id,
                tool_id=self.tool_id,
                output=self.output,
                duration_secs=self.duration_secs,
            ),
            _step_completed(step_id=self.step_id, metadata={}),
        ]

    def text(self) -> str:
        """As above."""
        step, output = self.step_id, self.output
        return (
            f'["call_completed",{{"call_key":"{self.call_key}","step_id":"{step}","action_id":null,"index":null,"attempt":1,'
            f'"tool_id":{encode_basestring(self.tool_id)},"output":{output if type(output) is int else _json(output)},"artifact":null,'
            f'"reused":false,"of_task":"","duration_secs":{self.duration_secs!r}}}],'
            f'["step_completed",{{"step_id":"{step}","metadata":{{}},"failed_items":[]}}]'
        )


Recorded: TypeAlias = e.AnyEvent | PlainStart | PlainEnd
"""What is put into a log."""
_PLAIN = (PlainStart, PlainEnd)
PLAIN = frozenset(_PLAIN)
EVENTS_OF_ONE = 2
"""How many events each of them is."""

_step_started, _call_started = unchecked(e.StepStarted), unchecked(e.CallStarted)
_call_completed, _step_completed = unchecked(e.CallCompleted), unchecked(e.StepCompleted)


def spelled_out(recorded: Iterable[Recorded]) -> list[e.AnyEvent]:
    """Every event by itself."""
    found: list[e.AnyEvent] = []
    for one in recorded:
        if isinstance(one, _PLAIN):
            found += one.events()
        else:
            found.append(one)
    return found


def dump_together(recorded: Iterable[Recorded]) -> str:
    """All of it as one JSON text, a list of `[type, data]`."""
    parts = [one.text() if isinstance(one, _PLAIN) else e.dump_pair(one) for one in recorded]
    return f"[{','.join(parts)}]"


def _json(value: Any) -> str:
    return to_json(value, inf_nan_mode="null").decode()
