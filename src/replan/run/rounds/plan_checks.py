"""The checks of a plan as this run makes them: its tools, its metadata, its limits, what was done before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replan.core.again.planned import PlannedAgain
from replan.core.again.remedies import asks_in_place_of
from replan.core.again.sessions import renews
from replan.core.again.still_due import told_still_due
from replan.core.as_meant import plan_as_meant
from replan.core.evaluation.outcome import standing_of
from replan.core.following.referred import NOTHING, Followed
from replan.core.own_tools.called import called_as
from replan.core.own_tools.listed import own_tools
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.plan.proposed import Proposed, proposal_violations
from replan.core.plan.repeats import marks
from replan.core.recovery.guard import plan_repeats
from replan.core.recovery.in_part import planned_marks
from replan.core.recovery.known import stands_in
from replan.core.recovery.strategies import due_again
from replan.core.reflection import Strategy
from replan.core.state.task import StepState
from replan.core.types import JsonObject, Plan, Step, StepId, ToolId, ToolSpec
from replan.core.waits.tools import names_of_tools
from replan.run.calls.by_model import why_not_asked
from replan.run.rounds.nothing_left import adds_nothing, what_is_owed
from replan.run.session.context import Run
from replan.run.session.dependencies import Parts


class NotSelected(Exception):
    """A plan names tools that exist and were not selected for it; `violations` say so."""

    def __init__(self, tools: Sequence[ToolId]) -> None:
        self.tools = tuple(tools)
        named = ", ".join(map(repr, tools))
        one = len(tools) == 1
        self.violations = (
            f"the {'tool' if one else 'tools'} {named} {'exists and was' if one else 'exist and were'} not selected for this plan",
        )
        super().__init__(self.violations[0])


def allowed_tools(run: Run) -> list[ToolSpec]:
    """The tools that were selected for the plan; all of them where no selection was made, or none for a plan made anew.

    And Replan's own, which need not be selected.
    """
    selection = run.state.selection
    every = run.parts.tools.specs()
    if selection is not None and (selection.tools or run.state.replanning is None):
        chosen = {tool.tool_id for tool in selection.tools}
        every = [tool for tool in every if tool.id in chosen]
    # a small model is asked in few words, and of few tools
    if run.parts.models["planning"].style == "small":
        return every
    asks = run.state.policy.interactive
    return [*every, *(tool for tool in own_here(run.parts) if asks or tool.waits != "question")]


def own_here(parts: Parts) -> list[ToolSpec]:
    """Replan's own tools, without one that lacks something here."""
    found = own_tools(parts.tools.resolve)
    return [tool for tool in found if not (tool.asks_model and why_not_asked(parts.models))]


