"""The model's side of a task: selection, planning with corrections, judging, the answer; and a model that fails."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.core.limits.policy import Policy
from replan.core.own_tools.listed import OWN
from replan.errors import ModelUnavailable, PlanInvalid
from replan.run.service.submission import Submission
from replan.testing import ScriptedModel, virtual_time

ONE = plan(step("a", "t0"))


def run(answers: dict[str, Any], tools: int | dict[str, Any] = 3, **more: Any) -> Ran:
    async def main() -> Ran:
        named = (
            {f"t{n}": FakeTool(output=f"out{n}") for n in range(tools)} if isinstance(tools, int) else tools
        )
        return (await (await bench(named, answers)).run(**more)).check()

    return virtual_time(main())


# ── what a task costs ─────────────────────────────────────────────────────────


def test_a_happy_task_costs_two_model_calls() -> None:
    ran = run({"execution_plan": ONE, "evaluation": verdict(output="the answer")}, tools=10)
    assert ran.model.calls == {"execution_plan": 1, "evaluation": 1}
    assert ran.result.is_success
    assert (ran.result.output, ran.result.score) == ("the answer", 95)
    (selected,) = ran.events("tool_selection_completed")
    assert not selected.asked
    assert ran.result.usage.llm_calls == 2
    assert ran.result.usage.input_tokens > 0


def test_no_prompt_shows_metadata_that_a_tool_calls_secret() -> None:
    schema = {"type": "object", "properties": {"token": {"type": "string"}}, "required": ["token"]}
    ran = run(
        {"execution_plan": plan(step("a", "send")), "evaluation": verdict()},
        tools={"send": FakeTool(parameters=schema, spec={"secrets": ("token",)})},
        metadata={"token": "open-sesame", "room": "blue"},
    )
    assert ran.source.calls[0].parameters == {"token": "open-sesame"}
    prompts = [turn.text for request in ran.model.requests for turn in request.turns]
    assert len(prompts) == 2
    assert all("blue" in text and "open-sesame" not in text for text in prompts)
    written = [record.wire() for record in ran.records if record.type != "task_submitted"]
    assert "open-sesame" not in json.dumps(written)


def test_with_more_than_ten_tools_it_costs_three() -> None:
    chosen = {
        "task_type": "things",
        "tools": [{"tool_id": "t0", "score": 90, "reason": "fits"}],
        "reasoning": "r",
    }
    ran = run({"tool_selection": chosen, "execution_plan": ONE, "evaluation": verdict()}, tools=11)
    assert ran.model.calls == {"tool_selection": 1, "execution_plan": 1, "evaluation": 1}
    assert ran.events("plan_generated")[0].task_type == "things"


def test_selection_can_be_switched_off() -> None:
    ran = run({"execution_plan": ONE, "evaluation": verdict()}, tools=30, enable_two_stage_planning=False)
    assert ran.model.calls == {"execution_plan": 1, "evaluation": 1}


def test_unknown_and_weak_tools_of_a_selection_are_dropped_and_recorded() -> None:
    chosen = {
        "tools": [
            {"tool_id": "t0", "score": 90},
            {"tool_id": "made_up", "score": 100},
            {"tool_id": "t1", "score": 30},
        ]
    }
    ran = run({"tool_selection": chosen, "execution_plan": ONE, "evaluation": verdict()}, tools=20)
    (selected,) = ran.events("tool_selection_completed")
    assert [tool.tool_id for tool in selected.tools] == ["t0"]
    assert len(selected.dropped) == 2
    assert "made_up" in selected.dropped[0]
    assert "t1" in selected.dropped[1]
    assert ran.result.is_success


NO_T0 = {"tools": [{"tool_id": "t1", "score": 90}]}
CANNOT = {"steps": [], "cannot": "no listed tool can do it"}


def test_a_tool_that_was_not_selected_cannot_be_planned_where_no_plan_may_be_corrected() -> None:
    ran = run({"tool_selection": NO_T0, "execution_plan": ONE}, tools=20, max_plan_corrections=0)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "planning"
    assert "the tool 't0' exists and was not selected" in ran.result.failure.violations[0]
    assert ran.source.calls == []


OWN_NAMES = {tool.name for tool in OWN}


def offered(ran: Any) -> list[list[str]]:
    """The tools that each planner was shown, but those that every plan may wait with."""
    asked = [one.turns[0].text for one in ran.model.requests if one.schema_name == "execution_plan"]
    shown = [re.findall(r"^tool: (\w+)$", text, re.MULTILINE) for text in asked]
    return [[name for name in names if name not in OWN_NAMES] for names in shown]


def test_a_tool_that_a_planner_names_and_that_was_not_selected_is_selected() -> None:
    actions = [
        {"action_id": "x", "tool": "T0", "parameters": {}},
        {"action_id": "y", "tool": "t2", "parameters": {}},
    ]
    ran = run(
        {
            "tool_selection": NO_T0,
            "evaluation": verdict(),
            "execution_plan": [plan(step("a", actions=actions)), ONE],
        },
        tools=20,
    )
    assert ran.result.is_success
    assert offered(ran) == [["t1"], ["t0", "t1", "t2"]]
    (refused,) = ran.events("plan_rejected")
    assert refused.violations == ("the tools 't0', 't2' exist and were not selected for this plan",)


def test_who_names_a_second_one_is_offered_every_tool() -> None:
    plans = [ONE, plan(step("a", "t5")), plan(step("a", "t7"))]
    ran = run({"tool_selection": NO_T0, "evaluation": verdict(), "execution_plan": plans}, tools=12)
    assert ran.result.is_success
    assert list(map(len, offered(ran))) == [1, 2, 12]


def test_who_finds_no_tool_for_the_task_is_offered_every_tool_once() -> None:
    ran = run({"tool_selection": NO_T0, "evaluation": verdict(), "execution_plan": [CANNOT, ONE]}, tools=12)
    assert ran.result.is_success
    assert list(map(len, offered(ran))) == [1, 12]
    assert "no listed tool can do it" in ran.events("tool_selection_completed")[1].reasoning


def test_who_has_seen_every_tool_and_finds_none_is_believed() -> None:
    for tools, asked in ((12, [1, 12]), (3, [3])):
        ran = run({"tool_selection": NO_T0, "execution_plan": CANNOT}, tools=tools)
        assert "it cannot be done: no listed tool can do it" in ran.result.failure.reason  # type: ignore[union-attr]
        assert list(map(len, offered(ran))) == asked
        assert ran.source.calls == []


def test_a_planner_that_was_left_no_tool_at_all_is_offered_every_tool() -> None:
    ran = run(
        {"tool_selection": {"tools": []}, "evaluation": verdict(), "execution_plan": [CANNOT, ONE]}, tools=12
    )
    assert ran.result.is_success
    assert list(map(len, offered(ran))) == [0, 12]


def test_a_selection_of_nothing_ends_the_task_naming_the_nearest_tools() -> None:
    chosen = {"tools": [{"tool_id": "t_0", "score": 5}, {"tool_id": "t99", "score": 95}]}
    ran = run({"tool_selection": chosen}, tools=20)
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert ran.source.calls == []


class Deaf(ScriptedModel):
    """Never answers for these schemas."""

    deaf_for = ""

    async def ask(self, request: Any, on_text: Any = None) -> Any:
        if request.schema_name == self.deaf_for:
            await asyncio.Event().wait()
        return await super().ask(request, on_text)


@pytest.mark.parametrize("schema", ["execution_plan", "evaluation"])
def test_a_model_call_that_is_stopped_is_told_with_the_time_that_it_took(schema: str) -> None:
    model = Deaf({"execution_plan": ONE, "evaluation": verdict()})
    model.deaf_for = schema

    async def main() -> Ran:
        return (
            await (await bench({"t0": FakeTool()}, model=model)).run(budget={"task_timeout_secs": 4})
        ).check()

    ran = virtual_time(main())
    assert ran.result.status == "timed_out"
    last = ran.events("llm_call_completed")[-1]
    assert (last.error, round(last.duration_secs)) == ("it was stopped", 4)


# ── planning ──────────────────────────────────────────────────────────────────

BAD = plan(step("a", "nope"), step("b", "t0", "zzz", parameters={"x": "${ghost.output}"}), step("b", "t1"))


def test_a_bad_plan_goes_back_with_every_violation_in_one_list() -> None:
    ran = run({"execution_plan": [BAD, ONE], "evaluation": verdict()})
    (rejected,) = ran.events("plan_rejected")
    assert len(rejected.violations) == 4
    correction = ran.model.requests[1].turns[-1].text
    for violation in rejected.violations:
        assert violation in correction
    assert ran.events("plan_generated")[0].corrections == 1
    assert ran.result.is_success


def test_a_planner_that_does_not_mend_its_plan_fails_with_the_list_and_nothing_was_called() -> None:
    ran = run({"execution_plan": BAD}, max_plan_corrections=2)
    assert ran.model.calls == {"execution_plan": 3}
    assert len(ran.events("plan_rejected")) == 3
    failure = ran.result.failure
    assert failure is not None
    assert failure.kind == "planning"
    assert len(failure.violations) == 4
    assert ran.source.calls == []


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param("", id="nothing"),
        pytest.param("Once upon a time.", id="a tale"),
        pytest.param('{"steps": [', id="cut off"),
        pytest.param('{"plan": 3}', id="another shape"),
        pytest.param("[1, 2]", id="a list"),
    ],
)
def test_nonsense_is_corrected_and_then_fails_the_planning(nonsense: str) -> None:
    mended = run({"execution_plan": [nonsense, ONE], "evaluation": verdict()})
    assert mended.result.is_success
    ran = run({"execution_plan": nonsense})
    assert ran.result.failure is not None
    assert ran.result.failure.kind in ("planning", "model")
    assert ran.source.calls == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(f"Sure!\n```json\n{json.dumps(ONE)}\n```\nThere.", id="fenced"),
        pytest.param(json.dumps({"plan": ONE}), id="wrapped"),
        pytest.param(
            json.dumps({"steps": [{**ONE["steps"][0], "parameters": '{"q": "x"}'}]}), id="parameters as text"
        ),
    ],
)
def test_a_plan_in_another_wrapping_is_understood(answer: str) -> None:
    ran = run({"execution_plan": answer, "evaluation": verdict()})
    assert ran.model.calls["execution_plan"] == 1
    assert ran.source.counts == {"t0": 1}


def test_half_a_character_in_an_answer_is_sent_back_and_stops_nothing() -> None:
    odd = '{"steps": [{"step_id": "a", "tool": "t0", "name": "\\ud83d"}]}'
    half = json.dumps({**verdict(), "final_output": "half \ud83d"})
    ran = run({"execution_plan": [odd, ONE], "evaluation": [half, verdict(output="whole 😀")]})
    assert ran.result.output == "whole 😀"
    raw = run({"execution_plan": "\ud83d" + json.dumps(ONE), "evaluation": verdict()})
    assert raw.result.is_success


def test_a_task_that_needs_no_tool_gets_an_empty_plan_and_is_answered_by_the_evaluation() -> None:
    ran = run({"execution_plan": plan(), "evaluation": verdict(output="four")}, text="what is 2 + 2?")
    assert ran.result.is_success
    assert ran.result.output == "four"
    assert ran.source.calls == []
    assert "execution_mode" not in ran.types()


def test_an_empty_plan_judged_by_steps_is_refused() -> None:
    ran = run({"execution_plan": plan()}, evaluation="steps", max_plan_corrections=0)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "planning"


def test_without_any_tool_a_task_can_be_answered() -> None:
    ran = run({"execution_plan": plan(), "evaluation": verdict(output="four")}, tools={})
    assert ran.result.output == "four"


# ── judging ───────────────────────────────────────────────────────────────────

DOWN = ModelUnavailable("the endpoint is down")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(DOWN, id="down"),
        pytest.param(RuntimeError("provider bug"), id="a bug of the provider"),
        pytest.param("It went well, I would say.", id="nonsense"),
        pytest.param("", id="nothing"),
        pytest.param(verdict(1_000), id="a score out of range"),
        pytest.param(verdict(-5), id="a score below zero"),
        pytest.param({**verdict(), "dimensions": {}}, id="no dimensions"),
        pytest.param({**verdict(), "overall_score": "high"}, id="a score in words"),
        pytest.param({**verdict(), "is_successful": "perhaps"}, id="neither true nor false"),
    ],
)
def test_a_judge_that_cannot_be_had_or_understood_gives_unknown_and_keeps_the_outputs(answer: Any) -> None:
    ran = run({"execution_plan": ONE, "evaluation": answer})
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "unjudged"
    assert ran.result.failure.reason.startswith("the result could not be judged")
    assert ran.outputs() == {"a": "out0"}
    (judged,) = ran.events("evaluation_completed")
    assert judged.evaluation is None
    assert judged.reason


def test_a_judge_that_recovers_is_heard() -> None:
    ran = run({"execution_plan": ONE, "evaluation": [DOWN, "nonsense", verdict(output="ok")]})
    assert ran.result.is_success


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        pytest.param(verdict(80), True, id="at the threshold"),
        pytest.param(verdict(79.9), False, id="below it, though called a success"),
        pytest.param(verdict(79, correctness=100), False, id="below it, though all correct"),
        pytest.param(verdict(100), True, id="full"),
    ],
)
def test_success_needs_the_score(answer: dict[str, Any], good: bool) -> None:
    ran = run({"execution_plan": ONE, "evaluation": answer}, enable_auto_reflection=False)
    assert ran.result.is_success is good
    if not good:
        assert ran.result.failure is not None
        assert ran.result.failure.kind == "judgement"
        assert ran.result.output == "done", "the answer is kept"


def test_the_threshold_can_be_set() -> None:
    assert run(
        {"execution_plan": ONE, "evaluation": verdict(50, success=True)}, success_threshold=50
    ).result.is_success


def failing(effect: Any, score: float, correctness: float, fail: Any = "broken") -> Ran:
    tools = {"t0": FakeTool(output="fine"), "bad": FakeTool(effect=effect, fail=[fail])}
    wanted = plan(step("a", "t0"), step("b", "bad"))
    answers = {"execution_plan": wanted, "evaluation": verdict(score, correctness=correctness)}
    return run(answers, tools=tools, enable_step_level_reflection=False, enable_auto_reflection=False)


@pytest.mark.parametrize(
    ("effect", "score", "correctness", "good"),
    [
        pytest.param("reads", 100, 90, False, id="a failed step with a full score"),
        pytest.param("reads", 100, 95, True, id="a failed reading, excellent correctness"),
        pytest.param("once", 100, 100, False, id="a failed effect is fatal"),
        pytest.param("repeatable", 100, 100, False, id="a failed repeatable effect is fatal"),
        pytest.param("reads", 60, 100, False, id="excellent correctness with a low score"),
    ],
)
def test_a_failed_step_is_no_success_unless_all_is_correct(
    effect: Any, score: float, correctness: float, good: bool
) -> None:
    ran = failing(effect, score, correctness)
    assert ran.result.is_success is good
    if not good:
        assert ran.result.failure is not None
        assert ran.result.failure.kind == "step"


def test_a_step_that_could_not_be_called_at_all_is_fatal() -> None:
    tools = {"give": FakeTool(output={}), "t0": FakeTool()}
    wanted = plan(step("a", "give"), step("b", "t0", parameters={"x": "${a.output.nope}"}))
    ran = run({"execution_plan": wanted, "evaluation": verdict(100, correctness=100)}, tools=tools)
    assert not ran.result.is_success


def test_an_outcome_in_doubt_is_not_judged_away() -> None:
    ran = failing("once", 100, 100, TimeoutError())
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert "evaluation" not in ran.model.calls


def test_judging_by_steps_needs_no_model() -> None:
    ran = run({}, wanted=plan(step("a", "t0"), step("b", "t1"), step("c", "t2", "a")))
    assert ran.result.is_success
    assert ran.result.output == {"b": "out1", "c": "out2"}
    assert ran.events("evaluation_completed")[0].by == "steps"


# ── the form of the answer ────────────────────────────────────────────────────

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_answer_of_another_form_is_corrected() -> None:
    answers = {"execution_plan": ONE, "evaluation": [verdict(output={"n": "x"}), verdict(output={"n": 3})]}
    ran = run(answers, output_schema=SCHEMA)
    assert ran.result.output == {"n": 3}
    assert "is not of type 'integer'" in ran.model.requests[-1].turns[-1].text


def test_an_answer_that_never_takes_the_form_is_no_success_and_no_answer() -> None:
    ran = run(
        {"execution_plan": ONE, "evaluation": verdict(output={"n": "x"})},
        output_schema=SCHEMA,
        enable_auto_reflection=False,
    )
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "judgement"
    assert "form asked for" in ran.result.failure.root_causes[-1]
    assert ran.result.output is None


def test_outputs_of_another_form_than_asked_for_are_no_success_by_steps() -> None:
    ran = run({}, wanted=plan(step("a", "t0")), output_schema=SCHEMA)
    assert not ran.result.is_success


# ── failing models ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "answers"),
    [
        pytest.param("execution_plan", {"execution_plan": DOWN}, id="planning"),
        pytest.param("tool_selection", {"tool_selection": DOWN}, id="selection"),
    ],
)
def test_a_model_that_cannot_be_reached_ends_the_task_and_is_named(
    schema: str, answers: dict[str, Any]
) -> None:
    ran = run(answers, tools=20 if schema == "tool_selection" else 3)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "model"
    assert "the endpoint is down" in ran.result.failure.reason
    (completed,) = ran.events("llm_call_completed")
    assert completed.error == "the endpoint is down"


def test_every_model_call_is_recorded_with_its_prompt_and_cost() -> None:
    ran = run({"execution_plan": ONE, "evaluation": verdict()})
    started, ended = ran.events("llm_call_started"), ran.events("llm_call_completed")
    assert [event.schema_name for event in started] == ["execution_plan", "evaluation"]
    assert [event.call_id for event in started] == [event.call_id for event in ended]
    assert all(event.prompt and event.prompt_hash and event.text for event in started)
    assert all(event.usage.input_tokens and event.text for event in ended)


# ── planning alone ────────────────────────────────────────────────────────────


def test_a_plan_can_be_had_without_storing_or_running_anything() -> None:
    async def main() -> None:
        made = await bench({"t0": FakeTool()}, {"execution_plan": [BAD, ONE]})
        wanted = Submission("do it", Policy())
        planned = await made.service.plan_only(wanted)
        assert [one.step_id for one in planned.steps] == ["a"]
        assert made.source.calls == []
        assert await made.store.list_tasks() == []

    virtual_time(main())


def test_a_given_plan_is_checked_without_a_model() -> None:
    async def main() -> None:
        made = await bench({"t0": FakeTool(), "t1": FakeTool()})
        with pytest.raises(PlanInvalid) as refused:
            await made.service.plan_only(Submission("do it", Policy(), plan=BAD))
        assert len(refused.value.violations) == 4

    virtual_time(main())
