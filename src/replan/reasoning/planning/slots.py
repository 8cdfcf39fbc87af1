"""What the slots of a workflow are filled with for a task: asked of a model, held against their schemas."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from replan.core.as_meant import as_meant
from replan.core.kinds.slots import filled, told
from replan.core.kinds.workflow import Workflow
from replan.core.plan.fields import DECLINING, INSTEAD_OF_STEPS, named
from replan.core.plan.placeholders import placeholders
from replan.core.plan.read import declining
from replan.core.types import JsonObject, ToolSpec
from replan.core.words import in_digits, kind_of, one_line
from replan.reasoning.prompting.ask import Talk, Violations, ask_typed
from replan.reasoning.prompting.describe import data_text, task_data, today_text
from replan.reasoning.prompting.history import shorten
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.noes import noes_in
from replan.reasoning.prompting.offered import guided
from replan.reasoning.prompting.prompts import fence, load
from replan.reasoning.prompting.read_values import fold, opened, spoken
from replan.reasoning.prompting.recovery_text import guidance_text, joined, section, tools_in_short
from replan.reasoning.prompting.schemas import closed
from replan.reasoning.prompting.view import TaskView

_DATA_CHARS = {"standard": 12_000, "small": 1_500}
_DESCRIPTION = 400
_MOST_STEPS, _STEP_CHARS, _TOOL_CHARS = 60, 8_000, 6_000


class Filling(NamedTuple):
    """What was answered: the slots, or why they cannot be filled."""

    values: JsonObject
    missing: tuple[str, ...] = ()
    """Slots that have to be filled, and whose values stand nowhere."""
    question: str = ""
    """What a person has to say first."""
    cannot: str = ""
    """The workflow is not what the task asks for."""
    corrections: int = 0


async def fill_slots(
    talk: Talk,
    task: TaskView,
    workflow: Workflow,
    *,
    tools: Sequence[ToolSpec] = (),
    others: Sequence[ToolSpec] = (),
    check: Callable[[JsonObject], Sequence[str]],
    commits: bool,
    on_rejected: Callable[[tuple[str, ...], int], None],
) -> Filling:
    """Ask for the slots, once more where the answer cannot be used; `AnswerInvalid` where that does not help.

    `tools`: those that the workflow calls; `others`: what another plan could call. `check`: what is wrong with the plan that these values come
    to. `commits`: whether something is done by that.
    """
    style = talk.style
    refused = 0

    def note(problems: tuple[str, ...], attempt: int) -> None:
        nonlocal refused
        refused = attempt
        on_rejected(problems, attempt)

    def read(answer: Any) -> Filling:
        found = _read(answer, workflow, task, small=style == "small")
        if not (found.missing or found.cannot) and (problems := check(found.values)):
            raise Violations(problems)
        return found

    data = data_text(task, task_data(task, limit=_DATA_CHARS[style]), style)
    guidance = guidance_text(task, style)
    values = {
        "task": fence("task", task.description),
        "today": today_text(task, style),
        "workflow": _told(workflow, style) if style == "small" else _plan(workflow, tools, others),
        "data": guided(data, guidance) if style == "small" else data,
    }
    if style != "small":
        values["guidance"] = guidance
    found = await ask_typed(
        talk,
        "planning",
        load("slots", style).render(**values),
        schema_name="workflow_slots",
        json_schema=_schema(workflow, style),
        read=read,
        needed=("slots",),
        instead=(*INSTEAD_OF_STEPS, "missing"),
        alone=True,
        commits=lambda filling: commits and not (filling.missing or filling.cannot),
        on_rejected=note,
    )
    return found._replace(corrections=refused)


def _told(workflow: Workflow, style: str) -> str:
    lines = [
        f"{told(name, workflow)}{_about(schema) if style != 'small' else ''}"
        for name, schema in workflow.slots.items()
    ]
    if style == "small":
        return "\n".join([one_line(workflow.description), *lines])
    listed = "\n".join(f"- {line}" for line in lines) or "(it has none)"
    return f"Its slots (with ? such as may be left out):\n{listed}"


def _plan(workflow: Workflow, tools: Sequence[ToolSpec], others: Sequence[ToolSpec]) -> str:
    """What the workflow does, so that it can be said whether that is what the task asks for; and what could find out what a slot lacks."""
    return joined(
        f"# The plan\n\n{workflow.workflow_id}: {workflow.description}",
        section("Its steps, one a line:", "plan", _steps(workflow)),
        tools_in_short("What its tools do:", tools, _TOOL_CHARS) if tools else "",
        tools_in_short("What another plan could call:", others, _TOOL_CHARS) if others else "",
        _told(workflow, "standard"),
    )


def _steps(workflow: Workflow) -> str:
    shown = workflow.steps[:_MOST_STEPS]
    each = max(120, _STEP_CHARS // max(1, len(shown)))
    lines = [shorten(_step(at, step), each) for at, step in enumerate(shown, 1)]
    if len(workflow.steps) > len(shown):
        lines.append(f"({in_digits(len(workflow.steps) - len(shown))} more steps)")
    return "\n".join(lines)


def _step(at: int, step: JsonObject) -> str:
    """One step as it is written, with its slots."""
    calls = [
        f"{one.get('tool', '')} {json.dumps(one.get('parameters') or {}, ensure_ascii=False, default=str)}"
        for one in step.get("actions") or (step,)
    ]
    said = {
        "for each": step.get("for_each"),
        "when": step.get("when"),
        "after": ", ".join(map(str, step.get("dependencies") or ())),
    }
    more = [f"{word} {one_line(str(value))}" for word, value in said.items() if value]
    return " ".join([f"{step.get('step_id') or f'step {at}'}: {'; '.join(calls)}", *more])


def _about(schema: JsonObject) -> str:
    said = schema.get("description")
    return f": {shorten(one_line(said), _DESCRIPTION)}" if isinstance(said, str) and said.strip() else ""


def _schema(workflow: Workflow, style: str) -> JsonObject:
    slots = {name: dict(inline(schema)) for name, schema in workflow.slots.items()}
    if style == "small":
        return closed(
            {"slots": closed({name: {"anyOf": [one, {"type": "null"}]} for name, one in slots.items()})}
        )
    missing: JsonObject = {"type": "array", "items": {"enum": list(slots)} if slots else {"type": "string"}}
    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "slots": {"type": "object", "properties": slots, "additionalProperties": False},
            "missing": missing,
            "ask_first": {"type": "string", "description": "what a person has to say first"},
            "cannot": {"type": "string", "description": "why this plan is not what the task asks for"},
        },
        "required": ["slots"],
    }


def _read(answer: Any, workflow: Workflow, task: TaskView, *, small: bool) -> Filling:
    faults: list[str] = []
    fields = named(answer, _FIELDS, "the answer", faults)
    said = declining(fields, answer)
    question, cannot = said.get("ask_first", ""), said.get("cannot", "")
    if cannot and not question:
        return Filling({}, cannot=cannot)
    if noes := noes_in(answer, own=_OWN if said else _OWN - _DECLINING):
        name, value = noes[0]
        told_back = (
            f"it says {str(value)[:80]!r} in {name[:80]!r}, which nothing goes by: ask in `ask_first` and name in `missing` what about, say in "
            "`cannot` why the plan is not to be used, or leave it out"
        )
        raise Violations([told_back])
    if beside := _beside(fields, faults, workflow):
        raise Violations(beside)
    given = fields.get("slots") or {}
    if not isinstance(given, dict):
        raise Violations([f"`slots` is an object with a value under each name, not {kind_of(given)}"])
    owned = _lacking(fields.get("missing"), workflow)
    slots = {"type": "object", "properties": workflow.slots, "required": list(workflow.required)}
    given = as_meant(slots, given)
    found = filled(workflow, given)
    problems = [
        problem for problem in found.problems if not any(f"slot {name!r}:" in problem for name in owned)
    ]
    # One that may stay empty stays so, unless something is asked about it, or it is filled all the same.
    due = {
        *workflow.required,
        *(owned if question else ()),
        *(name for name in owned if given.get(name) is not None),
    }
    lacking = tuple(dict.fromkeys([*found.missing, *(name for name in owned if name in due)]))
    if lacking and not problems and (small or owned or question):
        return Filling(found.values, missing=lacking, question=question)
    problems += [
        f"slot {name!r} has to be filled ({told(name, workflow)}); where its value stands nowhere, name it in `missing`, and write the "
        "question in `ask_first`"
        for name in found.missing
    ]
    if question and not problems:
        problems.append(
            "it asks a question (`ask_first`) and lacks nothing: name in `missing` what it asks about, or leave it out"
        )
    stands = f"{task.description} {task.metadata} {task.people}"
    of_slots = ToolSpec(id=workflow.workflow_id, parameters=slots)
    problems += [
        f"slot {place.lstrip('/')}: {piece!r} is a placeholder and no value"
        for place, piece in placeholders(of_slots, found.values, lambda piece: piece in stands)
    ]
    if problems:
        raise Violations(problems)
    return Filling(found.values)


def _lacking(said: Any, workflow: Workflow) -> list[str]:
    """The slots that are named as missing, in whatever form: a list, an object of questions, a list of such; `Violations` where none is."""
    if not (said := opened(said)) or not spoken(said):
        return []
    found = [name for name in dict.fromkeys(_names(said)) if name in workflow.slots]
    if not found:
        told_back = f"`missing` is {str(said)[:80]!r}, and names no slot (there are: {', '.join(workflow.slots) or 'none'})"
        raise Violations([f"{told_back}: list the slots there whose values stand nowhere, or leave it empty"])
    return found


def _names(said: Any) -> Iterator[str]:
    """Every text in it and every name of a field, as far down as lists and objects of them go."""
    waiting = deque([said])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, str):
            yield from (one.strip(), *(part.strip(" `'\"") for part in one.split(",")))
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            yield from (str(key) for key, value in one.items() if value is not False)
            waiting += one.values()


def _beside(fields: JsonObject, faults: list[str], workflow: Workflow) -> list[str]:
    """What stands beside the slots and may change what is done: held to what fields beside the steps of a plan are."""
    if faults:
        faults.append(
            "where the plan is not to be run, say why in `cannot`; what is for readers goes into `reasoning`"
        )
    if "workflow_id" in fields and fields["workflow_id"] != workflow.workflow_id:
        told_back = f"`workflow_id` is {str(fields['workflow_id'])[:80]!r}, and the slots are those of {workflow.workflow_id!r}"
        faults.append(f"{told_back}: leave it out, or say in `cannot` why that is not the plan to be used")
    return faults


_FIELDS: dict[str, tuple[str, ...]] = {
    "slots": (),
    "missing": (),
    **DECLINING,
    "reasoning": (),
    "workflow_id": (),
}
_DECLINING = frozenset(map(fold, INSTEAD_OF_STEPS))
_OWN = _DECLINING | {"slots", "missing", "reasoning"}