def check(
    run: Run, draft: Plan, tools: list[ToolSpec], *, kept: Collection[StepId] = (), proposed: bool = False
) -> Checked:
    """The plan checked against the tools it may use.

    `kept`: steps of the plan before that stay in it. `proposed`: a model has written the rest.
    `NotSelected` for one that names others.
    """
    if draft.declined:
        return Checked(draft, ())
    if proposed:
        draft = plan_as_meant(draft, kept, run.parts.tools.resolve)
    tools = [*tools, *own_tools(run.parts.tools.resolve)]
    policy, state = run.state.policy, run.state
    staying, done = frozenset(kept), settled_steps(run)
    stay = {
        name for step in draft.steps if step.step_id in staying for name in _ids(step.step_id, state.steps)
    }
    named = [tool for name in kept if (step := state.steps.get(name)) for tool in _called(run, step)]
    meant = list(map(run.parts.tools.resolve, names_of_tools(draft.steps)))
    if missed := _missed(meant, {tool.id for tool in (*tools, *named)}):
        raise NotSelected(missed)
    checked = check_plan(
        draft,
        toolbox(run, [*tools, *named]),
        metadata=state.metadata,
        secret=state.secret_metadata(),
        limits=policy.limits,
        earlier=earlier_schemas(run, without={step.step_id for step in draft.steps}),
        used=state.ids_used() - stay,
        settled=done & stay,
        before=staying if state.replanning is not None and state.replanning.continues else (),
        moot={name for name in stay if name in state.steps and state.steps[name].moot},
        ran=stand_ins(run),
        followed=followed(run),
    )
    found = list(checked.violations)
    if any(tool is None for tool in meant):
        found += [f"a source of tools cannot be used: {problem}" for problem in run.parts.tools.problems[:5]]
    if proposed:
        before = {step.step_id: step for step in state.plan.steps} if state.plan is not None else {}
        new = {step.step_id for step in draft.steps if before.get(step.step_id) != step} - done
        resolve = run.parts.tools.resolve
        held = {
            step.step_id
            for step in checked.plan.steps
            if (known := before.get(step.step_id)) and not marks(step, resolve) - marks(known, resolve)
        }
        proposal = Proposed(checked.plan.steps, new, state.plan is None, stands_in(state), held=held)
        found += proposal_violations(proposal, resolve)
        found += planned_marks(state, [step for step in checked.plan.steps if step.step_id in new], resolve)
        goes_on = state.replanning is not None and state.replanning.continues
        found += _done_or_due(run, checked, new, goes_on=goes_on)
    if adds_nothing(run, checked.plan):
        found.append(what_is_owed(run))
    elif not checked.plan.steps and policy.evaluation == "steps":
        found.append(
            "the plan has no steps, and with evaluation = steps there is no model to answer by itself"
        )
    found += _instead_of_nothing(run, checked.plan)
    if draft.more:
        found += _part_problems(run, {step.step_id for step in checked.plan.steps} - done)
    repeat = ""
    if state.recovery is not None and not (found or _is_the_end(run, checked.plan)):
        volatile = {tool.id for tool in run.parts.tools.specs() if tool.volatile}
        due = [step for step in checked.plan.steps if step.step_id not in done]
        repeat = plan_repeats(
            state,
            checked.plan,
            volatile,
            sets_again=_sets_again(run, due),
            reads_anew=_reads_anew(run, due),
            acts_again=_acts_again(run, due),
            renews=renews(state, due, checked.constants, run.parts.tools.resolve),
        )
    return checked._replace(violations=(repeat,) if repeat else tuple(found), tried_before=bool(repeat))


def _done_or_due(run: Run, checked: Checked, new: Collection[StepId], *, goes_on: bool) -> Iterator[str]:
    """What new steps would do that is done already, or that steps which stay are yet to do."""
    state, plan, resolve = run.state, checked.plan, run.parts.tools.resolve
    fresh = [step for step in plan.steps if step.step_id in new]
    told = [
        name
        for name, wrong in checked.of_steps.items()
        if any(one.category == "decomposition_error" for one in wrong)
    ]
    if state.ledger.any_deeds and checked.graph is not None:
        again = PlannedAgain(
            state, fresh, plan.steps, checked.graph, checked.constants, resolve, goes_on, told
        )
        yield from again.asked()
    if state.replanning is not None:
        due = _still_due(run, plan, state.replanning.strategy)  # also one that waits for new steps now
        fresh = [step for step in fresh if step.step_id not in due]
        yield from told_still_due(state, plan.steps, fresh, due, checked.constants, resolve, told)


def asks_of_remedies(run: Run, plan: Plan, helped: Collection[StepId]) -> list[str]:
    """What to ask the planner about new steps that are to help others: whether they are those others in other words."""
    state = run.state
    if state.replanning is None:
        return []
    due = _still_due(run, plan, state.replanning.strategy)
    new = {step.step_id for step in plan.steps} - state.steps.keys()
    return asks_in_place_of(plan, helped, due, new, run.parts.tools.resolve)


_MOST_TOLD = 10


