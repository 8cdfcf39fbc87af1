"""What has to hold of what was done: no effect twice, no plan unchecked, nothing lost that was finished."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from adversary_cases import Story

from replan.core import events as e
from replan.core.calls.site import READING, Slot
from replan.core.ids import split_key
from replan.core.limits.policy import needs_approval
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.fingerprint import prints_of
from replan.core.references.resolve import resolve
from replan.core.state.fold import apply
from replan.core.state.task import OLD_SECS, State
from replan.core.types import Plan, Step, ToolSpec
from replan.run.calls.scope import Scope
from replan.run.session.outputs import Loaded
from replan.testing import virtual_time

# ── effects ───────────────────────────────────────────────────────────────────


def effects(story: Story) -> Iterator[str]:
    """No call is made again that succeeded, or of which nobody knows whether it did."""
    specs = {spec.id: spec for spec in story.source.specs}
    ended: dict[str, Any] = {}
    tool_of: dict[str, str] = {}
    owners: dict[str, Any] = {}
    denied: Counter[str] = Counter()
    effects = waits = 0
    before: dict[str, int] = {}
    read: dict[str, tuple[Any, int]] = {}
    state = State()
    for record in story.records:
        event = record.event
        if isinstance(event, e.CallStarted | e.CallCompleted | e.CallFailed) and _is_reading(event):
            if isinstance(event, e.CallStarted) and event.effect != "reads":
                yield f"{event.tool_id!r} was called to read, and has an effect"
            apply(state, event, record.ts, record.round)
            continue
        match event:
            case e.CallStarted(call_key=key, tool_id=tool_id):
                spec = specs[tool_id]
                tool_of[key] = tool_id
                last = ended.get(key)
                first = key not in ended
                if spec.effect == "once" and not _may_be_made(last, honours=spec.honours_key):
                    yield f"at {record.seq} {tool_id!r} ({key}) is called again after {_said(last)}{_odd(spec)}"
                if spec.effect == "repeatable" and isinstance(last, e.CallCompleted):
                    yield f"at {record.seq} {tool_id!r} ({key}) is called again, though it had succeeded{_odd(spec)}"
                fresh = (
                    spec.volatile
                    or before.get(key) != effects
                    or _may_be_old(state, event.step_id, record, waits, read.get(key))
                )
                if spec.effect == "reads" and isinstance(last, e.CallCompleted) and not fresh:
                    yield f"at {record.seq} {tool_id!r} ({key}) is read again, though nothing has changed"
                ended[key] = event
                owners[key] = (event.step_id, _slot(event), _called(state, event.step_id, _slot(event)))
                before[key] = effects + (spec.effect != "reads")
                if spec.effect != "reads":
                    effects += 1
                    yield from (
                        _meant(state, event, record.seq, ended, owners)
                        if first and spec.effect == "once"
                        else ()
                    )
            case e.CallCompleted(call_key=key, reused=reused) if not reused:
                ended[key] = event
                read[key] = (record, waits)
                effects += specs[event.tool_id].effect != "reads"
            case e.CallCompleted(call_key=key):
                if key not in ended:
                    yield f"at {record.seq} the output of {key} is used again, which was never made"
            case e.CallFailed(call_key=key):
                ended[key] = event
                effects += specs[event.tool_id].effect != "reads"
            case e.OutcomeUnknown(call_key=key):
                ended[key] = event
                effects += 1
            case e.OutcomeSettled(call_key=key):
                ended[key] = event
                effects += 1
                denied[key] += not event.happened
        waits += isinstance(event, e.TaskWaiting)
        apply(state, event, record.ts, record.round)
    for key, count in story.source.effects.items():
        if key not in tool_of:
            yield f"{key} took effect and is not in the log"
        elif specs[tool_of[key]].effect == "once" and count > 1 + denied[key]:
            yield f"{tool_of[key]!r} ({key}) took effect {count} times"


def _may_be_old(state: State, step_id: str, now: Any, waits: int, last: tuple[Any, int] | None) -> bool:
    """A reading of an earlier round, after a wait for a person or some time, or where the plan has it wait for a deed of today."""
    if last is None or last[0].round == now.round:
        return False
    then, had_waited = last
    needs = [state.steps[name] for name in state.steps[step_id].step.dependencies if name in state.steps]
    calls = [call for need in needs for call in need.calls.values()]
    since = any(not call.reused and call.ended is not None and call.ended > then.ts for call in calls)
    return waits > had_waited or now.ts - then.ts >= OLD_SECS or since


def _is_reading(event: e.CallStarted | e.CallCompleted | e.CallFailed) -> bool:
    return event.action_id is not None and event.action_id.startswith(READING)


def _may_be_made(last: Any, *, honours: bool) -> bool:
    """Whether a call of a `once` tool may be made (again) after this."""
    match last:
        case None:
            return True
        case e.CallStarted():  # cut off
            return honours
        case e.CallFailed(error=error):
            return honours or error.happened == "no" or error.kind == "cancelled"
        case e.OutcomeSettled(happened=happened):
            return not happened
    return False


def _odd(spec: ToolSpec) -> str:
    return f" (volatile: {spec.volatile}, honours_key: {spec.honours_key})"


def _said(last: Any) -> str:
    error = getattr(last, "error", None)
    return last.type + (f" ({error.kind}: {error.message})" if error is not None else "")


def _meant(
    state: State, event: e.CallStarted, seq: int, ended: dict[str, Any], owners: dict[str, Any]
) -> Iterator[str]:
    """A like call is made only where each that may have taken effect belongs to another place of the plan.

    A place that the plan declares to `repeat` makes it beyond what others have done, once, and nothing in doubt again.
    """
    base, _ = split_key(event.call_key)
    here = (event.step_id, _slot(event))
    held = {
        call.key
        for name, step in state.steps.items()
        for slot, call in step.calls.items()
        if (name, tuple(slot)) != here
    }
    unheld = []
    for key, last in ended.items():
        if key == event.call_key or key in held or split_key(key)[0] != base or not _may_have_happened(last):
            continue
        name, slot, called = owners[key]
        if (name, slot) != here and _declared(state, *here) and not _is_in_doubt(last):
            continue
        if (name, slot) == here or _called(state, name, slot) != called:
            unheld.append(f"{key} by {name} {slot}")
    # A place that has made no call may mean any.
    free = sum(
        event.tool_id in (one.step.tool, *(a.tool for a in one.step.actions))
        for one in state.steps.values()
        if not one.calls and one.step.step_id != event.step_id
    )
    if len(unheld) > free:
        yield f"at {seq} {event.tool_id!r} ({event.call_key}) makes again what was made before: {'; '.join(unheld)}"


def _declared(state: State, name: str, slot: Any) -> bool:
    """Whether the plan says that this place, as it stands there, is to have its effect once more."""
    step = state.steps[name]
    if step.healing is not None and Slot(*slot) in step.healing.overrides:
        return False
    return step.step.repeat or any(a.repeat for a in step.step.actions if a.action_id == slot[0])


def _called(state: State, name: str, slot: Any) -> Any:
    """What a place of the plan calls, as it is written; None if the plan does not have it."""
    if name not in state.steps:
        return None
    step, action_id = state.steps[name].step, slot[0]
    if action_id is None:
        return None if step.actions else (step.tool, step.parameters, step.for_each)
    return next(((a.tool, a.parameters) for a in step.actions if a.action_id == action_id), None)


def _slot(event: e.CallStarted) -> Any:
    return (event.action_id, event.index)


def _is_in_doubt(last: Any) -> bool:
    if isinstance(last, e.CallFailed):
        return last.error.happened == "unknown"
    return isinstance(last, e.CallStarted | e.OutcomeUnknown)


def _may_have_happened(last: Any) -> bool:
    match last:
        case e.CallFailed(error=error):
            return error.happened == "unknown"  # type: ignore[no-any-return]
        case e.OutcomeSettled(happened=happened):
            return happened  # type: ignore[no-any-return]
    return True


# ── approvals ─────────────────────────────────────────────────────────────────


def approvals(story: Story) -> Iterator[str]:
    """What needs a person's yes has it, and what runs is what was shown, or what the person made of it."""
    specs = {spec.id: spec for spec in story.source.specs}
    requests: dict[str, e.ApprovalRequested] = {}
    said: dict[str, e.ApprovalResolved] = {}
    state = State()
    for record in story.records:
        match event := record.event:
            case e.ApprovalRequested():
                requests[event.approval_id] = event
            case e.ApprovalResolved() if event.approval_id in requests:
                said.setdefault(requests[event.approval_id].call_key, event)
            case e.CallStarted() if _is_reading(event):
                if state.policy.approval == "all":
                    yield f"at {record.seq} {event.tool_id!r} is read without anybody's yes"
            case e.CallStarted() if needs_approval(
                state.policy, state.steps[event.step_id].step, specs[event.tool_id]
            ):
                answer = said.get(event.call_key)
                agreed = answer is not None and answer.approved and answer.parameters is None
                edited = (_edited(event, requests[one.approval_id], one, state) for one in said.values())
                if not agreed and not any(edited):
                    yield f"at {record.seq} {event.tool_id!r} ({event.call_key}) is called, and nobody has agreed to it"
        apply(state, record.event, record.ts, record.round)


