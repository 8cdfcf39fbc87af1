"""A mask that a model has seen and writes as a value reaches no tool, in whatever form: it stands for what nobody shows."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_questions import asks
from test_run_recovery import overall, reflection

from replan.core.types import JsonObject
from replan.testing import MemoryStore, virtual_time

TEXT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
SAID = "password: hunter2xyzw"
USES = step("use", "note", parameters={"what": "${ask.output}"})


def ran_with(how: str, written: str, *, elsewhere: bool, said: str = SAID) -> tuple[Ran, list[JsonObject]]:
    """What a task comes to in which a model has seen an answer, and writes this. `elsewhere`: another process was told the answer."""
    reached: list[JsonObject] = []

    def note(given: JsonObject) -> str:
        reached.append(given)
        return "noted"

    remedy = {
        "retry": reflection("retry_with_params", {"what": written}),
        "tool": reflection(
            "retry_with_tool", {"tool_id": "tell", "parameters": {"what": written}}, "tool_error"
        ),
        "repair": reflection("repair_step", {"hint": "write it out"}, "dependency_error"),
    }
    parts: list[JsonObject] = [step("own", "note", parameters={"what": written})]
    if how == "items":
        parts = [step("own", "note", for_each=["a", written], parameters={"what": "${item}"})]
    first = {**plan(asks()), "more": "note it"} if how in ("more", "items") else plan(asks(), USES)
    answers: dict[str, Any] = {
        "evaluation": verdict(),
        "step_reflection": remedy.get(
            how, reflection("trigger_overall_reflection", {"summary": "x"}, "external_error")
        ),
        "step_repair": [{**USES, "parameters": {"what": written}}] * 4,
        "execution_plan": [first, *[plan(*parts)] * 4],
        "overall_reflection": overall(
            how == "replan",
            replanning_strategy={"type": "replan_from_step", "step_id": "use"} if how == "replan" else None,
        ),
    }

    async def main() -> Ran:
        kept = MemoryStore()
        fails = (
            {"fail": ["what: it is too short"] * 9} if not elsewhere and how not in ("more", "items") else {}
        )
        tools = {
            "note": FakeTool(output=note, effect="once", parameters=TEXT, **fails),
            "tell": FakeTool(output=note, effect="once", parameters=TEXT),
        }
        drives, tells = await bench(tools, answers, store=kept), await bench(tools, answers, store=kept)
        task_id = await drives.submit(None, interactive=True, evaluation="model")
        await drives.drive(task_id)
        await (tells if elsewhere else drives).service.answer(task_id, said)
        return await drives.drive(task_id)

    return virtual_time(main()), reached


@pytest.mark.parametrize(
    "written", ["***", SAID.replace("hunter2xyzw", "***"), "log in with ***, then go on"]
)
@pytest.mark.parametrize("how", ["retry", "tool", "repair", "replan", "more", "items"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_mask_that_a_model_writes_reaches_no_tool(how: str, written: str, elsewhere: bool) -> None:
    ran, reached = ran_with(how, written, elsewhere=elsewhere)
    assert "***" not in repr(reached)
    assert "stands for a secret" in repr(ran.records)
    assert "hunter2xyzw" not in repr(ran.records)


@pytest.mark.parametrize("written", ["Hotel ***", "# One\n\n***\n\n# Two", "***bold*** and **bold**"])
@pytest.mark.parametrize("how", ["more", "items"])
def test_where_no_secret_was_shown_stars_are_stars(how: str, written: str) -> None:
    ran, reached = ran_with(how, written, elsewhere=True, said="blue")
    assert ran.result.is_success
    assert {"what": written} in reached


def test_where_one_was_shown_stars_of_another_text_are_stars() -> None:
    ran, reached = ran_with("more", "it is ***bold***, with **** and a**b***c", elsewhere=True)
    assert ran.result.is_success
    assert len(reached) == 1
