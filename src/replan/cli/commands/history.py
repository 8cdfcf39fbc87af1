"""A task's past, told from its log: the plan, every step, every call with its error, every model call."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from replan.cli.commands.report import waiting_lines
from replan.cli.live.story import short, story
from replan.cli.terminal.again import again
from replan.cli.terminal.terminal import Out
from replan.cli.terminal.words import clean, counted, secs, times
from replan.core import events as e
from replan.core.calls.site import items_in_words
from replan.core.events import Record
from replan.core.state.fold import fold
from replan.core.state.task import CallState, State, StepState
from replan.run.service.forking import Kin
from replan.run.service.results import status_of_step, step_result, waiting_for

_WENT_WRONG = (e.StepReflected, e.OverallReflectionTriggered, e.OutcomeUnknown)
MOST_STORY = 500
"""Lines of what recovery did."""


def as_json(records: Sequence[Record], kin: Kin | None = None) -> dict[str, Any]:
    """What `tasks show --json` prints."""
    state = fold(records)
    return {
        **(_kin_json(kin) if kin is not None else {}),
        "task_id": state.task_id or records[0].task_id,
        "status": state.status,
        "task_description": state.description,
        "metadata": state.metadata,
        "created": state.created,
        "drives": [drive._asdict() for drive in drives(records)],
        "current_round": state.round,
        "total_steps": len(state.steps),
        "open_steps": state.open_steps,
        "usage": state.usage.model_dump(mode="json"),
        "plan": state.plan.model_dump(mode="json", exclude_defaults=True) if state.plan else None,
        "steps": [_step_json(state, step) for step in state.every_step()],
        "recovery": story(records),
        "waiting_for": [one.model_dump(mode="json") for one in waiting_for(state)],
        "last_seq": records[-1].seq,
    }


def _kin_json(kin: Kin) -> dict[str, Any]:
    origin = {"forked_from": {"task_id": kin.origin, "at": kin.at}} if kin.origin is not None else {}
    forks = [{"task_id": task_id, "at": at} for task_id, at in kin.forks.items()]
    return {**origin, **({"forks": forks} if forks else {})}


def _step_json(state: State, step: StepState) -> dict[str, Any]:
    told = step_result(state, step).model_dump(mode="json", exclude={"output"})
    return {
        **told,
        "tool": step.step.tool,
        "dependencies": list(step.step.dependencies),
        "started": step.started,
        "ended": step.ended,
    }


def tell(
    out: Out,
    records: Sequence[Record],
    *,
    held: bool = True,
    by_workers: bool = False,
    why: str = "",
    kin: Kin | None = None,
) -> None:
    """The past of a task for people, at most some thousand lines. `held`: somebody drives it. `by_workers`: they will."""
    state = fold(records)
    task_id = records[0].task_id
    out.line(f"{task_id}  {state.status}  {len(records)} events")
    out.line(f"  task: {clean(state.description, 1_000)}")
    ended = f", ended {_clock(records[-1].ts)}" if state.ended else ""
    out.line(f"  submitted {_clock(state.created)}{ended}, driven for {secs(state.active_secs)}")
    _tell_drives(out, records, at_work=held and state.status != "waiting" and not state.ended)
    if kin is not None and kin.origin is not None:
        out.line(f"  forked from {kin.origin}, after its event {kin.at}")
    if kin is not None and kin.forks:
        shown = ", ".join(f"{task_id} (after event {at})" for task_id, at in list(kin.forks.items())[:20])
        out.line(f"  forks: {shown}{', …' if len(kin.forks) > 20 else ''}")
    if state.metadata:
        out.line(f"  metadata: {short(state.metadata, 300)}")
    _tell_models(out, records)
    for number, rejection in enumerate(state.rejections, 1):
        out.line(f"  plan {number} rejected: {clean('; '.join(rejection.violations), 1_000)}")
    if state.plan is not None:
        mode = f", {state.mode.mode} ({clean(state.mode.reason)})" if state.mode else ""
        out.line(f"plan {state.plan.version}: {counted(len(state.steps), 'step')}{mode}")
        _tell_steps(out, state)
        if state.plan.more:
            out.line(f"  still to be planned by it: {clean(state.plan.more, 1_000)}")
    if told := story(records):
        failed = any(isinstance(record.event, _WENT_WRONG) for record in records)
        out.line("what failed, and what was done about it:" if failed else "on the way:")
        for line in told[:MOST_STORY]:
            out.line(f"  {line}")
        if len(told) > MOST_STORY:
            out.line(f"  and {len(told) - MOST_STORY} more; `--events` has all of it")
    if state.evaluation is not None:
        _tell_judgement(out, state.evaluation)
    _tell_end(out, state, held=held, by_workers=by_workers)
    if why:
        out.line(f"  {clean(why, 1_000)}")


class Drive(NamedTuple):
    """One time that a process had the task."""

    driver: str
    version: str
    begun: float
    last: float
    """When it recorded something last."""


def drives(records: Sequence[Record]) -> list[Drive]:
    """Who has driven the task, and from when to when: what people write beside that is none of it."""
    found: list[Drive] = []
    for record in records:
        event = record.event
        if isinstance(event, e.TaskForked):
            found.clear()  # those of the other task
        elif isinstance(event, e.TaskStarted | e.TaskResumed):
            found.append(Drive(event.driver, event.version, record.ts, record.ts))
        elif found and not event.signal:
            found[-1] = found[-1]._replace(last=record.ts)
    return found


_MOST_DRIVES = 10


def _tell_drives(out: Out, records: Sequence[Record], *, at_work: bool) -> None:
    found = drives(records)
    if len(found) > _MOST_DRIVES:
        out.line(f"  driven {len(found) - _MOST_DRIVES} times before; `--json` has all of it")
    for drive in found[-_MOST_DRIVES:]:
        until = "on" if at_work and drive is found[-1] else f"to {_clock(drive.last)}"
        out.line(f"  driven from {_clock(drive.begun)} {until} by {clean(drive.driver) or 'a process'}")


def _clock(ts: float) -> str:
    """A point in time, as clocks here show it."""
    return datetime.fromtimestamp(ts).strftime("%Y-%m-%d %H:%M:%S")


def _tell_models(out: Out, records: Sequence[Record]) -> None:
    for record in records:
        if isinstance(record.event, e.LlmCallCompleted):
            call = record.event
            tokens = f"{call.usage.input_tokens} + {call.usage.output_tokens} tokens"
            error = f": {clean(call.error)}" if call.error else ""
            out.line(
                f"  asked {clean(call.model)} ({call.role}): {secs(call.duration_secs)}, {tokens}{error}"
            )


def _tell_steps(out: Out, state: State) -> None:
    for step in state.steps.values():
        needs = f" after {', '.join(step.step.dependencies)}" if step.step.dependencies else ""
        _tell_step(out, state, step, needs)
    if state.left_out:
        out.line("of earlier plans:")
    for step in state.left_out[:_MOST_LEFT_OUT]:
        by = state.recovery.replaced.get(step.step.step_id) if state.recovery is not None else None
        since = f"replaced by {by}" if by else f"left out since plan {step.gone}"
        _tell_step(out, state, step, f" (plan {step.born}, {since})")
    if len(state.left_out) > _MOST_LEFT_OUT:
        out.line(f"  and {len(state.left_out) - _MOST_LEFT_OUT} more steps; `--json` has all of them")


_MOST_LEFT_OUT = 200


def _tell_step(out: Out, state: State, step: StepState, more: str) -> None:
    took = "" if step.secs is None else f" in {secs(step.secs)}"
    name = f" ({clean(step.step.name, 80)})" if step.step.name not in ("", step.step.step_id) else ""
    without = (
        f", without {items_in_words(step.left_out)}" if step.status == "succeeded" and step.left_out else ""
    )
    out.line(f"  {step.step.step_id}{name}: {status_of_step(state, step)}{without}{took}{more}")
    if step.fault:
        out.line(f"    error ({step.fault.category}): {clean(step.fault.message, 1_000)}")
    if step.skip:
        out.line(f"    {clean(step.skip.reason)}")
    if step.healing is not None and step.healing.failures():
        failed, over = len(step.healing.failures()), step.status == "failed"
        repairs = step.healing.repairs - step.healing.repairs_before
        rewritten = f", rewritten {times(repairs)}" if repairs else ""
        if failed > over or repairs:
            out.line(f"    failed {times(failed)} {'in all' if over else 'before'}{rewritten}")
    earlier = [
        call for call in step.former or () if call.status != "failed"
    ]  # the failed ones stand in the story
    calls = [
        *((call, f"in plan {call.plan}: ") for call in earlier),
        *((call, "") for call in step.calls.values()),
    ]
    for call, when in calls[:50]:
        out.line(f"    {when}{_call(call)}")
    if len(calls) > 50:
        out.line(f"    and {len(calls) - 50} more calls; `--json` has all of them")


def _call(call: CallState) -> str:
    slot = f"{call.slot.words()}: " if call.slot.words() else ""
    attempt = f", try {call.attempt}" if call.attempt > 1 else ""
    text = f"{slot}{call.tool_id}({short(call.parameters, 160)}){attempt}: "
    if call.reused:
        return text + "its recorded output was used again"
    if call.of_task:
        text += f"made by task {call.of_task}: "
    if call.output is not None:
        kept = call.output.artifact
        return text + (f"{kept.size} bytes, {kept.shape}" if kept else short(call.output.value, 200))
    if call.status == "unknown":
        return text + f"outcome unknown (call key {call.key})"
    if call.fault is not None:
        return text + f"{call.status}: {clean(call.fault.message, 500)}"
    return text + call.status


def _tell_judgement(out: Out, event: e.EvaluationCompleted) -> None:
    judged = event.evaluation
    if judged is None:
        out.line(f"could not be judged: {clean(event.reason)}")
        return
    each = judged.dimensions
    out.line(
        f"judged by {event.by}: {judged.overall_score:g} of 100 (completeness {each.completeness:g}, correctness "
        f"{each.correctness:g}, efficiency {each.efficiency:g}, reliability {each.reliability:g})"
    )
    for failure in judged.failures:
        out.line(f"  shortfall: {clean(failure)}")


def _tell_end(out: Out, state: State, *, held: bool, by_workers: bool) -> None:
    outcome = state.outcome
    if outcome is None:
        paused = state.paused or (state.pause is not None and not held)  # answered meanwhile, it stays so
        stands = "paused" if paused else state.status
        out.line(f"not ended: {stands}" + (", asked to cancel" if state.cancel else ""))
        drives = held or (by_workers and not paused)
        if not drives and state.started and state.waiting is None and not state.paused:
            command = again("tasks", "resume", state.task_id or "")
            out.line(f"  nobody drives it: `{command}` goes on from its log")
        for line in waiting_lines(state.task_id or "", waiting_for(state), by_workers=by_workers):
            out.line(line)
        return
    if isinstance(outcome, e.TaskCompleted):
        for line in outcome.shortfall:
            out.line(f"  done in substance, but: {clean(line)}")
    else:
        out.line(f"why it ended so: {state.status}: {clean(outcome.failure.reason, 1_000)}")
        for line in outcome.failure.root_causes:
            out.line(f"  cause: {clean(line, 1_000)}")
        for line in outcome.failure.advice:
            out.line(f"  to do: {clean(line, 1_000)}")
    if isinstance(outcome, e.TaskCompleted | e.TaskFailed) and outcome.final_output is not None:
        out.line(f"answer: {short(outcome.final_output, 2_000)}")
