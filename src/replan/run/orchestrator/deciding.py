"""Decide, do, record, again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, assert_never

from replan.core.decide import (
    ChangePlan,
    Decision,
    Evaluate,
    Execute,
    Finish,
    HoldPlan,
    MakePlan,
    Pause,
    Reflect,
    Replan,
    SelectTools,
    Settle,
    StartRound,
    Stop,
    Take,
    TakeReviewed,
    Wait,
    decide,
    rests_on_a_doubt,
)
from replan.core.events import OverallReflectionTriggered, RoundCompleted, RoundStarted
from replan.core.limits.budget import limit_reached
from replan.core.report import explain
from replan.core.types import CallKey
from replan.run.calls.closing import close_cut_off, close_left
from replan.run.human_input import questions as asking
from replan.run.human_input import wishes
from replan.run.orchestrator.ending import Ending
from replan.run.recovery import by_relatives
from replan.run.recovery.left_apart import left_apart, settle_left
from replan.run.reviews import holding as reviews
from replan.run.rounds import judging, stages
from replan.run.rounds import next_round as rounds
from replan.run.session.context import Run
from replan.run.session.shielding import noticed
from replan.run.session.stops import BudgetReached, HandedOver, warn
from replan.run.steps.executor import execute

_LONG = (SelectTools, MakePlan, Execute, Reflect, ChangePlan)
"""What a process that is about to end does not begin."""
STOP_SECS = 1.5
"""How long cancelled work may take to stop before it is left behind."""


class Deciding(Ending):
    """The loop."""

    __slots__ = ()

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Do what can be done at once; then what comes next, to be waited for. None: that was all."""
        run = self.run
        while not run.stopping:
            step = decide(run.state)
            if run.parts.leaving.now and isinstance(step, _LONG):
                raise HandedOver
            if isinstance(step, Execute | Evaluate) and close_left(run, to_run=isinstance(step, Execute)):
                continue
            if isinstance(step, Finish) and close_cut_off(run):
                continue
            if keys := self._known_elsewhere(step):
                return by_relatives.settle_apart(run, keys)
            if keys := self._left_apart(step):
                return settle_left(run, keys, self.deadline)
            match step:
                case Stop():
                    return None
                case StartRound(number):
                    self._start_round(number)
                case SelectTools():
                    if not stages.take_all_tools(run):
                        return _apart(run, stages.choose_tools(run))
                case MakePlan():
                    if not stages.take_plan(run):
                        return _apart(run, stages.plan(run))
                case HoldPlan():
                    return reviews.hold(run)
                case TakeReviewed():
                    return reviews.take(run)
                case Execute():
                    return execute(run, self.deadline)
                case Evaluate():
                    judged = judging.judge(run)
                    return judged if run.state.policy.evaluation == "steps" else _apart(run, judged)
                case Reflect():
                    if run.state.escalation is None:  # it is the judgement that calls for it
                        run.record(OverallReflectionTriggered(reason=explain.shortfall(run.state)))
                    return _apart(run, rounds.reflect(run))
                case Replan(strategy, reason, continues):
                    self._allow_round()
                    started = rounds.begin(run, strategy, reason, continues=continues)
                    run.record(RoundCompleted(round=run.state.round))
                    run.record(RoundStarted(round=run.state.round + 1))
                    run.record(started)  # one append with the start of its round
                    warn(run)
                case ChangePlan():
                    return _apart(run, rounds.change_plan(run))
                case Pause():
                    wishes.stand_still(run)
                case Take(request_id, refused):
                    wishes.take(run, request_id, refused)
                case Settle(question_id):
                    return asking.settle(run, question_id)
                case Wait(reason, text, kind, background) as wait:
                    asking.ask(run, reason, text, kind, background)
                    if run.state.waiting is None and decide(run.state) == wait:
                        raise RuntimeError(f"nobody is asked, and still it waits: {reason}")
                case Finish(event):
                    return self._finish(event)
                case other:
                    assert_never(other)
        return None

    def _known_elsewhere(self, step: Decision) -> list[CallKey]:
        """The calls in doubt of which another task may know, and whose log has not been looked at in this drive: before a plan is carried out,
        those that no step of it has; before a person is asked, or the task ends, all that are left."""
        state = self.run.state
        if not (state.in_doubt and state.kin):
            return []
        last = rests_on_a_doubt(step)
        if not last and not isinstance(step, Execute):
            return []
        found = [
            key
            for key, call in state.in_doubt.items()
            if key not in self.looked_up and (last or not state.holds(call))
        ]
        self.looked_up.update(found)
        return found

    def _left_apart(self, step: Decision) -> list[CallKey]:
        """The calls in doubt that no step of the plan has, and that a person is about to be asked of, or the task to end over; each once."""
        if not rests_on_a_doubt(step):
            return []
        found = [key for key in left_apart(self.run.state) if key not in self.asked_apart]
        self.asked_apart.update(found)
        return found

    def _allow_round(self) -> None:
        state = self.run.state
        if limit := limit_reached(state.policy.budget, state.usage, what="round", rounds=state.rounds):
            raise BudgetReached(limit)

    def _start_round(self, number: int) -> None:
        self._allow_round()
        self.run.record(RoundStarted(round=number))


async def _apart(run: Run, stage: Coroutine[Any, Any, None]) -> None:
    """Do a stage that asks a model in a task of its own: one that does not listen when it is stopped is left behind."""
    work = asyncio.get_running_loop().create_task(stage)
    work.add_done_callback(noticed)  # at once: a second cancellation may leave any wait below
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError:
        run.stopping = True
        work.cancel()
        await asyncio.wait({work}, timeout=STOP_SECS)
        raise
    work.result()
