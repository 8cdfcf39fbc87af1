"""From a task and its tools to a plan that has passed the checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replan.core.kinds.known import NOTHING_OFFERED, Offered
from replan.core.plan.check import Checked
from replan.core.plan.fields import INSTEAD_OF_STEPS, named_of_plan
from replan.core.plan.read import PlanMisread
from replan.core.references.refs import Reference, parse, whole
from replan.core.types import Frozen, JsonObject, Plan, Step, StepId, ToolSpec
from replan.core.walk import texts_in
from replan.errors import AnswerInvalid, PlanInvalid
from replan.reasoning.planning.fields import hints, item_problems, name_fields, of_steps, strict_problems
from replan.reasoning.planning.in_place import InPlace, prose_of
from replan.reasoning.planning.invented import invented_links
from replan.reasoning.planning.loosen import loosen
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.describe import (
    data_text,
    output_text,
    samples_of,
    samples_text,
    task_data,
    today_text,
    tool_lines,
)
from replan.reasoning.prompting.noes import noes_in
from replan.reasoning.prompting.offered import guided, offered_text, with_choice
from replan.reasoning.prompting.previous import written_before
from replan.reasoning.prompting.prompts import Rendered, fence, load
from replan.reasoning.prompting.recovery_text import guidance_text, joined
from replan.reasoning.prompting.schemas import plan_schema
from replan.reasoning.prompting.view import TaskView

_TOOL_CHARS = {"standard": 60_000, "small": 4_000}
_DATA_CHARS = {"standard": 12_000, "small": 1_500}


class Planned(Frozen):
    """A plan that passed, and what the answer said besides. `corrections`: answers refused before it."""

    plan: Plan
    task_type: str = "default"
    workflow_id: str | None = None
    reasoning: str = ""
    corrections: int = 0

    @property
    def by_workflow(self) -> bool:
        """It is no plan, but names the workflow that one is to be built from."""
        return self.workflow_id is not None and not self.plan.plan_id


async def make_plan(
    talk: Talk,
    *,
    task: TaskView,
    tools: Sequence[ToolSpec],
    new_plan: Callable[[JsonObject], Plan],
    check: Callable[[Plan], Checked | Sequence[str]],
    corrections: int,
    on_rejected: Callable[[tuple[str, ...], int], None],
    offered: Offered = NOTHING_OFFERED,
) -> Planned:
    """Ask for a plan until one passes, at most `corrections` times more than once.

    `offered`: the kinds of task, and the workflows, of which the answer may name one in place of steps.

    `new_plan` reads the answer (`PlanInvalid` for a wrong shape); `check` gives the violations, or a `Checked`
    whose plan (names folded, dependencies united) is the one returned. `on_rejected(violations, attempt)` is
    told of each refused answer. `PlanInvalid` with the last full list when none passed.
    """

    in_place = InPlace(task.description)

    def read(answer: Any) -> Planned:
        if talk.style != "small":
            if (named := _in_place_of_steps(answer, offered)) is not None:
                return named
            planned = read_planned(answer, new_plan, check, in_place)
            check_no_steps(answer, planned.plan, in_place)
            return planned
        planned = read_small(answer, new_plan, check, tools, {})
        plan = planned.plan
        if problems := [
            *objects_in_texts(plan, tools),
            *item_problems(plan, tools),
            *invented_links(plan, task, tools),
        ]:
            raise Violations(problems)
        return checked_again(planned, loosen(planned.plan, tools), check)

    return await ask_plan(
        talk,
        plan_prompt(talk.style, task, tools, offered),
        with_choice(
            plan_schema(talk.style, tools, filled=task.metadata, followed=written_before(task)),
            offered,
            talk.style,
        ),
        read,
        changes(tools),
        corrections=corrections,
        on_rejected=on_rejected,
        in_place=in_place if talk.style != "small" else None,
        instead=(*INSTEAD_OF_STEPS, "workflow_id") if offered.workflows else INSTEAD_OF_STEPS,
    )


def _in_place_of_steps(answer: JsonObject, offered: Offered) -> Planned | None:
    """The workflow that an answer without steps names; `Violations` where there is no such one."""
    name = _word(answer.get("workflow_id"))
    if not offered.workflows or name is None or answer.get("steps"):
        return None
    if any(answer.get(field) for field in INSTEAD_OF_STEPS) or noes_in(answer):
        return None  # it asks or refuses, and is read as any answer that does
    faults: list[str] = []
    named_of_plan(answer, faults)  # what stands beside the name is held to what fields beside steps are
    if faults:
        raise Violations(faults)
    if (workflow := offered.workflow(name)) is None:
        there = ", ".join(one.workflow_id for one in offered.workflows)
        raise Violations(
            [f"there is no workflow {name[:200]!r} (there are: {there}): name one of these, or write steps"]
        )
    task_type = offered.task_type(_word(answer.get("task_type")) or workflow.task_type)
    return Planned(plan=Plan(plan_id=""), task_type=task_type, workflow_id=workflow.workflow_id)


def changes(tools: Sequence[ToolSpec]) -> Callable[[Sequence[Step]], bool]:
    """Whether any of some steps does more than read, as far as these tools tell."""
    readers = {tool.id for tool in tools if tool.effect == "reads"}
    return lambda steps: any(
        name not in readers for step in steps for name in ([one.tool for one in step.actions] or [step.tool])
    )


async def ask_plan(
    talk: Talk,
    prompt: Rendered,
    json_schema: JsonObject,
    read: Callable[[Any], Planned],
    changes: Callable[[Sequence[Step]], bool],
    *,
    corrections: int,
    on_rejected: Callable[[tuple[str, ...], int], None],
    in_place: InPlace | None = None,
    instead: Sequence[str] = INSTEAD_OF_STEPS,
) -> Planned:
    """Ask until an answer can be `read` as a plan; `PlanInvalid` with the last full list when none could.

    `in_place`: how an answer that is no plan is read.
    """
    refused = 0

    def note(problems: tuple[str, ...], attempt: int) -> None:
        nonlocal refused
        refused = attempt
        on_rejected(problems, attempt)

    try:
        planned = await ask_typed(
            talk,
            "planning",
            prompt,
            schema_name="execution_plan",
            json_schema=json_schema,
            read=read,
            alone=True,
            commits=lambda planned: changes(planned.plan.steps) or planned.by_workflow,
            instead=instead,
            corrections=corrections,
            on_rejected=note,
            in_place=in_place,
        )
    except AnswerInvalid as error:
        said = " ".join(prose_of(error.text).split())
        told = f" (it says: {said})" if said else ""
        raise PlanInvalid([f"{problem}{told}" for problem in error.problems]) from error
    return planned.model_copy(update={"corrections": refused})


def plan_prompt(
    style: str, task: TaskView, tools: Sequence[ToolSpec], offered: Offered = NOTHING_OFFERED
) -> Rendered:
    """The planning prompt, filled in."""
    advice = guidance_text(task, style) if style == "small" else ""
    samples = samples_of(tools, style)
    lines = tool_lines(tools, style=style, limit=_TOOL_CHARS[style], sampled=samples)
    values = {
        "task": fence("task", task.description),
        "today": today_text(task, style),
        "tools": fence("tools", lines),
        "data": guided(
            joined(_data(task, tools, style), samples_text(samples)),
            joined(offered_text(offered, "planning", style), advice),
        ),
    }
    if style != "small":
        values["guidance"] = f"# Advice for this kind of task\n\n{task.guidance}" if task.guidance else ""
        values["output"] = output_text(task)
    return load("plan", style).render(**values)


def _data(task: TaskView, tools: Sequence[ToolSpec], style: str) -> str:
    return data_text(task, task_data(task, limit=_DATA_CHARS[style]), style, "plan")


def read_planned(
    answer: Any,
    new_plan: Callable[[JsonObject], Plan],
    check: Callable[[Plan], Checked | Sequence[str]],
    in_place: InPlace | None = None,
) -> Planned:
    """The plan that an answer holds, checked; `Violations` with everything that is wrong with it.

    `in_place` tells beside what is wrong how a no or a question is said, where one may be meant.
    """
    try:
        plan = new_plan(answer)
    except PlanMisread as error:
        found = error.and_what_else(lambda plan: _violations(check(plan)))
        meant = in_place.if_meant(answer) if in_place is not None else ""
        raise Violations([*found, *filter(None, [meant])]) from error
    except PlanInvalid as error:
        raise Violations(error.violations) from error
    return Planned(
        plan=_passed(plan, check),
        task_type=_word(answer.get("task_type")) or "default",
        workflow_id=_word(answer.get("workflow_id")),
        reasoning=str(answer.get("reasoning") or ""),
    )


def check_no_steps(answer: JsonObject, plan: Plan, in_place: InPlace) -> None:
    """`Violations` where a plan has no steps for a reason that it says to readers alone."""
    if said := in_place.doubt(answer, plan):
        if_none = "nothing is left to be done" if in_place.rest else "it needs no tool"
        told = (
            f"the plan has no steps, and says {said[:200]!r}: put a question that has to be answered first into `ask_first`, and why the "
            f"task cannot be done into `cannot`; where {if_none}, leave that out"
        )
        raise Violations([told])


def read_small(
    answer: Any,
    new_plan: Callable[[JsonObject], Plan],
    check: Callable[[Plan], Checked | Sequence[str]],
    tools: Sequence[ToolSpec],
    earlier: Mapping[str, JsonObject | None],
) -> Planned:
    """The same of a small model's answer: fields are named for it, and it is told where those are that it means."""

    def strictly(plan: Plan) -> Checked | Sequence[str]:
        found = check(plan)
        if violations := _violations(found):
            return [*violations, *hints(plan, tools, earlier)]
        return strict_problems(plan, tools, earlier) or found

    return read_planned(answer, lambda answer: name_fields(new_plan(answer), tools, earlier), strictly)


