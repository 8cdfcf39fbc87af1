"""The end of a round: what it has come to is judged, by a model or by its steps alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from replan.beside import beside
from replan.core.data.pieces import MANY, is_large
from replan.core.data.schemas import problems
from replan.core.evaluation.accounts import Claim, accounted
from replan.core.evaluation.left_out import left_out
from replan.core.evaluation.older import older_than_a_change
from replan.core.evaluation.outcome import at_odds
from replan.core.evaluation.parts import unplanned
from replan.core.events import EvaluationCompleted
from replan.core.report.explain import without_items
from replan.core.state.progress import StepState, artifacts_of
from replan.core.types import Evaluation, LeftOutEffect, StepId
from replan.errors import AnswerInvalid, ModelError
from replan.reasoning.evaluation.evaluator import evaluate, evaluate_by_steps, of_another_form
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.session.outputs import Loaded, packed
from replan.run.views.task import history, reports, view_of
from replan.run.views.task import used_tools as steps_tools

JUDGE_TRIES = 2


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
                task=view_of(run, "evaluation"),
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
