"""How well a local model plans and judges with the prompts of the `small` style.

    python -m bench.planning --tasks examples/tasks.jsonl       twenty tasks that no prompt was made for
    python -m bench.planning --gold [--sample N] [--seed S]      a sample of six public collections
    python -m bench.planning [--what plans|outcomes|all]        the tasks that the prompts were made with
    [--model FILE.gguf] [--only ID]... [--corrections N] [--show]

Prints one line a task: valid (passed the checks), right (equals an expected plan), corrections, seconds.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.planning.gold import FOLDER, gold
from bench.planning.local import Measured
from bench.planning.plans import plans, read_lines
from replan.core.types import Plan, Step
from replan.errors import AnswerInvalid
from replan.llm.local.model import LocalModel
from replan.reasoning.evaluation.evaluator import evaluate
from replan.reasoning.prompting.view import StepReport, TaskView

HERE = Path(__file__).parent
TASKS = HERE / "tasks.jsonl"


async def outcomes(talk: Measured, only: list[str], show: bool) -> None:
    """Judge good and bad outcomes; a good one also has to say the value."""
    cases = read_lines(HERE / "outcomes.jsonl", only)
    judged = said = good = 0
    total = 0.0
    for case in cases:
        steps = [StepReport(**step) for step in case["steps"]]
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


async def measure(talk: Measured, given: argparse.Namespace) -> None:
    """What was asked for on the command line."""
    try:
        if given.gold:
            await gold(talk, FOLDER, given.sample, given.seed, given.corrections, given.show)
            return
        if given.what in ("plans", "all"):
            await plans(talk, given.tasks or TASKS, given.only, given.corrections, given.show)
        if given.what in ("outcomes", "all") and given.tasks is None:
            await outcomes(talk, given.only, given.show)
    finally:
        await talk.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.planning", description=__doc__.splitlines()[0] if __doc__ else None
    )
    parser.add_argument("--model", help="path of a GGUF file; unless given, the built-in model")
    parser.add_argument("--tasks", type=Path, help="a file of tasks; unless given, the development set")
    parser.add_argument(
        "--gold", action="store_true", help="plan a sample of the public cases beside the repository"
    )
    parser.add_argument("--sample", type=int, default=24, help="how many of them, over all sources")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a case's id; may be given several times")
    parser.add_argument("--what", choices=("plans", "outcomes", "all"), default="all")
    parser.add_argument("--corrections", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print every answer")
    given = parser.parse_args()
    talk = Measured(LocalModel(path=given.model))
    asyncio.run(measure(talk, given))


if __name__ == "__main__":
    main()
