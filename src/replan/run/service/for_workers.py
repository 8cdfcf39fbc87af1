"""What a submission for workers says beside its request: where it waits, and what its driver has to have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from replan.core.begun import APPROVAL, Begun, begun_with
from replan.core.events import TaskSubmitted
from replan.core.limits.needs import DEFAULT_QUEUE, FORKS, WORK, Needs, Work, work_of
from replan.core.limits.policy import asks_about
from replan.core.own_tools.model import MODEL
from replan.core.state.task import State
from replan.core.waits.tools import asked
from replan.errors import InputError
from replan.ports import EventLog, Tools
from replan.run.service.forking import Forking
from replan.run.service.resumable import tools_needed
from replan.run.service.submission import Submission
from replan.run.service.unasked import LeftAlone, asked_here, by_command, made_unasked, unasked_of, why_left
from replan.run.session.dependencies import Parts

MOST_QUEUE = 64


def for_workers(
    wanted: Submission,
    tools: Tools,
    models: Mapping[str, str],
    endpoint: str | None,
    *,
    queue: str | None,
    priority: int,
) -> Submission:
    """The submission with its place in the queue."""
    work = Work(
        queue=checked_queue(queue or DEFAULT_QUEUE),
        priority=priority,
        needs=needs_of(wanted, tools, models, endpoint).model_copy(
            update={"answer": wanted.settings.get("answer_type")}
        ),
        tells_unasked=True,
    )
    return wanted._replace(settings={**wanted.settings, WORK: work.model_dump(mode="json")})


def needs_of(wanted: Submission, tools: Tools, models: Mapping[str, str], endpoint: str | None) -> Needs:
    """The tools of its plan, or all that it may plan with; and the models, where one is asked for certain."""
    if wanted.plan is None:
        names = [spec.id for spec in tools.specs()]
    else:
        found = ((name, tools.resolve(name)) for name in _tools_in(wanted.plan))
        names = [name if spec is None else spec.id for name, spec in found]
    asks = wanted.plan is None or wanted.policy.evaluation == "model"
    models = _asked_of(names, models, every=asks)
    unasked = unasked_of(sorted(set(names)), wanted.policy, tools.resolve)
    return Needs(
        tools=tuple(sorted(set(names))),
        models=models,
        endpoint=endpoint if asks or models else None,
        unasked=tuple(unasked),
        approval=wanted.policy.approval if unasked else "never",
    )


def _asked_of(tools: Collection[str], models: Mapping[str, str], *, every: bool) -> dict[str, str]:
    """The models that a task with these tools asks. `every`: it may ask those of all roles."""
    if every:
        return dict(sorted(models.items()))
    return {"step": models["step"]} if MODEL.id in tools and "step" in models else {}


def asks_models(plan: Mapping[str, Any]) -> bool:
    """True if a step of a plan that is given asks a model."""
    return MODEL.id in _tools_in(plan)


def asks_on(state: State) -> bool:
    """True if a step that is still to be done asks a model."""
    return MODEL.id in tools_needed(state) or (
        state.plan is None
        and state.submitted is not None
        and state.submitted.plan is not None
        and asks_models(state.submitted.plan)
    )


def work_left(state: State, begun: Begun) -> Work:
    """Where a task waits that was begun without workers: with what its log says of what it goes on with."""
    submitted = state.submitted
    if submitted is None:
        return Work()
    given: list[str] = []
    if state.plan is not None:
        planned = tools_needed(state)
    elif submitted.plan is not None:
        planned = given = list(_tools_in(submitted.plan))
    else:
        planned = tools_needed(state) or list(begun.ids or ())
    unasked = made_unasked(state, begun, given, later=True)
    if state.fork is not None:
        planned = [*planned, FORKS]
    models = _asked_of(planned, begun.models, every=state.modelled)
    needs = Needs(
        tools=tuple(sorted(set(planned))),
        models=models,
        endpoint=begun.endpoint if state.modelled or models else None,
        answer=begun.answer_type,
        unasked=tuple(sorted(unasked)),
        approval=state.policy.approval if unasked else "never",
    )
    return Work(needs=needs)


async def check_asked(state: State, parts: Parts) -> None:
    """`InputError` for a task that was begun where nobody is asked, and that may call what a person is asked about here.

    Not where somebody has said that it goes on so all the same.
    """
    said = state.approval_said or APPROVAL in parts.given.instead(state.name)
    if state.policy.interactive or said or state.cancel is not None:
        return
    asked = asked_here(parts.tools.specs(), parts.approval)
    if not asked:
        return
    task_id = state.name.task_id
    records = await parts.store.read(task_id)
    if not isinstance(first := records[0].event, TaskSubmitted):
        return
    needs = work_left(state, begun_with(records)).needs
    waits = work_of(first.settings) if state.plan is None else None
    if waits is not None and (waits.tells_unasked or waits.needs.unasked):
        needs = waits.needs  # of each tool whether a yes was wanted as it was submitted
    if found := needs.asked_by(Needs(asks=tuple(asked))):
        why = why_left(found, "here", by_command(task_id, state.policy.approval))
        raise LeftAlone(why, needs.unasked, needs.approval)


async def work_of_fork(
    log: EventLog,
    origin: str,
    state: State,
    wanted: Forking,
    *,
    begun: Begun | None = None,
    tools: Tools | None = None,
) -> Work:
    """How a fork waits: as the task did that it comes from, for a worker that knows forks. `state`: where it goes on.

    `begun`: what it goes on with in place of what the other task was begun with; `tools`: those that it may plan with then.
    """
    records = await log.read(origin)
    first = records[0].event
    waits = work_of(first.settings) if isinstance(first, TaskSubmitted) else None
    before = waits or work_left(state, begun_with(records))
    plans = wanted.plan is None and not state.given
    names: Iterable[str] = before.needs.tools if wanted.plan is None else _tools_in(wanted.plan)
    if tools is not None and plans:
        names = [spec.id for spec in tools.specs()]
    policy = wanted.policy or state.policy
    known = state.made_with.tools if state.made_with is not None else {}
    unasked = (
        []
        if policy.interactive
        else sorted(
            name
            for name in {*names}
            if (tool := known.get(name)) is None
            or not (tool.requires_approval or asks_about(policy.approval, tool))
        )
    )
    needs = before.needs.model_copy(
        update={
            "tools": tuple(sorted({*names, FORKS})),
            "unasked": tuple(unasked),
            "approval": policy.approval if unasked else "never",
        }
    )
    asks = plans or (wanted.policy or state.policy).evaluation == "model"
    by_steps = MODEL.id in needs.tools and "step" not in needs.models
    if by_steps or (asks and (begun is not None or not needs.models)):
        begun = begun or begun_with(records)
        models = _asked_of(needs.tools, begun.models, every=asks) or needs.models
        needs = needs.model_copy(update={"models": models, "endpoint": begun.endpoint})
    return before.model_copy(update={"needs": needs})


def begun_of_fork(wanted: Forking) -> Begun:
    """What a fork goes on with, where that is said with it."""
    return Begun.model_validate({**(wanted.settings or {}), "tools": wanted.tools or ()})


def checked_queue(name: str) -> str:
    """A queue's name; `InputError` for what can be none."""
    if not name or len(name) > MOST_QUEUE or not name.isprintable() or ":" in name:
        raise InputError(
            f"{name!r:.80} is no name of a queue: up to {MOST_QUEUE} printable signs, none of them a colon"
        )
    return name


def _tools_in(plan: Mapping[str, Any]) -> Iterator[str]:
    steps = plan.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            actions = step.get("actions")
            for one in (step, *(actions if isinstance(actions, list) else ())):
                if isinstance(one, dict) and isinstance(name := one.get("tool"), str) and name:
                    given = one.get("parameters")
                    yield from asked(name, given if isinstance(given, dict) else {})
