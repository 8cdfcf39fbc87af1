"""Planning without a task: the same stages, on a log that keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from replan.core.events import RoundStarted, TaskSubmitted
from replan.core.plain_calls import Recorded
from replan.core.report.explain_recovery import no_plan
from replan.core.state.task import State
from replan.core.types import Usage
from replan.errors import InputError, PlanInvalid
from replan.ports import Appended, Claim, NewArtifact, Redaction, Store
from replan.run.following.reading import read_previous
from replan.run.rounds import stages
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts, Passed
from replan.run.session.known_secrets import known_to
from replan.run.session.stops import BudgetReached


class _NoLog:
    """Takes events and forgets them."""

    def append(
        self,
        claim: Claim,
        events: Sequence[Recorded],
        *,
        ts: float,
        round: int,
        artifacts: Sequence[NewArtifact] = (),
        heard: int | None = None,
    ) -> asyncio.Future[Appended]:
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        done.set_result(Appended(0, 0))
        return done

    def redact(self, claim: Claim, redaction: Redaction) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def plan_unstored(
    submitted: TaskSubmitted, parts: Parts, spent: Callable[[Usage], None] | None = None
) -> State:
    """A task with the plan that it would get. Raises `PlanInvalid` and `ModelError` as planning does, `InputError` where its limits allow none.

    `spent` is told what it has cost, whatever has come of it.
    """
    run = await _begun(submitted, parts, parts.ids.new("task"))
    try:
        if submitted.plan is None:
            await stages.choose_tools(run)
        await stages.plan(run)
    except BudgetReached as stop:
        raise InputError(f"the budget {stop.limit.words} allows no planning: allow more") from None
    finally:
        if spent is not None:
            spent(run.state.usage)
    if (stopped := run.state.impasse) is not None:
        raise PlanInvalid([no_plan(run.state, stopped).reason])
    return run.state


async def check_given(submitted: TaskSubmitted, parts: Parts, task_id: str, *, large: bool) -> Passed | None:
    """`PlanInvalid` with what is wrong with the plan that comes with the request, before there is a task of it.

    What is given holds for whoever drives the task here, if it follows no other.
    """
    run = await _begun(submitted, parts, task_id, taps=())
    run.large = large
    passed = await stages.check_given(run)
    return passed if run.state.following is None else None


def unstored(parts: Parts, state: State) -> Run:
    """A task as it is, whatever would be recorded of it goes nowhere: to find out what a check would say."""
    return Run(
        replace(parts, store=cast(Store, cast(Any, _NoLog())), taps=()), Claim(state.task_id, 0), state
    )


async def _begun(submitted: TaskSubmitted, parts: Parts, task_id: str, **changes: Any) -> Run:
    """As far as a task is before its first plan."""
    state = State(task_id=task_id, secrets=known_to(submitted, parts.tools, parts.secrets))
    run = Run(replace(parts, store=cast(Store, cast(Any, _NoLog())), **changes), Claim(task_id, 0), state)
    run.record(submitted)
    await read_previous(run, parts.store)
    run.record(RoundStarted(round=1))
    return run
