"""A task and its steps, as prompts see them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime

from replan.core.calls.site import items_in_words
from replan.core.evaluation.effects_had import called_or_planned
from replan.core.evaluation.older import older_than_a_change
from replan.core.references.kept import name_of
from replan.core.references.refs import references
from replan.core.state.human_input import lines
from replan.core.state.progress import artifacts_of, files_of
from replan.core.state.task import ONLY, State, StepState
from replan.core.types import JsonObject, Role, StepId, ToolSpec
from replan.reasoning.prompting.view import StepReport, TaskView
from replan.run.following.wanted import PREVIOUS, SESSION
from replan.run.session.context import Run
from replan.run.session.outputs import Loaded
from replan.run.views.calls import call_notes, item_calls, only_call, single_calls

_MOST_FILES = 5
"""Files of one step of which prompts tell more than the name."""


def view_of(run: Run, role: Role, step: StepState | None = None) -> TaskView:
    """The task, with the guidance for this role; for a prompt about one `step` without what steps beside it happen to have added."""
    state, followed = run.state, run.state.following
    return TaskView(
        description=state.description,
        metadata=state.metadata if step is None else _metadata_before(run, step),
        context=_context(state),
        today=datetime.fromtimestamp(run.parts.clock.now(), UTC).date().isoformat(),
        output_schema=state.policy.output_schema,
        given=state.given,
        guidance=state.scene.guidance(role) if state.scene is not None else "",
        people=lines(state.recovery.said) if state.recovery is not None else (),
        previous=followed.tasks if followed is not None else (),
        more_previous=followed.more if followed is not None else 0,
        many_previous=followed is not None and followed.at_least,
    )


def _context(state: State) -> JsonObject:
    """Without the ids of what is told in words: they say nothing, and are others each time."""
    given = state.submitted.context if state.submitted else {}
    if (used := state.workflow) is not None:
        given = {**given, "workflow": {"id": used.workflow_id, "slots": used.slots}}
    if state.following is None:
        return given
    return {name: value for name, value in given.items() if name not in (PREVIOUS, SESSION)}


def before(run: Run, step: StepState) -> list[StepState]:
    """The steps with an output that stand before this one, whatever else is done: of earlier plans, and all it needs."""
    state, found = run.state, set[StepId]()
    left = list(step.step.dependencies)
    while left:
        if (name := left.pop()) in state.steps and name not in found:
            found.add(name)
            left += state.steps[name].step.dependencies
    needed = [one for name, one in state.steps.items() if name in found and one.status == "succeeded"]
    return [*state.earlier.values(), *needed]


def _metadata_before(run: Run, step: StepState) -> JsonObject:
    merged = dict(run.state.submitted.metadata) if run.state.submitted else {}
    for one in before(run, step):
        merged.update(one.metadata or {})
    return merged


def reports(
    run: Run, loaded: Loaded, steps: Iterable[StepState], whole: Collection[str] = ()
) -> list[StepReport]:
    """Steps of the plan as code judges them; outputs kept apart stand for themselves but for those in `whole`."""
    return [
        _plain_report(step)
        or report_of(step, loaded, whole=step.step.step_id in whole, state=run.state, told=False)
        for step in steps
    ]


def _plain_report(step: StepState) -> StepReport | None:
    """A step that has succeeded with its only call, whose output is at hand."""
    call = step.plain_call()
    if call is None or call.output is None or call.output.artifact is not None:
        return None
    return StepReport(step.step.step_id, step.step.name, call.tool_id, output=call.output.value)


def history(run: Run, loaded: Loaded) -> list[StepReport]:
    """Every step of every plan that has done something, in the order of the plans: the one reading for all prompts."""
    state = run.state
    shown = [
        step for step in state.left_out if step.has_output or step.fault is not None or step.every_call()
    ]
    return [report_of(step, loaded, whole=False, state=state) for step in (*shown, *state.steps.values())]


def report_of(step: StepState, loaded: Loaded, *, whole: bool, state: State, told: bool = True) -> StepReport:
    """One step as prompts see it; an output that is kept apart stands for itself unless the `whole` is wanted.

    `told`: with what is to be known of the step and its calls in words.
    """
    output, artifact = None, None
    if step.has_output:
        kept = artifacts_of(step)
        if kept and not whole:
            artifact = kept[0]
        else:
            output = loaded.output_of(step)
    calls = list(step.calls.values())
    one = only_call(step)
    return StepReport(
        step_id=step.step.step_id,
        name=step.step.name,
        tool=_tools(step),
        status=step.status,
        parameters=calls[0].parameters if len(calls) == 1 else {},
        output=output,
        artifact=artifact,
        error=step.fault,
        reason=step.skip.reason if step.skip else "",
        notes=(*_notes(step, state), *(call_notes(one, step, state) if one is not None else ()))
        if told
        else (),
        when=step.step.when or "",
        for_each=step.step.for_each or "",
        expected=step.step.expected_output if told else "",
        planned=_by_reference(step) if told else {},
        reused=len(calls) == 1 and calls[0].reused,
        calls=tuple(single_calls(step, state)) if told else (),
        items=tuple(item_calls(step)) if told else (),
        current=not step.gone,
    )


def used_tools(run: Run) -> list[ToolSpec]:
    """The tools of every step that prompts are shown, each once."""
    steps = (*run.state.left_out, *run.state.steps.values())
    names = dict.fromkeys(name for step in steps for name in called_or_planned(step))
    found = (run.parts.tools.resolve(name) for name in names)
    return [tool for tool in found if tool is not None]


def _notes(step: StepState, state: State) -> Iterator[str]:
    """What is to be known of a step besides its status."""
    name = step.step.step_id
    if step.gone:
        by = state.recovery.replaced.get(name) if state.recovery is not None else None
        yield f"of plan {step.born}, replaced by {by}" if by else f"of plan {step.born}, left out since"
    if step.healing is not None and step.healing.rewritten:
        yield "written anew after it failed"
    if step.attempts > 1:
        yield f"{step.attempts} tries"
    if step.items is not None and step.closed and step.status != "skipped":
        without = step.left_out
        yield f"{step.items} items" + (f", without {items_in_words(without)}" if without else "")
    for file in files_of(step)[:_MOST_FILES]:
        begins = f", which begins {json.dumps(file.head, ensure_ascii=False)}" if file.head else ""
        yield f"{name_of(file.artifact_id)} is a file ({file.media_type}, {file.size:,} bytes{begins})"
    for one in older_than_a_change(state, [step]) if not step.gone else ():
        yield (
            f"what it was reused from was made before {one.change.step_id!r} ({one.change.tool_id}), which this step comes after: if that "
            "changed what it is made of, it is the older result"
        )


def _by_reference(step: StepState) -> JsonObject:
    """The parameters that code has filled in from outputs, as they were written; not those that recovery has put others for."""
    if step.status not in ("succeeded", "failed"):
        return {}
    changed = step.healing.overrides.get(ONLY) if step.healing is not None else None
    if changed is not None and (changed.tool_id or changed.whole):
        return {}
    written: JsonObject = (
        {one.action_id: one.parameters for one in step.step.actions}
        if step.step.actions
        else step.step.parameters
    )
    without = changed.parameters if changed is not None else {}
    return {
        name: value
        for name, value in written.items()
        if name not in without and any(True for _ in references(value))
    }


def _tools(step: StepState) -> str:
    """What was called, which need not be what was planned; else what is planned."""
    return ", ".join(called_or_planned(step))
