"""Addresses that a small model has made up in a plan: it would send something to nobody, or name a page that is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replan.core.types import Plan, Step, ToolSpec
from replan.reasoning.evaluation.grounding import bare, links_in
from replan.reasoning.prompting.previous import said_before
from replan.reasoning.prompting.view import TaskView


def invented_links(
    plan: Plan, task: TaskView, tools: Sequence[ToolSpec], known: Any = (), kept: Sequence[str] = ()
) -> list[str]:
    """Web and e-mail addresses in parameters that stand neither in the task nor in its data, nor with the tools.

    A page of a site that is named may be composed. `known`: outputs there are; `kept`: steps that are not new.
    """
    given = [task.description, task.metadata, task.context, task.people, known, *said_before(task)]
    told = [*given, *((tool.description, tool.parameters) for tool in tools)]
    ground = links_in(told)
    sites = {_site(link) for link in ground}
    words = " ".join(bare(word) for word in str(given).split())
    return [
        f"step {step.step_id!r}: {link} stands neither in the task nor in its data: take it from an output of an earlier "
        "step, as ${step_1.output.field}, or leave the step out"
        for step in plan.steps
        if step.step_id not in kept
        for link in sorted(links_in(_parameters(step)) - ground)
        if ("@" in link or _site(link) not in sites) and link not in words and "$" not in link
    ]


def _site(link: str) -> str:
    return link if "@" in link else link.partition("/")[0]


def _parameters(step: Step) -> list[Any]:
    return [step.parameters, *(action.parameters for action in step.actions)]
