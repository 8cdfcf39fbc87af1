"""Judging a finished round, and writing the answer to the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from replan.core.data import schemas as json_schemas
from replan.core.data.for_readers import folded
from replan.core.data.read_json import Unreadable, read_json
from replan.core.data.spellings import one_spelling
from replan.core.data.taken_back import Beside, asks, said_beside
from replan.core.evaluation.accounts import Claim
from replan.core.types import Dimensions, Evaluation, JsonObject, LeftOutEffect, Plan, StepId, ToolSpec
from replan.reasoning.evaluation.claims import read_claims
from replan.reasoning.evaluation.grounding import ungrounded
from replan.reasoning.evaluation.scores import dimensions_in, read_scores
from replan.reasoning.prompting.ask import Talk, Unread, Violations, ask_typed
from replan.reasoning.prompting.describe import data_text, task_data, today_text
from replan.reasoning.prompting.history import final_steps, render_steps, shorten
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.large import put_together
from replan.reasoning.prompting.noes import words_beside
from replan.reasoning.prompting.offered import guided
from replan.reasoning.prompting.prompts import Rendered, fence, load
from replan.reasoning.prompting.read_values import spoken, texts, truth
from replan.reasoning.prompting.recovery_text import guidance_text, joined, section, tools_in_short
from replan.reasoning.prompting.schemas import allows_null, evaluation_schema
from replan.reasoning.prompting.view import StepReport, TaskView

DIMENSIONS = ("completeness", "correctness", "efficiency", "reliability")

_FIELDS = (
    *(
        "overall_score",
        "is_successful",
        "dimensions",
        "successes",
        "failures",
        "wrong_results",
        "improvement_suggestions",
    ),
    *("left_out_effects", "final_output"),
)
_STEP_CHARS = {"standard": 60_000, "small": 5_000}
_DATA_CHARS = {"standard": 6_000, "small": 800}
_TOOL_CHARS = 6_000
_MOST_SCHEMA_PROBLEMS = 20
_NOTHING: Final = object()
"""No answer was written: something else than null, which may be one."""
_MISSING = "final_output is missing: write the answer to the user"
_WITH_A_SHORTFALL = 80.0
"""Judged by steps, what has all its effects and lacks a reading."""
_BESIDE = (
    "is_successful is true beside {!r}, which says no: if you mean the yes, answer with the object alone; if not, is_successful is "
    "false"
)
_GROUNDING = (
    "final_output says {}, which stands in no output: copy from the outputs; if what the task asks for "
    "was not found out, is_successful is false"
)


_FAILURES_BESIDE = (
    "is_successful is true, and failures says: {}, though no step has failed: if the user lacks what was asked for, is_successful is "
    "false, with a score that says so; if it is a blemish, and no more, say the same again"
)


_SCORED_NOTHING = (
    "is_successful is true with an overall_score of 0: where what was asked for is done, say so in the score; where it is not, is_successful "
    "is false"
)


async def evaluate(
    talk: Talk,
    *,
    task: TaskView,
    plan: Plan,
    steps: Sequence[StepReport],
    unplanned: str = "",
    all_went_well: bool = False,
    output_schema: JsonObject | None = None,
    at_odds: Callable[[Evaluation], str] = lambda _: "",
    check_answer: Callable[[Any], Sequence[str]] = lambda _: (),
    account: Callable[[Mapping[StepId, Claim]], tuple[LeftOutEffect, ...]] = lambda _: (),
    tools: Sequence[ToolSpec] = (),
    enough: float = 80.0,
) -> Evaluation:
    """One call that judges and answers; `AnswerInvalid` if it cannot be understood after one correction.

    A successful evaluation has a `final_output`: a text, or what matches `output_schema` (null where that allows it)
    and passes `check_answer`; where the model wrote none, it is what the final steps gave. An answer of another form,
    and a judgement that is `at_odds` with itself, go back once; an answer that has still not the form is no success. So does a yes
    with failures where `all_went_well` (nothing in the whole task has failed): said again, it is a yes with a shortfall.
    `account` tells the effects that were planned and not had, with what the judge says of each; a small model is not asked
    about them, nor told what is `unplanned`, what the `tools` of the steps do, and which score is `enough`. `evaluation_id` is left to the caller.
    """

    fallback = _outputs(plan, steps, nothing=_NOTHING)
    left_out = account({})  # of a small model it is all that is known
    asked = left_out if talk.style != "small" else ()

    def read(answer: Any) -> _Judged:
        answer, twice = one_spelling(answer, _FIELDS)
        if twice:
            raise Violations([f"the evaluation has {fault}" for fault in twice])
        found = _read(answer, output_schema, fallback, in_full=talk.style != "small")
        judged = found.evaluation
        if judged.final_output is not None or judged.is_successful:
            found = _checked(found, check_answer)
        if asked:
            said = account(read_claims(answer.get("left_out_effects")))
            found = _Judged(found.evaluation.model_copy(update={"left_out": said}), found.faults)
        checked = talk.style == "small" and judged.is_successful and bool(steps) and not found.faults
        if checked and (doubts := _doubts(judged, task, steps)):
            raise Violations(doubts)
        return found

    def doubts(found: _Judged) -> list[str]:
        judged = found.evaluation
        strange = [at_odds(judged)]
        if judged.is_successful and judged.overall_score == 0 and talk.style != "small" and not strange[0]:
            strange.append(_SCORED_NOTHING)
        if all_went_well and judged.is_successful and judged.failures and talk.style != "small":
            strange.append(_FAILURES_BESIDE.format("; ".join(judged.failures)[:300]))
        return [*found.faults, *filter(None, strange)]

    found = await ask_typed(
        talk,
        "evaluation",
        await put_together(
            lambda: evaluation_prompt(
                talk.style, task, plan, steps, output_schema, asked, tools, enough, unplanned
            ),
            steps,
        ),
        schema_name="evaluation",
        json_schema=evaluation_schema(talk.style, output_schema, [one.step_id for one in asked]),
        read=read,
        alone=True,
        commits=lambda found: found.evaluation.is_successful,
        beside=lambda answer: _beside(answer).unknown,
        needed=("overall_score", "is_successful", "dimensions"),
        instead=DIMENSIONS,
        doubts=doubts,
    )
    judged = of_another_form(found.evaluation, found.faults) if found.faults else found.evaluation
    if asked or not left_out:
        return judged
    return judged.model_copy(update={"left_out": tuple(one.by_steps() for one in left_out)})


class _Judged(NamedTuple):
    """A judgement, and what is wrong with the form of its answer."""

    evaluation: Evaluation
    faults: tuple[str, ...]


def _checked(found: _Judged, check_answer: Callable[[Any], Sequence[str]]) -> _Judged:
    """The same with what the caller's own check says of the answer; one of a failure that does not pass is left out."""
    judged = found.evaluation
    if found.faults or not (faults := check_answer(judged.final_output)):
        return found
    if judged.is_successful:
        return _Judged(judged, tuple(f"final_output: {fault}" for fault in faults))
    return _Judged(judged.model_copy(update={"final_output": None}), ())


