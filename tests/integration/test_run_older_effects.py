"""A plan made anew that restates a done effect behind a change: it is not made again, and the judge and whoever reads the result are told."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

COMMAND: dict[str, Any] = {
    "type": "object",
    "properties": {"program": {"type": "string"}, "arguments": {"type": "array"}},
}
OLDER = "step 'copy_two' (command) was not made again: what it stands for was made before step 'two' (write)"
NOTE = "what it was reused from was made before 'two' (write)"


def copy(name: str, *needs: str, of: str = "o") -> dict[str, Any]:
    return step(name, "command", *needs, parameters={"program": "cp", "arguments": [of, "c"]})


def write(name: str, text: str, *needs: str) -> dict[str, Any]:
    return step(name, "write", *needs, parameters={"path": "o", "text": text})


def run(anew: dict[str, Any], of: str = "o", **more: Any) -> Ran:
    first = plan(write("one", "1"), copy("copy_one", "one", of=of), step("look", "broken", "copy_one"))

    async def main() -> Ran:
        tools = {
            "write": FakeTool(output="written", effect="repeatable"),
            "command": FakeTool(output="done", effect="once", parameters=COMMAND),
            "broken": FakeTool(fail=["broken"] * 9, **READS),
        }
        answers = {
            "evaluation": verdict(),
            "execution_plan": [first, anew],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "it is broken"}),
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan"}),
        }
        made = await bench(tools, answers)
        return (await made.run(**more)).check()

    return virtual_time(main())


def told_to_the_judge(ran: Ran) -> str:
    return next(one.turns[0].text for one in ran.model.requests if one.schema_name == "evaluation")


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_what_is_restated_behind_a_change_of_what_it_is_made_of_is_told(judge: str) -> None:
    ran = run(plan(write("two", "2"), copy("copy_two", "two")), evaluation=judge)
    assert ran.source.counts["command"] == 1, "it is not made again to make up for something else"
    assert ran.result.succeeded
    assert any(OLDER in one for one in ran.result.shortfall)
    if judge == "model":
        assert NOTE in told_to_the_judge(ran)


def test_it_is_told_too_where_other_steps_stand_between() -> None:
    between = step("wait", "write", "two", parameters={"path": "elsewhere", "text": "x"})
    ran = run(plan(write("two", "2"), between, copy("copy_two", "wait")))
    assert any(OLDER in one for one in ran.result.shortfall)


@pytest.mark.parametrize(
    "anew",
    [
        plan(copy("copy_two"), write("two", "2", "copy_two")),
        plan(write("two", "2"), copy("copy_two")),
        plan(write("two", "1"), copy("copy_two", "two")),
    ],
    ids=["it comes first", "it waits for nothing", "the change is reused as well"],
)
def test_what_is_not_behind_a_change_is_reused_without_a_word(anew: dict[str, Any]) -> None:
    ran = run(anew)
    assert ran.source.counts["command"] == 1
    assert not any("was not made again" in one for one in ran.result.shortfall)
    assert NOTE not in told_to_the_judge(ran)


def test_where_the_change_is_of_something_else_only_the_judge_is_told() -> None:
    ran = run(plan(write("two", "2"), copy("copy_two", "two", of="x")), of="x")
    assert ran.source.counts["command"] == 1
    assert not any("was not made again" in one for one in ran.result.shortfall)
    assert NOTE in told_to_the_judge(ran)