def _instead_of_nothing(run: Run, plan: Plan) -> Iterator[str]:
    """The steps that say they are in place of one that no earlier plan has."""
    if not any(step.instead_of for step in plan.steps):
        return
    every = run.state.every_step()
    known = {step.step.step_id for step in every}
    failed = [step.step.step_id for step in every if step.status in ("failed", "skipped")]
    there = f"these have failed: {', '.join(failed[:20])}" if failed else "none has failed"
    for step in plan.steps:
        for name in [name for name in step.instead_of if name not in known][:_MOST_TOLD]:
            yield f"step {step.step_id!r} says `instead_of` {name!r}, which is no step of an earlier plan ({there}): leave it out, or name the one"


def _part_problems(run: Run, new: Collection[StepId]) -> list[str]:
    """What keeps a plan from being a first part: it has to do something, and somebody has to plan the rest."""
    if not run.state.modelled:
        return ["`more` is for a model that plans the rest, and there is none: give the whole plan"]
    if not new and not _still_owes(run):
        return [
            (
                "a plan that says `more` has steps that find out or do what the rest needs, and this one has no new step: write "
                "what is still to be planned, leave `more` out (or write null) if nothing is left, or say why it cannot be planned (`cannot`)"
            )
        ]
    return []


def _still_owes(run: Run) -> bool:
    """True if the plan is made anew after a first part that failed: it may do without what failed, and the rest is planned then."""
    state = run.state
    anew = state.replanning is not None and not state.replanning.continues
    return anew and state.plan is not None and bool(state.plan.more)


def _is_the_end(run: Run, plan: Plan) -> bool:
    """True if nothing is added after a first part: the planner has seen that there is no more to do."""
    started, done = run.state.replanning, settled_steps(run)
    return (
        started is not None
        and started.continues
        and not plan.more
        and {s.step_id for s in plan.steps} <= done
    )


def _reads_anew(run: Run, steps: Sequence[Step]) -> bool:
    """True if a reading of these steps is made anew, and may give something else than before."""
    acted = run.state.ledger.any_deeds
    named = (one.tool for step in steps for one in (step.actions or (step,)))
    tools = (run.parts.tools.resolve(name) for name in named if name)
    return any(
        tool is not None and tool.effect == "reads" and not tool.asks_model and (tool.volatile or acted)
        for tool in tools
    )


def _acts_again(run: Run, steps: Sequence[Step]) -> bool:
    """True if they mean an effect once more, and say so: whether it is made is decided when it is called."""
    resolve = run.parts.tools.resolve
    tools = (resolve(name) for step in steps for name in marks(step, resolve))
    return any(tool is not None and tool.effect == "once" for tool in tools)


def _sets_again(run: Run, steps: Sequence[Step]) -> bool:
    """True if they set something that another one has set to something else since: that is no second try."""
    state = run.state
    if not state.ledger.any_deeds:
        return False
    found = [
        (run.parts.tools.resolve(one.tool), one.parameters)
        for step in steps
        for one in (step.actions or (step,))
        if one.tool
    ]
    calls = [(tool, state.base(tool, parameters)) for tool, parameters in found if tool is not None]
    own = {base for _, base in calls}
    return any(
        tool.effect == "repeatable" and state.ledger.overwritten(base, besides=own) for tool, base in calls
    )


def _missed(meant: Sequence[ToolSpec | None], known: Collection[ToolId]) -> list[ToolId]:
    """The tools that the plan names and that exist beside the known ones."""
    return list(dict.fromkeys(tool.id for tool in meant if tool is not None and tool.id not in known))


def _ids(step_id: StepId, steps: dict[StepId, StepState]) -> list[str]:
    return [step_id, *(action.action_id for action in steps[step_id].step.actions)]


def _called(run: Run, step: StepState) -> list[ToolSpec]:
    names = [call.tool_id for call in step.calls.values()] + [
        step.step.tool,
        *(action.tool for action in step.step.actions),
    ]
    return [tool for name in names if name and (tool := run.parts.tools.resolve(name)) is not None]


def settled_steps(run: Run) -> set[StepId]:
    """Steps that are done: what they did is not checked again."""
    return {name for name, step in run.state.steps.items() if step.status == "succeeded"}