def of_another_form(evaluation: Evaluation, faults: Sequence[str]) -> Evaluation:
    """The judgement on an answer that has not the form asked for: no success, and not that answer."""
    told = tuple(f"the answer has not the form asked for: {fault}" for fault in faults[:10])
    return evaluation.model_copy(
        update={
            "overall_score": 0.0,
            "is_successful": False,
            "failures": (*evaluation.failures, *told),
            "wrong_results": (*evaluation.wrong_results, *told),
            "wrong_form": tuple(faults[:10]),
            "final_output": None,
        }
    )


def evaluation_prompt(
    style: str,
    task: TaskView,
    plan: Plan,
    steps: Sequence[StepReport],
    output_schema: JsonObject | None,
    left_out: Sequence[LeftOutEffect] = (),
    tools: Sequence[ToolSpec] = (),
    enough: float = 80.0,
    unplanned: str = "",
) -> Rendered:
    """The evaluation prompt, filled in."""
    data = task_data(task, limit=_DATA_CHARS[style])
    final = final_steps(plan, steps)
    rendered = render_steps(
        steps, limit=_STEP_CHARS[style], final=final, plain=style == "small", planned=True
    )
    values = {
        "task": fence("task", task.description),
        "data": guided(data_text(task, data, style), guidance_text(task, style) if style == "small" else ""),
        "steps": fence("steps", rendered),
        "output": _output_wanted(style, output_schema),
    }
    if style != "small":
        values["today"] = today_text(task, style)
        values["guidance"] = f"# Advice for this kind of task\n\n{task.guidance}" if task.guidance else ""
        values["plan"] = _plan_note(plan, unplanned)
        values["left_out"] = _left_out_note(left_out)
        values["tools"] = tools_in_short("What the tools do:", tools, _TOOL_CHARS) if tools else ""
        values["enough"] = (
            f"An `overall_score` of {enough:g} or more says that the task is done, a lower one that it is not."
        )
    return load("evaluate", style).render(**values)


