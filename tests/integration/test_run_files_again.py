"""Files of the kit that a later plan wants as they were: what was moved, deleted or overwritten since is made again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from run_tasks import plan, step

from replan import Replan, TaskResult, tool
from replan.testing import ScriptedModel
from replan.tools.kit import files

WRITE = {"path": "conf/c.txt", "text": "debug=0"}


@pytest.mark.parametrize(
    ("since", "made"),
    [
        pytest.param(
            [("move_file", {"source": "conf", "destination": "old"})], 2, id="its folder moved away"
        ),
        pytest.param([("move_file", {"source": "./conf/c.txt", "destination": "o"})], 2, id="moved away"),
        pytest.param([("delete_file", {"path": "conf/../conf/c.txt"})], 2, id="deleted, with dots"),
        pytest.param(
            [("write_file", {"path": "./conf/c.txt", "text": "debug=1"})], 2, id="written otherwise"
        ),
        pytest.param([("append_file", {"path": "./conf/c.txt", "text": "debug=1"})], 2, id="more added"),
        pytest.param(
            [
                ("write_file", {"path": "o.txt", "text": "debug=1"}),
                ("copy_file", {"source": "o.txt", "destination": "./conf/c.txt"}),
            ],
            2,
            id="copied over",
        ),
        pytest.param(
            [("write_file", {"path": "conf/d.txt", "text": "debug=1"})], 1, id="another file beside it"
        ),
        pytest.param([("delete_file", {"path": "other.txt"})], 1, id="another file deleted"),
    ],
)
def test_a_file_that_was_changed_under_another_name_is_written_again(
    tmp_path: Path, since: list[tuple[str, dict[str, Any]]], made: int
) -> None:
    (tmp_path / "other.txt").write_text("x")
    deployed: list[str] = []

    @tool(effect="once")
    def deploy(n: int) -> str:
        """Deploy what is there."""
        if n == 1:
            raise ValueError("it is not right")
        deployed.append((tmp_path / "conf/c.txt").read_text())
        return "deployed"

    between = [step(f"u{at}", name, "w", parameters=given) for at, (name, given) in enumerate(since)]
    between = [one | ({"dependencies": [f"u{at - 1}"]} if at else {}) for at, one in enumerate(between)]
    plans = [
        plan(
            step("w", "write_file", parameters=WRITE),
            *between,
            step("d", "deploy", f"u{len(since) - 1}", parameters={"n": 1}),
        ),
        plan(
            step("w2", "write_file", parameters=WRITE),
            step("d2", "deploy", "w2", parameters={"n": 2}),
        ),
    ]
    model = ScriptedModel(
        {
            "execution_plan": plans,
            "step_reflection": {
                "root_cause_category": "tool_error",
                "is_recoverable": True,
                "confidence": 90,
                "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
            },
            "overall_reflection": {
                "problem_nature": "tools",
                "should_replan": True,
                "reflection_text": "again",
                "replanning_strategy": {"type": "full_replan"},
            },
        }
    )

    async def main() -> TaskResult:
        tools = [files(str(tmp_path), write=True), deploy]
        async with Replan(
            model,
            tools=tools,
            db=str(tmp_path / "tasks.db"),
            enable_two_stage_planning=False,
            evaluation="steps",
        ) as replan:
            return await replan.run("Write conf/c.txt with debug=0 and deploy.")

    result = asyncio.run(main())
    assert result.succeeded
    assert deployed == ["debug=0"]
    written = [call for one in result.steps if one.step_id in ("w", "w2") for call in one.calls]
    assert sum(not call.reused for call in written) == made
