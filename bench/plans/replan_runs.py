"""Replan does the task: with its log in memory, a model that answers from the task's script, and time that jumps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bench.plans.hands import PERSON_SECS
from bench.plans.meter import Meter
from bench.plans.row import Row, Wanted, row
from bench.plans.task import Task, Tools
from bench.recovery.scripted import again, verdict
from replan.core.limits.policy import Budget, Policy
from replan.core.report.result import TaskResult
from replan.core.types import Role
from replan.engine.local import LocalEngine
from replan.ports import ModelReply, ModelRequest
from replan.run.service.submission import Submission
from replan.run.service.tasks import Service
from replan.run.session.dependencies import Parts
from replan.testing import FakeSource, ManualIds, MemoryStore, ScriptedModel, VirtualClock
from replan.tools.catalog.catalog import Catalog
from replan.tools.catalog.own_tools import WithOwnTools

NOW, BEFORE = "Replan", "Replan, before"
ROLES: tuple[Role, ...] = ("selection", "planning", "reflection", "evaluation", "step")


class Metered(ScriptedModel):
    """A scripted model whose requests take their time."""

    def __init__(self, answers: Mapping[str, Any], meter: Meter) -> None:
        super().__init__(answers)
        self._meter = meter

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        reply = await super().ask(request)
        asked = (
            request.instructions,
            json.dumps(request.json_schema),
            *(turn.text for turn in request.turns),
        )
        await self._meter.ask(asked, (reply.text,))
        return reply


async def now(task: Task, wanted: Wanted) -> Row:
    """With plans that say all that can be said."""
    answers = {
        "execution_plan": task.now,
        "evaluation": [verdict(True, wanted.answer)],
        **(task.answers or {}),
    }
    return await _run(NOW, task, task.tools(), answers, wanted)


async def before(task: Task, wanted: Wanted) -> Row:
    """With a plan for each round: every one that is run, but for the last, is judged as not enough, and reflected on."""
    said = "What the rest needs is known now; the rest is still to be done."
    bad, good = verdict(False, said, "the task is done in part"), verdict(True, wanted.answer)
    judged = sum(bool(one["steps"]) for one in task.before)
    answers: dict[str, Any] = {
        "execution_plan": task.before,
        "evaluation": bad if task.failed_before else [*[bad] * (judged - 1), good],
        "overall_reflection": again("full_replan"),
    }
    tools = {name: replace(one, spec=_without_sample(one.spec)) for name, one in task.tools().items()}
    return await _run(BEFORE, task, tools, answers, wanted)


def _without_sample(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in spec.items() if name != "sample"}


async def _run(runner: str, task: Task, tools: Tools, answers: Mapping[str, Any], wanted: Wanted) -> Row:
    source, meter = FakeSource(tools), Meter()
    model = Metered(answers, meter)
    catalog = Catalog([source])
    await catalog.open()
    parts = Parts(
        MemoryStore(),
        WithOwnTools(catalog, catalog.rules),
        dict.fromkeys(ROLES, model),
        VirtualClock(),
        ManualIds(),
    )
    service = Service(parts)
    policy = Policy(
        budget=Budget(task_timeout_secs=None), parallel_max_concurrent=100, interactive=bool(task.person)
    )
    clock = asyncio.get_running_loop().time
    began = clock()
    await service.submit(Submission(description=task.text, policy=policy, task_id="task"))
    engine = LocalEngine(
        service.drive, 1, asleep=service.until_it_goes_on, elsewhere=service.driven_elsewhere
    )
    await engine.start("task")
    while task.person and (await service.result("task")).status == "waiting":
        await asyncio.sleep(PERSON_SECS)
        await service.answer("task", task.person)
        await engine.start("task")
    secs = clock() - began
    result = await service.result("task")
    return row(task.name, task.kind, runner, meter, source, secs, wanted, _end(result))


def _end(result: TaskResult) -> str:
    """What is wrong with the end."""
    if result.is_success:
        return ""
    errors = [f"{one.step_id}: {one.error}" for one in result.steps if one.error]
    return f"{result.status}: {result.failure and result.failure.reason} {'; '.join(errors[:3])}".rstrip()
