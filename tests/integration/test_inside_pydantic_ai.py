"""Replan as a tool of a Pydantic AI agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from replan import Replan, tool
from replan.inside import as_pydantic_ai_tool
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tool(effect="reads")
def double(n: int) -> int:
    """Twice the number."""
    if n < 0:
        raise ValueError("n has to be 0 or more")
    return 2 * n


def _agent(replan: Replan, submit: Any, *tasks: str) -> tuple[Agent[None, str], list[str]]:
    """An agent whose model asks for the tasks one after the other, then says what it saw."""
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        for part in messages[-1].parts:
            if part.part_kind in ("tool-return", "retry-prompt", "retry-feedback"):
                outcome = getattr(part, "outcome", "")
                seen.append(f"{part.part_kind}/{outcome}: {getattr(part, 'content', '')}")
        if len(seen) < len(tasks):
            return ModelResponse([ToolCallPart("run_task", {"task": tasks[len(seen)]}, f"c{len(seen)}")])
        return ModelResponse([TextPart(seen[-1])])

    return Agent(FunctionModel(model), tools=[as_pydantic_ai_tool(replan, submit=submit)]), seen


def _plan(n: int) -> dict[str, Any]:
    plan = {"steps": [{"step_id": "a", "tool": "double", "parameters": {"n": n}}]}
    return {"plan": plan, "evaluation": "steps"}


async def test_the_answer_of_the_task_is_the_result_of_the_tool(tmp_path: Path) -> None:
    async with Replan(tools=[double], db=tmp_path / "r.db") as replan:
        agent, seen = _agent(replan, _plan(4), "double four")
        await agent.run("go", run_id="run-1")
        agent, _ = _agent(replan, _plan(4), "double four")
        await agent.run("go", run_id="run-1")  # the same run and call: the same task
        assert len(await replan.tasks()) == 1
    assert seen == ["tool-return/success: 8"]


@pytest.mark.parametrize("texts", [("double four", "double four"), ("double four", "once more")])
async def test_a_model_may_name_every_call_alike(tmp_path: Path, texts: tuple[str, str]) -> None:
    made: list[int] = []

    @tool(effect="once")
    def pay(n: int) -> int:
        """Pay."""
        made.append(n)
        return n

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for message in messages for part in message.parts if part.part_kind == "tool-return"]
        if len(returned) < len(texts):
            return ModelResponse([ToolCallPart("run_task", {"task": texts[len(returned)]}, "call_0")])
        return ModelResponse([TextPart("done")])

    plan = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"n": 4}}]}
    async with Replan(tools=[pay], db=tmp_path / "r.db") as replan:
        work = as_pydantic_ai_tool(replan, submit={"plan": plan, "evaluation": "steps"})
        agent: Agent[None, str] = Agent(FunctionModel(model), tools=[work])
        await agent.run("go", run_id="run-1")
        assert made == [4, 4]  # two turns of one run are two tasks
        await agent.run("go", run_id="run-1")  # the run itself repeated: the same tasks
    assert made == [4, 4]


async def test_what_another_wording_mends_is_asked_for_again_and_a_failure_is_told(tmp_path: Path) -> None:
    async with Replan(tools=[double], db=tmp_path / "r.db") as replan:
        agent, seen = _agent(replan, _plan(-1), " ", "double minus one")
        await agent.run("go")
    assert "the task is empty" in seen[0]
    assert "n has to be 0 or more" in seen[1]


async def test_a_task_that_cannot_be_planned_may_be_said_in_another_way(tmp_path: Path) -> None:
    broken = ScriptedModel({"execution_plan": "no plan", "tool_selection": {"tools": ["double"]}})
    async with Replan(broken, tools=[double], db=tmp_path / "r.db") as replan:
        agent, seen = _agent(replan, {}, "something")
        await agent.run("go")
        (task,) = await replan.tasks()
    assert task.status == "failed"
    assert "retried" in seen[0]
