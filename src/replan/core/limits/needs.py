"""What a task asks of the process that drives it, when any of several may: the queue that it waits in."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from pydantic import Field, ValidationError

from replan.core.types import Frozen, JsonObject

DEFAULT_QUEUE = "default"
FORKS = "replan:forks"
"""Beside the tools of a fork: what a worker has that knows forks. One of an older release would take it for an empty task."""
ANY_TOOL = "*"
"""Among the tools that a task may call unasked: whichever a later plan of it takes, as nobody knows which there were."""
WORK = "work"
"""Where a submission's `settings` have it."""


_QUOTES = '"'


class Needs(Frozen):
    """The tools that a task may call and the models that it asks; or those that a worker has."""

    tools: tuple[str, ...] = ()
    models: dict[str, str] = {}
    """By role."""
    endpoint: str | None = None
    answer: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """The type whose validators its answer has to pass (`run.service.typed`)."""
    answers: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Those that a worker could import, of the ones that it was asked for."""
    unasked: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Tools that a task which was begun where nobody is asked may call without a person's yes."""
    approval: str = Field(default="never", exclude_if=lambda value: value == "never")
    """To which calls a yes is wanted by what it was begun with."""
    asks: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Those to whose calls a worker's configuration wants one."""

    def missing(self, offers: Needs) -> Iterator[str]:
        """What of it the offers do not have, in words."""
        there = frozenset(offers.tools)
        for tool in self.tools:
            if tool not in there:
                yield "a release of Replan that knows forks" if tool == FORKS else f"the tool {tool!r}"
        others: dict[str, list[str]] = {}
        for role, name in self.models.items():
            if offers.models.get(role) != name:
                others.setdefault(name, []).append(role)
        for name, roles in others.items():
            what = f"the model {name!r}" if name else f"the model of {self.endpoint or 'its endpoint'}"
            every = len(roles) == len(self.models) > 1
            yield what if every else f"{what} ({', '.join(roles)})"
        if self.answer is not None and self.answer not in offers.answers:
            yield f"the type of its answer, {self.answer.strip(_QUOTES)}"
        if self.models and not others and self.endpoint != offers.endpoint:
            yield (
                f"the endpoint {self.endpoint}"
                if self.endpoint
                else "models without an endpoint of their own"
            )

    def asked_by(self, offers: Needs) -> list[str]:
        """Tools that it would call without a person's yes, and to whose calls one is wanted there."""
        if ANY_TOOL in self.unasked:
            return list(offers.asks)
        return [tool for tool in self.unasked if tool in offers.asks]

    def met_by(self, offers: Needs) -> bool:
        return next(self.missing(offers), None) is None and not self.asked_by(offers)


class Work(Frozen):
    """How a task waits for a worker."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher comes first."""
    needs: Needs = Needs()
    tells_unasked: bool = Field(default=False, exclude_if=lambda value: not value)
    """The needs name all that it may call unasked, be that nothing. An earlier release did not look."""

    @property
    def line(self) -> str:
        """Tasks of one queue that need the same wait in one line: who may take one of them may take each."""
        models = dict(sorted(self.needs.models.items()))  # they are the same in whatever order
        needs = self.needs.model_copy(update={"models": models}).model_dump_json()
        return f"{self.queue}:{hashlib.sha256(needs.encode()).hexdigest()[:16]}"


def work_of(settings: JsonObject) -> Work | None:
    """How a task with these settings waits for a worker; None: it is driven by whoever has submitted it."""
    given = settings.get(WORK)
    if given is None:
        return None
    try:
        return Work.model_validate(given)
    except ValidationError:  # of another release
        return Work()


def lines_for(offers: Needs, queues: Collection[str], lines: dict[str, Needs]) -> list[str]:
    """Those lines that a worker of these queues (none: of all) may take tasks from."""
    return [
        line
        for line, needs in lines.items()
        if (not queues or line.rpartition(":")[0] in queues) and needs.met_by(offers)
    ]
