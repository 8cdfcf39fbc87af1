"""Tasks that wait for a person, and of which this process knows secrets: what others say to them is cleared of these at once.

Nobody drives such a task, and who says something, from another process, may not know better.
"""

from __future__ import annotations

from replan.core.state.task import State
from replan.run.human_input.signals import People
from replan.run.session.dependencies import Parts
from replan.run.session.said import clear

_MOST = 1_000
"""Tasks that are listened to; of more the latest."""


class Overhearing:
    """One listener a task, until it ends, or is driven on elsewhere."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._heard: dict[str, People] = {}

    def attend(self, state: State) -> None:
        """The task is driven no more for now."""
        known = self._heard.pop(state.task_id, None)
        if known is not None:
            known.close()
        if state.ended or state.waiting is None or not state.secrets.any:
            return
        task_id = state.task_id
        people = self._heard[task_id] = People(task_id, self._parts)
        people.attend(lambda: clear(self._parts, task_id))
        if len(self._heard) > _MOST:
            self._heard.pop(next(iter(self._heard))).close()

    def close(self) -> None:
        while self._heard:
            self._heard.popitem()[1].close()
