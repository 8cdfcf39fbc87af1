"""Effects that are very like one that an earlier plan has had: the same values, by another tool or with a word more."""

from __future__ import annotations

from typing import Any

from replan.core.state.progress import CallState
from replan.core.state.task import State

_MOST_EFFECTS = 100
"""Of tasks with more effects nothing is said: each would have to be compared with each."""
_MOST_VALUES = 20


def like_before(state: State, call: CallState) -> CallState | None:
    """The effect of an earlier plan that this call may have had again in other words; None if there is none.

    It is so where all values of the one stand among those of the other. Whether that is meant, whoever judges says.
    """
    if call.effect != "once" or not 1 < len(state.took_effect) <= _MOST_EFFECTS:
        return None
    mine = _values(call.parameters)
    earlier = (one for one in state.took_effect.values() if one.plan < call.plan and one.key != call.key)
    for other in earlier:
        theirs = _values(other.parameters)
        enough = 1 if other.tool_id == call.tool_id or mine == theirs else 2
        if len(mine & theirs) >= enough and (mine <= theirs or theirs <= mine):
            return other
    return None


def _values(value: Any) -> frozenset[str]:
    found: set[str] = set()
    left = [value]
    while left and len(found) < _MOST_VALUES:
        item = left.pop()
        if isinstance(item, dict):
            left += item.values()
        elif isinstance(item, list):
            left += item
        elif isinstance(item, str) and item.strip():
            found.add(" ".join(item.split()).casefold())
        elif isinstance(item, int | float) and not isinstance(item, bool):
            found.add(f"{item:g}" if isinstance(item, float) else str(item))
    return frozenset(found)
