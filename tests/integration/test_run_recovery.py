"""A failed step recovers beside everything else: the ladder, rung by rung, and what code makes of proposals."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict

from replan.testing import virtual_time

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
READS: dict[str, Any] = {"effect": "reads"}


def run(tools: dict[str, Any], wanted: dict[str, Any], answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        given = {"execution_plan": wanted, "evaluation": verdict(), **answers}
        return (await (await bench(tools, given)).run(**more)).check()

    return virtual_time(main())


def reflection(kind: str, data: Any, category: str = "parameter_error", **more: Any) -> dict[str, Any]:
    """An answer of `step_reflection`."""
    return {
        "root_cause_category": category,
        "root_cause": "it was wrong",
        "is_recoverable": category not in ("server_error", "external_error"),
        "confidence": 0.9,
        "analysis": "because",
        "suggested_action": {"type": kind, "data": data},
        **more,
    }


def overall(should: bool = False, nature: str = "tools", **more: Any) -> dict[str, Any]:
    """An answer of `overall_reflection`."""
    return {
        "problem_nature": nature,
        "should_replan": should,
        "reflection_text": "thought about it",
        "root_causes": ["the tool"],
        **more,
    }


def weather(parameters: dict[str, Any]) -> Any:
    if parameters["city"] != "Rome":
        raise ValueError(f"city: there is no city {parameters['city']!r}")
    return {"degrees": 30}


def cities() -> dict[str, Any]:
    return {
        "weather": FakeTool(output=weather, parameters=CITY, **READS),
        "say": FakeTool(output=lambda p: f"{p['text']}", **READS),
    }


ASKED = plan(
    step("a", "weather", parameters={"city": "Roma"}),
    step("b", "say", parameters={"text": "it is ${a.output.degrees}"}),
)


# ── layer 1 ───────────────────────────────────────────────────────────────────


def test_other_parameters_mend_a_call_and_the_rest_goes_on() -> None:
    ran = run(cities(), ASKED, {"step_reflection": reflection("retry_with_params", {"city": "Rome"})})
    assert ran.result.is_success
    assert ran.outputs() == {"a": {"degrees": 30}, "b": "it is 30"}
    (seen,) = ran.events("step_reflected")
    assert (seen.by, seen.action.type, seen.action.data) == ("model", "retry_with_params", {"city": "Rome"})
    assert seen.error.category == "parameter_error"
    assert ran.types().count("plan_generated") == 1
    assert "overall_reflection_triggered" not in ran.types()


def test_a_call_that_our_own_check_refuses_is_reflected_upon_too() -> None:
    wanted = plan(step("x", "count"), step("a", "weather", parameters={"city": "${x.output}"}))
    tools = {**cities(), "count": FakeTool(output=7, **READS)}
    ran = run(tools, wanted, {"step_reflection": reflection("retry_with_params", {"city": "Rome"})})
    assert ran.result.is_success
    assert ran.source.counts["weather"] == 1, "the one that does not fit was never made"


def test_another_tool_takes_over_with_the_parameters_that_it_has_too() -> None:
    tools = {
        "weather": FakeTool(fail=["the sensor is broken"] * 9, parameters=CITY, **READS),
        "forecast": FakeTool(output={"degrees": 12}, parameters=CITY, **READS),
        "say": cities()["say"],
    }
    answer = reflection("retry_with_tool", {"tool_id": "forecast"}, "tool_error")
    ran = run(tools, ASKED, {"step_reflection": answer})
    assert ran.result.is_success
    assert ran.outputs()["b"] == "it is 12"
    assert [call.parameters for call in ran.source.calls if call.tool_id == "forecast"] == [{"city": "Roma"}]


def test_actions_and_items_recover_one_by_one_and_only_those_that_failed() -> None:
    tools = {**cities(), "list": FakeTool(output=["Rome", "Oslo", "Bonn"], **READS)}
    wanted = plan(
        step("l", "list"),
        step("e", "weather", for_each="${l.output}", parameters={"city": "${item}"}),
        step("c", actions=[action("x", "say", text="hi"), action("y", "weather", city="Wien")]),
    )
    ran = run(tools, wanted, {"step_reflection": reflection("retry_with_params", {"city": "Rome"})})
    assert ran.result.is_success
    assert ran.outputs()["e"] == [{"degrees": 30}] * 3
    assert ran.outputs()["c"] == {"x": "hi", "y": {"degrees": 30}}
    assert ran.source.counts["say"] == 1
    assert len(ran.events("step_reflected")) == 3


def test_recovery_adds_nothing_to_what_does_not_depend_on_it() -> None:
    tools = {
        "slow": FakeTool(delay_secs=10, **READS),
        "weather": FakeTool(output=weather, parameters=CITY, delay_secs=2, **READS),
        "say": cities()["say"],
    }
    wanted = plan(
        step("a", "weather", parameters={"city": "Roma"}),
        step("s1", "slow"),
        step("s2", "slow", "s1", parameters={"n": 2}),
        step("b", "say", parameters={"text": "it is ${a.output.degrees}"}),
    )
    ran = run(tools, wanted, {"step_reflection": reflection("retry_with_params", {"city": "Rome"})})
    assert ran.times("step_completed") == {"a": 4, "b": 4, "s1": 10, "s2": 20}


def test_a_place_is_free_while_a_step_is_thought_about() -> None:
    ran = run(
        cities(),
        ASKED,
        {"step_reflection": reflection("retry_with_params", {"city": "Rome"})},
        parallel_max_concurrent=1,
    )
    assert ran.result.is_success


# ── the model proposes, code disposes ─────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "say", "parameters": {"text": "x"}}),
            "does not go with parameter_error", id="the remedy does not fit the cause",
        ),
        pytest.param(reflection("retry_with_params", {}), "empty", id="no data"),
        pytest.param(reflection("retry_with_params", {"city": "<city>"}), "placeholder", id="a placeholder"),
        pytest.param(reflection("retry_with_params", {"city": "your_city"}), "placeholder", id="your_…"),
        pytest.param(reflection("retry_with_params", {"city": "TODO"}), "placeholder", id="TODO"),
        pytest.param(reflection("retry_with_params", {"city": None}), "null", id="null for a required one"),
        pytest.param(reflection("retry_with_params", {"city": 7}), "city", id="not what the schema wants"),
        pytest.param(reflection("retry_with_params", {"town": "Rome"}), "no parameter 'town'", id="no such parameter"),
        pytest.param(reflection("retry_with_params", {"city": "Roma"}), "tried", id="the very call that failed"),
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "wether"}, "tool_error"),
            "does not exist", id="a tool that does not exist",
        ),
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "weather"}, "tool_error"),
            "is the tool that failed", id="the failed tool again",
        ),
        pytest.param(
            reflection("retry_with_tool", {"tool_id": "say", "parameters": {"text": "x"}}, "external_error"),
            "same source", id="a tool from the source that is out of reach",
        ),
    ],
)  # fmt: skip
def test_a_proposal_that_will_not_do_goes_back_once_with_what_is_wrong(
    wrong: dict[str, Any], says: str
) -> None:
    good = reflection("retry_with_params", {"city": "Rome"})
    ran = run(cities(), ASKED, {"step_reflection": [wrong, good]})
    assert ran.result.is_success
    (seen,) = ran.events("step_reflected")
    assert any(says in text for text in seen.violations), seen.violations
    assert seen.first_proposal is not None
    assert seen.proposal.suggested_action.data == {"city": "Rome"}
    assert says in ran.model.requests[2].turns[-1].text
    assert ran.source.counts["weather"] == 2


def test_still_wrong_it_is_replaced_by_the_safest_and_the_event_has_both() -> None:
    wrong = reflection("retry_with_params", {"city": "TODO"})
    mended = {"tool": "weather", "parameters": {"city": "Rome"}}
    ran = run(cities(), ASKED, {"step_reflection": [wrong, wrong], "step_repair": mended})
    assert ran.result.is_success
    (seen,) = ran.events("step_reflected")
    assert (seen.by, seen.action.type) == ("code", "repair_step")
    assert seen.proposal.suggested_action.type == "retry_with_params"
    assert "placeholder" in seen.reason


# ── layer 2 ───────────────────────────────────────────────────────────────────


def test_one_step_is_written_anew_and_no_other() -> None:
    mended = {"step": {"tool": "weather", "parameters": {"city": "Rome"}}}
    ran = run(
        cities(),
        ASKED,
        {"step_reflection": reflection("repair_step", {"hint": "say Rome"}), "step_repair": mended},
    )
    assert ran.result.is_success
    (repaired,) = ran.events("step_repaired")
    assert repaired.plan_version == 2
    assert repaired.diff.changed[0].step_id == "a"
    assert repaired.diff.kept == 1
    assert ran.state.plan is not None
    assert ran.state.plan.version == 2
    assert [one.step_id for one in ran.state.plan.steps] == ["a", "b"]
    assert "say Rome" in ran.model.requests[2].turns[0].text


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        pytest.param({"tool": "weather", "parameters": {"city": "Roma"}}, "as it was", id="the same again"),
        pytest.param({"tool": "wether", "parameters": {"city": "Rome"}}, "does not exist", id="no such tool"),
        pytest.param(
            {"tool": "weather", "parameters": {"city": "${b.output}"}}, "cycle", id="it would wait for what waits for it"
        ),
        pytest.param({"tool": "say", "parameters": {}}, "text", id="parameters that do not fit"),
        pytest.param("no JSON at all", "JSON", id="nonsense"),
    ],
)  # fmt: skip
def test_a_repair_passes_the_checks_of_a_plan(bad: Any, says: str) -> None:
    tools = cities()
    tools["say"] = FakeTool(
        output=lambda p: p["text"], parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}, **READS
    )  # fmt: skip
    good = {"tool": "weather", "parameters": {"city": "Rome"}}
    ran = run(
        tools,
        ASKED,
        {"step_reflection": reflection("repair_step", {"hint": "h"}), "step_repair": [bad, good]},
    )
    assert ran.result.is_success
    assert says in ran.model.requests[3].turns[-1].text


def test_a_repair_that_cannot_be_had_goes_to_the_overall_reflection() -> None:
    bad = {"tool": "wether", "parameters": {}}
    ran = run(
        cities(), ASKED,
        {"step_reflection": reflection("repair_step", {"hint": "h"}), "step_repair": bad, "overall_reflection": overall()},
    )  # fmt: skip
    assert not ran.result.is_success
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    (triggered,) = ran.events("overall_reflection_triggered")
    assert triggered.step_id == "a"


# ── the guard within a step ───────────────────────────────────────────────────


def test_the_same_error_twice_closes_layer_1() -> None:
    answers = [
        reflection("retry_with_params", {"city": "Oslo"}),
        reflection("retry_with_params", {"city": "Bonn"}),
        reflection("repair_step", {"hint": "h"}),
    ]
    mended = {"tool": "weather", "parameters": {"city": "Rome"}}
    ran = run(cities(), ASKED, {"step_reflection": answers, "step_repair": mended})
    assert ran.result.is_success
    first, second = ran.events("step_reflected")
    assert first.signature == second.signature, "only the value differs"
    assert "not open any more" in second.violations[0]
    assert second.action.type == "repair_step"
    assert ran.source.counts["weather"] == 3


def test_when_nothing_new_is_left_nobody_is_asked() -> None:
    answers = {
        "step_reflection": [
            reflection("retry_with_params", {"city": "Oslo"}),
            reflection("repair_step", {"hint": "h"}),
        ],
        "step_repair": {"tool": "weather", "parameters": {"city": "Bonn"}},
        "overall_reflection": overall(),
    }
    ran = run(cities(), ASKED, answers)
    last = ran.events("step_reflected")[-1]
    assert (last.by, last.action.type) == ("code", "trigger_overall_reflection")
    assert last.proposal is None
    assert ran.model.calls["step_reflection"] == 2
    assert ran.result.failure is not None
    assert len([line for line in ran.result.failure.tried if "step 'a'" in line]) >= 3


def test_stop_and_abort_are_read_as_the_overall_reflection() -> None:
    for word in ("stop", "abort"):
        ran = run(
            cities(),
            ASKED,
            {"step_reflection": reflection(word, "pointless", "unknown"), "overall_reflection": overall()},
        )
        (seen,) = ran.events("step_reflected")
        assert seen.action.type == "trigger_overall_reflection"
        assert "task_failed" in ran.types()


def test_without_step_reflection_a_failed_step_waits_for_the_end_of_the_round() -> None:
    answers = {
        "evaluation": [verdict(20, success=False), verdict()],
        "overall_reflection": overall(True, replanning_strategy={"type": "replan_from_step", "step_id": "a"}),
        "execution_plan": [
            ASKED,
            plan(
                step("n", "weather", parameters={"city": "Rome"}),
                step("m", "say", parameters={"text": "${n.output}"}),
            ),
        ],
    }
    ran = run(cities(), ASKED, answers, enable_step_level_reflection=False)
    assert ran.result.is_success
    assert "step_reflected" not in ran.types()
    assert ran.result.rounds == 2


# ── older limits ──────────────────────────────────────────────────────────────


def test_an_older_limit_on_failures_in_a_row_makes_the_plan_anew() -> None:
    answers = {
        "step_reflection": reflection("retry_with_params", {"city": "Oslo"}),
        "execution_plan": [ASKED, plan(step("n", "weather", parameters={"city": "Rome"}))],
    }
    ran = run(cities(), ASKED, answers, older={"consecutive_failure_threshold": 2})
    assert ran.result.is_success
    last = ran.events("step_reflected")[-1]
    assert (last.by, last.action.type, last.reason) == (
        "code",
        "replan",
        "consecutive_failure_threshold is reached",
    )


@pytest.mark.parametrize("limit", [0, 1])
def test_an_older_limit_on_retries_binds_and_0_means_none(limit: int) -> None:
    answers = {
        "step_reflection": [
            *[reflection("retry_with_params", {"city": f"Town{n}"}) for n in range(limit)],
            reflection("retry_with_params", {"city": "Rome"}),
            reflection("trigger_overall_reflection", {"summary": "enough"}),
        ],
        "overall_reflection": overall(),
    }
    tools = cities()
    tools["weather"] = FakeTool(
        output=lambda p: (_ for _ in ()).throw(ValueError("abc"[len(p["city"]) % 3])), parameters=CITY, **READS
    )  # fmt: skip
    ran = run(tools, ASKED, answers, older={"max_step_retries": limit})
    assert ran.source.counts["weather"] == 1 + limit
