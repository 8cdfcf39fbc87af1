"""Runs a task on Replan as a program would: its public library, a scripted model, a log on disk."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replan import Record, Replan, TaskResult
from replan.testing import ScriptedModel

Answers = Mapping[str, Any]


@dataclass(frozen=True)
class Ran:
    """What became of a task."""

    result: TaskResult
    records: Sequence[Record]
    model: ScriptedModel

    @property
    def kinds(self) -> Counter[str]:
        return Counter(record.type for record in self.records)

    @property
    def outputs(self) -> dict[str, Any]:
        """Outputs by step, of those that have one."""
        return {one.step_id: one.output for one in self.result.steps if one.output is not None}

    @property
    def end(self) -> str:
        """How it ended, in the words of the row's table."""
        failure = self.result.failure
        return "" if self.result.is_success else f"{self.result.status}: {failure.kind if failure else '?'}"

    @property
    def reason(self) -> str:
        return self.result.failure.reason if self.result.failure else ""

    @property
    def model_calls(self) -> int:
        return sum(self.model.calls.values())


def step(step_id: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"step_id": step_id, "tool": tool, "parameters": parameters, "dependencies": list(needs)}


def plan(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"steps": list(steps)}


def verdict(score: float, output: Any = "done") -> dict[str, Any]:
    names = ("completeness", "correctness", "efficiency", "reliability")
    return {
        "overall_score": score,
        "is_successful": score >= 80,
        "dimensions": dict.fromkeys(names, score),
        "final_output": output,
    }


def diagnosis(action: str, category: str = "unknown", **data: Any) -> dict[str, Any]:
    """An answer to `step_reflection`."""
    return {
        "root_cause_category": category,
        "root_cause": "what the error says",
        "is_recoverable": category not in ("server_error", "external_error"),
        "confidence": 0.8,
        "analysis": "the error says so",
        "suggested_action": {"type": action, "data": data},
        "alternative_solutions": [],
        "improvement_suggestions": [],
    }


def reflection(should_replan: bool, strategy: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An answer to `overall_reflection`."""
    said: dict[str, Any] = {
        "problem_nature": "decomposition",
        "should_replan": should_replan,
        "reflection_text": "the plan does not reach the goal",
        "root_causes": ["the plan"],
        "incorrect_assumptions": [],
        "alternative_approaches": [],
        "optimization_suggestions": [],
        "improvement_suggestions": [],
        "lessons_learned": [],
    }
    if should_replan:
        said["replanning_strategy"] = dict(strategy or {"type": "full_replan"})
    return said


GIVE_UP: Answers = {
    "step_reflection": diagnosis("trigger_overall_reflection", summary="nothing more to try"),
    "step_repair": plan(),
    "overall_reflection": reflection(False),
    "evaluation": verdict(20),
}
"""What the model says where a program says nothing else: no remedy known."""


def scripted(answers: Answers) -> ScriptedModel:
    return ScriptedModel({**GIVE_UP, **answers})


async def run(
    tools: Sequence[Any],
    answers: Answers | None = None,
    *,
    given: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    **policy: Any,
) -> Ran:
    """One task to its end. `given`: a plan beforehand, judged by its steps alone."""
    model = scripted(answers or {})
    with tempfile.TemporaryDirectory() as folder:
        async with Replan(model=model, tools=tools, db=Path(folder) / "replan.db", **policy) as replan:
            judged = None if given is None else "steps"
            result = await replan.run("do it", plan=given, metadata=metadata, evaluation=judged)
            return Ran(result, await replan.history(result.task_id), model)
