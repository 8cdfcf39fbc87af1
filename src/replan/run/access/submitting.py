"""What becomes of a request before it is a task: its id."""

from __future__ import annotations

import hashlib

from replan.core.events import TaskSubmitted
from replan.core.ids import task_id_problem
from replan.errors import InputError
from replan.ports import EventLog
from replan.run.access.callers import Caller
from replan.run.access.requests import SubmitRequest
from replan.run.following.wanted import PREVIOUS


def own_name(caller: Caller, task_id: str) -> str:
    """The id as the service has it: one that a tenant has chosen stands under its name, so that nobody learns of another's, or
    takes it away."""
    begins = f"{caller.tenant}:"
    return task_id if not caller.tenant or task_id.startswith(begins) else begins + task_id


def chosen_name(caller: Caller, task_id: str | None) -> str | None:
    """The same of an id that is chosen now; `InputError` for what can be none."""
    if task_id is None:
        return None
    if problem := task_id_problem(task_id) or task_id_problem(name := own_name(caller, task_id)):
        raise InputError(problem)
    return name


def named(caller: Caller, request: SubmitRequest, key: str | None) -> SubmitRequest:
    """The request with the id that the caller has chosen, or that this key of the tenant stands for."""
    if key is None and request.task_id is None:
        return request
    if key is None:
        return request.model_copy(update={"task_id": chosen_name(caller, request.task_id)})
    if request.task_id is not None:
        raise InputError("give task_id or an Idempotency-Key, not both: either names the task")
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise InputError("an Idempotency-Key has 1 to 200 printable characters")
    digest = hashlib.sha256(f"{caller.tenant}\n{key}".encode()).hexdigest()
    return request.model_copy(update={"task_id": f"task_{digest[:32]}"})


async def followed(log: EventLog, task_id: str) -> str:
    """The task that a stored one follows, as its request says; empty where it follows none."""
    first = (await log.read(task_id, 0, 1))[0].event
    given = first.context.get(PREVIOUS) if isinstance(first, TaskSubmitted) else None
    return given if isinstance(given, str) else ""
