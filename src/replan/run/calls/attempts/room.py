"""How much of its outputs a task holds in memory: once that is much, what is not small is kept beside the log.

An output over the task's limit is kept so anyway. Thousands just under it, as a `for_each` may give, would all be in memory, as long as
the task is.
"""

from __future__ import annotations

from replan.core.data.pieces import weight
from replan.run.session.context import Run
from replan.run.session.outputs import Packed

MOST_HELD = 32_000_000
"""Characters of outputs that are held, before the limit gets smaller."""
SMALL = 4_096
"""Bytes of an output that is held even then."""


def room_for_output(run: Run) -> int:
    """Bytes up to which the next output of the task stands in its log."""
    if run.outputs_held is None:  # a drive has just begun: what was given before is held again
        calls = (call for step in run.state.every_step() for call in step.calls.values())
        run.outputs_held = sum(weight(call.output.value) for call in calls if call.output is not None)
    most = run.state.policy.max_output_bytes
    return most if run.outputs_held < MOST_HELD else min(most, SMALL)


def is_held(run: Run, output: Packed) -> None:
    """Count an output that stands in the log."""
    if output.artifact is None and run.outputs_held is not None:
        run.outputs_held += weight(output.value)
