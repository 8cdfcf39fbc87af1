"""What becomes of a request before it is a task."""

from __future__ import annotations

import hashlib

from replan.errors import InputError
from replan.run.access.callers import Caller
from replan.run.access.requests import SubmitRequest


def with_key(caller: Caller, request: SubmitRequest, key: str) -> SubmitRequest:
    """The request with the id that this key of the tenant stands for."""
    if request.task_id is not None:
        raise InputError("give task_id or an Idempotency-Key, not both: either names the task")
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise InputError("an Idempotency-Key has 1 to 200 printable characters")
    named = hashlib.sha256(f"{caller.tenant}\n{key}".encode()).hexdigest()
    return request.model_copy(update={"task_id": f"task_{named[:32]}"})
