"""What the prompts of a recovery hold, and in how much room; and that a replay asks the same however fast it is."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from run_tasks import FakeTool, bench, plan, step, verdict
from test_run_history import ONCE, prompts, run
from test_run_recovery import READS, overall, reflection
from test_run_replanning import replan

from replan.llm.recorder import RecordingModel, ReplayModel
from replan.testing import ScriptedModel, virtual_time

DAY = {
    "type": "object",
    "properties": {"day": {"type": "string", "description": "as 2031-05-02"}, "rows": {"type": "array"}},
    "required": ["day"],
}
NO = reflection("trigger_overall_reflection", {"summary": "no"})


def wrong_day(parameters: dict[str, Any]) -> Any:
    if "." in parameters["day"]:
        raise ValueError("day: wrong format")
    return {"ok": True}


def many(count: int) -> dict[str, Any]:
    """A failing tool, one that is like it, and very many others with long schemas."""
    wide = {"type": "object", "properties": {f"a_long_parameter_{n}": {"type": "string"} for n in range(12)}}
    named = {
        f"unlike_{n}": FakeTool(description=f"Quite another thing {n}.", parameters=wide, **READS)
        for n in range(count)
    }
    return {
        "report_sales": FakeTool(output=wrong_day, description="Report the sales.", parameters=DAY, **READS),
        "report_sales_old": FakeTool(output=1, description="Report the sales.", parameters=DAY, **READS),
        "rows": FakeTool(output={"rows": [{"n": n, "text": "x" * 30} for n in range(40)]}, **READS),
        **named,
    }


def test_a_failed_step_is_shown_its_own_tool_in_full_and_the_others_in_short() -> None:
    answers = {
        "tool_selection": {
            "tools": [{"tool_id": name, "score": 95} for name in ("report_sales", "rows", "unlike_7")]
        },
        "execution_plan": plan(step("a", "report_sales", parameters={"day": "2.5.2031"})),
        "step_reflection": NO,
        "overall_reflection": overall(),
    }
    ran = run(many(300), answers)
    (asked,) = prompts(ran, "step_reflection")
    full = asked.split("Further tools")[0]
    assert '"description": "as 2031-05-02"' in full
    assert full.count("\nparameters: ") == 2, "the failed tool, and the one that is like it"
    assert "unlike_7(" in full, "selected, so it stands before the others"
    assert len(asked) < 14_000


def test_long_values_are_told_once() -> None:
    wanted = plan(
        step("r", "rows"),
        step("a", "report_sales", parameters={"day": "2.5.2031", "rows": "${r.output.rows}"}),
    )
    answers = {
        "execution_plan": wanted,
        "step_reflection": [reflection("retry_with_params", {"day": "3.5.2031"}), NO],
        "overall_reflection": overall(),
    }
    ran = run(many(0), answers)
    told = prompts(ran, "step_reflection")
    assert len(told) == 2
    for asked in told:
        assert asked.count('"n": 39') == 1
        assert "(rows in the output of r, " in asked


def test_the_plan_is_shown_with_its_failed_step_in_one_line_a_step() -> None:
    code = "for x in y:\\n    print(x)"
    wanted = plan(
        step("r", "rows"),
        step("a", "report_sales", parameters={"day": "2.5.2031"}),
        step("b", "report_sales_old", parameters={"day": "x  y\n    z"}, when="a.output.ok"),
    )
    answers = {"execution_plan": wanted, "step_reflection": NO, "overall_reflection": overall()}
    (asked,) = prompts(run(many(0), answers), "step_reflection")
    told = asked.split("The plan as it was made")[1].split("~~~")[1].splitlines()
    assert [line.split(":")[0] for line in told[1:]] == ["r", "a", "b"]
    assert told[2].endswith("-> failed")
    assert "x  y\\n    z" in told[3], "what is code keeps its lines and spaces"
    assert "when a.output.ok" in told[3]
    assert code


def test_the_overall_reflection_is_told_which_tools_there_are() -> None:
    answers = {
        "tool_selection": {"tools": [{"tool_id": "report_sales", "score": 95}]},
        "execution_plan": plan(step("a", "report_sales", parameters={"day": "2.5.2031"})),
        "step_reflection": NO,
        "overall_reflection": overall(),
    }
    (asked,) = prompts(run(many(100), answers), "overall_reflection")
    told = asked.split("Tools that another plan may use:")[1]
    assert (
        "report_sales_old(day: string (as 2031-05-02), rows?: [any]): Report the sales. (only reads)" in told
    )
    assert "more are not shown" in told
    assert len(told) < 16_000


# ── replays ───────────────────────────────────────────────────────────────────

STEPS = 4


def parallel(delays: list[float]) -> dict[str, Any]:
    """Steps side by side that all fail at first, each as fast as it is."""

    def fails(n: int) -> Any:
        def call(parameters: dict[str, Any]) -> Any:
            if "." in parameters["day"]:
                raise ValueError(f"day: wrong format of tool {n}")
            return {"n": n}

        return call

    return {
        f"t{n}": FakeTool(output=fails(n), parameters=DAY, delay_secs=delays[n], **ONCE) for n in range(STEPS)
    }


SIDE_BY_SIDE = plan(
    *(step(f"s{n}", f"t{n}", parameters={"day": f"{n}.5.2031"}) for n in range(STEPS)),
    *(step(f"u{n}", "t0", f"s{n}", parameters={"day": f"2031-01-0{n + 1}"}) for n in range(STEPS)),
)


def answered(request: Any) -> dict[str, Any]:
    n = request.turns[0].text.split("wrong format of tool ")[1][0]
    if n == "3" and "retry_with_params" not in request.turns[0].text.split("Tried before")[-1]:
        return reflection("retry_with_params", {"day": "2031-05-02"})
    return (
        reflection("repair_step", {"hint": "another date"})
        if n == "2"
        else reflection("retry_with_params", {"day": f"2031-05-0{int(n) + 1}"})
    )


def test_a_healed_run_with_steps_side_by_side_replays_however_fast_each_of_them_is(tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    answers = {
        "execution_plan": SIDE_BY_SIDE,
        "step_reflection": answered,
        "step_repair": {"step_id": "s2", "tool": "t2", "parameters": {"day": "2031-05-03"}},
        "evaluation": verdict(),
    }

    async def once(model: Any, delays: list[float]) -> Any:
        on = await bench(parallel(delays), model=model)
        return (await on.run(budget={"max_llm_calls": 50, "max_tool_calls": 60})).check()

    recorded = virtual_time(once(RecordingModel(ScriptedModel(answers), file), [1.0, 2.0, 3.0, 4.0]))
    assert recorded.result.is_success
    assert len(recorded.events("step_reflected")) == STEPS
    for seed in range(16):
        delays = [random.Random(seed).uniform(0.1, 9) for _ in range(STEPS)]
        random.Random(seed).shuffle(delays)
        replay = ReplayModel(file)
        again = virtual_time(once(replay, delays))
        assert again.result.is_success, f"seed {seed}: {again.result.failure}"
        assert replay.left == 0


@pytest.mark.parametrize("strategy", ["full_replan", "replan_from_step"])
def test_a_failure_after_a_new_plan_is_shown_what_the_plans_before_gave(strategy: str) -> None:
    answers = {
        "execution_plan": [
            plan(step("r", "rows"), step("a", "report_sales", parameters={"day": "2.5.2031"})),
            plan(step("step_1", "report_sales", parameters={"day": "3.6.2031"})),
        ],
        "step_reflection": NO,
        "overall_reflection": [replan(strategy, step_id="a"), overall()],
    }
    asked = prompts(run(many(0), answers), "step_reflection")[-1]
    assert ("r: rows -> succeeded" in asked) == (strategy == "full_replan"), (
        "it stands before it, or beside it"
    )


# ── how a value came about ────────────────────────────────────────────────────

LOG = {
    "read": FakeTool(output={"lines": [{"level": "ERROR", "text": f"e{n}"} for n in range(3)]}, **READS),
    "ticket": FakeTool(output={"id": 7}, **ONCE),
    "note": FakeTool(
        output=lambda p: {"noted": p["n"]} if p["n"] != "${x}" else None,
        parameters={"type": "object", "properties": {"n": {}, "to": {"type": "string"}}},
        **READS,
    ),
}


def judged(*steps: dict[str, Any], **answers: Any) -> str:
    ran = run(LOG, {"execution_plan": plan(*steps), **answers})
    return prompts(ran, "evaluation")[0]


def test_the_judge_is_told_how_a_parameter_came_about_that_was_written_by_reference() -> None:
    picked = "${a.output.lines[?level=='ERROR'].text | join(', ', @)}"
    told = judged(step("a", "read"), step("b", "ticket", parameters={"body": picked, "queue": "ops"}))
    assert f'planned as: {{"body": "{picked}"}}' in told
    assert '"body": "e0, e1, e2"' in told
    assert told.count("planned as: ") == 1, "what was written as a value stands as its value alone"


def test_so_it_is_for_actions_and_for_items_of_a_list() -> None:
    two = [{"action_id": "x", "tool": "note", "parameters": {"n": "${a.output.lines[0].text}"}},
           {"action_id": "y", "tool": "note", "parameters": {"n": 2}}]  # fmt: skip
    told = judged(
        step("a", "read"),
        step("b", actions=two),
        step("c", "note", for_each="${a.output.lines}", parameters={"n": "${item.text}", "to": "ops"}),
    )
    assert 'planned as: {"x": {"n": "${a.output.lines[0].text}"}}' in told
    assert 'planned as: {"n": "${item.text}"}' in told


def test_what_recovery_has_put_in_place_of_a_reference_is_not_told_as_one() -> None:
    def wrong(parameters: Any) -> Any:
        if parameters["n"] == "e0":
            raise ValueError("n: has to be a number")
        return {"noted": parameters["n"]}

    ran = run(
        {**LOG, "note": FakeTool(output=wrong, **READS)},
        {
            "execution_plan": plan(step("a", "read"), step("b", "note", parameters={"n": "${a.output.lines[0].text}"})),
            "step_reflection": reflection("retry_with_params", {"n": 4}, "parameter_error"),
        },
    )  # fmt: skip
    assert "planned as: " not in prompts(ran, "evaluation")[0]


def test_a_long_text_with_references_is_told_in_short_and_an_escape_is_text() -> None:
    long = "x" * 3_000 + "${a.output.lines[0].text}" + "y" * 3_000
    text = {"n": "$${not.one}"}
    told = judged(
        step("a", "read"),
        step("b", "ticket", parameters={"body": long}),
        step("c", "note", parameters=text),
    )
    (line,) = [line for line in told.splitlines() if "planned as: " in line]
    assert len(line) < 500
