"""The right to make one call, which the limits of its tool give: it goes back unless it is used.

It belongs to a block, or to the task that it is handed to: when that ends, however it ends, what is unused goes back.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext

from replan.ports import Gate


class Right:
    """`with`: an unused one goes back at the end, unless a task has it by then. Empty where the tool has no limits."""

    __slots__ = ("_gate", "_handed_on")

    def __init__(self, gate: Gate | None = None) -> None:
        self._gate = gate
        self._handed_on = False

    def granted(self, gate: Gate) -> None:
        """The gate has let the call in."""
        self._gate = gate

    def belongs_to(self, task: asyncio.Task[None]) -> None:
        """Goes back when this task ends; one that is cancelled before it has begun does nothing at all."""
        if self._gate is not None:
            self._handed_on = True
            task.add_done_callback(self._goes_back)

    def moved(self) -> Right:
        """The same for another call in the place of this one."""
        gate, self._gate = self._gate, None
        return Right(gate)

    def used(self) -> AbstractContextManager[None]:
        """`with`: the call is made inside."""
        gate, self._gate = self._gate, None
        return _FREE if gate is None else _Made(gate)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """The block ends."""
        if not self._handed_on:
            self._goes_back()

    def _goes_back(self, _: object = None) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.give_back()


class _Made:
    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        self._gate.begin()

    def __exit__(self, *_: object) -> None:
        self._gate.leave()


_FREE = nullcontext()
