"""Calls in doubt that no step of the plan has, as the plan that was given with a fork leaves them out: what their tools declare is asked all
the same, before a person is, or the task ends."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from replan.core.state.task import State
from replan.core.types import CallKey
from replan.run.calls.attempts import Attempts
from replan.run.calls.slots import Place, Places, PlacesClosed
from replan.run.recovery.doubts import Doubts
from replan.run.session.context import Run


def left_apart(state: State) -> list[CallKey]:
    """The calls in doubt that no step of the plan has."""
    return [key for key, call in state.in_doubt.items() if state.left_with(call) is not None]


async def settle_left(run: Run, keys: Sequence[CallKey], deadline: float | None) -> None:
    """What code can say of these, one after the other. None of them is made again: the plan does without."""
    places = Places(1)
    attempts = Attempts(run, places, deadline)
    doubts = Doubts(run, attempts, attempts.make)
    with contextlib.suppress(PlacesClosed):  # it is to stop
        for key in keys:
            call = run.state.in_doubt.get(key)
            step = run.state.left_with(call) if call is not None else None
            if call is not None and step is not None:
                await doubts.settle(step, call, call.parameters, Place(places), 0.0)
