"""One task on fake tools and a scripted model, on a clock where waiting takes no time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replan.core.limits.policy import Budget, Policy
from replan.core.report.result import TaskResult
from replan.core.types import JsonObject
from replan.ports import ToolSource
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import (
    FakeSource,
    FakeTool,
    ManualIds,
    MemoryStore,
    ScriptedModel,
    VirtualClock,
    virtual_time,
)
from replan.tools.catalog.catalog import Catalog

ROLES = ("selection", "planning", "reflection", "evaluation")
_SCORES = ("completeness", "correctness", "efficiency", "reliability")


def ran(tools: Mapping[str, FakeTool], answers: JsonObject) -> tuple[TaskResult, ScriptedModel, FakeSource]:
    """What became of a task with these tools, and answers by schema."""
    source = FakeSource(tools)
    return *ran_on(source, answers), source


def ran_on(source: ToolSource, answers: JsonObject) -> tuple[TaskResult, ScriptedModel]:
    """The same with the tools of a source."""
    return virtual_time(_run(source, answers))


async def _run(source: ToolSource, answers: JsonObject) -> tuple[TaskResult, ScriptedModel]:
    model = ScriptedModel(answers)
    catalog = Catalog([source])
    await catalog.open()
    parts = Parts(MemoryStore(), catalog, dict.fromkeys(ROLES, model), VirtualClock(), ManualIds())
    service = Service(parts)
    policy = Policy(budget=Budget(task_timeout_secs=None, max_llm_calls=400))
    await service.submit(Submission(description="do it", policy=policy, task_id="task"))
    await service.drive("task")
    return await service.result("task"), model


def verdict(good: bool, answer: Any, *failures: str) -> JsonObject:
    """An answer of `evaluation`."""
    score = 95 if good else 30
    return {
        "overall_score": score,
        "is_successful": good,
        "dimensions": dict.fromkeys(_SCORES, score),
        "failures": list(failures),
        "final_output": answer,
    }


def again(strategy: str, **fields: Any) -> JsonObject:
    """An answer of `overall_reflection` that wants another round."""
    return {
        "problem_nature": "parameters",
        "should_replan": True,
        "reflection_text": "another round",
        "root_causes": ["the values"],
        "replanning_strategy": {"type": strategy, "reason": "with other values", **fields},
    }