def _edited(event: e.CallStarted, asked: e.ApprovalRequested, said: e.ApprovalResolved, state: State) -> bool:
    """Whether a person has made just this call of the one that was shown; metadata may fill what they left out."""
    if not said.approved or said.parameters is None or asked.tool_id != event.tool_id:
        return False
    wanted = {**asked.parameters, **said.parameters}
    for name in said.without:
        wanted.pop(name, None)
        if name in event.parameters:
            wanted[name] = state.metadata.get(name)
    return event.parameters == wanted


# ── plans ─────────────────────────────────────────────────────────────────────


def plans(story: Story) -> Iterator[str]:
    """Every version passed the checks, and no id was used for anything else before."""
    tools = story.parts.tools
    box = Toolbox(tools.resolve, tools.nearest)
    used: set[str] = set()
    state = State()
    for record in story.records:
        event = record.event
        plan: Plan | None = None
        own: set[str] = set()
        match event:
            case e.PlanGenerated(plan=plan):
                pass
            case e.PlanUpdated(plan=plan):
                if event.strategy != "full_replan" and state.plan is not None:
                    own = _ids(state.plan.steps)
            case e.StepRepaired(step=step) if state.plan is not None:
                steps = tuple(step if one.step_id == step.step_id else one for one in state.plan.steps)
                plan = state.plan.model_copy(update={"steps": steps})
                own = _ids(state.plan.steps)
        if plan is not None:
            if again := (_ids(plan.steps) - own) & used:
                yield f"at {record.seq} new steps take ids that were used before: {sorted(again)}"
            earlier = dict.fromkeys(
                name
                for name, one in {**state.earlier, **state.steps}.items()
                if one.status == "succeeded" and name not in {step.step_id for step in plan.steps}
            )
            done = [one for one in {**state.earlier, **state.steps}.values() if one.step.step_id in earlier]
            earlier |= dict.fromkeys(action.action_id for one in done for action in one.step.actions)
            settled = {name for name, one in state.steps.items() if one.status == "succeeded"}
            same = [state.steps.get(step.step_id) for step in plan.steps]
            moot = {
                one.step.step_id for one in same if one is not None and one.moot and one.step in plan.steps
            }
            checked = check_plan(
                plan,
                box,
                metadata=state.metadata,
                limits=state.policy.limits,
                earlier=earlier,
                settled=settled,
                moot=moot,
            )
            if checked.violations:
                yield f"the plan at {record.seq} ({event.type}) does not pass: {checked.violations}"
            used |= _ids(plan.steps)
        apply(state, event, record.ts, record.round)


