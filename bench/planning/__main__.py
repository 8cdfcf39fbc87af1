"""How well a local model plans and judges with the prompts of the `small` style.

    python -m bench.planning [--model FILE.gguf] [--only ID]... [--what plans|outcomes|all] [--corrections N] [--show]

Prints one line a task: valid (passed the checks), right (equals the expected plan), corrections, seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from bench.planning.local import LocalTalk
from bench.planning.match import is_right
from replan.core.check_plan import Toolbox, check_plan
from replan.core.policy import PlanLimits
from replan.core.read_plan import read_plan
from replan.core.types import Plan, Step, ToolSpec
from replan.errors import AnswerInvalid, PlanInvalid
from replan.reasoning.evaluator import evaluate
from replan.reasoning.planner import make_plan
from replan.reasoning.view import StepReport, TaskView

HERE = Path(__file__).parent


def _lines(name: str, only: list[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]
    return [case for case in found if not only or case["id"] in only]


async def plan_one(talk: LocalTalk, case: dict[str, Any], corrections: int) -> tuple[Plan | None, list[str]]:
    """The plan for a case, None if none passed the checks; and what was refused on the way."""
    tools = [ToolSpec.model_validate(tool) for tool in case["tools"]]
    by_id = {tool.id: tool for tool in tools}
    box = Toolbox(by_id.get, lambda name: list(by_id))
    refused: list[str] = []
    try:
        planned = await make_plan(
            talk,
            task=TaskView(description=case["task"], today="2030-06-03"),
            tools=tools,
            new_plan=lambda answer: read_plan(answer, plan_id="plan", task=case["task"]),
            check=lambda plan: check_plan(plan, box, metadata={}, limits=PlanLimits()),
            corrections=corrections,
            on_rejected=lambda problems, attempt: refused.append("; ".join(problems)),
        )
    except PlanInvalid:
        return None, refused
    return planned.plan, refused


async def plans(talk: LocalTalk, only: list[str], corrections: int, show: bool) -> None:
    """Plan every task and compare."""
    cases = _lines("tasks.jsonl", only)
    valid = right = 0
    began = talk.secs
    for case in cases:
        before = talk.secs
        plan, refused = await plan_one(talk, case, corrections)
        is_good = plan is not None and is_right(plan, case["plan"])
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
    mean = (talk.secs - began) / max(1, len(cases))
    print(f"plans: {valid}/{len(cases)} valid, {right}/{len(cases)} right, {mean:.1f} s a task")


async def outcomes(talk: LocalTalk, only: list[str], show: bool) -> None:
    """Judge good and bad outcomes; a good one also has to say the value."""
    cases = _lines("outcomes.jsonl", only)
    judged = said = good = 0
    total = 0.0
    for case in cases:
        steps = [StepReport.model_validate(step) for step in case["steps"]]
        plan = Plan(plan_id="plan", steps=tuple(Step(step_id=s.step_id, tool=s.tool) for s in steps))
        before = talk.secs
        try:
            found = await evaluate(talk, task=TaskView(description=case["task"]), plan=plan, steps=steps)
        except AnswerInvalid as error:
            print(f"{case['id']:<18} unusable: {error}")
            continue
        secs = talk.secs - before
        total += secs
        success = found.is_successful and found.overall_score >= 80
        fits = success == case["good"]
        judged += fits
        text = str(found.final_output)
        if case["good"]:
            good += 1
            said += all(word in text.replace(",", "") for word in case["says"])
        print(
            f"{case['id']:<18} judged={'right' if fits else 'WRONG'} score={found.overall_score:g} {secs:5.1f} s  {text}",
            flush=True,
        )
        if show or not fits:
            print(f"    {talk.texts[-1]}")
    mean = total / max(1, len(cases))
    print(
        f"outcomes: {judged}/{len(cases)} judged rightly, {said}/{good} answers hold the value, {mean:.1f} s each"
    )


async def measure(talk: LocalTalk, given: argparse.Namespace) -> None:
    """What was asked for on the command line."""
    try:
        if given.what in ("plans", "all"):
            await plans(talk, given.only, given.corrections, given.show)
        if given.what in ("outcomes", "all"):
            await outcomes(talk, given.only, given.show)
    finally:
        await talk.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.planning", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--model", help="path of a GGUF file; unless given, the built-in model")
    parser.add_argument("--only", action="append", default=[], help="a case's id; may be given several times")
    parser.add_argument("--what", choices=("plans", "outcomes", "all"), default="all")
    parser.add_argument("--corrections", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every answer")
    given = parser.parse_args()
    talk = LocalTalk(given.model)
    asyncio.run(measure(talk, given))


if __name__ == "__main__":
    main()
