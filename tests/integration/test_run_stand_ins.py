"""What recovery calls in place of what was planned: never more than that, told to the judge, and checked against."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.core.recovery.substitutes import substitutes
from replan.core.types import ToolSpec
from replan.testing import virtual_time

TICKET = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def closed(**fields: str) -> dict[str, Any]:
    named = {name: {"type": kind} for name, kind in fields.items()}
    return {"type": "object", "properties": named, "additionalProperties": False}


def ticket(effect: Any, output: Any = "done", *, fail: Any = (), gives: Any = None, **more: Any) -> FakeTool:
    spec = {"output_schema": gives} if gives else {}
    return FakeTool(
        output=output,
        effect=effect,
        fail=fail,
        parameters=TICKET,
        spec=spec,
        description="One ticket by its id.",
        **more,
    )


TOOLS: dict[str, Any] = {
    "get_ticket": ticket("reads", fail=["no such view"] * 9),
    "show_ticket": ticket("reads", {"title": "Printer"}),
    "tag_ticket": ticket("repeatable"),
    "delete_ticket": ticket("once"),
}
ASKED = plan(step("t", "get_ticket", parameters={"id": 17}))
GIVE_UP = reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error")
TO_DELETE = reflection("retry_with_tool", {"tool_id": "delete_ticket"}, "tool_error")


def run(answers: dict[str, Any], tools: dict[str, Any] | None = None, **more: Any) -> Ran:
    async def main() -> Ran:
        made = await bench(tools or TOOLS, {"evaluation": verdict(), **answers})
        return (await made.run(**more)).check()

    return virtual_time(main())


def prompts(ran: Ran, name: str) -> list[str]:
    return [one.turns[-1].text for one in ran.model.requests if one.schema_name == name]


@pytest.mark.parametrize("tool", ["delete_ticket", "tag_ticket"])
def test_a_reading_is_never_made_up_for_by_an_effect(tool: str) -> None:
    ran = run(
        {
            "execution_plan": ASKED,
            "step_reflection": [
                reflection("retry_with_tool", {"tool_id": tool}, "tool_error"),
                reflection("retry_with_tool", {"tool_id": "show_ticket"}, "tool_error"),
            ],
        }
    )
    assert tool not in ran.source.counts
    assert ran.outputs()["t"] == {"title": "Printer"}
    (event,) = ran.events("step_reflected")
    assert any("a stand-in may not do more" in text for text in event.violations)


def test_nor_by_a_step_that_is_written_anew() -> None:
    ran = run(
        {
            "execution_plan": ASKED,
            "step_reflection": reflection("repair_step", {"hint": "another way"}, "tool_error"),
            "step_repair": step("t", "delete_ticket", parameters={"id": 17}),
            "overall_reflection": overall(False),
        }
    )
    assert "delete_ticket" not in ran.source.counts
    assert any("may not do more" in prompt for prompt in prompts(ran, "step_repair"))


def test_a_new_plan_may_do_more() -> None:
    ran = run(
        {
            "execution_plan": [ASKED, plan(step("step_1", "delete_ticket", parameters={"id": 17}))],
            "step_reflection": reflection(
                "trigger_overall_reflection", {"summary": "it is gone"}, "tool_error"
            ),
            "overall_reflection": overall(
                True, replanning_strategy={"type": "full_replan", "reason": "as it says"}
            ),
        }
    )
    assert ran.source.counts["delete_ticket"] == 1


def test_an_effect_may_be_stood_in_for_by_less() -> None:
    tools = {**TOOLS, "delete_ticket": ticket("once", fail=["locked"] * 9)}
    ran = run(
        {
            "execution_plan": plan(step("t", "delete_ticket", parameters={"id": 17})),
            "step_reflection": reflection("retry_with_tool", {"tool_id": "tag_ticket"}, "tool_error"),
        },
        tools,
    )
    assert ran.source.counts["tag_ticket"] == 1


def test_the_list_says_what_each_does_and_the_judge_hears_of_a_stand_in() -> None:
    ran = run(
        {
            "execution_plan": ASKED,
            "step_reflection": reflection("retry_with_tool", {"tool_id": "show_ticket"}, "tool_error"),
        }
    )
    (asked,) = prompts(ran, "step_reflection")
    assert "the likeliest first: show_ticket (only reads)" in asked
    (judged,) = prompts(ran, "evaluation")
    assert "a stand-in for get_ticket" in judged


def test_no_reading_is_named_as_like_an_effect() -> None:
    ran = run(
        {
            "execution_plan": plan(step("t", "delete_ticket", parameters={"id": 17})),
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(False),
        },
        {**TOOLS, "delete_ticket": ticket("once", fail=["locked"])},
    )
    assert (
        "the likeliest first: tag_ticket (has an effect that may be repeated)\n"
        in prompts(ran, "step_reflection")[0]
    )


def test_readings_are_shown_to_find_out_whether_an_effect_was_had() -> None:
    ran = run(
        {
            "execution_plan": plan(step("t", "delete_ticket", parameters={"id": 17})),
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(False),
        },
        {**TOOLS, "delete_ticket": ticket("once", fail=[TimeoutError("no answer")])},
    )
    assert "show_ticket" in prompts(ran, "step_reflection")[0]


def test_no_stronger_tool_is_among_the_likeliest() -> None:
    specs = {
        name: ToolSpec(id=name, description="One ticket by its id.", effect=one.effect, parameters=TICKET)
        for name, one in TOOLS.items()
    }
    tools = list(specs.values())
    assert substitutes(specs["get_ticket"], tools) == ["show_ticket"]
    assert set(substitutes(specs["tag_ticket"], tools)) == {"get_ticket", "show_ticket"}
    assert len(substitutes(specs["delete_ticket"], tools)) == 3


# ── what is put in place of a broken reference ────────────────────────────────

FOUND = FakeTool(output={"n": 5, "note": "x"}, **READS)
ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
BROKEN = plan(
    step("f", "find"), step("s", "sum", parameters={"a": "${f.output.missing}", "b": "${f.output.n}"})
)


@pytest.mark.parametrize(
    ("remedy", "called"),
    [
        pytest.param(reflection("retry_with_params", {"a": 1}, "parameter_error"), ("sum", {"a": 1, "b": 5}), id="the broken one"),
        pytest.param(
            reflection("retry_with_params", {"a": 1, "b": 2}, "parameter_error"), ("sum", {"a": 1, "b": 2}), id="all"
        ),
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "half", "parameters": {"b": 4}}, "dependency_error"), ("half", {"b": 4}), id="another tool"
        ),
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "half"}, "dependency_error"), ("half", {"b": 5}), id="one that does not need it"
        ),
    ],
)  # fmt: skip
def test_a_reference_that_is_overridden_may_select_nothing(remedy: Any, called: tuple[str, Any]) -> None:
    half = {
        "type": "object",
        "properties": {"b": {"type": "integer"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    tools = {
        "find": FOUND,
        "sum": FakeTool(output=1, parameters=ADD, **READS),
        "half": FakeTool(output=2, parameters=half, **READS),
    }
    ran = run({"execution_plan": BROKEN, "step_reflection": remedy}, tools)
    assert ran.result.is_success
    assert (ran.source.calls[-1].tool_id, ran.source.calls[-1].parameters) == called


def test_one_that_is_left_broken_is_still_a_fault() -> None:
    tools = {"find": FOUND, "sum": FakeTool(output=1, parameters=ADD, **READS)}
    ran = run(
        {
            "execution_plan": BROKEN,
            "step_reflection": reflection("retry_with_params", {"b": 1}, "parameter_error"),
            "overall_reflection": overall(False),
        },
        tools,
    )
    assert "sum" not in ran.source.counts


# ── checked against what ran ──────────────────────────────────────────────────


@pytest.mark.parametrize("field", ["label", "title"])
def test_later_steps_are_checked_against_the_tool_that_ran(field: str) -> None:
    tools = {
        "get_ticket": ticket("reads", fail=["no such view"] * 9, gives=closed(title="string")),
        "show_ticket": ticket("reads", {"label": "Printer"}, gives=closed(label="string")),
        "say": FakeTool(output="said", fail=["mute"], **READS),
    }
    anew = step("s", "say", parameters={"text": f"${{t.output.{field}}}", "loud": True})
    ran = run(
        {
            "execution_plan": plan(*ASKED["steps"], step("s", "say", "t")),
            "step_reflection": [
                reflection("retry_with_tool", {"tool_id": "show_ticket"}, "tool_error"),
                reflection("repair_step", {"hint": "say what it is"}, "tool_error"),
            ],
            "step_repair": anew,
            "overall_reflection": overall(False),
        },
        tools,
    )
    assert ran.result.is_success is (field == "label")
    if field == "title":
        assert any("has no 'title'; it has: label" in prompt for prompt in prompts(ran, "step_repair"))


def test_so_are_steps_that_are_planned_anew() -> None:
    tools = {
        "get_ticket": ticket("reads", fail=["no such view"] * 9, gives=closed(title="string")),
        "show_ticket": ticket("reads", {"label": "Printer"}, gives=closed(label="string")),
        "say": FakeTool(output="said", fail=["mute"] * 9, **READS),
    }
    ran = run(
        {
            "execution_plan": [
                plan(*ASKED["steps"], step("s", "say", "t")),
                plan(step("step_1", "show_ticket", parameters={"id": 18}), step("step_2", "show_ticket", "t", for_each="${t.output.label}")),
                plan(step("step_1", "show_ticket", "t", when="t.output.label", parameters={"id": 18})),
            ],
            "step_reflection": [
                reflection("retry_with_tool", {"tool_id": "show_ticket"}, "tool_error"),
                reflection("trigger_overall_reflection", {"summary": "mute"}, "tool_error"),
            ],
            "overall_reflection": overall(True, replanning_strategy={"type": "replan_from_step", "step_id": "s", "reason": "mute"}),
        },
        tools,
    )  # fmt: skip
    assert ran.result.is_success
    (rejected,) = ran.events("plan_rejected")
    assert any(
        "`for_each` needs a list, and ${t.output.label} gives a text" in text for text in rejected.violations
    )