def same_plans(story: Story) -> Iterator[str]:
    """No whole plan is run that was tried before under whatever ids, unless that had failed of something outside, or it
    says that it means its effect once more, and the round of the one before was better than those before it; or another
    plan came between, which may have set otherwise what this one sets (`repeatable`), or a person has said something since."""
    known = story.driven.recovery
    better = {note.number: note.better for note in known.rounds} if known is not None else {}
    outside = {note.number: note.outside for note in known.rounds} if known is not None else {}
    volatile = {spec.id for spec in story.source.specs if spec.volatile}
    setting = {spec.id for spec in story.source.specs if spec.effect == "repeatable"}
    tried: dict[str, int] = {}
    latest = ""
    for record in story.records:
        event = record.event
        if isinstance(event, e.QuestionAnswered) or (
            isinstance(event, e.ApprovalResolved) and (event.parameters is not None or not event.approved)
        ):
            tried.clear()
        if not isinstance(event, e.PlanGenerated | e.PlanUpdated):
            continue
        whole, before = prints_of(event.plan)[0], latest
        latest = whole
        if _tools(event.plan.steps) & volatile or (whole != before and _tools(event.plan.steps) & setting):
            tried.setdefault(whole, record.round)
            continue
        anew = isinstance(event, e.PlanGenerated) or event.strategy == "full_replan"
        again = _repeats(event.plan.steps) and better.get(tried.get(whole, 0), False)
        if anew and whole in tried and not outside.get(tried[whole], False) and not again:
            yield f"the plan at {record.seq} is that of round {tried[whole]} again"
        if anew:
            tried[whole] = record.round


def _repeats(steps: tuple[Step, ...]) -> bool:
    return any(step.repeat or any(action.repeat for action in step.actions) for step in steps)


def _tools(steps: tuple[Step, ...]) -> set[str]:
    return {tool for step in steps for tool in (step.tool, *(action.tool for action in step.actions))}


def _ids(steps: tuple[Step, ...]) -> set[str]:
    return {name for step in steps for name in (step.step_id, *(action.action_id for action in step.actions))}


def outputs(story: Story, final: State) -> Iterator[str]:
    """What has finished can be referred to, and gives what it gave."""
    finished = {r.event.step_id for r in story.records if isinstance(r.event, e.StepCompleted)}
    steps = {**final.earlier, **final.steps}
    for name in sorted(finished):
        step = steps.get(name)
        if step is None or step.status != "succeeded":
            yield f"step {name!r} had succeeded, and is {step.status if step else 'gone'} by now"
            continue

        async def read(name: str = name, step: Any = step) -> Any:
            loaded = Loaded()
            await loaded.load_steps(story.store, final.task_id, [step])
            return resolve({"all": f"${{{name}.output}}"}, Scope(step.step, final, loaded))

        try:
            virtual_time(read())
        except Exception as error:  # noqa: BLE001 - told with all the others
            yield f"the output of {name!r} cannot be had: {error!r}"
