"""A plan made anew, in whole or in part, and one step written anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replan.core.data.answers import meant
from replan.core.data.for_readers import folded
from replan.core.data.taken_back import said_beside
from replan.core.plan.check import Checked
from replan.core.plan.fields import INSTEAD_OF_STEPS
from replan.core.plan.read import PlanMisread
from replan.core.types import JsonObject, Plan, Step, ToolSpec
from replan.errors import ModelError, PlanInvalid
from replan.reasoning.planning.fields import hints, item_problems, name_fields, strict_problems
from replan.reasoning.planning.in_place import InPlace
from replan.reasoning.planning.invented import invented_links
from replan.reasoning.planning.loosen import loosen
from replan.reasoning.planning.planner import (
    Planned,
    ask_plan,
    changes,
    check_no_steps,
    checked_again,
    objects_in_texts,
    read_planned,
    read_small,
)
from replan.reasoning.planning.replan_prompts import repair_prompt, replan_prompt
from replan.reasoning.planning.replan_schemas import small_replan_schema, step_repair_schema
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.in_words import InWords
from replan.reasoning.prompting.large import put_together
from replan.reasoning.prompting.noes import OF_STEPS, noes_in
from replan.reasoning.prompting.read_values import opened, spoken, text
from replan.reasoning.prompting.recovery_view import RepairView, ReplanView
from replan.reasoning.prompting.schemas import plan_schema
from replan.reasoning.prompting.view import StepReport


class CannotRepair(ModelError):
    """The planner says that no other form of the step would do, or asks first; the text is its reason, or its question."""


_NEW_IDS = 12


async def make_replan(
    talk: Talk,
    *,
    view: ReplanView,
    tools: Sequence[ToolSpec],
    new_plan: Callable[[JsonObject], Plan],
    check: Callable[[Plan], Checked | Sequence[str]],
    corrections: int,
    on_rejected: Callable[[tuple[str, ...], int], None],
    judged: bool = False,
) -> Planned:
    """Ask for the new steps until they pass, at most `corrections` times more than once.

    `judged`: a model judges the task, and is told where the planner plans nothing more.
    The answer holds only the new steps; `new_plan` and `check` put them in their place, as for `make_plan`.
    `PlanInvalid` with the last full list when none passed.
    """
    small, rest = talk.style == "small", view.strategy == "continue"
    in_place = InPlace(view.task.description, rest=rest, judged=judged, kept=view.kept)

    def read(answer: Any) -> Planned:
        if not small:
            try:
                planned = read_planned(answer, new_plan, check, in_place)
            except Violations:
                if not in_place.no_more(answer):
                    raise
                planned = read_planned({**answer, "more": None}, new_plan, check)
            if in_place.nothing_is_left(planned.plan):
                planned = read_planned({"steps": []}, new_plan, check)
            else:
                check_no_steps(answer, planned.plan, in_place)
            if in_place.adds_nothing(answer, planned.plan) and (said := in_place.told(answer)):
                told = planned.plan.model_copy(update={"reasoning": said})
                return planned.model_copy(update={"plan": told})
            return planned
        planned = read_small(answer, new_plan, check, tools, view.usable)
        plan = planned.plan
        if problems := [
            *objects_in_texts(plan, tools),
            *item_problems(plan, tools, view.usable),
            *invented_links(plan, view.task, tools, known=_outputs(view.steps), kept=view.kept),
        ]:
            raise Violations(problems)
        return checked_again(planned, _loosened(plan, tools, view), check)

    return await ask_plan(
        talk,
        replan_prompt(talk.style, view, tools),
        _small_schema(view, tools) if small else plan_schema(talk.style, tools, again=True),
        read,
        changes(tools),
        corrections=corrections,
        on_rejected=on_rejected,
        in_place=None if small else in_place,
    )


def _outputs(done: Sequence[StepReport]) -> list[Any]:
    return [(step.value(), step.error_text()) for step in done]


def _loosened(plan: Plan, tools: Sequence[ToolSpec], view: ReplanView) -> Plan:
    """The plan as `loosen` makes it, but for steps that stay, and for those that help another: order is their point."""
    if view.strategy == "add_remediation_steps":
        return plan
    loose = {step.step_id: step for step in loosen(plan, tools).steps}
    steps = tuple(step if step.step_id in view.kept else loose[step.step_id] for step in plan.steps)
    return plan if steps == plan.steps else plan.model_copy(update={"steps": steps})


def _small_schema(view: ReplanView, tools: Sequence[ToolSpec]) -> JsonObject:
    """The small model cannot take an id that is used, nor refer to a step that has no output."""
    helped = list(view.failed) if view.strategy == "add_remediation_steps" else []
    return small_replan_schema(
        tools,
        view.task.metadata,
        new_ids=[*_next_ids(view), *helped],
        usable=[name for name in view.usable if name not in helped],
    )


def _next_ids(view: ReplanView) -> list[str]:
    """The free ids from the first one on."""
    stem = view.next_id.rstrip("0123456789")
    digits = view.next_id[len(stem) :]
    stem, number = (stem, int(digits)) if digits else ("step_", 1)
    taken = {*view.used_ids, *view.kept, *view.failed}
    free: list[str] = []
    while len(free) < _NEW_IDS:
        if (name := f"{stem}{number}") not in taken:
            free.append(name)
        number += 1
    return free


# ── one step ──────────────────────────────────────────────────────────────────


async def repair_step(
    talk: Talk,
    *,
    view: RepairView,
    new_step: Callable[[JsonObject], Step],
    check: Callable[[Step], Sequence[str]],
) -> Step:
    """Ask for the step written anew until it passes; its id stays what it is.

    `new_step` reads the answer (`PlanInvalid` for a wrong shape), `check` gives the violations.
    `AnswerInvalid` when none passed, `CannotRepair` where the answer says that there is none.
    """
    small = talk.style == "small"
    heard = False
    """Whether a no or a question in other words, or beside a step, was sent back before."""

    def read(answer: Any) -> Step:
        nonlocal heard
        bare = _bare(answer)
        if noes := _noes(bare):
            if heard or (_says_how(bare) and not _IS_A_STEP & bare.keys()):
                raise CannotRepair("; ".join(noes))
            if not small:
                heard = True
            raise Violations([*(f"the answer says {no[:200]!r}" for no in noes), _NO_OR_QUESTION])
        bare = {name: value for name, value in bare.items() if folded(name) not in _SAYING_NO}
        try:
            step = new_step({**bare, "step_id": view.step.step_id})
        except PlanMisread as error:
            found = error.and_what_else(lambda plan: check(plan.steps[0]))
            raise Violations([*found, *_if_meant(bare, small)]) from error
        except PlanInvalid as error:
            raise Violations([*error.violations, *_if_meant(bare, small)]) from error
        step = step.model_copy(update={"step_id": view.step.step_id})
        plan = _with(view.plan, step)
        if small:
            plan = name_fields(plan, view.tools)
            step = next(one for one in plan.steps if one.step_id == step.step_id)
        violations = tuple(check(step))
        if small:
            name, others = step.step_id, [one.step_id for one in plan.steps if one.step_id != step.step_id]
            violations += (
                *(hints if violations else strict_problems)(plan, view.tools, only=name),
                *objects_in_texts(plan, view.tools, only=name),
                *item_problems(plan, view.tools, only=name),
                *invented_links(plan, view.task, view.tools, known=_outputs(view.done), kept=others),
            )
        if violations:
            raise Violations(violations)
        return step

    return await ask_typed(
        talk,
        "planning",
        await put_together(lambda: repair_prompt(talk.style, view), view.done),
        schema_name="step_repair",
        json_schema=step_repair_schema(
            talk.style, view.step, view.tools, _may_refer_to(view), view.task.metadata
        ),
        read=read,
        needed=(),
        corrections=1,
        commits=lambda step: changes(view.tools)([step]),
        in_place=None if small else InWords(lambda said: {"cannot": said}),
        otherwise="" if small else _NO_OR_QUESTION,
    )


_IS_A_STEP = {"tool", "parameters", "actions"}
_SAYING_NO = frozenset(map(folded, INSTEAD_OF_STEPS))
_NO_OR_QUESTION = (
    "if the step is to be run, answer with the step alone; if a person has to be asked first, with `step_id` and `ask_first` (the question) "
    "alone; if it is not to be run, with `step_id` and `cannot` (why) alone. A question or a no that is said again counts, and no step is run"
)


def _says_how(bare: JsonObject) -> bool:
    """True if it is a no or a question that is said as it was told."""
    return any(folded(name) in _SAYING_NO and spoken(value) for name, value in bare.items())


def _noes(bare: JsonObject) -> list[str]:
    """What an answer says in place of a step, or beside it, that asks a person first or says no."""
    own = [
        text(value) if folded(name) == "cannot" else f"{name}: {text(value)}"
        for name, value in bare.items()
        if folded(name) in _SAYING_NO and spoken(value)
    ]
    others = {name: value for name, value in bare.items() if folded(name) not in _SAYING_NO}
    told = {key: f"{key}: {text(value)}" for key, value in noes_in(others, own=OF_STEPS)}
    denying = said_beside(others, OF_STEPS).denying
    return [*own, *told.values(), *(one for one in denying if one.partition(":")[0] not in told)]


def _if_meant(bare: JsonObject, small: bool) -> list[str]:
    """How a no or a question is said, where an answer has fields that steps have not, and that may be one."""
    return [_NO_OR_QUESTION] if not small and said_beside(bare, OF_STEPS).unknown else []


def _bare(answer: Any) -> JsonObject:
    """The step itself, from `{"step": {…}}` or a plan of one step, with what is said around it."""
    steps = answer
    for name in ("plan", "steps"):
        steps = opened(steps.get(name, steps)) if isinstance(steps, dict) else steps
    if isinstance(steps, list) and len(steps) != 1:
        raise Violations([f"exactly one step is wanted, and the answer has {len(steps)}"])
    step = meant(answer, ("tool", "parameters", "actions", *INSTEAD_OF_STEPS))
    if not isinstance(step, dict):
        raise Violations(["the answer has to be one step: {step_id, tool, parameters, …}"])
    return step


def _with(plan: Plan, step: Step) -> Plan:
    steps = tuple(step if one.step_id == step.step_id else one for one in plan.steps)
    return plan.model_copy(update={"steps": steps if step in steps else (*steps, step)})


def _may_refer_to(view: RepairView) -> list[str]:
    """Steps with an output, and those that the step waits for anyway."""
    names = [step.step_id for step in view.done if step.status == "succeeded"]
    return list(dict.fromkeys([*names, *view.step.dependencies]))
