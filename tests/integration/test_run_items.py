"""A `for_each` of which some items fail: what the others gave can be seen and used, and a plan may do without."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_history import ONCE, prompts
from test_run_recovery import READS, overall, reflection
from test_run_replanning import replan

from replan.core.state.fold import fold
from replan.errors import InputError
from replan.testing import virtual_time

NO = reflection("trigger_overall_reflection", {"summary": "cannot be mended"}, "tool_error")
NAMES = ["Ann", "Bo", "Cy", "Di"]


def label(parameters: dict[str, Any]) -> Any:
    if parameters["name"] in ("Bo", "Di"):
        raise RuntimeError(f"unsupported: no printer for {parameters['name']}")
    return {"label": parameters["name"]}


def tools() -> dict[str, Any]:
    return {
        "names": FakeTool(output=NAMES, **READS),
        "label": FakeTool(output=label, **ONCE),
        "post": FakeTool(output=lambda p: len(p["labels"]), **ONCE),
    }


def labels(**more: Any) -> dict[str, Any]:
    return step("l", "label", for_each="${n.output}", parameters={"name": "${item}"}, **more)


def run(made: dict[str, Any], answers: dict[str, Any]) -> tuple[Ran, Bench]:
    async def main() -> tuple[Ran, Bench]:
        on = await bench(made, {"evaluation": verdict(), **answers})
        return (await on.run()).check(), on

    return virtual_time(main())


def test_a_plan_may_do_without_items_that_fail() -> None:
    wanted = plan(
        step("n", "names"),
        labels(allow_failed_items=True),
        step("p", "post", parameters={"labels": "${l.output}"}),
    )
    said = {**verdict(), "left_out_effects": [{"step": "l", "not_needed": "two labels will do"}]}
    ran, _ = run(tools(), {"execution_plan": wanted, "step_reflection": NO, "evaluation": said})
    assert ran.result.is_success
    assert ran.outputs() == {"n": NAMES, "l": [{"label": "Ann"}, {"label": "Cy"}], "p": 2}
    (done,) = ran.events("step_completed", step_id="l")
    assert done.failed_items == (1, 3)
    (told,) = [one for one in ran.result.steps if one.step_id == "l"]
    assert told.failed_items == (2, 4)
    assert "overall_reflection_triggered" not in ran.types()
    (judge,) = prompts(ran, "evaluation")
    assert "4 items, without items 2 and 4" in judge
    assert judge.count("unsupported: no printer for") == 2
    assert 'item 2: label {"name": "Bo"} -> failed' in judge
    assert "(the plan may go on without it)" in prompts(ran, "step_reflection")[0]


def test_a_plan_that_allows_it_still_fails_when_every_item_does() -> None:
    made = {**tools(), "label": FakeTool(fail=["unsupported: no printer"] * 9, **ONCE)}
    wanted = plan(step("n", "names"), labels(allow_failed_items=True))
    ran, _ = run(made, {"execution_plan": wanted, "step_reflection": NO, "overall_reflection": overall()})
    assert ran.statuses()["l"] == "failed"


def test_an_item_in_doubt_is_never_left_out() -> None:
    def uncertain(parameters: dict[str, Any]) -> Any:
        if parameters["name"] == "Bo":
            raise TimeoutError("no answer in time")
        return "ok"

    made = {**tools(), "label": FakeTool(output=uncertain, **ONCE)}
    answers = {
        "execution_plan": plan(step("n", "names"), labels(allow_failed_items=True)),
        "step_reflection": NO,
        "overall_reflection": overall(),
    }
    ran, _ = run(made, answers)
    assert ran.statuses()["l"] == "failed"
    assert not ran.result.is_success


def test_allowing_it_where_there_are_no_items_is_a_fault_of_the_plan() -> None:
    bad = plan(step("n", "names", allow_failed_items=True))
    ran, _ = run(tools(), {"execution_plan": [bad, plan(step("n", "names"))]})
    assert "goes with `for_each` only" in ran.events("plan_rejected")[0].violations[0]


def partly_failed() -> tuple[Ran, Bench]:
    """Two of four labels fail; the plan made anew goes on with the two that are there."""
    rest = plan(step("step_1", "post", parameters={"labels": "${l.output}"}))
    return run(
        tools(),
        {
            "execution_plan": [plan(step("n", "names"), labels()), rest],
            "step_reflection": NO,
            "overall_reflection": [replan("replan_from_step", step_id="l"), overall()],
        },
    )


def test_a_new_plan_may_refer_to_what_the_other_items_gave() -> None:
    ran, _ = partly_failed()
    assert ran.outputs()["step_1"] == 2
    assert ran.source.calls[-1].parameters == {"labels": [{"label": "Ann"}, {"label": "Cy"}]}
    assert ran.source.counts["label"] == 4, "none was made again"
    asked = prompts(ran, "execution_plan")[1]
    assert "; l ([any])\n" in asked.split("Results that may be referred to:")[1]
    assert 'output of the items that succeeded, in order: [{"label": "Ann"}, {"label": "Cy"}]' in asked


def test_every_failure_is_told_and_items_are_counted_as_people_do() -> None:
    ran, _ = partly_failed()
    (failed,) = ran.events("step_failed", step_id="l")
    assert failed.error.message.startswith("2 of 4 calls failed; item 2: ")
    assert "; item 4: " in failed.error.message
    assert "item 2" in prompts(ran, "step_reflection")[0]


def test_what_a_removed_step_did_is_kept_and_shown() -> None:
    """Paid labels of a step that a later plan has left out."""
    ran, on = partly_failed()
    (told,) = [one for one in ran.result.steps if one.step_id == "l"]
    assert (told.status, told.plan_version, told.removed_by) == ("failed", 1, 2)
    assert told.output == [{"label": "Ann"}, {"label": "Cy"}]
    assert [(call.item, call.status, call.plan_version) for call in told.calls] == [
        (1, "succeeded", 1), (2, "failed", 1), (3, "succeeded", 1), (4, "failed", 1)
    ]  # fmt: skip

    async def outputs() -> None:
        task = ran.result.task_id
        assert await on.service.output(task, "l") == [{"label": "Ann"}, {"label": "Cy"}]
        assert await on.service.output(task, "l", 3) == {"label": "Cy"}
        with pytest.raises(InputError, match="item 2 of step 'l' has no output"):
            await on.service.output(task, "l", 2)
        with pytest.raises(InputError, match="has 4 items; they are counted from 1"):
            await on.service.output(task, "l", 5)
        with pytest.raises(InputError, match="'step_1' is no `for_each`"):
            await on.service.output(task, "step_1", 1)

    virtual_time(outputs())


def test_the_judge_sees_each_call_once_and_what_has_become_of_each_step() -> None:
    ran, _ = partly_failed()
    judge = prompts(ran, "evaluation")[-1]
    assert "l: label -> failed; of plan 1, left out since; 4 items, without items 2 and 4" in judge
    assert "has taken effect" in judge
    assert judge.index("l: label") < judge.index("step_1: post"), "in the order of the plans"


def test_a_replaced_step_is_marked_and_a_reused_call_is_told_as_such() -> None:
    plans = [
        plan(step("p", "pay", parameters={"n": 1}), step("m", "mail", "p", parameters={"to": "a"})),
        plan(
            step("step_1", "pay", parameters={"n": 1}),
            step("step_2", "mail", "step_1", parameters={"to": "b"}, when="step_1.output"),
        ),
    ]
    made = {
        "pay": FakeTool(output={"paid": 1}, **ONCE),
        "mail": FakeTool(fail=["the mailbox is full"], output="sent", **ONCE),
    }
    ran, _ = run(
        made,
        {
            "execution_plan": plans,
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.source.counts["pay"] == 1
    judge = prompts(ran, "evaluation")[-1]
    assert "p: pay -> succeeded; of plan 1, left out since; has taken effect" in judge
    assert "m: mail -> failed; of plan 1, replaced by step_2" in judge
    assert "step_1: pay -> succeeded; reused: an earlier call gave this, and nothing was called" in judge
    assert "when: step_1.output" in judge
    assert judge.count("has taken effect") == 2, "one payment, one mail"
    (gone,) = [one for one in ran.result.steps if one.step_id == "m"]
    assert gone.replaced_by == "step_2"


def test_calls_of_an_earlier_form_of_a_step_are_kept() -> None:
    wanted = plan(
        step("s", actions=[
            {"action_id": "a", "tool": "find", "parameters": {}},
            {"action_id": "b", "tool": "broken", "parameters": {}},
        ])
    )  # fmt: skip
    made = {"find": FakeTool(output=7, **READS), "broken": FakeTool(fail=["unsupported"] * 9, **READS)}
    answers = {
        "execution_plan": wanted,
        "step_reflection": reflection("repair_step", {"hint": "find is enough"}, "tool_error"),
        "step_repair": {"step_id": "s", "tool": "find", "parameters": {"n": 2}},
    }
    ran, _ = run(made, answers)
    assert ran.result.is_success
    (told,) = ran.result.steps
    assert [(call.tool, call.status, call.plan_version) for call in told.calls] == [
        ("find", "succeeded", 1), ("broken", "failed", 1), ("find", "succeeded", 2)
    ]  # fmt: skip
    assert told.calls[0].output == 7
    again = fold(ran.records)
    assert [call.tool_id for call in again.steps["s"].every_call()] == ["find", "broken", "find"]


@pytest.mark.parametrize("way", [{}, {"evaluation": "steps"}])
@pytest.mark.parametrize(("effect", "bad"), [("once", "Bo"), ("reads", "Bo"), ("once", "Ann")])
def test_items_that_a_plan_does_without_are_in_the_shortfall_whoever_judges(
    way: dict[str, Any], effect: Any, bad: str
) -> None:
    def invite(parameters: Any) -> Any:
        if parameters["to"] == bad:
            raise ValueError("there is no such mailbox")
        return {"invited": parameters["to"]}

    async def main() -> Ran:
        made = await bench(
            {"invite": FakeTool(output=invite, effect=effect)},
            {
                "execution_plan": plan(
                    step(
                        "i",
                        "invite",
                        parameters={"to": "${item}"},
                        for_each=["Ann", "Bo"],
                        allow_failed_items=True,
                    )
                ),
                "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
                "evaluation": {
                    **verdict(),
                    "left_out_effects": [{"step": "i", "not_needed": "the box is gone"}],
                },
            },
        )
        return (await made.run(**way)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert len(ran.result.shortfall) == 1
    number = ["Ann", "Bo"].index(bad) + 1
    assert any(f"is without item {number}, which failed" in one for one in ran.result.shortfall)
