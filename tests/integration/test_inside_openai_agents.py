"""Replan as a tool of an agent of the OpenAI Agents SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agents
import pytest
from agents.tool_context import ToolContext

from replan import Replan, tool
from replan.inside import as_openai_agents_tool

pytestmark = pytest.mark.anyio
agents.set_tracing_disabled(True)


@tool(effect="reads")
def double(n: int) -> int:
    """Twice the number."""
    if n < 0:
        raise ValueError("n has to be 0 or more")
    return 2 * n


@pytest.mark.parametrize(
    ("n", "arguments", "expected"),
    [
        pytest.param(4, '{"task": "double"}', 8, id="the answer"),
        pytest.param(-1, '{"task": "double"}', "n has to be 0 or more", id="a failure"),
        pytest.param(1, '{"task": " "}', "The task was not run: the task is empty", id="no task"),
    ],
)
async def test_the_tool_gives_the_answer_or_says_why_not(
    n: int, arguments: str, expected: Any, tmp_path: Path
) -> None:
    plan = {"steps": [{"step_id": "a", "tool": "double", "parameters": {"n": n}}]}
    async with Replan(tools=[double], db=tmp_path / "r.db") as replan:
        run = as_openai_agents_tool(replan, submit={"plan": plan, "evaluation": "steps"})
        assert list(run.params_json_schema["properties"]) == ["task"]
        seen = ToolContext(None, tool_name=run.name, tool_call_id="c", tool_arguments=arguments)
        found = await run.on_invoke_tool(seen, arguments)
    assert found == expected if isinstance(expected, int) else expected in found