def checked_again(planned: Planned, loose: Plan, check: Callable[[Plan], Checked | Sequence[str]]) -> Planned:
    """The same with its plan as `loosen` has made it, checked as it will run.

    Without the needless dependencies it may be one that was tried before; and those that its metadata implies are
    united again.
    """
    if loose is planned.plan:
        return planned
    return planned.model_copy(update={"plan": _passed(loose, check)})


def _passed(plan: Plan, check: Callable[[Plan], Checked | Sequence[str]]) -> Plan:
    found = check(plan)
    if isinstance(found, Checked):
        plan, violations = found.plan, found.violations
    else:
        violations = tuple(found)
    if violations:
        raise Violations(violations)
    return plan


def _violations(found: Checked | Sequence[str]) -> Sequence[str]:
    return found.violations if isinstance(found, Checked) else found


def objects_in_texts(plan: Plan, tools: Sequence[ToolSpec], *, only: StepId | None = None) -> list[str]:
    """Places where a whole object stands inside a longer text: a small model means one field of it."""
    fields = {tool.id: list((tool.output_schema or {}).get("properties", {})) for tool in tools}
    tool_of = {step.step_id: step.tool for step in plan.steps if not step.actions and step.for_each is None}
    return [
        f"step {step.step_id!r}: {part.raw} is an object with {', '.join(has)}; "
        f"inside a text write one of its fields, as ${{{part.head}.output.{has[0]}}}"
        for step in of_steps(plan, only)
        for text in texts_in(step.parameters)
        if whole(text) is None
        for part in parse(text)
        if isinstance(part, Reference) and not part.path and (has := fields.get(tool_of.get(part.head, "")))
    ]


def _word(value: Any) -> str | None:
    """A name, or None where the model wrote something that means none."""
    text = value.strip() if isinstance(value, str) else ""
    return None if text.lower() in ("", "none", "null", "n/a") else text
