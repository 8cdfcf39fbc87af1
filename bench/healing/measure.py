"""Run one task for real and say what became of it: which rungs were used, what it cost, whether the answer is right."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from examples.first_run.check import numbers

from bench.healing.worlds import WORLDS
from replan import Record, Replan
from replan.core.report.result import TaskResult
from replan.core.types import JsonObject
from replan.llm.recorder import RecordingModel
from replan.ports import Model

TIMEOUT_SECS = 1800
MENDING = ("retry_with_params", "retry_with_tool", "repair_step", "replan")


@dataclass(frozen=True)
class Row:
    case: str
    kind: str
    status: str
    """How the task ended; with the kind of the failure, where it failed."""
    right: bool
    """The answer says the known value."""
    met: bool
    """A call failed: there was something to heal."""
    rungs: tuple[str, ...]
    """What was done about failures, in order; `(code)` where no proposal of the model would do."""
    rounds: int
    model_calls: int
    tool_calls: int
    secs: float
    cpu_secs: float
    planned: bool
    """The first plan used the expected tools, each as often."""
    answer: str
    why: str
    """What went wrong; empty if nothing."""
    trail: tuple[str, ...] = ()

    @property
    def healed(self) -> bool:
        """The run that was hoped for: a call failed, was mended, the task succeeded with the right answer."""
        return self.met and self.right and self.status == "succeeded" and bool(self.rungs)

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def is_right(answer: object, expected: Sequence[str | float]) -> bool:
    """True if the answer says every expected value: a number among its numbers, a text in any case."""
    text = str(answer)
    said = {float(number) for number in numbers(text)}
    return all(
        value.casefold() in text.casefold() if isinstance(value, str) else float(value) in said
        for value in expected
    )


async def run_case(case: JsonObject, model: Model, recording: Path) -> Row:
    """From the words to the judged answer, every model call recorded; nothing is scripted."""
    with tempfile.TemporaryDirectory() as scratch:
        fresh, database = Path(scratch) / "recording.jsonl", Path(scratch) / "replan.db"
        began, cpu = time.monotonic(), time.process_time()
        async with Replan(RecordingModel(model, fresh), WORLDS[case["world"]], db=database) as replan:
            result = await replan.run(case["task"], timeout=TIMEOUT_SECS)
            log = await replan.history(result.task_id)
        secs, cpu = time.monotonic() - began, time.process_time() - cpu
        shutil.copyfile(fresh, recording)
    return row_of(case, result, log, secs, cpu)


def row_of(case: JsonObject, result: TaskResult, log: Sequence[Record], secs: float, cpu: float) -> Row:
    """What the log says about a run."""
    status = result.status if result.failure is None else f"{result.status} ({result.failure.kind})"
    right = is_right(result.output, case["answer"])
    return Row(
        case=case["id"],
        kind=case["kind"],
        status=status,
        right=right,
        met=any(record.type == "call_failed" for record in log),
        rungs=tuple(rungs(log)),
        rounds=result.rounds,
        model_calls=result.usage.llm_calls,
        tool_calls=sum(record.type == "call_started" for record in log),
        secs=round(secs, 1),
        cpu_secs=round(cpu, 1),
        planned=_first_tools(log) == sorted(case["tools"]),
        answer=str(result.output),
        why="" if right and result.succeeded else _why(case, result, log, right=right),
        trail=tuple(trail(log)),
    )


def rungs(log: Sequence[Record]) -> list[str]:
    """What was done about failures, in order."""
    found = []
    for record in log:
        event: Any = record.event
        match record.type:
            case "step_reflected":
                found.append(event.action.type + ("" if event.by == "model" else " (code)"))
            case "replanning_started":
                found.append(f"round: {event.strategy.type}")
            case _:
                pass
    return found


def _first_tools(log: Sequence[Record]) -> list[str]:
    plans: list[Any] = [record.event for record in log if record.type == "plan_generated"]
    return sorted(step.tool or "" for step in plans[0].plan.steps) if plans else []


def _why(case: JsonObject, result: TaskResult, log: Sequence[Record], *, right: bool) -> str:
    """The first thing that went wrong, as far as code can tell."""
    if not any(record.type == "plan_generated" for record in log):
        return "no plan passed the checks"
    found = any(is_right(step.output, case["answer"]) for step in result.steps if step.status == "succeeded")
    if result.succeeded:
        return "the value was found and not told" if found else "a wrong answer was passed"
    if right or found:
        return "the value was found, and judged as not enough"
    if _first_tools(log) != sorted(case["tools"]):
        return "planned with other tools, and not put right"
    tried = [rung for rung in rungs(log) if rung.split(" ")[0] in MENDING]
    return "remedies were tried, and none helped" if tried else "no remedy was tried"


# ── the whole story, to read ──────────────────────────────────────────────────


def trail(log: Sequence[Record]) -> list[str]:
    """What happened, one line an event."""
    lines = []
    for record in log:
        event: Any = record.event
        match record.type:
            case "plan_generated" | "plan_updated":
                steps = [f"{step.step_id} {step.tool} {_short(step.parameters)}" for step in event.plan.steps]
                lines.append(f"{record.type}: " + "; ".join(steps))
            case "plan_rejected":
                lines.append("refused: " + "; ".join(event.violations))
            case "step_failed" | "call_failed":
                lines.append(f"{record.type}: {event.step_id} {event.error.category}: {event.error.message}")
            case "step_reflected":
                lines += _proposals(event)
            case "step_repaired":
                lines.append(f"repaired: {event.step.tool} {_short(event.step.parameters)}")
            case "overall_reflection_triggered":
                lines.append(f"round is over: {event.reason} {event.advice}".rstrip())
            case "reflection_completed":
                lines.append(f"round reflected by {event.by}: {_told(event.reflection)} {event.reason}")
                lines += [f"  not: {violation}" for violation in event.violations]
            case "replanning_started":
                lines.append(f"replanning: {_short(event.strategy.model_dump(exclude_none=True))}")
            case "evaluation_completed" if event.evaluation is not None:
                found = event.evaluation
                lines.append(
                    f"judged {found.overall_score:g}: {found.final_output}; {'; '.join(found.failures)}"
                )
            case "task_failed":
                lines.append(f"failed: {event.failure.kind}: {event.failure.reason}")
            case _:
                pass
    return lines


def _proposals(event: Any) -> list[str]:
    found = []
    for proposal in (event.first_proposal, event.proposal):
        if proposal is not None:
            action = proposal.suggested_action
            found.append(
                f"diagnosis: {proposal.root_cause_category}: {proposal.root_cause} -> {action.type} {_short(action.data)}"
            )
    found += [f"  not: {violation}" for violation in event.violations]
    return [
        *found,
        f"done by {event.by}: {event.action.type} {_short(event.action.data)} {event.reason}".rstrip(),
    ]


def _told(reflection: Any) -> str:
    return _short(reflection.model_dump(exclude_none=True, exclude_defaults=True)) if reflection else "none"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:300] + "…"
