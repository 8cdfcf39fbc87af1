"""What the prompts of a recovery tell of what has happened: all of it, once, and nothing that has not."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection
from test_run_replanning import replan

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
NUMBER = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


def run(tools: dict[str, Any], answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await bench(tools, {"evaluation": verdict(), **answers})).run(**more)).check()

    return virtual_time(main())


def prompts(ran: Ran, schema: str) -> list[str]:
    return [one.turns[0].text for one in ran.model.requests if one.schema_name == schema]


def refuses(parameters: dict[str, Any]) -> Any:
    raise ValueError(f"x: there is no {parameters['x']} here")


TOOLS: dict[str, Any] = {
    "f": FakeTool(output=refuses, parameters=NUMBER, **READS),
    "g": FakeTool(output=7, **READS),
}


def test_the_first_failure_ever_is_told_of_no_earlier_try() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": overall(),
        },
    )
    (first,) = prompts(ran, "step_reflection")
    assert "Tried before" not in first
    assert "carried out" not in first


def test_a_second_failure_is_told_of_the_first_alone() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": [
                reflection("retry_with_params", {"x": 2}),
                reflection("repair_step", {"hint": "otherwise"}),
            ],
            "step_repair": {"step_id": "a", "tool": "f", "parameters": {"x": 1}},
            "overall_reflection": overall(),
        },
    )
    second = prompts(ran, "step_reflection")[1]
    assert second.count("carried out: ") == 1
    assert '1. f {"x": 1}' in second
    assert 'carried out: retry_with_params {"x": 2}' in second
    assert "proposed then" not in second, "what was proposed and what was done are the same: told once"
    assert "2. f" not in second


def test_a_rewrite_that_was_not_found_is_not_told_as_one() -> None:
    answers = {
        "execution_plan": [
            plan(step("a", "f", parameters={"x": 1})),
            plan(step("step_2", "f", parameters={"x": 5})),
        ],
        "step_reflection": [
            reflection("repair_step", {"hint": "otherwise"}),
            reflection("trigger_overall_reflection", {"summary": "no"}),
        ],
        "step_repair": {"step_id": "a", "tool": "f", "parameters": {"x": 1}},
        "overall_reflection": [replan("full_replan"), overall()],
    }
    ran = run({**TOOLS, "f": FakeTool(fail=["x: no", "out of paper"], parameters=NUMBER, **READS)}, answers)
    assert "no better step was found" in prompts(ran, "step_reflection")[1]


def test_a_rewrite_that_is_asked_for_now_is_not_told_as_carried_out() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": reflection("repair_step", {"hint": "otherwise"}),
            "step_repair": {"step_id": "a", "tool": "g", "parameters": {}},
        },
    )
    (asked,) = prompts(ran, "step_repair")
    assert '1. f {"x": 1}' in asked
    assert "carried out" not in asked
    assert "no better step was found" not in asked
    assert asked.count("otherwise") == 1, "the hint, once"


def test_an_earlier_remedy_is_told_in_the_prompt_for_a_rewrite() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": [
                reflection("retry_with_params", {"x": 2}),
                reflection("repair_step", {"hint": "otherwise"}),
            ],
            "step_repair": {"step_id": "a", "tool": "g", "parameters": {}},
        },
    )
    (asked,) = prompts(ran, "step_repair")
    assert asked.count("carried out: ") == 1
    assert 'carried out: retry_with_params {"x": 2}' in asked


def test_advice_of_a_step_is_told_to_the_planner_once_and_as_no_plan_that_was_tried() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [plan(step("a", "f", parameters={"x": 1})), plan(step("step_2", "g"))],
            "step_reflection": reflection("replan", {"advice": "ask g instead of f"}),
        },
    )
    assert ran.result.is_success
    asked = prompts(ran, "execution_plan")[1]
    assert asked.count("ask g instead of f") == 1
    assert "Plans tried" not in asked


def test_what_an_earlier_round_came_to_is_told_to_the_next_planner() -> None:
    ran = run(
        {"g": FakeTool(output=7, **READS), "h": FakeTool(output=8, **READS)},
        {
            "execution_plan": [plan(step("a", "g")), plan(step("step_2", "h"))],
            "evaluation": [verdict(20), verdict()],
            "overall_reflection": overall(
                True,
                reflection_text="seven was not it",
                replanning_strategy={"type": "full_replan", "reason": "eight may be"},
            ),
        },
    )
    assert ran.result.is_success
    asked = prompts(ran, "execution_plan")[1]
    assert "- round 1, judged 20: seven was not it" in asked
    assert asked.count("eight may be") == 1


def test_the_first_round_is_told_nothing_of_earlier_ones() -> None:
    ran = run(
        {"g": FakeTool(output=7, **READS)},
        {
            "execution_plan": [plan(step("a", "g")), plan(step("b", "g", parameters={"x": 2}))],
            "evaluation": verdict(20),
            "overall_reflection": [replan("full_replan"), overall()],
        },
    )
    first, second = (
        asked.split("Verdict on the round", 1)[1].lower() for asked in prompts(ran, "overall_reflection")
    )
    assert "rounds" not in first
    assert "rounds" in second


def test_a_plan_made_anew_and_a_failed_try_are_told_once_in_the_next_round() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [plan(step("a", "f", parameters={"x": 1})), plan(step("step_2", "g"))],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no x"}),
            "evaluation": verdict(20),
            "overall_reflection": [replan("full_replan"), overall()],
        },
    )
    second = prompts(ran, "overall_reflection")[1]
    told = second.split("What has happened so far:", 1)[1]
    assert told.count("+ step_2") == 1
    assert told.count("there is no 1 here") == 1
    assert "- round 2 (full_replan: + step_2; - a)" in told


def test_a_round_is_never_told_as_not_judged_after_an_answer() -> None:
    async def main() -> Ran:
        made = await bench(
            {"g": FakeTool(output=7, **READS)},
            {
                "execution_plan": plan(step("a", "g")),
                "evaluation": {**verdict(20), "failures": ["nobody was paid"]},
                "overall_reflection": [overall(False, "external", ask="Which Ann?"), overall()],
            },
        )
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        await made.service.answer(task_id, "the second one", by="Bob")
        return await made.drive(task_id)

    first, second = prompts(virtual_time(main()), "overall_reflection")
    assert "Verdict on the round:" in first
    assert "has not been judged" not in second
    assert "Verdict on the round:" in second
    assert "nobody was paid" in second
    assert "the second one" in second


def test_a_round_that_was_not_judged_has_no_verdict_of_an_earlier_one() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [plan(step("a", "g")), plan(step("step_2", "f", parameters={"x": 1}))],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "evaluation": {**verdict(20), "failures": ["nobody was paid"]},
            "overall_reflection": [replan("full_replan"), overall()],
        },
    )
    second = prompts(ran, "overall_reflection")[1]
    assert "The round has not been judged yet." in second
    assert "Verdict on the round" not in second


def test_a_condition_that_does_not_hold_is_told_once() -> None:
    ran = run(
        {"g": FakeTool(output={"n": 7}, **READS)},
        {"execution_plan": plan(step("a", "g"), step("b", "g", "a", when="a.output.n > `9`"))},
    )
    (asked,) = prompts(ran, "evaluation")
    assert asked.count("a.output.n > `9`") == 1
    assert "skipped because: its condition does not hold\n" in asked


def test_a_stand_in_is_told_in_the_plan_as_what_was_called() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": reflection(
                "retry_with_tool", {"tool_id": "g", "parameters": {}}, "tool_error"
            ),
            "evaluation": verdict(20),
            "overall_reflection": overall(),
        },
    )
    (asked,) = prompts(ran, "overall_reflection")
    assert 'a: f {"x": 1} -> succeeded, by g in place of it' in asked


def each_of(n: int, **more: Any) -> Any:
    return plan(
        step("a", "send", parameters={"x": "${item}"}, for_each=list(range(n)), **more), step("b", "g", "a")
    )


WITHOUT_ONE = {
    **verdict(),
    "left_out_effects": [{"step": "a", "made_good_by": None, "not_needed": "there is no such number"}],
}


def refuses_two(parameters: dict[str, Any]) -> Any:
    if parameters["x"] == 2:
        raise ValueError("there is no 2 here")
    return parameters["x"]


def test_an_item_is_told_with_how_many_there_are() -> None:
    ran = run(
        {"send": FakeTool(output=refuses_two, parameters=NUMBER, **ONCE), "g": FakeTool(output=7, **READS)},
        {
            "execution_plan": each_of(9),
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": overall(),
        },
    )
    (asked,) = prompts(ran, "step_reflection")
    assert "which call: item 3 of 9; each is a call of its own, and the others go on" in asked
    (whole,) = prompts(ran, "overall_reflection")
    assert "- send for items 1, 2, 4, 5, 6, 7, 8 and 9 of a" in whole
    assert 'item 1: send {"x": 0} -> succeeded; has taken effect' in whole


def test_a_rewrite_after_another_items_failure_is_not_told_as_carried_out() -> None:
    """The item that asks for it need not be the one that failed last."""

    def some(parameters: dict[str, Any]) -> Any:
        if parameters["x"] == 2:
            raise ValueError("x: there is no 2 here")
        if parameters["x"] == 7:  # another cause, so that it is asked about by itself
            raise ValueError("the seat is taken already, take one that is free")
        return parameters["x"]

    ran = run(
        {"send": FakeTool(output=some, parameters=NUMBER, **ONCE), "g": FakeTool(output=7, **READS)},
        {
            "execution_plan": each_of(9),
            "step_reflection": [
                reflection("repair_step", {"hint": "do without it"}),
                reflection("retry_with_params", {"x": 70}),
            ],
            "step_repair": {
                "step_id": "a",
                "tool": "send",
                "parameters": {"x": "${item}"},
                "for_each": list(range(9)),
                "allow_failed_items": True,
            },
            "evaluation": WITHOUT_ONE,
        },
        enable_parallel_execution=False,
    )
    assert ran.result.is_success
    (asked,) = prompts(ran, "step_repair")
    assert "no better step was found" not in asked
    assert asked.count("do without it") == 1
    assert 'carried out: retry_with_params {"x": 70}' in asked
    assert "- send for items 1, 2, 4, 5, 6, 7, 8 and 9 of a" in asked

    assert [call.parameters["x"] for call in ran.source.calls if call.tool_id == "send"].count(70) == 1
    assert ran.outputs()["a"] == [0, 1, 3, 4, 5, 6, 70, 8], "what was put in for an item that is done stays"


def test_an_effect_that_other_parameters_had_is_not_had_again_by_the_planned_ones() -> None:
    """Two actions: one was mended with another number and is done; the other one is written anew."""
    failed: list[int] = []

    def once(parameters: dict[str, Any]) -> Any:
        if parameters["x"] in (1, 5) and parameters["x"] not in failed:
            failed.append(parameters["x"])
            raise ValueError(f"x: there is no {parameters['x']} here")
        return parameters["x"]

    def actions(second: int) -> list[dict[str, Any]]:
        return [
            {"action_id": "one", "tool": "send", "parameters": {"x": 1}},
            {"action_id": "two", "tool": "send", "parameters": {"x": second}},
        ]

    ran = run(
        {"send": FakeTool(output=once, parameters=NUMBER, **ONCE)},
        {
            "execution_plan": plan({"step_id": "a", "actions": actions(5)}),
            "step_reflection": [
                reflection("retry_with_params", {"x": 10}),
                reflection("repair_step", {"hint": "six"}),
            ],
            "step_repair": {"step_id": "a", "actions": actions(6)},
        },
        enable_parallel_execution=False,
    )
    assert ran.result.is_success
    assert sorted(call.parameters["x"] for call in ran.source.calls) == [1, 5, 6, 10]
    assert ran.outputs()["a"] == {"one": 10, "two": 6}


def test_what_was_put_in_for_a_reading_goes_with_the_form_that_it_was_put_into() -> None:
    ran = run(
        {"f": FakeTool(output=lambda p: p["x"], fail=["x: no", "x: too big"], parameters=NUMBER, **READS)},
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": [
                reflection("retry_with_params", {"x": 2}),
                reflection("repair_step", {"hint": "three"}),
            ],
            "step_repair": step("a", "f", parameters={"x": 3}),
        },
    )
    assert ran.outputs()["a"] == 3


def test_an_item_that_a_rewrite_keeps_is_told_once_as_it_was_made() -> None:
    ran = run(
        {"send": FakeTool(output=refuses_two, parameters=NUMBER, **ONCE), "g": FakeTool(output=7, **READS)},
        {
            "execution_plan": each_of(4),
            "step_reflection": reflection("repair_step", {"hint": "do without it"}),
            "step_repair": step(
                "a", "send", parameters={"x": "${item}"}, for_each=list(range(4)), allow_failed_items=True
            ),
            "evaluation": WITHOUT_ONE,
        },
    )
    assert ran.result.is_success
    (asked,) = prompts(ran, "evaluation")
    for item, x in ((1, 0), (2, 1), (4, 3)):
        line = f'kept from plan 1, item {item}: send {{"x": {x}}} -> succeeded; has taken effect'
        assert asked.count(line) == 1
        assert asked.count(f"item {item}:") == 1
    assert "reused" not in asked
    assert 'earlier, in plan 1, item 3: send {"x": 2} -> failed' in asked


def test_few_effects_of_a_list_are_told_call_by_call() -> None:
    ran = run(
        {"send": FakeTool(output=refuses_two, parameters=NUMBER, **ONCE), "g": FakeTool(output=7, **READS)},
        {
            "execution_plan": each_of(3),
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": overall(),
        },
    )
    (whole,) = prompts(ran, "overall_reflection")
    assert '- send {"x": 0} in a' in whole
    assert '- send {"x": 1} in a' in whole


def test_a_new_step_knows_what_was_tried_for_the_one_that_it_replaces() -> None:
    answers = {
        "execution_plan": [
            plan(step("a", "f", parameters={"x": 1})),
            plan(step("step_2", "f", parameters={"x": 3})),
        ],
        "step_reflection": [
            reflection("retry_with_params", {"x": 2}),
            reflection("trigger_overall_reflection", {"summary": "no"}),
            reflection("retry_with_params", {"x": 9}),
            reflection("trigger_overall_reflection", {"summary": "no"}),
        ],
        "overall_reflection": [replan("full_replan"), overall()],
    }
    ran = run(TOOLS, answers)
    assert [call.parameters["x"] for call in ran.source.calls] == [1, 2, 3]
    assert ran.state.recovery is not None
    assert ran.state.recovery.replaced == {"a": "step_2"}
    (decided,) = ran.events("step_reflected", step_id="step_2")
    assert "retry_with_params is not open any more" in decided.violations[0], "the error has come before"


def test_a_set_of_parameters_that_failed_in_an_earlier_plan_is_refused_in_a_later_one() -> None:
    told = ["x: there is no 1", "x: there is no 2", "y: too big"]
    answers = {
        "execution_plan": [
            plan(step("a", "f", parameters={"x": 1})),
            plan(step("step_2", "f", parameters={"x": 3})),
        ],
        "step_reflection": [
            reflection("retry_with_params", {"x": 2}),
            reflection("trigger_overall_reflection", {"summary": "no"}),
            reflection("retry_with_params", {"x": 2}),
            reflection("retry_with_params", {"x": 4}),
        ],
        "overall_reflection": [replan("full_replan"), overall()],
    }
    tools = {"f": FakeTool(output=4, fail=told, parameters=NUMBER, **READS)}
    ran = run(tools, answers)
    assert ran.result.is_success
    assert [call.parameters["x"] for call in ran.source.calls] == [1, 2, 3, 4]
    decided = ran.events("step_reflected", step_id="step_2")[0]
    assert "was tried for this step already" in "; ".join(decided.violations)
    shown = prompts(ran, "step_reflection")[2]
    assert '(in a, of an earlier plan) f {"x": 2}' in shown


def test_one_error_costs_few_calls_however_often_the_plan_is_made_anew() -> None:
    """A model that always finds other parameters and another plan for one and the same failure."""
    n = iter(range(10, 1000))
    rounds = iter(range(1, 1000))
    answers = {
        "execution_plan": lambda _: plan(step(f"step_{next(rounds)}", "f", parameters={"x": next(n)})),
        "step_reflection": lambda _: reflection("retry_with_params", {"x": next(n)}),
        "step_repair": lambda _: {"step_id": "s", "tool": "f", "parameters": {"x": next(n)}},
        "overall_reflection": replan("full_replan"),
    }
    ran = run(TOOLS, answers)
    assert not ran.result.is_success
    assert ran.result.rounds == 5
    assert ran.source.counts["f"] <= 9, "3 in the first round, then no second try of the same kind"


def test_steps_before_one_failed_step_bring_no_other_one_to_run_again() -> None:
    """`add_remediation_steps` is for the step that it names: the others stay as they are, and failed."""
    state = {"full": True}

    def mail(parameters: Any) -> Any:
        if state["full"]:
            raise RuntimeError("the mailbox is full")
        return "mailed"

    tools = {
        "mail": FakeTool(output=mail, **ONCE),
        "fax": FakeTool(fail=["no line"] * 9, **ONCE),
        "clean": FakeTool(output=lambda p: state.update(full=False), **ONCE),
        "log": FakeTool(output="logged", **READS),
    }
    ran = run(
        tools,
        {
            "execution_plan": [
                plan(
                    step("m", "mail"),
                    step("x", "fax"),
                    step("l", "log", "m"),
                    step("k", "log", "x", parameters={"n": 1}),
                ),
                plan(step("step_1", "clean")),
            ],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": [
                replan("add_remediation_steps", step_id="m", suggestions=["clean the mailbox"]),
                overall(),
            ],
        },
        enable_parallel_execution=False,
    )
    (updated,) = ran.events("plan_updated")
    assert set(updated.reset) == {"m", "l"}
    assert ran.source.counts["fax"] == 1
    assert ran.outputs()["m"] == "mailed"


def test_a_planner_that_sees_no_better_step_says_so_and_the_round_is_looked_at() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": reflection("repair_step", {"hint": "otherwise"}),
            "step_repair": {"step_id": "a", "cannot": "because no output holds a number that f takes"},
            "overall_reflection": overall(),
        },
    )
    assert len(prompts(ran, "step_repair")) == 1, "a reason is an answer: nothing is corrected"
    assert ran.source.counts["f"] == 1, "nothing was invented"
    (led_on,) = ran.events("overall_reflection_triggered")
    assert "no output holds a number" in led_on.reason
    assert ran.result.failure is not None
    assert any("no better form of the step was found" in line for line in ran.result.failure.tried)
    assert "no output holds a number" in prompts(ran, "overall_reflection")[0]


def test_a_step_beside_a_reason_why_there_is_none_is_sent_back() -> None:
    answers = [
        {"step_id": "a", "tool": "f", "parameters": {"x": 2}, "cannot": "it is hopeless"},
        {"step_id": "a", "tool": "g", "parameters": {}, "cannot": ""},
    ]
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": reflection("repair_step", {"hint": "otherwise"}),
            "step_repair": answers,
        },
    )
    assert ran.result.is_success
    assert ran.events("step_repaired")[0].step.tool == "g"


def test_a_fault_of_form_hides_no_other_fault_of_the_plan() -> None:
    """A misspelt field, an unknown tool and a wrong type: all three go back at once."""
    bad = plan(
        {"step_id": "a", "tool": "f", "paramters": {"x": "one"}},
        step("b", "ff", parameters={}),
        {"step_id": "c", "tool": "f", "parameters": "no object"},
        step("d", "f", parameters={"x": [1]}),
    )
    ran = run(
        {**TOOLS, "f": FakeTool(output=1, parameters=NUMBER, **READS)},
        {"execution_plan": [bad, plan(step("a", "g"))]},
    )
    (rejected,) = ran.events("plan_rejected")
    told = "\n".join(rejected.violations)
    assert "no field 'paramters'; did you mean 'parameters'?" in told
    assert "step 'a': tool 'f': x" in told, "what was meant by it is checked"
    assert "the tool 'ff' does not exist" in told
    assert "step 'c': `parameters` is a text" in told
    assert "step 'c': tool" not in told, "nothing is said of what could not be read"
    assert "step 'd': tool 'f': x" in told


def test_faults_of_form_and_of_sense_of_a_new_plan_go_back_at_once() -> None:
    answers = {
        "execution_plan": [
            plan(step("a", "f", parameters={"x": 1})),
            plan({"step_id": "step_2", "tool": "hh", "depndencies": ["nobody"]}),
            plan(step("step_3", "g")),
        ],
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
        "overall_reflection": replan("full_replan"),
    }
    ran = run(TOOLS, answers)
    assert ran.result.is_success
    told = "\n".join(ran.events("plan_rejected")[0].violations)
    assert "'depndencies'" in told
    assert "'hh' does not exist" in told
    assert "depends on 'nobody'" in told


def test_a_repair_gets_every_fault_back_at_once() -> None:
    answers = {
        "execution_plan": plan(step("a", "f", parameters={"x": 1})),
        "step_reflection": reflection("repair_step", {"hint": "otherwise"}),
        "step_repair": [
            {"step_id": "a", "tool": "hh", "timeout_secs": "soon"},
            {"step_id": "a", "tool": "g"},
        ],
    }
    ran = run(TOOLS, answers)
    assert ran.result.is_success
    told = ran.model.requests[-2].turns[-1].text
    assert "`timeout_secs` has to be a number" in told
    assert "'hh' does not exist" in told


def test_a_judge_sees_what_each_step_should_give_and_what_its_tool_does() -> None:
    tools = {
        "height": FakeTool(output=8611, description="The height of a mountain, in metres.", **READS),
        "send": FakeTool(description="Send a mail.", **ONCE),
        "other": FakeTool(description="Not used here.", **READS),
    }
    ran = run(
        tools,
        {
            "execution_plan": plan(
                step("a", "height", expected_output="the height of Mont Blanc,\nabout 4800 m"),
                step("b", "send", "a"),
            )
        },
    )
    (asked,) = prompts(ran, "evaluation")
    assert "should give: the height of Mont Blanc, about 4800 m" in asked
    assert "The height of a mountain, in metres. (only reads)" in asked
    assert "Send a mail. (has an effect" in asked
    assert "Not used here" not in asked


def test_what_a_step_should_give_is_told_of_earlier_plans_and_in_few_words() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [
                plan(step("a", "g", expected_output="y" * 5_000)),
                plan(step("b", "g", parameters={"x": 2}, expected_output="seven")),
            ],
            "evaluation": [verdict(30, success=False), verdict()],
            "overall_reflection": overall(
                True, replanning_strategy=replan("full_replan")["replanning_strategy"]
            ),
        },
    )
    last = prompts(ran, "evaluation")[-1]
    assert "should give: seven" in last
    assert "characters left out" in last
    assert "y" * 300 not in last
    assert "should give" in prompts(ran, "overall_reflection")[0]


@pytest.mark.parametrize(
    "again",
    [
        [step("x", "pay", for_each=["Ann", "Bob"], parameters={"to": "${item}"})],
        [step("x", "pay", parameters={"to": "Ann"}), step("y", "pay", parameters={"to": "Bob"})],
    ],
)
def test_a_reused_call_is_told_with_the_parameters_that_it_was_made_with(again: list[dict[str, Any]]) -> None:
    ran = run(
        {"pay": FakeTool(output="paid", **ONCE)},
        {
            "execution_plan": [
                plan(step("s", "pay", parameters={"to": "Ann"})),
                plan(*again),
            ],
            "evaluation": [verdict(30, success=False), verdict()],
            "overall_reflection": overall(
                True, replanning_strategy=replan("full_replan")["replanning_strategy"]
            ),
        },
    )
    last = prompts(ran, "evaluation")[-1]
    (line,) = [line for line in last.splitlines() if "reused" in line]
    assert '{"to": "Ann"}' in last[last.index(line) :]
    assert "pay {}" not in last
    (step_,) = [one for one in ran.result.steps if one.step_id == "x"]
    assert [call.parameters for call in step_.calls if call.reused] == [{"to": "Ann"}]


PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}, "memo": {"type": "string"}},
    "required": ["to", "cents"],
}
MOVE = {
    "type": "object",
    "properties": {"recipient": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["recipient", "amount"],
}


@pytest.mark.parametrize(
    ("tool", "parameters", "like"),
    [
        ("pay", {"to": "Ann", "cents": 500, "memo": "again"}, True),
        ("pay", {"to": " ann ", "cents": 500}, True),
        ("move", {"recipient": "Ann", "amount": 500}, True),
        ("pay", {"to": "Bob", "cents": 500}, False),
        ("ring", {"bell": 500}, False),
        ("pay", {"to": "Ann", "cents": 700}, False),
    ],
)
def test_an_effect_of_an_earlier_plan_in_other_words_is_marked_for_whoever_judges(
    tool: str, parameters: dict[str, Any], like: bool
) -> None:
    tools = {
        "pay": FakeTool(parameters=PAY, **ONCE),
        "move": FakeTool(parameters=MOVE, **ONCE),
        "ring": FakeTool(**ONCE),
    }
    ran = run(
        tools,
        {
            "execution_plan": [
                plan(step("s", "pay", parameters={"to": "Ann", "cents": 500})),
                plan(step("x", tool, parameters=parameters)),
            ],
            "evaluation": [verdict(30, success=False), verdict()],
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ("very like what plan 1 has done in s" in prompts(ran, "evaluation")[-1]) == like


def test_like_effects_of_one_plan_are_meant() -> None:
    ran = run(
        {"pay": FakeTool(parameters=PAY, **ONCE)},
        {
            "execution_plan": plan(
                step("s", "pay", parameters={"to": "Ann", "cents": 500}),
                step("x", "pay", parameters={"to": "Ann", "cents": 500, "memo": "May"}),
            )
        },
    )
    assert "very like" not in prompts(ran, "evaluation")[-1]


def test_what_has_happened_is_told_in_its_order_with_the_round_of_each_failure() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [
                plan(step("a", "f", parameters={"x": 1})),
                plan(step("step_2", "f", parameters={"x": 2})),
                plan(step("step_3", "f", parameters={"x": 3})),
            ],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no x"}),
            "evaluation": verdict(20),
            "overall_reflection": [replan("full_replan"), replan("full_replan"), overall()],
        },
    )
    told = prompts(ran, "overall_reflection")[2].split("What has happened so far:", 1)[1]
    marks = ["in round 1: ", "no 1 here", "- round 1", "in round 2: ", "no 2 here", "- round 2", "in round 3: ", "no 3 here"]  # fmt: skip
    places = [told.find(mark) for mark in marks]
    assert -1 not in places, told
    assert places == sorted(places), told


@pytest.mark.parametrize("action", ["retry_with_params", "trigger_overall_reflection"])
def test_a_failure_of_the_round_at_hand_has_its_round_too(action: str) -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "f", parameters={"x": 1})),
            "step_reflection": [
                reflection(action, {"x": 2} if "retry" in action else {"summary": "no"}),
                reflection("trigger_overall_reflection", {"summary": "no"}),
            ],
            "overall_reflection": overall(),
        },
    )
    told = prompts(ran, "overall_reflection")[0]
    assert "- in round 1: step 'a' (f) failed" in told
    assert ("so other parameters were tried" in told) == (action == "retry_with_params")


@pytest.mark.parametrize("given", [True, False])
def test_a_plan_that_a_person_gave_is_called_so_to_everybody_who_may_depart_from_it(given: bool) -> None:
    first = plan(step("a", "f", parameters={"x": 1}))
    answers: dict[str, Any] = {
        "execution_plan": [*([] if given else [first]), plan(step("b", "g"))],
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no x"}),
        "overall_reflection": replan("full_replan"),
    }
    ran = run(TOOLS, answers, **({"wanted": first, "evaluation": "model"} if given else {}))
    assert ran.result.is_success
    for schema in ("step_reflection", "overall_reflection", "execution_plan", "evaluation"):
        assert ("Plan 1 was given by a person" in prompts(ran, schema)[-1]) == given, schema