def _still_due(run: Run, plan: Plan, strategy: Strategy) -> set[StepId]:
    """The steps that this plan runs, whichever plan has brought them."""
    steps = run.state.steps
    again = due_again(plan, standing_of(run.state), strategy)
    return {*again, *(step.step_id for step in plan.steps if _is_ahead(steps.get(step.step_id)))}


def _is_ahead(step: StepState | None) -> bool:
    return step is not None and step.status not in ("succeeded", "failed", "skipped")


def stand_ins(run: Run) -> dict[tuple[StepId, str | None], ToolSpec | None]:
    """What has run in place of what finished steps of the plan plan, by step and action; None where several have."""
    found: dict[tuple[StepId, str | None], ToolSpec | None] = {}
    for name, step in run.state.steps.items():
        if step.status != "succeeded":
            continue
        called: dict[str | None, set[str]] = {}
        for slot, call in step.calls.items():
            called.setdefault(slot.action_id, set()).add(call.tool_id)
        for action, tools in called.items():
            planned = step.step if action is None else step.action(action)
            one = run.parts.tools.resolve(next(iter(tools))) if len(tools) == 1 else None
            if tools != {planned.tool}:
                found[name, action] = None if one is None else _as_made(step, action, one)
            elif one is not None and one.shaped_by_call and step.healing is not None:
                found[name, action] = _as_made(step, action, one)  # it may have been asked for something else
    return found


def _as_made(step: StepState, action: str | None, tool: ToolSpec) -> ToolSpec | None:
    """The tool with what its calls of this step have given; None where these differ."""
    if not tool.shaped_by_call:
        return tool
    made = [called_as(tool, call.parameters) for slot, call in step.calls.items() if slot.action_id == action]
    return made[0] if all(one.output_schema == made[0].output_schema for one in made) else None


def earlier_schemas(run: Run, without: Collection[StepId] | None = None) -> dict[str, JsonObject | None]:
    """Finished steps outside the plan, and their actions, with what is known of their outputs.

    `without`: the ids of another plan; then finished steps of this plan that the other one leaves out count too.
    """
    state = run.state
    finished = dict(state.earlier)
    if without is not None:
        finished |= {
            name: step for name, step in state.steps.items() if step.has_output and name not in without
        }
    found: dict[str, JsonObject | None] = {}
    for name, step in finished.items():
        found[name] = output_schema(run, step)
        found.update(dict.fromkeys(action.action_id for action in step.step.actions))
    return found


def followed(run: Run) -> Followed:
    """What there is of the tasks that this one follows."""
    read = run.state.following
    return NOTHING if read is None else Followed.of(read.tasks)


def output_schema(run: Run, step: StepState) -> JsonObject | None:
    """What is known of a finished step's output."""
    if step.step.actions:
        return None
    called = {call.tool_id for call in step.calls.values()} or {step.step.tool}
    tool = run.parts.tools.resolve(next(iter(called))) if len(called) == 1 else None
    if tool is not None and tool.shaped_by_call:
        tool = _as_made(step, None, tool) if step.calls else called_as(tool, step.step.parameters)
    one = tool.output_schema if tool is not None else None
    if step.step.for_each is None:
        return one
    return {"type": "array"} if one is None or "$defs" in one else {"type": "array", "items": one}


def toolbox(run: Run, tools: list[ToolSpec]) -> Toolbox:
    """Names are understood as everywhere, but only these tools exist."""
    allowed = {tool.id for tool in tools}

    def resolve(name: str) -> ToolSpec | None:
        found = run.parts.tools.resolve(name)
        return found if found is not None and found.id in allowed else None

    def nearest(name: str) -> list[str]:
        near = [one for one in run.parts.tools.nearest(name, len(allowed) + 3) if one in allowed][:3]
        return near or sorted(allowed)[:10]

    return Toolbox(resolve, nearest, lacks=lambda _: why_not_asked(run.parts.models))
