"""From one round to the next: reflect upon it, and make the plan anew (specification §7 and §8)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from replan.core.evaluation.outcome import default_strategy, forced, standing_of, violations
from replan.core.events import PlanRejected, PlanUpdated, ReflectionCompleted, ReplanningStarted
from replan.core.plan.check import Checked
from replan.core.plan.diff import diff_of
from replan.core.plan.new_ids import renamed, with_free_ids
from replan.core.plan.read import PlanMisread, read_plan
from replan.core.plan.repeats import with_marks
from replan.core.recovery import strategies
from replan.core.recovery.strategies import StrategyRefused
from replan.core.references.refs import escape
from replan.core.reflection import OverallReflection, Strategy
from replan.core.state.task import ONLY, StepState, ids_of
from replan.core.types import JsonObject, Plan, Step, StepId, ToolSpec
from replan.errors import ModelError, PlanInvalid
from replan.reasoning.diagnosis.reflector import RoundProposal, reflect_on_round
from replan.reasoning.planning.planner import Planned
from replan.reasoning.planning.replanner import make_replan
from replan.run.rounds.made_with import made_with
from replan.run.rounds.more_tools import with_more_tools
from replan.run.rounds.new_steps import check_ids, check_restated, new_steps, with_marks_of_copies
from replan.run.rounds.no_plan import NothingNew, declined, stopped_by
from replan.run.rounds.nothing_left import SAID_AGAIN, adds_nothing
from replan.run.rounds.plan_checks import asks_of_remedies, check, earlier_schemas
from replan.run.rounds.still_owed import still_owed
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.views.rounds import replan_view, round_view

REFLECT_TRIES = 2


# ── reflection ────────────────────────────────────────────────────────────────


async def reflect(run: Run) -> None:
    """Record why the round did not do, and whether there will be another one."""
    state = run.state
    found: RoundProposal | None = None
    reason = ""
    for _ in range(REFLECT_TRIES):
        try:
            talk = RoleTalk(run, "reflection")
            found = await reflect_on_round(
                talk,
                round_view(run, talk.style),
                lambda proposal: violations(proposal, state, run.parts.tools.resolve),
            )
        except ModelError as error:
            reason = str(error)
            continue
        if found.last is not None:
            break
        reason = "; ".join(found.left[:5])
    if found is None or found.last is None:
        run.record(
            ReflectionCompleted(reflection=None, violations=found.violations if found else (), reason=reason)
        )
        return
    reflection, by, why = found.last, "model", ""
    if found.left:
        made, why = forced(found.last, state)
        assert made is not None
        reflection, by = made, "code"
    run.record(
        ReflectionCompleted(
            reflection=_named(run, reflection),
            first_proposal=found.first if found.violations else None,
            proposal=found.last if found.left else None,
            violations=found.violations,
            by="code" if by == "code" else "model",
            reason=why,
        )
    )


def _named(run: Run, reflection: OverallReflection) -> OverallReflection:
    return reflection.model_copy(update={"reflection_id": run.parts.ids.new("refl")})


# ── replanning ────────────────────────────────────────────────────────────────


def begin(run: Run, strategy: Strategy, reason: str, *, continues: bool = False) -> ReplanningStarted:
    """The start of making the plan anew, or of planning what comes after a first part."""
    if continues:
        return ReplanningStarted(strategy=strategy, reason=reason, continues=True)
    reflection = run.state.reflection.reflection if run.state.reflection else None
    guidance: JsonObject = reflection.guidance() if reflection is not None else {}
    if run.state.escalation is not None and run.state.escalation.replan:
        guidance = {"advice": run.state.escalation.advice or run.state.escalation.reason}
    if strategy.reason or reason:
        guidance = {**guidance, "strategy": f"{strategy.type}: {strategy.reason or reason}"}
    return ReplanningStarted(strategy=strategy, reason=reason, guidance=guidance)


async def change_plan(run: Run) -> None:
    """Make the plan anew as `state.replanning` says; a strategy that cannot be carried out falls back.

    Where there is no new plan, why is recorded: what failed before is not forgotten, and a person may be asked.
    """
    started = run.state.replanning
    assert started is not None
    try:
        await _change(run, started)
    except (PlanInvalid, NothingNew, ModelError) as error:
        run.record(stopped_by(error))
    except StrategyRefused as refused:
        strategy = _fallback(run, started.strategy)
        if strategy is None:
            run.record(stopped_by(PlanInvalid([f"{started.strategy.type} cannot be carried out: {refused}"])))
            return
        run.record(
            started.model_copy(
                update={"strategy": strategy, "refused": started.strategy, "why_refused": str(refused)}
            )
        )


def _fallback(run: Run, refused: Strategy) -> Strategy | None:
    """`replan_from_step` where something has succeeded, else `full_replan`; None where that was refused too."""
    known = run.state.replanning
    before = known.refused if known is not None else None
    tried = {(one.type, one.step_id) for one in (refused, before) if one is not None}
    strategy = default_strategy(run.state)
    if (strategy.type, strategy.step_id) in tried:
        strategy = Strategy(type="full_replan")
    if (strategy.type, strategy.step_id) in tried:
        return None
    return strategy.model_copy(update={"reason": refused.reason, "suggestions": refused.suggestions})


async def _change(run: Run, started: ReplanningStarted) -> None:
    state, strategy = run.state, started.strategy
    assert state.plan is not None
    plan, standing = as_ran(state.plan, state.steps), standing_of(state, run.parts.tools.resolve)
    match strategy.type:
        case "skip_steps":
            _by_code(run, started, strategies.skip_steps(plan, standing, strategy.step_ids, strategy.reason))
        case "adjust_dependencies":
            _by_code(
                run,
                started,
                strategies.adjust_dependencies(plan, standing, strategy.adjustments, strategy.reason),
            )
        case "add_remediation_steps":
            helped = strategies.to_be_helped(plan, standing, strategy)
            await _by_planner(run, started, plan, [step.step_id for step in plan.steps], helped)
        case "replan_from_step":
            kept = strategies.kept_before(plan, standing, strategy.step_id)
            about = (strategy.step_id,) if strategy.step_id else tuple(sorted(standing.failed))
            await _by_planner(run, started, plan, kept, about)
        case "full_replan":
            await _by_planner(run, started, plan, (), tuple(sorted(standing.failed)))


def _by_code(run: Run, started: ReplanningStarted, changed: Plan) -> None:
    """Record a plan that code has changed, if it passes the checks."""
    state = run.state
    draft = changed.model_copy(update={"plan_id": run.parts.ids.new("plan"), "version": state.plans + 1})
    kept = [step.step_id for step in changed.steps]
    checked = check(run, draft, run.parts.tools.specs(), kept=kept)
    if checked.violations:
        raise StrategyRefused("; ".join(checked.violations[:5]))
    _record(run, started, checked.plan, "", 0)


async def _by_planner(
    run: Run, started: ReplanningStarted, plan: Plan, kept: Sequence[StepId], about: tuple[StepId, ...]
) -> None:
    """Have the planner write the new steps, and record the plan once it has passed every check."""
    state, strategy = run.state, started.strategy
    helps = strategy.type == "add_remediation_steps"
    helped = frozenset(about) if helps else frozenset()
    stay = [name for name in kept if name not in helped]
    names = frozenset(stay)
    written = {step.step_id: step for step in state.plan.steps} if state.plan is not None else {}
    staying = {
        step.step_id: (step, written.get(step.step_id, step)) for step in plan.steps if step.step_id in names
    }
    """As they were made, and as they were planned: recovery may have made them in other words."""
    over = {name for name, step in state.steps.items() if step.status == "succeeded" or step.moot}
    usable = earlier_schemas(run, without=())
    given: dict[str, str] = {}
    """What the new steps of the latest answer are called, where that is not as they were written."""

    def new_plan(answer: JsonObject) -> Plan:
        plan_id = run.parts.ids.new("plan")
        try:
            return in_place(
                read_plan(answer, plan_id=plan_id, version=state.plans + 1, task=state.description)
            )
        except PlanMisread as error:
            raise error.with_plan(in_place(error.plan)) from error

    def in_place(read: Plan) -> Plan:
        if read.declined:
            return read
        new = new_steps(read.steps, staying, over)
        check_ids(run, read.steps, new)
        based = with_marks_of_copies(plan, read.steps, staying, over)
        written_anew = {step.step_id for step in new} & helped
        again = {step.step_id: ids_of(step) for step in plan.steps if step.step_id in written_anew}
        free = with_free_ids(new, state.ids_used(), again)
        given.clear()
        given.update(renamed(new, free))
        new = free
        if helps:
            check_restated(run, plan, helped, new)
            known = {step.step_id: step for step in plan.steps if step.step_id in helped}
            new = [with_marks(step, known.get(step.step_id, step), run.parts.tools.resolve) for step in new]
            try:
                made = strategies.with_remediation(based, helped, new)
            except StrategyRefused as refused:
                raise PlanInvalid([str(refused)]) from refused
        else:
            made = strategies.with_suffix(based, kept, new)
        changed = read.model_copy(update={"steps": made.steps})
        if read.more or started.continues:
            return changed
        # what only helps leaves the rest to be planned
        return changed.model_copy(update={"more": plan.more if helps else still_owed(run, changed, new)})

    latest: Checked | None = None
    tried_before = False
    """That is all that is wrong with the latest answer."""

    small = run.parts.models["planning"].style == "small"
    adds_none = told_what_is_owed = False
    asks: Sequence[str] = ()
    asked = 0 if helps and not small else state.policy.max_plan_corrections
    """What is asked about steps that help, once, and while there is an answer to come."""

    def checked(draft: Plan, tools: list[ToolSpec]) -> Checked:
        nonlocal latest, adds_none, asks
        adds_none = adds_nothing(run, draft)
        if adds_none and told_what_is_owed:  # said again, it counts
            return Checked(draft.model_copy(update={"cannot": SAID_AGAIN}), ())
        latest = check(run, draft, tools, kept=kept, proposed=True)
        asks = ()
        if asked < state.policy.max_plan_corrections and not latest.violations:
            asks = asks_of_remedies(run, latest.plan, helped)
            latest = latest._replace(violations=tuple(asks))
        if given:
            latest = latest._replace(
                violations=tuple(_with_written(text, given) for text in latest.violations)
            )
        return latest

    def rejected(found: tuple[str, ...], attempt: int) -> None:
        nonlocal tried_before, told_what_is_owed, asked
        asked = state.policy.max_plan_corrections if asks else attempt
        told_what_is_owed = adds_none
        tried_before = latest is not None and latest.tried_before and latest.violations == found
        run.record(PlanRejected(violations=found, attempt=attempt))

    view = replan_view(run, started, previous=plan, kept=stay, usable=usable, about=about)

    def plan_with(tools: list[ToolSpec]) -> Coroutine[Any, Any, Planned]:
        return make_replan(
            RoleTalk(run, "planning"),
            view=view,
            tools=tools,
            new_plan=new_plan,
            check=lambda draft: checked(draft, tools),
            corrections=state.policy.max_plan_corrections,
            on_rejected=rejected,
            judged=state.policy.evaluation != "steps",
        )

    try:
        planned = await with_more_tools(run, plan_with)
    except PlanInvalid as error:
        if tried_before:
            raise NothingNew(error.violations) from error
        raise
    if planned.plan.declined:
        run.record(declined(planned.plan))
        return
    _record(run, started, planned.plan, planned.task_type, planned.corrections)


def _with_written(text: str, given: Mapping[str, str]) -> str:
    """What is wrong, with what the steps that it names were called as they were written."""
    told = [f"{new!r} is {old!r} as you wrote it" for new, old in given.items() if repr(new) in text]
    return f"{text} (ids that are used already are given to nothing new: {', '.join(told)})" if told else text


def _record(run: Run, started: ReplanningStarted, plan: Plan, task_type: str, corrections: int) -> None:
    state = run.state
    run.record(
        PlanUpdated(
            plan=plan,
            strategy=started.strategy.type,
            reason=started.reason,
            diff=diff_of(state.plan, plan),
            reset=strategies.due_again(plan, standing_of(state), started.strategy),
            task_type=task_type,
            corrections=corrections,
            made_with=made_with(run, plan.steps),
        )
    )


def as_ran(plan: Plan, steps: dict[StepId, StepState]) -> Plan:
    """The plan with each finished step as it was called, where recovery had changed its call."""
    made = tuple(_as_ran(step, steps.get(step.step_id)) for step in plan.steps)
    return plan if made == plan.steps else plan.model_copy(update={"steps": made})


def _as_ran(step: Step, known: StepState | None) -> Step:
    changed = known.healing.overrides.get(ONLY) if known is not None and known.healing is not None else None
    if known is None or changed is None or known.status != "succeeded" or step.actions or step.for_each:
        return step
    written = {name: _text(value) for name, value in changed.parameters.items()}
    parameters = written if changed.whole else {**step.parameters, **written}
    return step.model_copy(update={"tool": changed.tool_id or step.tool, "parameters": parameters})


def _text(value: object) -> object:
    """The value as a plan holds it: what looks like a reference is text."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, dict):
        return {name: _text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value
