"""Tasks that go on from an event of another."""

from __future__ import annotations

from typing import ClassVar, Literal

from replan.core.events.event import Event
from replan.core.ids import canonical, digest
from replan.core.limits.policy import Policy
from replan.core.types import JsonObject, StepId
from replan.errors import InputError


class TaskForked(Event):
    """Up to here the history is that of another task, shared with it; from here on it is the task's own.

    What is given goes on otherwise: by another policy, with other tools and models, by another plan, with a hint.
    """

    type: Literal["task_forked"] = "task_forked"
    origin: str
    """The task that it was forked from."""
    at: int
    """The last event of it that is shared."""
    root: str
    """The task that the first of their line was: the keys of calls are made of its id, so that each is known in all of them."""
    by: str = ""
    reason: str = ""
    hint: str = ""
    """For the next reflection or plan."""
    policy: Policy | None = None
    plan: JsonObject | None = None
    """A plan given by the caller, in place of the one that there is."""
    tools: tuple[str, ...] | None = None
    settings: JsonObject | None = None
    retry: tuple[StepId, ...] = ()
    """Failed steps that are due again."""
    judge: bool = False
    """What was done is judged anew."""
    since: tuple[str, ...] = ()
    """Effects that the other task had had by then after that event, in words: for whoever plans on."""

    def request(self) -> str:
        """What was asked, in one digest."""
        return digest(
            canonical(self.model_dump(mode="json", exclude={"settings", "tools", "since", "masked"}))
        )

    def check_place(self, last: int, *, ended: bool) -> None:
        """`InputError` unless there is such an event of the other task, which has so many, to go on from."""
        most = last - 1 if ended else last
        if not 1 <= self.at <= most:
            end = f" (number {last} is its end)" if ended else ""
            raise InputError(
                f"task {self.origin!r} has the events 1 to {most} to fork from, not {self.at}{end}"
            )


class ForkMade(Event):
    """Another task goes on from an event of this one."""

    signal: ClassVar[bool] = True
    type: Literal["fork_made"] = "fork_made"
    fork: str
    at: int
    by: str = ""
    reason: str = ""
