"""Why a task ended without success, in words for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replan.core.calls.site import items_in_words
from replan.core.limits.budget import Reached
from replan.core.report.judgement import contradiction
from replan.core.state.task import CallState, State, StepState
from replan.core.types import Evaluation, Failure, Fault
from replan.core.words import beginning, in_digits, one_line, some

_ADVICE = {
    "parameter_error": "Check the values: the task may name something that does not exist, or the tool's description may mislead.",
    "tool_error": "Look at what the tool reports, fix the tool or offer another one.",
    "dependency_error": "Look at the output that was referred to: it has another form than the plan expected.",
    "server_error": "The service behind the tool failed: try again later, or ask whoever runs it.",
    "external_error": "Check that the service is reachable and that its credentials and quota are in order.",
    "unknown": "Look at the events of the task: `replan tasks show` has every call with its error.",
}


MODEL_ADVICE = (
    "Do what the endpoint's message asks for; where it has none, check that it runs, and its name and key."
)


def advice_for(category: str) -> str:
    """What a person can do about a cause."""
    return _ADVICE.get(category, _ADVICE["unknown"])


def _advice(fault: Fault) -> str:
    if fault.kind == "approval":
        return "Run it where a person can be asked: --interactive, or Replan(interactive=True)."
    if fault.kind == "question":
        return (
            "Say in the task what its question asks for, or run it where a person can be asked: --interactive, or "
            "Replan(interactive=True)."
        )
    if fault.kind == "rejected":
        return "A person rejected the call: describe the task so that it does without it, or approve the call next time."
    if fault.kind == "tool_changed":
        return (
            "A tool has changed since the plan was made. Mend the plan (`replan tasks plan ID > plan.json`) and go on with it in a "
            "fork (`replan tasks fork ID --plan plan.json`: nothing is done twice), or bring the older tool back and try the step "
            "again (`replan tasks fork ID --retry STEP`)."
        )
    return advice_for(fault.category)


def cancelled(state: State) -> Failure:
    cancel = state.cancel
    why = f": {cancel.reason}" if cancel and cancel.reason else ""
    who = f" by {cancel.by}" if cancel and cancel.by else ""
    return Failure(
        kind="cancelled",
        reason=f"cancelled{who}{why}",
        tried=attempts_made(state),
        advice=_doubts(state) or (() if state.took_effect else ("Submit the task again to start over.",)),
    )


def timed_out(state: State, secs: float) -> Failure:
    running = [step.step.step_id for step in state.steps.values() if not step.closed]
    at = f" while {_list(running)} had not finished" if running else ""
    return Failure(
        kind="timeout",
        reason=f"the time limit of {in_digits(secs)} seconds was reached{at}",
        root_causes=failed_so_far(state),
        tried=attempts_made(state),
        advice=(
            *_doubts(state),
            *_refused(state),
            "Allow more time (--timeout, or [orchestrator] task_timeout_secs).",
        ),
        limit="task_timeout_secs",
    )


def budget(state: State, limit: Reached) -> Failure:
    return Failure(
        kind="budget",
        reason=f"the budget {limit.words} was reached",
        root_causes=failed_so_far(state),
        tried=attempts_made(state),
        advice=(*_doubts(state), f"Raise {limit.name} under [budget], or make the task smaller."),
        limit=limit.name,
    )


def failed_so_far(state: State) -> tuple[str, ...]:
    """What had failed of its own when a limit ended the task: it may be why so much was used."""
    return tuple(
        f"{step_words(step)}: {step.fault.message}"
        for step in state.steps.values()
        if step.status == "failed" and step.fault is not None and step.fault.kind != "cancelled"
    )[:50]


def broken_steps(state: State) -> list[str]:
    """The steps of the plan that failed, each with why."""
    failed = [step for step in state.steps.values() if step.status == "failed"]
    return [f"{step_words(step)}: {step.fault.message}" for step in failed if step.fault]


def steps_left(state: State) -> list[str]:
    """The steps of the plan that were to run and have not, and those that a later plan left out undone and without one in their place: where
    nobody has judged which of them matter."""
    known = state.recovery
    gone = (
        [one for name, one in known.dropped.items() if name not in known.replaced]
        if known is not None
        else []
    )
    left = [
        f"{step_words(step)} was left out by a later plan"
        for step in gone
        if step.status != "succeeded" and not step.moot
    ]
    return [*left, *(f"{step_words(step)} was not done" for step in state.steps.values() if step.was_left)]


def steps_failed(state: State) -> Failure:
    failed = [step for step in state.steps.values() if step.status == "failed"]
    causes = broken_steps(state)
    held = [step.step.step_id for step in state.steps.values() if step.was_left]
    reason = f"{step_words(failed[0])} failed: {_short(failed[0].fault)}"
    if len(failed) > 1:
        reason += f" (and {len(failed) - 1} more failed)"
    if held:
        reason += f"; so {_list(held)} could not run"
    advice = dict.fromkeys(_advice(step.fault) for step in failed if step.fault)
    return Failure(
        kind="step",
        reason=reason,
        root_causes=few(causes),
        tried=attempts_made(state),
        advice=few(advice),
    )


MOST_TOLD = 50
"""Of one kind of thing in an account of a task."""


def few(texts: Iterable[str]) -> tuple[str, ...]:
    """The first of very many, and how many more there are: the log has them all."""
    told = list(texts)
    if len(told) <= MOST_TOLD:
        return tuple(told)
    return (*told[:MOST_TOLD], f"and {len(told) - MOST_TOLD:,} more")


def judged_failed(state: State, evaluation: Evaluation) -> Failure:
    score, enough = evaluation.overall_score, state.policy.success_threshold
    judged = f"the result was judged {score:g} of 100"
    by_steps = state.evaluation is not None and state.evaluation.by == "steps"
    wrong = evaluation.wrong_results
    missing = [one.what for one in evaluation.left_out if one.missing]
    found = contradiction(state.policy, evaluation)
    if evaluation.wrong_form:
        reason = f"the answer has not the form asked for: {_cut(evaluation.wrong_form[0])}"
    elif by_steps and evaluation.failures:
        reason = (
            f"not all of the plan was done: {_cut(evaluation.failures[0])}{_and_more(evaluation.failures)}"
        )
    elif found == "wrong":
        reason = f"{judged}, and wrong is: {_cut(wrong[0])}"
    elif found == "left_out":
        reason = f"{judged}, and nothing makes good what was left out: {_cut(missing[0])}"
    elif found == "parts_too_low":
        parts = evaluation.dimensions
        reason = (
            f"{judged} and successful, with a correctness of {parts.correctness:g} and a completeness of {parts.completeness:g}, which "
            "contradict each other"
        )
    elif found is not None:
        flag = "successful" if evaluation.is_successful else "not successful"
        reason = f"{judged} and {flag}, which contradict each other: {enough:g} and more counts as success"
    elif evaluation.is_successful:
        more = state.plan.more if state.plan is not None else ""
        why = f"by its plan this was still to be planned: {_cut(more)}" if more else "a step had failed"
        reason = f"{judged}, and {why}"
    else:
        first = (*wrong, *missing, *evaluation.failures)[:1]
        reason = f"{judged}, and {enough:g} is needed" + "".join(f": {_cut(cause)}" for cause in first)
    hint = (
        "Look at the steps that gave what is wrong: a tool may be at fault, or what it was given."
        if wrong
        else "Say more precisely what the result has to contain."
    )
    return Failure(
        kind="judgement",
        reason=reason,
        root_causes=tuple(dict.fromkeys((*wrong, *evaluation.failures, *missing))),
        tried=attempts_made(state),
        advice=evaluation.improvement_suggestions or (hint,),
    )


def shortfall(state: State) -> str:
    """Why a judged round does not do, in one sentence."""
    judged = state.evaluation.evaluation if state.evaluation else None
    failed = [step for step in state.steps.values() if step.status == "failed"]
    if judged is None and state.recovery is not None and state.recovery.outdated:
        return "a person has said something since the round was judged"
    if judged is None:
        return "the round could not be judged"
    if failed:
        return f"{step_words(failed[0])} failed: {_short(failed[0].fault)}"
    return judged_failed(state, judged).reason


def unjudged(state: State) -> Failure:
    why = state.evaluation.reason if state.evaluation else ""
    return Failure(
        kind="unjudged",
        reason="the result could not be judged" + (f": {why}" if why else ""),
        tried=attempts_made(state),
        advice=(
            "Look at the outputs, which are kept, and judge for yourself; a stronger model judges more surely.",
        ),
    )


def planning_failed(state: State, violations: Sequence[str]) -> Failure:
    return Failure(
        kind="planning",
        reason="no plan passed the checks"
        + (f": {violations[0]}{_and_more(violations)}" if violations else ""),
        root_causes=tuple(violations),
        violations=tuple(violations),
        tried=refusals(state),
        advice=("Describe the task more precisely, offer the tools it needs, or use a stronger model.",),
    )


def _and_more(texts: Sequence[str]) -> str:
    return f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""


def refusals(state: State) -> tuple[str, ...]:
    """The plans that were rejected, in words."""
    return tuple(
        f"plan {n} was rejected: {_count(len(one.violations), 'error')}"
        for n, one in enumerate(state.rejections, 1)
    )


def model_failed(state: State, message: str) -> Failure:
    return Failure(
        kind="model",
        reason=f"the model gave no usable answer: {message}",
        root_causes=(message,),
        tried=attempts_made(state),
        advice=(MODEL_ADVICE,),
    )


def internal(state: State, message: str, *, ours: bool = True) -> Failure:
    """An error that nothing has handled. `ours`: nobody has raised it on purpose."""
    return Failure(
        kind="internal",
        reason=f"a fault of Replan: {message}" if ours else message,
        root_causes=(message,),
        tried=attempts_made(state),
        advice=(
            *_doubts(state),
            "Every event up to here is kept; please report it with `replan tasks show --json`."
            if ours
            else "Every event up to here is kept.",
        ),
    )


def _refused(state: State) -> tuple[str, ...]:
    """What to do if time went by with plans that did not pass."""
    if state.plan is not None or not state.rejections:
        return ()
    last = state.rejections[-1].violations
    told = f"{len(state.rejections)} plans were rejected ({_cut(last[0])})"
    return (f"{told}: describe the task more precisely, offer the tools it needs, or use a stronger model.",)


def _doubts(state: State) -> tuple[str, ...]:
    return few(find_out(call) for call in state.in_doubt.values())


def find_out(call: CallState) -> str:
    """What a person does about a call in doubt."""
    return f"Find out whether {call_words(call)} took effect (call key {call.key}) before you run it again."


def attempts_made(state: State) -> tuple[str, ...]:
    """Every call that has failed and how often, in words."""
    out = []
    for step in state.steps.values():
        for call in step.calls.values():
            if call.fault is not None and call.status != "succeeded":
                times = f"{call.attempt} times" if call.attempt > 1 else "once"
                out.append(f"{call_words(call)} was tried {times}: {_short(call.fault)}")
    return tuple(out[:50])


def call_words(call: CallState) -> str:
    """`the call of 'pay' in step 'step_2'`."""
    at = call.slot.words()
    return f"the call of {call.tool_id!r} in step {call.step_id!r}" + (f", {at}" if at else "")


def step_words(step: StepState) -> str:
    """`step 'step_2' (pay)`."""
    what = step.step.tool or "actions"
    return f"step {step.step.step_id!r} ({what})"


def never_ran(step: StepState) -> str:
    """A step of which not all was done that it was for, in words: it was skipped because of something else, or the task ends before."""
    if step.skip is not None:
        return f"{step_words(step)} was to have an effect, and never ran: {step.skip.reason}"
    if step.calls:
        return f"{step_words(step)} was to have an effect, and was not done to its end: the task ended before"
    return f"{step_words(step)} was to have an effect, and never ran: the task ended before it was started"


def without_items(step: StepState) -> str:
    """A step that its plan lets do without some items, in words."""
    return f"{step_words(step)} is without {items_in_words(step.left_out)}, which failed"


def _short(fault: Fault | None) -> str:
    return beginning(one_line(fault.message)) if fault else "for an unknown reason"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _list(names: Sequence[str]) -> str:
    return some([repr(name) for name in names], 5)


def _cut(text: str) -> str:
    return beginning(text, 200)