def _output_wanted(style: str, output_schema: JsonObject | None) -> str:
    if output_schema is None:
        return "final_output is a text." if style == "small" else "`final_output` is a text for the user."
    import json

    shown = shorten(json.dumps(inline(output_schema), ensure_ascii=False), 20_000)
    told = f"final_output has to be a value of this JSON Schema:\n{shown}"
    if style != "small" and allows_null(output_schema):
        told += "\nnull is an answer here. If there is no answer to give, leave final_output out."
    return told


def _left_out_note(left_out: Sequence[LeftOutEffect]) -> str:
    """The effects that the judge has to account for."""
    if not left_out:
        return ""
    told = fence("left out", "\n".join(f"{one.step_id}: {one.what}" for one in left_out))
    itself = (
        " Where a step has had the effect of another tool in place of the planned one, that is this very step, if what it did "
        "is the thing that the user asked for, and not merely something like it."
        if any(one.stand_in for one in left_out)
        else ""
    )
    return (
        f"Effects that were planned and not had:\n{told}\n"
        'Account for each in `left_out_effects`, with `{"step": "...", "made_good_by": "...", "not_needed": "...", "in_one": null}`. '
        "`made_good_by`: the later step whose own effect the user has in its place; a reading is none, nor is an effect that "
        f"was planned for something else.{itself} One effect makes good one: where several effects of a step were not had, it is a list of "
        "the steps that had theirs; where a step has really done several in one call, `in_one` says how. `not_needed`: why the user has what was asked for without it. Where neither holds "
        "both are null, and `is_successful` is false."
    )


def _plan_note(plan: Plan, unplanned: str) -> str:
    why = (
        f"Why the plan was made so:\n{fence('reasoning', shorten(plan.reasoning, 1_000))}"
        if plan.reasoning
        else ""
    )
    if plan.more:
        rest = section(
            "The plan is a first part. This is still to be planned by it, so that the task is not done:",
            "still to be planned",
            shorten(plan.more, 1_500),
        )
        why = joined(why, rest)
    elif unplanned:
        rest = section(
            "This is told of the plans before. What was still to be done by it is done only if the steps show it:",
            "still to be planned",
            shorten(unplanned, 1_500),
        )
        why = joined(why, rest)
    if plan.steps:
        return why
    return (
        "The plan had no steps: no tool was called. If the task needs none, answer it yourself; if something was to be "
        f"done or found out, it is not done.\n{why}"
    ).strip()


def _doubts(found: Evaluation, task: TaskView, steps: Sequence[StepReport]) -> list[str]:
    """What speaks against a success that a small model has told."""
    strange = ungrounded(found.final_output, task, steps)
    return [_GROUNDING.format(", ".join(strange))] if strange else []


# ── reading ───────────────────────────────────────────────────────────────────


