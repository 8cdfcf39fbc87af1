"""A task's events as they come, until it stands still: it has ended, or goes on only once somebody does something."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic_core import from_json, to_json

from replan.core.events import Record
from replan.core.state.task import ENDED
from replan.core.types import JsonObject
from replan.run.access.callers import Caller, reader
from replan.run.access.shown import Showing, shown
from replan.run.access.views import TaskView
from replan.server.auth.credentials import Credentials
from replan.server.shared import Shared

MAY_STAND = frozenset(
    {
        "approval_requested",
        "approval_resolved",
        "plan_review_requested",
        "plan_reviewed",
        "question_asked",
        "question_answered",
        "task_waiting",
    }
)
"""Events after which it may wait for others than before."""
BY_ITSELF = frozenset({"time"})
"""Waits of a task that end without anybody."""


@dataclass(frozen=True)
class _Json:
    how: Showing

    def __call__(self, record: Record) -> bytes:
        return to_json(shown(record, self.how), inf_nan_mode="null")


def stands(task: TaskView) -> bool:
    """Whether nothing comes of it without somebody."""
    if task.status in ENDED:
        return True
    return task.status == "waiting" and not {one.kind for one in task.waiting_for} <= BY_ITSELF


async def events_until_it_stands(
    here: Shared, caller: Caller, credentials: Credentials, task_id: str, after: int = 0
) -> AsyncIterator[list[JsonObject]]:
    """The events after that one, some at a time; none: a sign of life is due. It ends also when the process does; `NotSignedIn` once the caller is
    known no more.
    """
    caller = reader(caller)
    row = await here.use_cases.may_watch(caller, task_id)
    how = Showing(here.settings.response.mode, light=True)
    with contextlib.ExitStack() as open_:
        open_.enter_context(here.holding.place(caller))
        watching = here.hub.watch(row, after, _Json(how))
        watcher = open_.enter_context(here.staying.while_known(credentials, watching))
        heard = after
        while True:
            task = await here.use_cases.task(caller, task_id)
            if stands(task) and heard >= task.last_seq:
                return
            looked = False
            while not looked:
                frames = await watcher.next()
                if frames is None:
                    if not here.leaving.now:
                        await here.signed(credentials)  # says why
                    return
                events: list[JsonObject] = [from_json(frame) for frame in frames]
                heard = max([heard, *(event["seq"] for event in events)])
                yield events
                # All that there was when it was seen to stand is told first.
                looked = heard >= task.last_seq and (
                    stands(task) or any(event["type"] in MAY_STAND for event in events)
                )
