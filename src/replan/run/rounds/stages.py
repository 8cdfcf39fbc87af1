"""The stages of a round before its execution: choose tools, plan. Each does one thing and records it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Literal

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.events import (
    PlanGenerated,
    PlanRejected,
    SelectedTool,
    ToolSelectionCompleted,
)
from replan.core.kinds.known import NOTHING, NOTHING_OFFERED, Known, Offered
from replan.core.kinds.scene import DEFAULT
from replan.core.plan.check import Checked
from replan.core.plan.read import PlanMisread, read_plan
from replan.core.secrets import SecretLost, reveal
from replan.core.types import JsonObject, Plan, ToolSpec
from replan.errors import ModelError, PlanInvalid
from replan.reasoning.planning.planner import Planned, make_plan
from replan.reasoning.planning.selector import select_tools
from replan.reasoning.prompting.recovery_view import Reselection
from replan.run.rounds.by_workflow import not_used, plan_by
from replan.run.rounds.kinds import in_plan, is_asked_first, offered, with_guidance
from replan.run.rounds.made_with import made_with
from replan.run.rounds.more_tools import with_more_tools
from replan.run.rounds.no_plan import declined, stopped_by
from replan.run.rounds.plan_checks import check
from replan.run.session.context import Run
from replan.run.session.dependencies import Passed
from replan.run.session.model_calls import RoleTalk
from replan.run.views.rounds import history_lines, used_tools
from replan.run.views.task import view_of

Phase = Literal["tool_selection", "replanning_tool_selection"]


async def choose_tools(run: Run) -> None:
    """Record which tools the plan may use: all of them, or what the model selects when there are many."""
    known = await run.parts.kinds.current()
    few = not _many_tools(run)
    if few and _take_all(run, known):
        return
    try:
        selected = await _select(run, offered(run, known))
    except ModelError as error:
        if run.state.replanning is None:
            raise
        run.record(stopped_by(error))
        return
    if few:  # it was asked for the kind of task alone
        selected = selected.model_copy(update={"tools": _every_tool(run)})
    run.record(selected if run.state.replanning is not None else with_guidance(selected, known))


async def _select(run: Run, kinds: Offered) -> ToolSelectionCompleted:
    return await select_tools(
        RoleTalk(run, "selection"),
        task=view_of(run, "selection"),
        tools=run.parts.record.told(run.parts.tools.specs()),
        threshold=run.state.policy.tool_selection_threshold,
        again=_reselection(run),
        offered_kinds=kinds,
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
    """Record that the plan may use every tool; False if the model has to select, as there are many, or is to say first of which kind
    the task is, or if that has to be looked at."""
    known = run.parts.kinds.at_hand()
    return known is not None and not _many_tools(run) and _take_all(run, known)


def _many_tools(run: Run) -> bool:
    policy = run.state.policy
    return policy.enable_two_stage_planning and len(run.parts.tools.specs()) > policy.two_stage_tool_threshold


def _every_tool(run: Run) -> tuple[SelectedTool, ...]:
    return tuple(SelectedTool(tool_id=tool.id) for tool in run.parts.tools.specs())


def _take_all(run: Run, known: Known) -> bool:
    there = offered(run, known)
    if is_asked_first(run, there):
        return False
    again = run.state.replanning is not None
    phase: Phase = "replanning_tool_selection" if again else "tool_selection"
    scene = None if again or there.scenes else known.scene(DEFAULT)
    run.record(ToolSelectionCompleted(phase=phase, tools=_every_tool(run), asked=False, scene=scene))
    return True


def take_plan(run: Run) -> bool:
    """Record the plan that came with the task, once it has passed every check; False if none came, or a large one.

    `PlanInvalid` with what is wrong with it.
    """
    given = _given(run)
    if given is None or run.large or run.parts.kinds.scenes_at_hand() is None:
        return False
    passed, run.passed = run.passed, None
    if passed is not None and passed.tools == run.parts.tools.specs() and passed.policy == run.state.policy:
        _take(run, passed.checked, ())
    else:
        _take(run, *_checked(run, given))
    return True


async def check_given(run: Run) -> Passed | None:
    """`PlanInvalid` where the plan that came with the task passes no check; nothing is recorded of it."""
    if (given := _given(run)) is None:
        return None
    await run.parts.kinds.current()
    tools = run.parts.tools.specs()
    checked, violations = await beside(_checked, run, given) if run.large else _checked(run, given)
    if checked is None or violations:
        raise PlanInvalid(run.secrets.masked(list(violations)))
    return Passed(checked, run.state.policy, tools)


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
        run.record(_given_plan(run, checked.plan))
        run.state.checked(checked.graph, checked.constants)


def _given_plan(run: Run, plan: Plan) -> PlanGenerated:
    """A plan that came with the task goes by the guidance for all others, or by that of the workflow it was built from."""
    used = run.state.workflow
    task_type = used.task_type if used is not None else DEFAULT
    known = run.parts.kinds.scenes_at_hand() or NOTHING
    return PlanGenerated(
        plan=plan,
        task_type=task_type,
        workflow_id=used.workflow_id if used is not None else None,
        made_with=made_with(run, plan.steps),
        scene=known.scene(task_type),
    )


async def plan(run: Run) -> None:
    """Record a plan that has passed every check. `PlanInvalid` with what was wrong with the last one."""
    if take_plan(run):
        return
    known = await run.parts.kinds.current()
    if (given := _given(run)) is not None:
        _take(run, *await beside(_checked, run, given))
        return

    there, selection = in_plan(run, offered(run, known)), run.state.selection
    notes: tuple[str, ...] = ()
    if selection is not None and (workflow := selection.workflow) is not None:
        if not (why := await plan_by(run, workflow, selection.task_type)):
            return
        notes, there = (not_used(workflow, why),), NOTHING_OFFERED
    planned = await _planned(run, there)
    task_type = planned.task_type
    if selection is not None and selection.asked:
        task_type = selection.task_type
    scene = known.scene(task_type) if there.scenes and not planned.plan.declined else None
    workflow = None if planned.plan.declined else there.workflow(planned.workflow_id)
    if workflow is not None:
        kind = workflow.task_type if workflow.task_type != DEFAULT else task_type
        if not (why := await plan_by(run, workflow, kind, known.scene(kind))):
            return
        notes = (*notes, not_used(workflow, why))
        if planned.by_workflow:
            planned = await _planned(run, there.without_workflows)
        planned = planned.model_copy(update={"workflow_id": None})
    if planned.plan.declined:
        run.record(declined(planned.plan))
        return
    run.record(
        PlanGenerated(
            plan=planned.plan,
            task_type=task_type,
            workflow_id=planned.workflow_id,
            corrections=planned.corrections,
            notes=notes,
            scene=scene,
            made_with=made_with(run, planned.plan.steps),
        )
    )
    if len(planned.plan.steps) > MANY:
        await beside(run.state.graph().layers)


async def _planned(run: Run, there: Offered) -> Planned:
    def plan_with(tools: list[ToolSpec]) -> Coroutine[Any, Any, Planned]:
        return make_plan(
            RoleTalk(run, "planning"),
            task=view_of(run, "planning"),
            tools=run.parts.record.told(tools),
            new_plan=lambda answer: new_plan(run, answer),
            check=lambda draft: check(run, draft, tools, proposed=True),
            corrections=run.state.policy.max_plan_corrections,
            on_rejected=lambda found, attempt: _rejected(run, found, attempt),
            offered=there,
        )

    return await with_more_tools(run, plan_with)


def _rejected(run: Run, violations: tuple[str, ...], attempt: int) -> None:
    run.record(PlanRejected(violations=violations, attempt=attempt))


def new_plan(run: Run, answer: JsonObject) -> Plan:
    return read_plan(
        answer,
        plan_id=run.parts.ids.new("plan"),
        version=run.state.plans + 1,
        task=run.state.description,
    )