def _read(answer: Any, output_schema: JsonObject | None, fallback: Any, *, in_full: bool = False) -> _Judged:
    """`in_full`: a no is told with all that is said beside it."""
    problems: list[str] = []
    scores: dict[str, float] = {}
    lacking = [name for name in ("overall_score", "is_successful") if name not in answer]
    if lacking or (given := dimensions_in(answer, DIMENSIONS)) is None:
        raise Unread([f"the answer has no {name!r}" for name in lacking or ("dimensions",)])
    if isinstance(given, dict):
        given, twice = one_spelling(given, DIMENSIONS)
        problems += [f"dimensions has {fault}" for fault in twice]
        raw = {"overall_score": answer["overall_score"]}
        missing = [name for name in DIMENSIONS if name not in given]
        problems += [f"dimensions has no {name!r}" for name in missing]
        raw.update({name: given[name] for name in DIMENSIONS if name in given})
        try:
            scores = read_scores(raw)
        except Violations as error:
            problems += error.problems
    else:
        problems.append(f"dimensions has to be an object with {', '.join(DIMENSIONS)}")
    success = truth(answer["is_successful"])
    if success is None:
        problems.append(f"is_successful has to be true or false, not {str(answer['is_successful'])[:40]!r}")
    elif success:
        problems += [_BESIDE.format(said) for said in _beside(answer).denying]
    output, faults = _final_output(
        answer.get("final_output", _NOTHING), output_schema, fallback, wanted=bool(success)
    )
    if output is _NOTHING:
        problems.append(_MISSING)
    if problems or success is None:
        raise Violations([*problems, *faults])
    judged = Evaluation(
        overall_score=scores["overall_score"],
        is_successful=success,
        dimensions=Dimensions(**{name: scores[name] for name in DIMENSIONS}),
        successes=texts(answer.get("successes")),
        failures=spoken(answer.get("failures")),
        improvement_suggestions=(
            *texts(answer.get("improvement_suggestions")),
            *(_also_said(answer) if in_full and not success else ()),
        ),
        wrong_results=_wrong_results(answer, success=success),
        final_output=output,
    )
    return _Judged(judged, tuple(faults))


def _also_said(answer: Mapping[str, Any]) -> list[str]:
    """What a judge that says no says beside its fields, and asks in its answer."""
    answered = answer.get("final_output")
    asked = [answered] if isinstance(answered, str) and asks(answered) else []
    return [*asked, *words_beside(answer, _FIELDS)]


def _beside(answer: Mapping[str, Any]) -> Beside:
    """What a judge says beside the fields of a yes, and among the dimensions."""
    score = answer.get("overall_score")
    score = score if isinstance(score, int | float) else None
    among = dimensions_in(answer, DIMENSIONS)
    among = among if isinstance(among, Mapping) else {}
    scored = {k: v for k, v in among.items() if not _is_a_score(v)}
    flat = among if answer.get("dimensions") in (None, "") else ()
    told = {name: value for name, value in answer.items() if name not in flat}
    whole, inside = said_beside(told, _FIELDS, score), said_beside(scored, DIMENSIONS)
    with_scores = [
        one
        for part in among.values()
        if isinstance(part, Mapping)
        for one in said_beside(part, (*DIMENSIONS, "score")).denying
    ]
    return Beside(
        whole.unknown + inside.unknown, (*whole.denying, *inside.denying, *with_scores, *_zeros(told))
    )


def _zeros(answer: Mapping[str, Any]) -> Iterator[str]:
    """Each dimension that is 0 where it stands beside the dimensions: so nothing is done, or nothing is right."""
    for place, value in answer.items():
        part = value if isinstance(value, Mapping) else {place: value}
        for name, score in part.items():
            if place != "dimensions" and folded(name) in DIMENSIONS[:2] and _is_a_score(score) and not score:
                yield f"{name}: {score}"


def _is_a_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_WRONG = re.compile(r"\b(wrong|incorrect|mistaken|not correct|not right)\b|错误|不正确|不对", re.IGNORECASE)


