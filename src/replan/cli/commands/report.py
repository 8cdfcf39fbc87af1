"""The end of a task in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replan.cli.terminal.again import again, to_go_on
from replan.cli.terminal.remote.meant import speaks_to_service
from replan.cli.terminal.terminal import Out, paint, say
from replan.cli.terminal.words import clean, counted, money, secs
from replan.core.words import some, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replan.core.report.result import TaskResult, WaitingFor

_COLOUR = {"succeeded": "green", "waiting": "yellow", "cancelled": "yellow"}


def tell_result(result: TaskResult, out: Out, *, json: bool, events: bool, by_workers: bool = False) -> None:
    """The answer on stdout; on stderr how it ended, and why if it did not succeed. `by_workers`: they go on with it.

    What a task left that did not succeed is no answer: it goes to stderr, and a script gets nothing.
    """
    if json:
        out.json(as_json(result))
    elif not events and result.final_output is not None:
        if result.is_success:
            out.answer(result.final_output)
        else:
            say(f"no answer; partial output: {clean(text_of(result.final_output), 2_000)}")
    for line in summary(result, by_workers=by_workers):
        say(line)


def as_json(result: TaskResult) -> dict[str, object]:
    """The result object; what the library has another name for stands under that, too."""
    told = result.model_dump(mode="json")
    names = {
        "output": "final_output",
        "succeeded": "is_success",
        "score": "final_score",
        "rounds": "total_rounds",
    }
    return told | {name: told[own] for name, own in names.items()}


def summary(result: TaskResult, *, by_workers: bool = False) -> list[str]:
    """How the task ended, in one line; and for one that did not succeed: why, and what a person could do."""
    status = result.status.replace("_", " ")
    parts = [paint(status, _COLOUR.get(result.status, "red")), f"in {secs(result.total_duration_secs)}"]
    if result.final_score is not None:
        parts.append(f"with {result.final_score:g} of 100")
    used = result.usage
    spent = [counted(used.llm_calls, "model call"), counted(used.tool_calls, "tool call")]
    if tokens := used.input_tokens + used.output_tokens:
        spent.append(f"{tokens:,} tokens")
    if used.cost_usd:
        spent.append(money(used.cost_usd))
    parts.append(f"({', '.join(spent)})")
    lines = [f"{' '.join(parts)} {paint(result.task_id, 'dim')}"]
    lines += [f"  done in substance, but: {clean(text, 1_000)}" for text in result.shortfall]
    lines += waiting_lines(result.task_id, result.waiting_for, by_workers=by_workers)
    failure = result.failure
    if failure is not None:
        lines.append(f"  why: {clean(failure.reason, 2_000)}")
        told = failure.reason
        for label, texts in (("cause: ", failure.root_causes), ("- ", failure.violations)):
            for text in texts:
                if text not in told:
                    told += text
                    lines.append(f"  {label}{clean(text, 1_000)}")
        finished = [step.step_id for step in result.steps if step.status == "succeeded"]
        if finished:
            lines.append(
                f"  finished {'step' if len(finished) == 1 else 'steps'}: {some(finished, 10)} "
                f"({'its output' if len(finished) == 1 else 'their outputs'}: "
                f"{again('tasks', 'result', result.task_id, '--json')})"
            )
        if len(failure.tried) > 1:
            lines.append(f"  tried: {clean('; '.join(failure.tried[:4]), 600)}")
            lines.append(f"  (all of it: {again('tasks', 'show', result.task_id)})")
        for label, texts in (
            ("done", failure.done),
            ("not done", failure.undone),
            ("in doubt", failure.in_doubt),
        ):
            lines += [f"  {label}: {clean(text, 1_000)}" for text in texts[:10]]
            if len(texts) > 10:
                lines.append(
                    f"  {label}: {len(texts) - 10} more ({again('tasks', 'result', result.task_id, '--json')})"
                )
        lines += [f"  to do: {clean(advice, 1_000)}" for advice in failure.advice]
    return lines


def waiting_lines(task_id: str, waiting: Sequence[WaitingFor], *, by_workers: bool = False) -> list[str]:
    """What a task waits for, each with the command that gives it, and how it goes on then."""
    from json import dumps

    from replan.core.waits.questions import right_answer

    lines = []
    for one in waiting:
        lines.append(f"  {f'{one.kind} {one.id}'.strip()}: {clean(one.text, 1_000)}")
        if one.background:
            lines.append(f"    {clean(one.background, 1_000)}")
        if one.parameters is not None:
            shown = clean(dumps(one.parameters, ensure_ascii=False, default=str), 1_000)
            lines.append(f"    {one.tool_id}({shown})")
            lines.append(f"    to agree:  {again('tasks', 'approve', task_id, one.id)}")
            lines.append(f"    to refuse: {again('tasks', 'reject', task_id, one.id)} --reason TEXT")
        elif one.kind == "review":
            lines.append(f"    to see it:  {again('tasks', 'review', task_id)}")
            lines.append(f"    to agree:   {again('tasks', 'review', task_id, '--approve')}")
            lines.append(f"    to refuse:  {again('tasks', 'review', task_id, '--reject')} --reason TEXT")
        elif one.kind == "callback":
            lines.append(f"    to use it: {again('tasks', 'signal', task_id, one.id)} --data JSON")
        elif one.id:
            if one.kind == "question":
                lines.append(f"    right is:  {clean(right_answer(one.answer_schema), 1_000)}")
            lines.append(f"    to answer: {again('tasks', 'answer', task_id, '--question', one.id)} TEXT")
    if not waiting:
        return lines
    kinds = {one.kind for one in waiting}
    if "pause" in kinds:
        lines.append(f"  to go on with it: {to_go_on(task_id)}")
    elif by_workers and not any(one.id == "" and one.kind != "time" for one in waiting):
        lines.append(f"  then {'the service' if speaks_to_service() else 'a worker'} goes on with it")
    elif kinds == {"time"}:
        lines.append(f"  to wait with it: {to_go_on(task_id)}")
    else:
        secrets = [f" --secret {name}=env:VARIABLE" for one in waiting for name in one.secrets]
        lines.append(f"  then continue: {to_go_on(task_id)}{''.join(secrets)}")
    return lines
