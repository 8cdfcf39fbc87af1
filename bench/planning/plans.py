"""Plan tasks and compare with what was expected: valid plans, right ones, seconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.planning.local import Measured
from bench.planning.match import is_right
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.plan.read import read_plan
from replan.core.types import JsonObject, Plan, ToolSpec
from replan.errors import PlanInvalid
from replan.reasoning.planning.planner import make_plan
from replan.reasoning.prompting.view import TaskView

TODAY = "2030-06-03"


def read_lines(file: Path, only: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The cases of a file; `only` those with these ids."""
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [case for case in found if not only or case["id"] in only]


def sha256(file: Path) -> str:
    """The hash of a file, so that a figure says which tasks it is of."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def plan_one(
    talk: Measured, text: str, tools: Sequence[ToolSpec], corrections: int
) -> tuple[Plan | None, list[str]]:
    """The plan for a task, None if none passed the checks; and what was refused on the way."""
    by_id = {tool.id: tool for tool in tools}
    box = Toolbox(by_id.get, lambda name: list(by_id))
    refused: list[str] = []
    try:
        planned = await make_plan(
            talk,
            task=TaskView(description=text, today=TODAY),
            tools=tools,
            new_plan=lambda answer: read_plan(answer, plan_id="plan", task=text),
            check=lambda plan: check_plan(plan, box, metadata={}, limits=PlanLimits()),
            corrections=corrections,
            on_rejected=lambda problems, attempt: refused.append("; ".join(problems)),
        )
    except PlanInvalid:
        return None, refused
    return planned.plan, refused


def fits(plan: Plan | None, case: JsonObject) -> bool:
    """True if the plan is one of those that the case expects."""
    return plan is not None and any(is_right(plan, expected) for expected in case["expected"])


async def plans(talk: Measured, file: Path, only: Sequence[str], corrections: int, show: bool) -> None:
    """Plan every task of a file and compare."""
    print(f"{file.name}: SHA-256 {sha256(file)}")
    cases = read_lines(file, only)
    valid = right = 0
    began, cpu = talk.secs, talk.cpu
    for case in cases:
        before = talk.secs
        tools = [ToolSpec.model_validate(tool) for tool in case["tools"]]
        plan, refused = await plan_one(talk, case["task"], tools, corrections)
        is_good = fits(plan, case)
        valid += plan is not None
        right += is_good
        print(
            f"{case['id']:<12} valid={plan is not None!s:<5} right={is_good!s:<5} "
            f"corrections={len(refused)} {talk.secs - before:5.1f} s",
            flush=True,
        )
        if show or not is_good:
            print(f"    {talk.texts[-1]}")
            for problems in refused:
                print(f"    refused: {problems}")
    mean, cpu = ((each / max(1, len(cases))) for each in (talk.secs - began, talk.cpu - cpu))
    print(
        f"plans: {valid}/{len(cases)} valid, {right}/{len(cases)} right, "
        f"{mean:.1f} s a plan ({cpu:.1f} s of CPU)"
    )