def _wrong_results(answer: Mapping[str, Any], *, success: bool) -> tuple[str, ...]:
    """What a judge has found wrong. One that says no and was not asked for it, or has left it out, may have said it in other words."""
    if success or "wrong_results" in answer:
        return spoken(answer.get("wrong_results"))
    return tuple(failure for failure in texts(answer.get("failures")) if _WRONG.search(failure))


def _final_output(
    output: Any, output_schema: JsonObject | None, fallback: Any, *, wanted: bool
) -> tuple[Any, list[str]]:
    """The answer to the user and what is wrong with its form; `_NOTHING` where one is wanted and there is none.

    What fits the schema is an answer, null included. What does not is none, and no output of a step passes for it: only
    where nothing at all was written, the `fallback` is the answer, and not even there where the schema has null, which may have been
    meant. Without a schema null and an empty text are nothing.
    """
    blank = output is None or (isinstance(output, str) and not output.strip())
    if output is _NOTHING or (blank and output_schema is None):
        if not wanted:
            return None if output is _NOTHING else output, []
        output = _NOTHING if allows_null(output_schema) else fallback
    if output_schema is None or output is _NOTHING:
        return output, []
    faults = json_schemas.problems(output_schema, output)
    if faults and isinstance(output, str):
        try:
            opened = read_json(output)
        except Unreadable:
            pass
        else:
            if not json_schemas.problems(output_schema, opened):
                return opened, []
    if not faults:
        return output, []
    if not wanted:
        return None, []
    return None, [f"final_output: {fault}" for fault in faults[:_MOST_SCHEMA_PROBLEMS]]


# ── without a model ───────────────────────────────────────────────────────────


def evaluate_by_steps(
    plan: Plan,
    steps: Sequence[StepReport],
    *,
    used: Collection[StepId] = (),
    undone: Sequence[str] = (),
    missing: Sequence[str] = (),
    without: Sequence[str] = (),
) -> Evaluation:
    """Success when every step succeeded (or was left out by its condition); the answer is what the last steps gave.

    `used`: the other steps, where all have succeeded: what they gave has gone on. `undone`: effects that were planned, and that
    nothing made up for: with one of them it is no success. `missing`: readings of that kind, which are a shortfall. `without`:
    what the plan lets steps do without; it is told, and costs nothing.
    One final step: its output. Several: `{step_id: output}`. A plan without steps has nothing to answer with.
    """
    reports = {step.step_id: step for step in steps}
    done = [
        name
        for name in [s.step_id for s in plan.steps]
        if name in used or (name in reports and reports[name].status == "succeeded")
    ]
    skipped = [
        s.step_id for s in plan.steps if s.step_id in reports and reports[s.step_id].status == "skipped"
    ]
    well = {*done, *skipped}
    failures = [_why(s.step_id, reports.get(s.step_id)) for s in plan.steps if s.step_id not in well]
    failures += undone
    if not plan.steps and not failures:
        failures.append("the plan has no steps, so there is nothing to answer with")
    wanted = len(plan.steps) + len(undone) + len(missing)
    whole = not failures and not missing
    share = 100.0 if whole else round(100.0 * len(well) / max(1, wanted), 1)
    score = share if whole else min(share, 50.0) if failures else _WITH_A_SHORTFALL
    return Evaluation(
        overall_score=score,
        is_successful=not failures,
        dimensions=Dimensions(completeness=share, correctness=score, efficiency=100.0, reliability=share),
        successes=tuple([f"{name} succeeded" for name in done]),
        failures=(*failures, *missing, *without),
        final_output=_outputs(plan, steps),
    )


def _outputs(plan: Plan, steps: Sequence[StepReport], *, nothing: Any = None) -> Any:
    """What the final steps gave: one → its value, several → `{step_id: value}`, none → `nothing`."""
    reports = {step.step_id: step for step in steps}
    outputs = {name: reports[name].value() for name in final_steps(plan, steps)}
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs or nothing


def _why(step_id: str, report: StepReport | None) -> str:
    if report is None:
        return f"{step_id} did not run"
    why = report.error_text() or report.reason
    return f"{step_id} {report.status}: {why}" if why else f"{step_id} {report.status}"
