"""Replan as a node of a LangGraph graph (langgraph ≥ 1.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, Protocol

from langgraph.runtime import Runtime
from langgraph.types import interrupt

from replan.app import Replan
from replan.core.events import (
    ApprovalResolved,
    CallbackReceived,
    PlanReviewed,
    QuestionAnswered,
    Record,
    TaskWaiting,
)
from replan.core.report.result import TaskResult, WaitingFor
from replan.core.state.task import ENDED
from replan.errors import InputError, TaskEnded, TaskFailure, TaskNotFound
from replan.inside.text import failure_text, id_of

BY = "langgraph"
"""Who answers in a task's log when the answer came through `interrupt`, before `#` and which of the node's it was."""
_YES = {
    "yes": True,
    "y": True,
    "true": True,
    "approve": True,
    "no": False,
    "n": False,
    "false": False,
    "reject": False,
}


class Node(Protocol):
    """A node that `StateGraph.add_node` takes: LangGraph gives it the state and, by name, the run."""

    def __call__(self, state: Any, *, runtime: Runtime[Any]) -> Coroutine[Any, Any, dict[str, Any]]: ...


def langgraph_node(
    replan: Replan,
    *,
    task_key: str = "task",
    output_key: str = "result",
    failure_key: str | None = None,
    submit: Callable[[Any], Mapping[str, Any]] | None = None,
    people: Literal["interrupt", "raise"] = "interrupt",
) -> Node:
    """A node that runs the task of the state's field `task_key` and puts its answer into `output_key`.

    `replan` has to be open in the event loop of the graph. `submit`: from the state, further arguments of
    `Replan.submit` (`metadata`, `plan`, `evaluation`, …). With `failure_key`, why a task failed goes into that field
    (None if it did not); without it, the node raises what `TaskResult.raise_for_failure` does.

    The task's id follows from the thread and the place in the graph (LangGraph's id of the node's run, which stays the
    same when a graph with a checkpointer goes on after a crash): the same task is gone on with, and no step that is
    done is done again. Without a checkpointer each run is a task of its own. A node's `RetryPolicy` finds the same
    task again too: one that has ended is not repeated.

    With `Replan(…, interactive=True)`, a task that waits for a person interrupts the graph (`people="raise"`: fails the
    node), which has to have a checkpointer. The interrupt's value is
    `{"task_id", "kind", "id", "text", "tool", "parameters"}`. Resume with `Command(resume=…)`: the text of the answer;
    for an approval `True`, `False`, "yes", "no", or `{"approved": bool, "reason": str, "parameters": {…}}`; for the review of a plan the
    same, with `"plan"` for another one in its place. A value that
    does not fit interrupts once more, with a `"problem"`. What a person answers past the graph makes no interrupt; what
    the task waits for next is then asked anew, and wants the answer as a mapping that names it:
    `{"id": …, "approved": True}` or `{"id": …, "answer": "…"}`, as a value may have been meant for what was asked before.

    Events of the task go to the custom stream (`stream_mode="custom"`) as `{"task_id", "seq", "type", "step_id"}`.
    A graph that is cancelled leaves its task as it is; it goes on with `Replan.resume`, or with the graph.
    """
    if people not in ("interrupt", "raise"):
        raise InputError(f"people has to be 'interrupt' or 'raise', not {people!r}")

    async def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        text = _field(state, task_key)
        info = runtime.execution_info
        if info is None:
            raise InputError(
                "the node has to be run by a LangGraph graph, which says where in the graph it is"
            )
        task_id = id_of("graph", info.thread_id or "", info.task_id)
        more = dict(submit(state)) if submit is not None else {}
        told = await _told(replan, task_id)
        await replan.submit(text, task_id=task_id, **more)
        result = await _followed(replan, task_id, runtime.stream_writer, told)
        # LangGraph runs the node anew after each interrupt, and hands the values out in order, from the first.
        asked = 0
        while asked <= await _last_delivered(replan, task_id):
            interrupt(
                {"task_id": task_id, "kind": "answered", "text": "This was answered; resume with anything."}
            )
            asked += 1
        problem: str | None = None
        while result.status == "waiting" and people == "interrupt":
            waiting = result.waiting_for[0]
            asked_for = _asked(task_id, waiting, problem)
            if waiting.kind == "review":
                held = await replan.held_plan(task_id)
                asked_for["review"] = held.model_dump(
                    mode="json", include={"plan", "outlook", "changes", "problems"}
                )
            said = interrupt(asked_for)
            problem = _misplaced(said, waiting, await _asked_since(replan, task_id))
            if problem is None:
                try:
                    await _tell(replan, task_id, waiting, said, by=f"{BY}#{asked}")
                except TaskEnded:
                    pass  # by somebody else, meanwhile
                except InputError as error:
                    problem = str(error)  # asked again: the graph could never take the value back
            asked += 1
            told = await _told(replan, task_id)
            await replan.submit(text, task_id=task_id, **more)  # the same task: it is gone on with
            result = await _followed(replan, task_id, runtime.stream_writer, told)
        return _update(result, output_key, failure_key)

    return node


def _field(state: Any, key: str) -> str:
    found = state.get(key) if isinstance(state, Mapping) else getattr(state, key, None)
    if not isinstance(found, str):
        raise InputError(
            f"the state's field {key!r} has to be the task as a text, not {type(found).__name__}; "
            "langgraph_node(…, task_key=…) names another field"
        )
    return found


async def _told(replan: Replan, task_id: str) -> int:
    """Up to where the log of a task that goes on was told before; 0 for a new one."""
    try:
        last = (await replan.summary(task_id)).last_seq
    except TaskNotFound:
        return 0
    return 0 if last <= 1 else last


async def _followed(replan: Replan, task_id: str, write: Callable[[Any], None], after: int) -> TaskResult:
    """Wait until the task ends or waits for a person, and write its news meanwhile: what comes after `after`."""
    told = [after]

    def tell(record: Record) -> None:
        if record.seq > told[0]:
            told[0] = record.seq
            step = getattr(record.event, "step_id", None)
            write({"task_id": task_id, "seq": record.seq, "type": record.event.type, "step_id": step})

    async def live() -> None:
        async for record in replan.watch(task_id, told[0]):
            tell(record)

    following = asyncio.create_task(live())
    try:
        result = await replan.wait(task_id)
    finally:
        following.cancel()
        await asyncio.wait({following})
    for record in await replan.history(task_id):
        tell(record)
    return result


_ANSWERS = ApprovalResolved | PlanReviewed | QuestionAnswered | CallbackReceived


async def _last_delivered(replan: Replan, task_id: str) -> int:
    """The number of the latest interrupt whose value the task has got; -1 if it got none."""
    last = -1
    for record in await replan.history(task_id):
        if isinstance(record.event, _ANSWERS):
            who, _, number = record.event.by.partition("#")
            if who == BY and number.isdecimal():
                last = max(last, int(number))
    return last


async def _asked_since(replan: Replan, task_id: str) -> set[str]:
    """What the task has waited for, first of all, since it last got the value of an interrupt."""
    asked: set[str] = set()
    for record in await replan.history(task_id):
        event = record.event
        if isinstance(event, _ANSWERS) and event.by.partition("#")[0] == BY:
            asked.clear()
        elif isinstance(event, TaskWaiting):
            asked.update((*event.approvals, *event.reviews, *event.questions, *event.callbacks)[:1])
    return asked


_BESIDE = {"question": ", and the answer in 'answer'"}
"""What a mapping with an id has else."""


def _misplaced(said: Any, waiting: WaitingFor, asked: set[str]) -> str | None:
    """Why a value may not be the answer to this; None if it is.

    LangGraph knows its interrupts by their order alone. A value for something that a person has answered past the
    graph comes back for what is asked next: a yes to a call must not become one to another.
    """
    named = said.get("id") if isinstance(said, Mapping) else None
    if named != waiting.id and _is_value(said, waiting):
        named = None  # a field of what was asked for
    if not waiting.id or named == waiting.id or (named is None and asked <= {waiting.id}):
        return None
    return (
        "Something else was asked before this, and answered or dropped past the graph, so that it is not clear what "
        f"was answered here. Resume with a mapping that has 'id': {waiting.id!r}{_BESIDE.get(waiting.kind, '')}."
    )


def _is_value(said: Any, waiting: WaitingFor) -> bool:
    """True of what answers a step's question as it is: its fields are what the step asks for. Else it stands in `answer`, perhaps beside the `id`
    of the question.
    """
    if waiting.kind != "question":
        return False
    if not isinstance(said, Mapping) or "answer" not in said or not said.keys() <= {"answer", "id"}:
        return True
    return said.get("id") != waiting.id and "answer" in waiting.answer_schema.get("properties", ())


def _asked(task_id: str, waiting: WaitingFor, problem: str | None) -> dict[str, Any]:
    asked = {
        "task_id": task_id,
        "kind": waiting.kind,
        "id": waiting.id,
        "text": waiting.text,
        "background": waiting.background,
        "tool": waiting.tool_id,
        "parameters": waiting.parameters,
    }
    if waiting.answer_schema:
        asked["answer_schema"] = waiting.answer_schema
    return asked if problem is None else {**asked, "problem": problem}


async def _tell(replan: Replan, task_id: str, waiting: WaitingFor, said: Any, *, by: str) -> None:
    """Give the task what `Command(resume=…)` has brought; where nothing is to be answered, it only goes on."""
    if not waiting.id:
        return
    if waiting.kind == "callback":
        await replan.signal(task_id, waiting.id, said, by=by)
        return
    if waiting.kind == "question":
        value = said if _is_value(said, waiting) else said["answer"]
        await replan.answer(task_id, value, waiting.id, by=by)
        return
    if waiting.kind not in ("approval", "review"):
        text, output = said, None
        if isinstance(said, Mapping):
            text, output = said.get("answer", ""), said.get("output")
        if isinstance(text, bool):
            text = "yes" if text else "no"
        await replan.answer(task_id, str(text), waiting.id, output=output, by=by)
        return
    given = dict(said) if isinstance(said, Mapping) else {"approved": said}
    agreed = given.get("approved")
    if isinstance(agreed, str):
        agreed = _YES.get(agreed.strip().casefold())
    if not isinstance(agreed, bool):
        raise InputError(
            f"{waiting.text} Resume with True or False, 'yes' or 'no', or {{'approved': …}}, not {said!r}"
        )
    if waiting.kind == "review":
        await replan.review(
            task_id, agreed, plan=given.get("plan"), reason=str(given.get("reason", "")), by=by
        )
    elif agreed:
        await replan.approve(task_id, waiting.id, parameters=given.get("parameters"), by=by)
    else:
        await replan.reject(task_id, waiting.id, reason=str(given.get("reason", "")), by=by)


def _update(result: TaskResult, output_key: str, failure_key: str | None) -> dict[str, Any]:
    if failure_key is None:
        if result.status not in ENDED:
            raise TaskFailure(failure_text(result))
        result.raise_for_failure()
        return {output_key: result.output}
    if result.is_success:
        return {output_key: result.output, failure_key: None}
    return {output_key: None, failure_key: failure_text(result)}
