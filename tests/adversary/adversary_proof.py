"""What has to hold of every task that has ended, whatever its model, its tools and its people did."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from adversary_cases import Story
from adversary_deeds import approvals, effects, outputs, plans, same_plans

from replan.core import events as e
from replan.core.limits.budget import limits
from replan.core.recovery import ladder
from replan.core.recovery.guard import MOST_BARREN, MOST_POLLED, MOST_STALLED, MOST_STIRRED
from replan.core.reflection import RETRIES
from replan.core.state.fold import apply, fold
from replan.core.state.fold_recovery import MATTERS
from replan.core.state.task import State

KINDS = frozenset(
    {
        "planning", "step", "outcome_unknown", "judgement", "unjudged", "budget", "timeout", "cancelled", "model",
        "user_intervention_required", "reflection",
    }
)  # fmt: skip
"""Every kind of failure that is documented, but `internal`: that one is a fault of ours."""
MAY_PASS = {"task_timeout_secs": 10.0, "max_tokens": math.inf, "max_cost_usd": math.inf}
"""How far a limit may be passed: what runs at the deadline takes time to let go, and what an answer costs shows after it."""


def check(story: Story) -> str:
    """Raise `AssertionError` with everything that does not hold; how the task ended."""
    final = fold(story.records)
    found = [
        *_log(story),
        *_end(story, final),
        *_state(story, final),
        *effects(story),
        *plans(story),
        *same_plans(story),
        *approvals(story),
    ]
    found += [*outputs(story, final), *_counts(story, final), *_limits(story, final)]
    assert not found, "\n".join(found)
    return final.status


# ── the log and its end ───────────────────────────────────────────────────────


def _log(story: Story) -> Iterator[str]:
    records = story.records
    if [record.seq for record in records] != list(range(1, len(records) + 1)):
        yield "the log has gaps"
    ends = [record for record in records if isinstance(record.event, e.TERMINAL)]
    if len(ends) != 1 or records[-1] is not ends[0]:
        yield f"{len(ends)} terminal events, the log ends with {records[-1].type}"
    for record in records:
        event = record.event
        fault = getattr(event, "error", None)
        if getattr(fault, "kind", "") == "internal":
            yield f"a fault of ours at {record.seq}: {fault.message}"
        if isinstance(event, e.ExecutionMode) and "failed" in event.reason:
            yield f"at {record.seq}: {event.reason}"
    said = sum(isinstance(r.event, e.QuestionAnswered) and r.event.happened is not None for r in records)
    by_person = sum(isinstance(r.event, e.OutcomeSettled) and r.event.by == "ann" for r in records)
    if by_person > said:
        yield f"{by_person} outcomes were settled by a person who has spoken {said} times"
    yield from story.problems


def _end(story: Story, final: State) -> Iterator[str]:
    outcome = final.outcome
    failure = getattr(outcome, "failure", None)
    if failure is not None:
        if failure.kind not in KINDS:
            yield f"it failed as {failure.kind}: {failure.reason}"
        if not failure.reason.strip():
            yield "it failed without a reason"
    if story.cancelled != isinstance(outcome, e.TaskCancelled):
        yield f"cancelled: {story.cancelled}, and it ended as {outcome and outcome.type}"
    if (running := final.running_calls()) or final.llm_running:
        yield f"calls were left open: {running} {list(final.llm_running)}"
    if open_ := [name for name, step in final.steps.items() if step.status == "running"]:
        yield f"steps were left open: {open_}"


def _state(story: Story, final: State) -> Iterator[str]:
    """What the driver held in the end is what the log says."""
    driven = story.driven
    names = (
        "status",
        "round",
        "usage",
        "in_doubt",
        "outcome",
        "metadata",
        "open_steps",
        "plan",
        "plans",
        "earlier",
    )
    names += (
        "escalation",
        "replanning",
        "waiting",
        "evaluation",
        "reflection",
        "recovery",
        "active_secs",
        "selection",
    )
    for name in names:
        if getattr(driven, name) != getattr(final, name):
            yield f"{name} is {getattr(driven, name)} for the driver, and {getattr(final, name)} in the log"
    for name, step in final.steps.items():
        if driven.steps.get(name) != step:
            yield f"step {name} is {driven.steps.get(name)} for the driver, and {step} in the log"
    if driven.ledger.entries != final.ledger.entries or driven.ledger.effects != final.ledger.effects:
        yield "the ledgers differ"


# ── how much ──────────────────────────────────────────────────────────────────


def most_model_calls(story: Story) -> int:
    """How many calls of the model the guard's constants allow for, given the rounds and plans of this task.

    Each time that a round is gone through (once, and again after each crash and each word of a person): a selection;
    a plan with its corrections for each of three strategies at most; a judgement and a reflection, in two tries each.
    Every call that failed, each time: a diagnosis at the end; in doubt, one for each reading, and one more, as often
    as it may be settled. In the whole task, whatever the rounds: a diagnosis for each try of layer 1 of a call, and
    for each repair of a step, and the repair. Every answer may be corrected once.
    """
    rounds = words = drives = 0
    steps: set[str] = set()
    calls: dict[str, set[Any]] = defaultdict(set)
    for record in story.records:
        match record.event:
            case e.RoundStarted():
                rounds += 1
            case e.QuestionAnswered():
                words += 1
            case e.TaskStarted() | e.TaskResumed():
                drives += 1
            case e.PlanGenerated(plan=plan) | e.PlanUpdated(plan=plan):
                steps |= {step.step_id for step in plan.steps}
            case e.StepReflected(step_id=name, slot=slot):
                calls[name].add(slot)
    times = rounds + drives + words
    failed = sum(map(len, calls.values()))
    doubts = (ladder.MOST_SETTLED + 1) * (ladder.MOST_READINGS + 1)
    each_time = 2 + 3 * (1 + story.case.policy.max_plan_corrections) + 2 * 2 + 2 * 2
    in_all = failed * 2 * (ladder.MOST_RETRIES + ladder.MOST_REPAIRS) + len(steps) * 2 * ladder.MOST_REPAIRS
    return times * each_time + times * failed * 2 * (1 + doubts) + in_all


def most_rounds(story: Story) -> int:
    """How many rounds there can be at most, whatever is said.

    A score that matters can come no oftener than there are points, and the first one does; a person's word counts as
    much. Between two of these are at most `MOST_STALLED` rounds; `MOST_POLLED` where a tool may be polled.
    """
    words = sum(isinstance(record.event, e.QuestionAnswered) for record in story.records)
    between = MOST_POLLED if any(spec.volatile for spec in story.source.specs) else MOST_STALLED
    return int((100 / MATTERS + 1 + words + 1) * between)


def _counts(story: Story, final: State) -> Iterator[str]:
    usage, model = final.usage, story.model
    started = sum(isinstance(record.event, e.LlmCallStarted) for record in story.records)
    if usage.llm_calls != started:
        yield f"{usage.llm_calls} model calls were counted, and {started} made"
    if not story.store.crashed and model.asked > started:
        yield f"the model was asked {model.asked} times, and the log has {started}"
    if started > (most := most_model_calls(story)):
        yield f"{started} model calls, and at most {most} are allowed for"
    if final.round > (most := most_rounds(story)):
        yield f"{final.round} rounds, and at most {most} are allowed for"
    if model.asked > story.case.nature.most:
        yield "the model was asked for ever"
    made = sum(isinstance(record.event, e.CallStarted) for record in story.records)
    if usage.tool_calls != made or (not story.store.crashed and len(story.source.made) > made):
        yield f"{usage.tool_calls} tool calls were counted, {made} are in the log, {len(story.source.made)} were made"
    known = final.recovery
    barren = still = 0
    for note in (known.rounds if known else [])[:-1]:
        barren = 0 if note.better or note.news or note.moved else barren + 1
        still = 0 if barren == 0 or note.stirred else still + 1
        if barren >= MOST_STIRRED + 1 or still >= MOST_BARREN + 1:
            yield f"round {note.number + 1} came after {barren} that brought nothing"


def _limits(story: Story, final: State) -> Iterator[str]:
    """Nothing is used beyond a limit, with what is in flight counted."""
    budget, older, known = final.policy.budget, final.policy.older, final.recovery
    for limit in limits(budget, final.usage, rounds=final.round, secs=final.active_secs):
        if limit.used > limit.allowed + MAY_PASS.get(limit.name, 0):
            yield f"{limit.used} {limit.words} of {limit.allowed}"
    state = State()
    for record in story.records:
        if isinstance(record.event, e.LlmCallStarted):
            tokens = state.usage.input_tokens + state.usage.output_tokens
            tokens += sum(len(asked.text) // 4 for asked in state.llm_running.values())
            if budget.max_tokens is not None and tokens >= budget.max_tokens:
                yield f"at {record.seq} the model is asked with {tokens} tokens used of {budget.max_tokens}"
            if budget.max_cost_usd is not None and state.usage.cost_usd >= budget.max_cost_usd:
                yield f"at {record.seq} the model is asked with {state.usage.cost_usd} dollars used"
        if budget.max_tokens is not None or budget.max_cost_usd is not None:
            apply(state, record.event, record.ts, record.round)
    if known is None:
        return
    for name, used, most in (
        ("max_task_replanning_attempts", known.replans, older.max_task_replanning_attempts),
        ("max_reflection_rounds", known.reflections, older.max_reflection_rounds),
    ):
        if most is not None and used > most:
            yield f"{name} = {most}, and there were {used}"
    for step in (*known.dropped.values(), *final.earlier.values(), *final.steps.values()):
        mine = step.healing
        if mine is None:
            continue
        name = step.step.step_id
        most = ladder.MOST_RETRIES if older.max_step_retries is None else older.max_step_retries
        tries = Counter(one.slot for one in mine.reflected if one.action.type in RETRIES)
        for slot, own in tries.items():  # those of several calls may come down to one
            before = sum(one.action.type in RETRIES and one.index == slot.item for one in mine.earlier)
            if own > max(0, most - before):
                yield f"a call of step {name!r} was tried in {own} other ways after {before}, of {most}"
        if mine.repairs > (most := ladder.MOST_REPAIRS if older.max_single_step_repairs is None else older.max_single_step_repairs):  # fmt: skip
            yield f"step {name!r} was written anew {mine.repairs} times of {most}"
