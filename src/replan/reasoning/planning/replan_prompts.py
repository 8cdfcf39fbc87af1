"""The prompts for a plan made anew and for one step written anew, filled in."""

from __future__ import annotations

from collections.abc import Sequence

from replan.core.types import JsonObject, ToolSpec
from replan.core.words import some
from replan.reasoning.prompting.describe import (
    output_text,
    people_text,
    samples_of,
    samples_text,
    shape,
    task_data,
    today_text,
    tool_lines,
)
from replan.reasoning.prompting.history import shorten
from replan.reasoning.prompting.inlined import inline
from replan.reasoning.prompting.offered import guided
from replan.reasoning.prompting.previous import previous_text
from replan.reasoning.prompting.prompts import Rendered, fence, load
from replan.reasoning.prompting.recovery_text import (
    ROOM,
    done_text,
    evaluation_text,
    fault_text,
    guidance_lines,
    guidance_text,
    joined,
    lines_text,
    plan_text,
    section,
    shown_tools,
    step_text,
    steps_text,
    task_text,
    tools_text,
    tries_text,
)
from replan.reasoning.prompting.recovery_view import RepairView, ReplanView
from replan.reasoning.prompting.view import StepReport

_ORDERS = {
    "full_replan": "Write a whole new plan for what is still missing.",
    "replan_from_step": "Write the steps that take the place of {failed} and of all after it.",
    "add_remediation_steps": (
        "Write only what has to be done before {failed}. {failed} runs again after it by itself; write it too, "
        "under its own id, only if its parameters have to refer to the new steps."
    ),
}
_ORDERS["continue"] = (
    "The plan was a first part, and it is done. Write the steps for what is still to be planned."
)
_ORDERS["replan"] = _ORDERS["replan_from_step"]


def replan_prompt(style: str, view: ReplanView, tools: Sequence[ToolSpec]) -> Rendered:
    """The prompt for new steps, filled in."""
    small = style == "small"
    data = task_data(view.task, limit=ROOM[style].data)
    samples = samples_of(tools, style)
    values = {
        "task": fence("task", shorten(view.task.description, 4 * ROOM[style].words + 8_000)),
        "today": today_text(view.task, style),
        "tools": fence("tools", tool_lines(tools, style=style, limit=ROOM[style].tools, sampled=samples)),
        "data": joined(
            guided(section("Data:", "data", data), guidance_text(view.task, style))
            if small
            else fence("data", data)
            if data
            else "",
            samples_text(samples),
            previous_text(view.task, style, "plan"),
        ),
        "previous": section(
            "Old plan:" if small else "The plan that was run, one line a step, with what became of it:",
            "plan",
            plan_text(view.previous, view.steps, style),
        ),
        "done": joined(
            steps_text(
                "Results:" if small else "Results and errors:", _results(view, small), style, latest=True
            ),
            _usable(view),
            done_text("; never do it again", view.done_effects, view.done, style),
        ),
        "findings": joined(
            section("Verdict:", "evaluation", evaluation_text(view.evaluation, style)),
            section(
                "What was found:", "findings", guidance_lines(_findings(view, small), view.suggestions, style)
            ),
            section(
                "Plans tried so far:" if small else "The rounds so far, and what was concluded after each:",
                "plans",
                lines_text(view.tried_plans if small else _untold(view), style),
            ),
            people_text(view.task, style),
        ),
        "order": _order(view, small),
        "rules": _ids(view, small),
    }
    if not small:
        values["guidance"] = guidance_text(view.task, style)
        values["output"] = output_text(view.task)
    return load("replan", style).render(**values)


def _results(view: ReplanView, small: bool) -> Sequence[StepReport]:
    """The built-in model is not shown what failed in plans before the last."""
    return (
        [step for step in view.steps if step.current or step.status == "succeeded"] if small else view.steps
    )


def _findings(view: ReplanView, small: bool) -> JsonObject:
    """What a reflection found; how the plan is to be made is told at the end of the prompt, and why."""
    return (
        view.guidance if small else {name: what for name, what in view.guidance.items() if name != "strategy"}
    )


