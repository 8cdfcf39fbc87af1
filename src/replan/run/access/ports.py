"""What the use cases need beside the store: somebody who drives tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pydantic import SecretStr

from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.service.forking import Forking
from replan.run.service.submission import Submission


class Load(NamedTuple):
    """How busy this process is."""

    running: int
    queued: int
    """Tasks that wait for a place here; 0 where workers drive."""
    places: int
    most_queued: int


class Driver(Protocol):
    """Drives tasks here, or hands them to workers."""

    async def request(self, wanted: SubmitRequest, *, tenant: str, by: str) -> Submission:
        """The request as this service makes a task of it: its settings, tools and limits; `InputError` says what cannot be."""
        ...

    async def submit(self, wanted: Submission) -> tuple[str, bool]:
        """Store the task and have it driven; its id, and whether it is new."""
        ...

    async def fork(self, origin: str, wanted: Forking, options: SubmitOptions) -> tuple[str, bool]:
        """Store the fork and have it driven; its id, and whether it is new."""
        ...

    async def go_on(self, task_id: str) -> None:
        """Have the task driven, if nobody does and it does not wait."""
        ...

    async def cancel(self, task_id: str, reason: str, by: str) -> None: ...
    async def unpause(
        self, task_id: str, reason: str, by: str, secrets: Mapping[str, SecretStr] | None = None
    ) -> None:
        """`secrets`: of the request, for a process that was not given them; `SecretsMissing` says which it lacks."""
        ...

    async def ended(self, task_id: str) -> None:
        """Wait until the task has ended, or waits for a person."""
        ...

    def load(self) -> Load: ...
