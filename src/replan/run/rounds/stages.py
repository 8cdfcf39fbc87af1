"""The stages of a round besides execution: choose tools, plan, judge. Each does one thing and records it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, Literal

from replan.beside import beside
from replan.core.data.pieces import MANY, is_large
from replan.core.data.schemas import problems
from replan.core.evaluation.accounts import Claim, accounted
from replan.core.evaluation.left_out import left_out
from replan.core.evaluation.older import older_than_a_change
from replan.core.evaluation.outcome import at_odds
from replan.core.evaluation.parts import unplanned
from replan.core.events import (
    EvaluationCompleted,
    PlanGenerated,
    PlanRejected,
    SelectedTool,
    ToolSelectionCompleted,
)
from replan.core.plan.check import Checked
from replan.core.plan.read import PlanMisread, read_plan
from replan.core.report.explain import without_items
from replan.core.secrets import SecretLost, reveal
from replan.core.state.progress import StepState, artifacts_of
from replan.core.types import Evaluation, JsonObject, LeftOutEffect, Plan, StepId, ToolSpec
from replan.errors import AnswerInvalid, ModelError, PlanInvalid
from replan.reasoning.evaluation.evaluator import evaluate, evaluate_by_steps, of_another_form
from replan.reasoning.planning.planner import Planned, make_plan
from replan.reasoning.planning.selector import select_tools
from replan.reasoning.prompting.recovery_view import Reselection
from replan.run.rounds.made_with import made_with
from replan.run.rounds.more_tools import with_more_tools
from replan.run.rounds.no_plan import declined, stopped_by
from replan.run.rounds.plan_checks import check
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.session.outputs import Loaded, packed
from replan.run.views.rounds import history_lines, used_tools
from replan.run.views.task import history, reports, view_of
from replan.run.views.task import used_tools as steps_tools

JUDGE_TRIES = 2
Phase = Literal["tool_selection", "replanning_tool_selection"]


async def choose_tools(run: Run) -> None:
    """Record which tools the plan may use: all of them, or what the model selects when there are many."""
    if take_all_tools(run):
        return
    try:
        selected = await _select(run)
    except ModelError as error:
        if run.state.replanning is None:
            raise
        run.record(stopped_by(error))
        return
    run.record(selected)


async def _select(run: Run) -> ToolSelectionCompleted:
    return await select_tools(
        RoleTalk(run, "selection"),
        task=view_of(run),
        tools=run.parts.record.told(run.parts.tools.specs()),
        threshold=run.state.policy.tool_selection_threshold,
        again=_reselection(run),
    )


def _reselection(run: Run) -> Reselection | None:
    """What the selection is told when a plan is made anew; None for the first one."""
    started = run.state.replanning
    if started is None:
        return None
    reflection = run.state.recovery.reflection if run.state.recovery else None
    analysis = reflection.reflection_text if reflection is not None else ""
    return Reselection(
        used=used_tools(run),
        history=history_lines(run),
        analysis=analysis or started.reason,
        guidance=started.guidance,
        strategy=started.strategy.type,
    )


def take_all_tools(run: Run) -> bool:
    """Record that the plan may use every tool; False if the model has to select, as there are many."""
    policy = run.state.policy
    tools = run.parts.tools.specs()
    if policy.enable_two_stage_planning and len(tools) > policy.two_stage_tool_threshold:
        return False
    chosen = tuple(SelectedTool(tool_id=tool.id) for tool in tools)
    again = run.state.replanning is not None
    phase: Phase = "replanning_tool_selection" if again else "tool_selection"
    run.record(ToolSelectionCompleted(phase=phase, tools=chosen, asked=False))
    return True


def take_plan(run: Run) -> bool:
    """Record the plan that came with the task, once it has passed every check; False if none came, or a large one.

    `PlanInvalid` with what is wrong with it.
    """
    given = _given(run)
    if given is None or run.large:
        return False
    _take(run, *_checked(run, given))
    return True


def _given(run: Run) -> JsonObject | None:
    return run.state.submitted.plan if run.state.submitted else None


def _checked(run: Run, given: JsonObject) -> tuple[Checked | None, tuple[str, ...]]:
    """The plan that came with the task, and what is wrong with it."""
    if run.state.hides:
        try:
            given = reveal(given)
        except SecretLost:
            return None, (_LOST,)
    tools = run.parts.tools.specs()
    try:
        checked = check(run, new_plan(run, given), tools)
    except PlanMisread as error:
        return None, tuple(error.and_what_else(lambda draft: check(run, draft, tools).violations))
    return checked, checked.violations


_LOST = (
    "the plan that was given holds a secret, which no log keeps: give the secret as metadata, and refer to it"
)


def _take(run: Run, checked: Checked | None, violations: tuple[str, ...]) -> None:
    if checked is None or violations:
        if violations != (_LOST,):
            run.record(PlanRejected(violations=violations))
        raise PlanInvalid(violations)
    if checked.plan.declined:
        run.record(declined(checked.plan))
    else:
        run.record(PlanGenerated(plan=checked.plan, made_with=made_with(run, checked.plan.steps)))
        run.state.checked(checked.graph, checked.constants)


async def plan(run: Run) -> None:
    """Record a plan that has passed every check. `PlanInvalid` with what was wrong with the last one."""
    if take_plan(run):
        return
    if (given := _given(run)) is not None:
        _take(run, *await beside(_checked, run, given))
        return

    def plan_with(tools: list[ToolSpec]) -> Coroutine[Any, Any, Planned]:
        return make_plan(
            RoleTalk(run, "planning"),
            task=view_of(run),
            tools=run.parts.record.told(tools),
            new_plan=lambda answer: new_plan(run, answer),
            check=lambda draft: check(run, draft, tools, proposed=True),
            corrections=run.state.policy.max_plan_corrections,
            on_rejected=lambda found, attempt: _rejected(run, found, attempt),
        )

    planned = await with_more_tools(run, plan_with)
    if planned.plan.declined:
        run.record(declined(planned.plan))
        return
    task_type, selection = planned.task_type, run.state.selection
    if selection is not None and selection.asked:
        task_type = selection.task_type
    run.record(
        PlanGenerated(
            plan=planned.plan,
            task_type=task_type,
            workflow_id=planned.workflow_id,
            corrections=planned.corrections,
            made_with=made_with(run, planned.plan.steps),
        )
    )
    if len(planned.plan.steps) > MANY:
        await beside(run.state.graph().layers)


def _rejected(run: Run, violations: tuple[str, ...], attempt: int) -> None:
    run.record(PlanRejected(violations=violations, attempt=attempt))


def new_plan(run: Run, answer: JsonObject) -> Plan:
    return read_plan(
        answer,
        plan_id=run.parts.ids.new("plan"),
        version=run.state.plans + 1,
        task=run.state.description,
    )


# ── judging ───────────────────────────────────────────────────────────────────


async def judge(run: Run) -> None:
    """Record the verdict on the round. A judge that fails or answers nonsense gives `unknown`."""
    state = run.state
    assert state.plan is not None
    by_steps = state.policy.evaluation == "steps"
    loaded = Loaded()
    if by_steps:
        final = [state.steps[step_id] for step_id in state.graph().final()]
        await loaded.load_steps(run, run.task_id, final)
        many = len(state.steps) + state.tool_calls > MANY or any(map(artifacts_of, final))
        verdict = await beside(_by_steps, run, loaded, final) if many else _by_steps(run, loaded, final)
    else:
        found = await _ask_judge(run, loaded)
        if found is None:
            return
        verdict = found
    verdict = verdict.model_copy(update={"evaluation_id": run.parts.ids.new("eval")})
    answer = verdict.final_output
    if not by_steps and run.secrets:
        known = run.secrets
        answer = await beside(known.masked, answer) if is_large(answer) else known.masked(answer)
    kept = await packed(answer, state.policy.max_output_bytes)
    run.record(
        EvaluationCompleted(
            evaluation=verdict.model_copy(update={"final_output": None if kept.artifact else kept.value}),
            artifact=kept.artifact,
            by="steps" if by_steps else "model",
        ),
        artifacts=kept.new,
    )


def _by_steps(run: Run, loaded: Loaded, final: list[StepState]) -> Evaluation:
    state = run.state
    assert state.plan is not None
    left = left_out(state, run.parts.tools.resolve).undone
    told = {one.step.step.step_id for one in left if one.will_do}
    rest = unplanned(state)
    asked = (
        state.recovery is not None and state.recovery.unplanned is not None and state.recovery.unplanned.asked
    )
    last = {step.step.step_id for step in final}
    whole = {step.status for step in state.steps.values()} == {"succeeded"}
    verdict = evaluate_by_steps(
        state.plan,
        reports(run, loaded, final if whole else state.steps.values(), whole=last),
        used=state.steps.keys() - last if whole else (),
        undone=[one.told_alone for one in left if one.effect and not one.will_do],
        missing=[*(one.what for one in left if not one.effect), *([rest] if rest and not asked else [])],
        without=list(
            dict.fromkeys(
                [
                    *(
                        without_items(step)
                        for step in state.steps.values()
                        if step.items is not None
                        and step.status == "succeeded"
                        and step.left_out
                        and step.step.step_id not in told
                    ),
                    *(one.what for one in left if one.will_do),
                    *([rest] if asked else []),
                    *(one.told for one in older_than_a_change(state) if one.meets),
                ]
            )
        ),
    )
    return _checked_shape(run, verdict)


async def _ask_judge(run: Run, loaded: Loaded) -> Evaluation | None:
    state = run.state
    assert state.plan is not None
    left = left_out(state, run.parts.tools.resolve)

    def account(claims: Mapping[StepId, Claim]) -> tuple[LeftOutEffect, ...]:
        return accounted(left, claims)

    reason = ""
    many = len(state.steps) + state.tool_calls > MANY
    steps = await beside(history, run, loaded) if many else history(run, loaded)
    for _ in range(JUDGE_TRIES):
        try:
            return await evaluate(
                RoleTalk(run, "evaluation"),
                task=view_of(run),
                plan=state.plan,
                unplanned=unplanned(state),
                all_went_well=not any(map(_has_failed, state.every_step())),
                steps=steps,
                output_schema=state.policy.output_schema,
                at_odds=lambda found: at_odds(state.policy, found),
                account=account,
                tools=steps_tools(run),
                enough=state.policy.success_threshold,
                check_answer=partial(run.parts.answer_checks.problems, run.name),
            )
        except (ModelError, AnswerInvalid) as error:
            reason = str(error)
    run.record(EvaluationCompleted(evaluation=None, reason=reason))
    return None


def _has_failed(step: StepState) -> bool:
    """True if something in it has failed, whatever became of it."""
    return step.fault is not None or (step.healing is not None and bool(step.healing.failures()))


def _checked_shape(run: Run, verdict: Evaluation) -> Evaluation:
    """Without a model nobody can mend an answer of another form than was asked for."""
    schema, answer = run.state.policy.output_schema, verdict.final_output
    if schema is None or not verdict.is_successful:
        return verdict
    found = problems(schema, answer) or run.parts.answer_checks.problems(run.name, answer)
    return of_another_form(verdict, found) if found else verdict