def _untold(view: ReplanView) -> list[str]:
    """The rounds in one line each, without a conclusion that is told as advice, or as the reason, anyhow."""
    told = {
        f": {text}" for text in (view.guidance.get("advice"), view.reason) if isinstance(text, str) and text
    }
    return [
        next((line.removesuffix(end) for end in told if line.endswith(end)), line)
        for line in view.tried_plans
    ]


def _order(view: ReplanView, small: bool) -> str:
    failed = ", ".join(view.failed[:20]) or "the step that failed"
    told = _ORDERS.get(view.strategy, _ORDERS["full_replan"]).format(failed=failed)
    if view.strategy == "replan_from_step" and not view.failed and not small:
        told = "No step has failed: write the steps that are still missing, after those that stay."
    where = f" {failed}" if view.failed and view.strategy != "full_replan" else ""
    order = f"What to do: {view.strategy}{where}. {told}"
    if not small and view.reason == view.guidance.get("advice"):
        return order
    # why it is so is a model's sentence, perhaps with an error in it: evidence as all else
    title = "Still to be planned:" if view.strategy == "continue" else "Why:"
    return "\n".join(part for part in (order, section(title, "reason", shorten(view.reason, 1_500))) if part)


def _ids(view: ReplanView, small: bool) -> str:
    lines = []
    if view.kept and not small:
        lines.append(f"These steps stay in the plan and are not written again: {some(view.kept, 100)}.")
    if view.failed and not small:
        lines.append(f"Steps that this is about: {some(view.failed, 100)}.")
    may_be_restated = view.failed if view.strategy == "add_remediation_steps" else ()
    if not small and (taken := [name for name in view.used_ids if name not in may_be_restated]):
        lines.append(f"Ids that no new step may have: {some(taken, 100)}.")
    lines.append(f"First free id: {view.next_id}")
    if view.round > 1 and not small:
        lines.append(f"The plan is for round {view.round}.")
    if view.budget:
        lines.append(f"Left of the budget: {view.budget}")
    return "\n".join(lines)


def _usable(view: ReplanView) -> str:
    """The steps whose outputs may be referred to, with their shapes where known."""
    if not view.usable:
        return "There is no result that new steps could refer to."
    named = [f"{name}{_shape(schema)}" for name, schema in list(view.usable.items())[:200]]
    return f"Results that may be referred to: {'; '.join(named)}"


def _shape(schema: JsonObject | None) -> str:
    return f" ({shorten(shape(inline(schema)), 300)})" if schema else ""


def repair_prompt(style: str, view: RepairView) -> Rendered:
    """The prompt for one step, filled in."""
    small = style == "small"
    step = view.step
    own = [step.tool, *(action.tool for action in step.actions)]
    tools = shown_tools(view.tools, own, style)
    failed = section("" if small else "The step:", "step", step_text(step, style)).lstrip()
    error = section(
        "Error:" if small else "Why it failed:", "error", fault_text(view.fault, ROOM[style].error)
    )
    failing = StepReport(step.step_id, status="failed")
    budget = f"Left of the budget: {view.budget}" if view.budget else ""
    values = {
        "task": task_text(view.task, style, "plan"),
        "step": f"{failed}\n{error}" if small else joined(failed, error),
        "surroundings": joined(
            tools_text("Tools:", tools, style, len(view.tools) - len(tools)),
            steps_text("Done:" if small else "What stands before it and gave something:", view.done, style),
            section(
                "Plan:"
                if small
                else "The whole plan, one line a step (what became of steps beside this one is not told here):",
                "plan",
                "" if small else plan_text(view.begun or view.plan, [*view.done, failing], style, ""),
            ),
            section("Later steps use of its output:", "needed", lines_text(view.needed_by, style)),
            section(
                "It has done this already, which stays:", "effects", lines_text(view.done_effects, style)
            ),
        ),
        "history": section("Tried before, the latest last:", "tries", tries_text(view.tries, style)),
        "hint": joined(
            section("Hint:", "hint", shorten(view.hint, ROOM[style].words)),
            people_text(view.task, style),
            budget,
            guidance_text(view.task, style),
        ),
    }
    return load("repair", style).render(**values)
