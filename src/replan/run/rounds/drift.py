"""Going on with a task elsewhere, or later: what is otherwise there than when its plan was made, and what follows from it.

What is done stays done. A tool that is taken less strictly by now stays as strict as it was, for this task; one that is taken
more strictly is taken so. Steps that no longer fit go to recovery with that reason, when they are due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from replan.beside import beside
from replan.core.data.pieces import MANY
from replan.core.events import ToolChange, VersionsChanged
from replan.core.own_tools.listed import own_tools
from replan.core.plan.check import Wrong, check_plan
from replan.core.state.task import State, StepState
from replan.core.tools.versions import ToolVersion, Versions, changed, in_words, stricter
from replan.core.types import Fault, JsonObject, StepId, ToolId
from replan.core.waits.tools import tools_of
from replan.reasoning.prompting.prompts import digest_of_all
from replan.run.rounds.held_tools import hold
from replan.run.rounds.plan_checks import earlier_schemas, followed, stand_ins, toolbox
from replan.run.session.context import Run

_MOST_TOLD = 5


class Drift(NamedTuple):
    """What is otherwise than it was."""

    before: Versions
    now: Versions
    tools: Mapping[ToolId, tuple[str, ...]]
    held: Mapping[ToolId, JsonObject]


def found(run: Run) -> Drift | None:
    """What has changed since the plan was made, or was last gone on with: one comparison where nothing has.

    From here on the tools are taken as strictly as then, or as now, whatever is stricter.
    """
    state, resolve = run.state, run.parts.tools.resolve
    known = state.made_with
    drift = None
    if known is not None and state.plan is not None:
        now = known.now(run.parts.version, digest_of_all() if known.prompts else "", resolve)
        if now is not known:
            both = {name: (known.tools[name], version) for name, version in now.tools.items()}
            tools = {name: what for name, pair in both.items() if (what := changed(*pair))}
            held = {
                name: less
                for name, (old, new) in both.items()
                if (less := stricter(_as_held(state, name, old), new))
            }
            drift = Drift(known, now, tools, held)
    held = {**state.held, **(drift.held if drift is not None else {})}
    hold(run, held)
    return drift


def _as_held(state: State, name: ToolId, version: ToolVersion) -> ToolVersion:
    """The tool as this task has taken it so far."""
    held = state.held.get(name)
    return version.model_copy(update=held) if held else version


async def record(run: Run, drift: Drift) -> None:
    """Record it, with the steps that no longer fit: the rest of the plan is checked as any plan is."""
    state = run.state
    unfit = state.unfit
    if drift.tools:
        unfit = await beside(_unfit, run, drift) if len(state.steps) > MANY else _unfit(run, drift)
    run.record(
        VersionsChanged(
            before=drift.before.replan,
            made_with=drift.now,
            tools=tuple(ToolChange(tool_id=name, what=what) for name, what in sorted(drift.tools.items())),
            unfit=unfit,
            held=dict(drift.held),
            optional=not (unfit or drift.held),
        )
    )


def _unfit(run: Run, drift: Drift) -> dict[StepId, Fault]:
    state = run.state
    assert state.plan is not None
    concerned = _concerned(state, drift.tools.keys())
    if not concerned:
        return state.unfit
    tools = run.parts.tools
    checked = check_plan(
        state.plan,
        toolbox(run, [*tools.specs(), *own_tools(tools.resolve)]),
        metadata=state.metadata,
        secret=state.secret_metadata(),
        limits=state.policy.limits,
        earlier=earlier_schemas(run),
        settled=state.steps.keys() - concerned,
        moot={name for name, step in state.steps.items() if step.moot},
        ran=stand_ins(run),
        followed=followed(run),
    )
    others = {name: fault for name, fault in state.unfit.items() if name not in concerned}
    wrong = {name: found for name, found in checked.of_steps.items() if name in concerned}
    return {**others, **{name: _fault(state.steps[name], found, drift) for name, found in wrong.items()}}


def _concerned(state: State, tools: AbstractSet[ToolId]) -> set[StepId]:
    """The steps that are yet to come to an end and that call one of the tools, or come right after one that does."""
    calling = {
        name
        for name, step in state.steps.items()
        if not step.closed and not tools.isdisjoint(_tools_of(step))
    }
    after = {one for name in calling for one in state.graph().needed_by.get(name, ())}
    return {*calling, *(name for name in after if not state.steps[name].closed)}


def _tools_of(step: StepState) -> set[str]:
    return set(tools_of(step.step))


def _fault(step: StepState, wrong: Collection[Wrong], drift: Drift) -> Fault:
    mine = [name for name in drift.tools if name in _tools_of(step)] or list(drift.tools)
    what = ", ".join(in_words(name, drift.tools[name]) for name in mine[:_MOST_TOLD])
    told = "; ".join(one.text for one in list(wrong)[:_MOST_TOLD])
    category = next(iter(wrong)).category
    return Fault(category=category, kind="tool_changed", message=f"since the plan was made, {what}: {told}")
