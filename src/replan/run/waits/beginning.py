"""What a wait begins with: until when, for which callback or answer; or why it cannot."""

from __future__ import annotations

from typing import assert_never

from replan.core.events import WaitStarted
from replan.core.state.task import State
from replan.core.waits.moments import due_at, limit_problem
from replan.core.waits.tools import CREATE_CALLBACK, LIMIT_SECS, LONGEST_SECS
from replan.run.calls.build import Call


def begun(call: Call, state: State, now: float, question: str = "") -> WaitStarted:
    """The fact that it has begun. `ValueError` says what is wrong with its parameters. `question`: the id of the one that it asks."""
    kind, given = call.tool.waits, call.parameters
    if problem := limit_problem(given):
        raise ValueError(problem)
    token = ""
    until: float | None
    match kind:
        case "time":
            until = due_at(given, now)
        case "condition":
            until = now + _limit(call, given.get("limit_secs", LIMIT_SECS))
        case "callback":
            token = str(given.get("token"))
            if token not in callbacks_of(state):
                there = ", ".join(callbacks_of(state)) or "none"
                raise ValueError(
                    f"this task has no callback {token[:100]!r} (it has: {there}); the token is the output of a "
                    f"{CREATE_CALLBACK.id} step"
                )
            until = _until(call, now)
        case "question":
            token = question
            until = _until(call, now)
        case "":
            raise ValueError("it is no tool to wait with")
        case other:
            assert_never(other)
    return WaitStarted(**call.labels(), kind=kind, until=until, token=token)


def _until(call: Call, now: float) -> float | None:
    """When somebody has to have spoken; None: it takes as long as it takes."""
    limit = call.parameters.get("limit_secs")
    return None if limit is None and call.step.timeout_secs is None else now + _limit(call, limit)


def _limit(call: Call, limit: float | None) -> float:
    given = [secs for secs in (limit, call.step.timeout_secs) if secs is not None]
    return float(min(*given, LONGEST_SECS))


def callbacks_of(state: State) -> list[str]:
    """The tokens that the task has given out."""
    found = []
    for step in state.every_step():
        for call in step.every_call():
            value = call.output.value if call.tool_id == CREATE_CALLBACK.id and call.output else None
            if isinstance(value, dict) and isinstance(token := value.get("token"), str):
                found.append(token)
    return list(dict.fromkeys(found))
