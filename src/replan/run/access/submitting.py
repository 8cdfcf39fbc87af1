"""What becomes of a request before it is a task: its id."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable

from replan.core.events import TaskSubmitted
from replan.core.ids import TENANT, task_id_problem
from replan.errors import InputError
from replan.ports import EventLog
from replan.run.access.callers import Caller
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.following.wanted import PREVIOUS
from replan.run.service.submission import Submission

IsThere = Callable[[str], Awaitable[bool]]
"""Whether the caller has a task of just that id."""
_UNDER_A_TENANT = re.compile(f"{TENANT}:", re.ASCII)


def own_name(caller: Caller, task_id: str) -> str:
    """The id as the service has it: one that a tenant has chosen stands under its name, so that nobody learns of another's, or
    takes it away."""
    begins = f"{caller.tenant}:"
    return task_id if not caller.tenant or task_id.startswith(begins) else begins + task_id


async def chosen_name(caller: Caller, task_id: str | None, is_there: IsThere) -> str | None:
    """The same of an id that is chosen now; `InputError` for what can be none.

    What stands under the name of a tenant is that tenant's alone; a task of the caller's that is there under it already stays so.
    """
    if task_id is None:
        return None
    if problem := task_id_problem(task_id) or task_id_problem(name := own_name(caller, task_id)):
        raise InputError(problem)
    if caller.who and not caller.tenant and _UNDER_A_TENANT.match(task_id) and not await is_there(task_id):
        raise InputError(
            f"{task_id!r}: what begins like this, up to the colon, is for the tenant of that name; choose an id with another beginning"
        )
    return name


async def named(caller: Caller, request: SubmitRequest, key: str | None, is_there: IsThere) -> SubmitRequest:
    """The request with the id that the caller has chosen, or that this key of the tenant stands for."""
    if key is None and request.task_id is None:
        return request
    if key is None:
        return request.model_copy(update={"task_id": await chosen_name(caller, request.task_id, is_there)})
    if request.task_id is not None:
        raise InputError("give task_id or an Idempotency-Key, not both: either names the task")
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise InputError("an Idempotency-Key has 1 to 200 printable characters")
    digest = hashlib.sha256(f"{caller.tenant}\n{key}".encode()).hexdigest()
    known = f"task_{digest[:32]}"
    name = own_name(caller, known)  # under the tenant's, so that nobody else can make up the same
    if name != known and await is_there(known):  # as it was stored before
        name = known
    return request.model_copy(update={"task_id": name})


_LOWERED = ("max_cost_usd", "max_tokens")


def lowered(wanted: Submission, options: SubmitOptions) -> Submission:
    """The request with what it may use of that; what was asked for stays its own, so that it is known again once that is another."""
    budget = wanted.policy.budget
    given = {name: getattr(options, name) for name in _LOWERED}
    changes = {
        name: value
        for name, value in given.items()
        if value is not None and (getattr(budget, name) is None or value < getattr(budget, name))
    }
    if not changes:
        return wanted
    policy = wanted.policy.model_copy(update={"budget": budget.model_copy(update=changes)})
    return wanted._replace(policy=policy, asked={name: getattr(budget, name) for name in changes})


async def followed(log: EventLog, task_id: str) -> str:
    """The task that a stored one follows, as its request says; empty where it follows none."""
    first = (await log.read(task_id, 0, 1))[0].event
    given = first.context.get(PREVIOUS) if isinstance(first, TaskSubmitted) else None
    return given if isinstance(given, str) else ""
