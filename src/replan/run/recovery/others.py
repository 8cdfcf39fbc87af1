"""Whose the records are that a declared verifier finds: what the other calls of the task gave, and which it looks for alike."""

from __future__ import annotations

from typing import Any

from replan.core.calls import claims, verify
from replan.core.calls.things import things_of
from replan.core.ids import canonical
from replan.core.state.task import CallState
from replan.core.types import ToolSpec, Verifier
from replan.run.session.context import Run


class Others:
    """The other calls of a task, beside one in doubt that the verifier of its tool looks for."""

    __slots__ = ("_call", "_run", "_tool", "_verifier")

    def __init__(self, run: Run, call: CallState, tool: ToolSpec, verifier: Verifier) -> None:
        self._run, self._call, self._tool, self._verifier = run, call, tool, verifier

    def unclaimed(self, found: list[verify.Found], *, keyed: bool) -> list[verify.Found]:
        """The records that speak for no other call. `keyed`: they were found by the call's key."""
        state, call = self._run.state, self._call
        taken = [record for key, record in state.records.items() if key != call.key]
        if keyed:
            return claims.unclaimed(found, taken, ())
        others = [one for one in state.took_effect.values() if one.key not in state.records]
        given = [_output(one) for one in others if self._is_like(one)]
        things = things_of(call.parameters)
        foreign = [
            _output(one)
            for one in others
            if one.tool_id != call.tool_id
            and not self._is_like(one)
            and (not one.parameters or not call.parameters or things.meet(things_of(one.parameters)))
        ]
        found = claims.without_others(found, call.parameters, foreign)
        if self._verifier.happened:
            return claims.unclaimed(found, taken, given)
        # a function gives what the call has given; what tells something of another call is known by it
        told = {
            canonical(output)
            for one in others
            if one.tool_id == call.tool_id and one.key != call.key
            if isinstance(output := _output(one), dict | list) and output
        }
        left = [one for one in found if one.record not in taken and canonical(one.output) not in told]
        whose = [claims.is_anothers(one.output, given) for one in left]
        if None in whose:
            raise verify.CannotTell("what it finds may be a like call's, which has succeeded by itself")
        return [one for one, anothers in zip(left, whose, strict=True) if not anothers]

    def under_way(self) -> int:
        """Like calls that run now: a record may be theirs."""
        return sum(self._is_like(one) for one in self._run.state.running_calls())

    def _is_like(self, other: CallState) -> bool:
        """True if the verifier finds of the other call what it finds of this one."""
        call, theirs = self._call, self._tool
        if other.key == call.key:
            return False
        if other.tool_id != call.tool_id:
            found = self._run.parts.tools.resolve(other.tool_id)
            if found is None or found.verify is None or not claims.look_alike(self._verifier, found.verify):
                return False
            theirs = found
        mine = verify.call_value(call.key, self._tool, call.parameters)
        return claims.is_like(self._verifier, mine, verify.call_value(other.key, theirs, other.parameters))


def _output(call: CallState) -> Any:
    return call.output.value if call.output is not None else None
