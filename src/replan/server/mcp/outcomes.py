"""What a task has come to, for a model: the answer or why there is none, and what to do now."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from replan.core.state.task import ENDED
from replan.run.access.callers import Caller
from replan.run.access.views import TaskView, WaitingTask
from replan.server.mcp.messages import Outcome
from replan.server.shared import Shared

MOST_ANSWER_BYTES = 65_536
"""Of an answer that a model is shown."""
_OF_PEOPLE = frozenset({"approval", "review", "outcome", "intervention", "question"})


async def outcome_of(here: Shared, caller: Caller, task_id: str) -> Outcome:
    task = await here.use_cases.task(caller, task_id)
    stands = {
        "task_id": task_id, "status": task.status, "done_steps": task.done_steps, "total_steps": task.total_steps,
    }  # fmt: skip
    if task.status not in ENDED:
        waiting = await here.use_cases.waits(caller, task_id)
        others = tuple(one for one in task.waiting_for if one.kind not in _OF_PEOPLE)
        return Outcome.model_validate({
            **stands, "ended": False, "is_success": False, "waiting": tuple(waiting), "waiting_for": others,
            "next": _next(here, task, waiting),
        })  # fmt: skip
    with here.turns.turn(caller, patient=True) as turn:
        result = await here.use_cases.result(caller, task_id, begin=turn.begin)
        answer, cut = _shown(result.final_output)
    then = [cut] if cut else []
    if not result.is_success:
        then.append(
            "It has ended without success, and an ended task never changes: `get_events` tells what happened, `fork_task` goes on "
            "from its history with a hint or another plan, and makes no effect twice."
        )
    return Outcome.model_validate({
        **stands, "ended": True, "is_success": result.is_success, "final_output": answer, "final_score": result.final_score,
        "failure": result.failure, "shortfall": result.shortfall, "next": " ".join(then),
    })  # fmt: skip


def _shown(answer: Any) -> tuple[Any, str]:
    """The answer, or the beginning of it, and what is to be said of that."""
    text = to_json(answer, inf_nan_mode="null")
    if len(text) <= MOST_ANSWER_BYTES:
        return answer, ""
    head = (answer.encode() if isinstance(answer, str) else text)[:MOST_ANSWER_BYTES].decode(
        "utf-8", "ignore"
    )
    return (
        head,
        f"The answer has {len(text):,} bytes; this is its beginning. `get_output` reads outputs of steps whole.",
    )


def _next(here: Shared, task: TaskView, waiting: list[WaitingTask]) -> str:
    again = f"`wait_task` with task_id {task.task_id!r}"
    if here.leaving.now:
        return f"The service is about to end; the task goes on when it is back: then {again}. Do not begin it again."
    secrets = sorted({name for one in task.waiting_for for name in one.secrets})
    if secrets:
        return (
            f"It waits for secrets of its request ({', '.join(secrets)}), which are given again by whoever has them, over HTTP, gRPC or the "
            f"command, and by no model. Then {again}."
        )
    if any(one.waiting_for.kind in _OF_PEOPLE for one in waiting):
        return (
            "It waits for a person. Show them what is asked (of a call: its tool and parameters; of a plan: its steps and effects), and hand on what they say with "
            f"`approve` (a yes with its hash), `review_plan` or `answer`, if you have these; else they answer by other means. Then {again}."
        )
    kinds = {one.kind for one in task.waiting_for}
    if kinds & {"pause", "key", "model", "process"}:
        return f"It stands still until it is resumed, once the reason is gone: `resume`, then {again}."
    if "callback" in kinds:
        return f"It waits for somebody outside, who has its token. Then {again}."
    return f"It goes on. Wait for it with {again}; do not begin it again."
