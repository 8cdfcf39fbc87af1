"""Calls that need not be made: the ledger has what they gave."""

from __future__ import annotations

from replan.core.secrets import holds_lost
from replan.core.state.progress import Output
from replan.run.calls.build import Call
from replan.run.session.context import Run


def recorded(run: Run, call: Call) -> Output | None:
    """The recorded output of this very call, if the ledger has it; None if the call has to be made."""
    entry = run.state.reusable(call.key, call.tool, call.step)
    if entry is None:
        return None
    if entry.output.masked and call.tool.effect != "once" and _is_lost(run, entry.output):
        return None  # it may be had again, with what no log keeps
    return entry.output


def _is_lost(run: Run, output: Output) -> bool:
    if output.artifact is not None:
        return output.artifact.artifact_id not in run.kept
    return holds_lost(output.value)
