"""From one round to the next: the overall reflection, the five strategies, and the guard over rounds."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import ScriptedModel, virtual_time

ONCE: dict[str, Any] = {"effect": "once"}


def run(tools: dict[str, Any], answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await bench(tools, {"evaluation": verdict(), **answers})).run(**more)).check()

    return virtual_time(main())


def sent_by(name: str, instead_of: str = "m") -> dict[str, Any]:
    """A judge's yes, which takes this message for the mail that was not sent."""
    said = {"step": instead_of, "made_good_by": name, "not_needed": None}
    return {**verdict(), "left_out_effects": [said]}


GIVE_UP = reflection("trigger_overall_reflection", {"summary": "cannot be mended here"}, "tool_error")
TOOLS: dict[str, Any] = {
    "find": FakeTool(output={"id": 7}, **READS),
    "pay": FakeTool(output=lambda p: {"paid": p.get("id")}, **ONCE),
    "mail": FakeTool(fail=["the mailbox is full"] * 30, **ONCE),
    "sms": FakeTool(output="sent", **ONCE),
    "clean": FakeTool(output="cleaned", **ONCE),
}
PLAN = plan(
    step("f", "find"),
    step("p", "pay", parameters={"id": "${f.output.id}"}),
    step("m", "mail", "p", parameters={"text": "paid ${p.output.paid}"}),
    step("e", "find", "m", parameters={"n": 2}),
)


def replan(strategy: str, **fields: Any) -> dict[str, Any]:
    return overall(True, replanning_strategy={"type": strategy, "reason": "it helps", **fields})


def test_replan_from_a_step_keeps_what_is_done_and_its_outputs() -> None:
    rest = plan(
        step("step_1", "sms", parameters={"text": "paid ${p.output.paid}"}), step("step_2", "find", "step_1")
    )
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("step_1"),
            "execution_plan": [PLAN, rest],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("replan_from_step", step_id="m"),
        },
    )
    assert ran.result.is_success
    assert ran.result.rounds == 2
    assert ran.source.counts["pay"] == 1
    assert ran.outputs()["step_1"] == "sent"
    assert ran.source.calls[-2].parameters == {"text": "paid 7"}
    (updated,) = ran.events("plan_updated")
    assert updated.strategy == "replan_from_step"
    assert updated.diff.removed == ("m", "e")
    assert updated.diff.added == ("step_1", "step_2")
    assert updated.diff.kept == 2
    assert [one.round for one in ran.records if one.type == "plan_updated"] == [2]


def test_a_full_replan_may_use_what_was_found_by_its_old_id_and_pays_nothing_twice() -> None:
    anew = plan(
        step("step_1", "pay", parameters={"id": "${f.output.id}"}),
        step("step_2", "sms", parameters={"text": "paid ${step_1.output.paid}"}),
    )
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("step_2"),
            "execution_plan": [PLAN, anew],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 1
    assert ran.events("call_completed", step_id="step_1")[0].reused
    assert ran.source.calls[-1].parameters == {"text": "paid 7"}


def test_steps_are_skipped_by_code_alone_and_the_judge_is_told() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [PLAN],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("skip_steps", step_ids=["m"]),
        },
    )
    assert ran.result.is_success
    assert ran.statuses() == {"f": "succeeded", "p": "succeeded", "e": "succeeded"}
    assert ran.state.steps["e"].step.dependencies == ("p",), (
        "what waited for it waits for what that one waited for"
    )
    asked = ran.model.requests[-1].turns[0].text
    assert "the mailbox is full" in asked


def test_remediation_goes_before_the_failed_step_which_is_tried_again() -> None:
    full = {"left": True}

    def mail(parameters: Any) -> Any:
        if full["left"]:
            raise RuntimeError("the mailbox is full")
        return "mailed"

    tools = {
        **TOOLS,
        "mail": FakeTool(output=mail, **ONCE),
        "clean": FakeTool(output=lambda p: full.update(left=False), **ONCE),
    }
    ran = run(
        tools,
        {
            "execution_plan": [PLAN, plan(step("step_1", "clean"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("add_remediation_steps", suggestions=["clean the mailbox"]),
        },
    )
    assert ran.result.is_success
    assert ran.outputs()["m"] == "mailed"
    (updated,) = ran.events("plan_updated")
    assert set(updated.reset) == {"m", "e"}
    assert ran.state.steps["m"].step.dependencies == ("p", "step_1")
    assert ran.source.counts["pay"] == 1
    assert "clean the mailbox" in ran.model.requests[3].turns[0].text


def test_dependencies_are_adjusted_by_code_alone() -> None:
    ready: list[str] = []

    def use(parameters: Any) -> Any:
        if "made" not in ready:
            raise RuntimeError("it is not there yet")
        return "used"

    tools = {
        "make": FakeTool(output=lambda p: ready.append("made"), delay_secs=1, **ONCE),
        "use": FakeTool(output=use, **READS),
    }
    ran = run(
        tools,
        {
            "execution_plan": [plan(step("a", "use"), step("b", "make"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan(
                "adjust_dependencies", adjustments=[{"step_id": "a", "add": ["b"], "remove": []}]
            ),
        },
    )
    assert ran.result.is_success
    assert ran.source.counts == {"use": 2, "make": 1}


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        pytest.param({"type": "skip_steps", "step_ids": ["p"]}, "have succeeded already", id="skipping what is done"),
        pytest.param({"type": "skip_steps", "step_ids": ["nobody"]}, "nobody", id="skipping what is not there"),
        pytest.param({"type": "adjust_dependencies", "adjustments": [{"step_id": "m", "add": ["e"]}]}, "cycle", id="a circle"),
        pytest.param({"type": "adjust_dependencies", "adjustments": [{"step_id": "m", "remove": ["p"]}]}, "refers to", id="a cut reference"),
        pytest.param({"type": "adjust_dependencies", "adjustments": []}, "no adjustment", id="nothing to adjust"),
        pytest.param({"type": "replan_from_step", "step_id": "zz"}, "zz", id="from a step that is not there"),
        pytest.param({"type": "add_remediation_steps", "step_id": "f"}, "has not failed", id="before what has not failed"),
    ],
)  # fmt: skip
def test_a_strategy_that_is_refused_falls_back_and_an_event_says_so(
    refused: dict[str, Any], why: str
) -> None:
    rest = plan(step("step_9", "sms", parameters={"text": "${p.output.paid}"}))
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("step_9"),
            "execution_plan": [PLAN, rest],
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(True, replanning_strategy=refused),
        },
    )
    assert ran.result.is_success
    first, second = ran.events("replanning_started")
    assert first.strategy.type == refused["type"]
    assert second.refused == first.strategy
    assert why in second.why_refused
    assert (second.strategy.type, second.strategy.step_id) == ("replan_from_step", "m")
    assert ran.source.counts["pay"] == 1


def test_a_step_that_is_needed_is_not_skipped() -> None:
    wanted = plan(step("a", "mail"), step("b", "pay", parameters={"id": "${a.output}"}))
    ran = run(
        TOOLS,
        {
            "execution_plan": [wanted, plan(step("x", "sms"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("skip_steps", step_ids=["a"]),
            "evaluation": {
                **verdict(),
                "left_out_effects": [{"step": name, "not_needed": "a text will do"} for name in "ab"],
            },
        },
    )
    (_, second) = ran.events("replanning_started")
    assert "needs the output of 'a'" in second.why_refused
    assert second.strategy.type == "full_replan", "nothing has succeeded"


def test_new_steps_never_take_an_id_that_was_used() -> None:
    taken = plan(step("m", "sms", parameters={"text": "x"}))
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("step_1"),
            "execution_plan": [PLAN, taken],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("replan_from_step", step_id="m"),
        },
    )
    assert ran.result.is_success
    assert not ran.events("plan_rejected"), "a name is code's to change"
    assert ran.statuses() == {"f": "succeeded", "p": "succeeded", "step_1": "succeeded"}


def test_the_replan_action_of_a_step_needs_no_overall_reflection() -> None:
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("step_1"),
            "execution_plan": [PLAN, plan(step("step_1", "sms", parameters={"text": "hello"}))],
            "step_reflection": reflection("replan", {"advice": "send a text message"}, "tool_error"),
        },
    )
    assert ran.result.is_success
    assert "reflection_completed" not in ran.types()
    assert "send a text message" in ran.model.requests[2].turns[0].text
    assert ran.source.counts["pay"] == 1


def test_running_steps_are_let_finish_and_no_new_one_starts() -> None:
    tools = {
        **TOOLS,
        "slow": FakeTool(delay_secs=50, output="slow", **READS),
        "bad": FakeTool(fail=["no"] * 5, delay_secs=1, **READS),
    }
    wanted = plan(step("s", "slow"), step("t", "slow", "s", parameters={"n": 2}), step("b", "bad"))
    ran = run(
        tools,
        {
            "execution_plan": wanted,
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(False, ask="mend the bad tool"),
        },
    )
    assert ran.statuses() == {"s": "succeeded", "t": "skipped", "b": "failed"}
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    assert ran.result.failure.advice == ("mend the bad tool",), "and nothing that code thinks of beside it"
    assert ran.result.steps[0].output == "slow"


# ── the overall reflection ────────────────────────────────────────────────────


def test_after_the_evaluation_a_round_is_reflected_upon() -> None:
    ran = run(
        TOOLS,
        {
            "execution_plan": [plan(step("a", "find")), plan(step("b", "find", parameters={"q": 1}))],
            "evaluation": [verdict(40, success=False), verdict(90)],
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.is_success
    assert ran.result.rounds == 2
    assert ran.types().count("round_completed") == 2
    (triggered,) = ran.events("overall_reflection_triggered")
    assert "judged 40 of 100" in triggered.reason


def test_done_in_substance_ends_as_succeeded_with_the_shortfall() -> None:
    partly = verdict(70, "mostly", success=False, correctness=85)
    partly["dimensions"]["completeness"] = 85
    partly["failures"] = ["the table has no title"]
    ran = run(
        TOOLS,
        {
            "execution_plan": plan(step("a", "find")),
            "evaluation": partly,
            "overall_reflection": overall(False, done_in_substance=True),
        },
    )
    assert ran.result.is_success
    assert ran.state.outcome is not None
    assert ran.state.outcome.shortfall == ("the table has no title",)  # type: ignore[union-attr]


@pytest.mark.parametrize("nature", ["external", "server"])
def test_what_is_out_of_reach_is_not_planned_around(nature: str) -> None:
    wrong = overall(True, nature, replanning_strategy={"type": "full_replan"})
    ran = run(TOOLS, {"execution_plan": PLAN, "step_reflection": GIVE_UP, "overall_reflection": wrong})
    (seen,) = ran.events("reflection_completed")
    assert seen.by == "code"
    assert not seen.reflection.should_replan
    assert seen.first_proposal.should_replan
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"


@pytest.mark.parametrize("how", ["replan_from_step", "skip_steps"])
def test_what_does_not_rest_on_what_is_out_of_reach_is_done_all_the_same(how: str) -> None:
    def buy(parameters: dict[str, Any]) -> Any:
        if parameters["order"] == 3:
            raise ValueError("order 3 lacks a postal code")
        return f"label {parameters['order']}"

    tools = {
        "buy": FakeTool(output=buy, spec={"errors_are_clean": True}, **ONCE),
        "write": FakeTool(output="written", effect="repeatable"),
    }
    first = plan(
        step("b", "buy", parameters={"order": "${item}"}, for_each=[1, 2, 3]),
        step("w", "write", "b", parameters={"text": "labels bought"}),
    )
    strategy = {"type": how, "reason": "two labels are there", "step_id": "b", "step_ids": ["b"]}
    ask = "Who has placed order 3 has to say the postal code."
    answers = {
        "execution_plan": [first, plan(step("step_1", "write", parameters={"text": "1 and 2"}))],
        "step_reflection": GIVE_UP,
        "evaluation": verdict(60, "two labels", success=False),
        "overall_reflection": [
            overall(True, "external", replanning_strategy=strategy, ask=ask),
            overall(False, "external", ask=ask),
        ],
    }
    ran = run(tools, answers)
    first_seen, _ = ran.events("reflection_completed")
    assert (first_seen.by, first_seen.violations) == ("model", ())
    assert [one.tool_id for one in ran.source.calls] == ["buy", "buy", "buy", "write"]
    assert ran.result.failure is not None
    assert ask in str(ran.result.failure)


def test_a_missing_strategy_is_asked_for_and_then_chosen() -> None:
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("x"),
            "execution_plan": [PLAN, plan(step("x", "sms"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": overall(True),
        },
    )
    assert ran.result.is_success
    (started,) = ran.events("replanning_started")
    assert (started.strategy.type, started.strategy.step_id) == ("replan_from_step", "m")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        pytest.param(
            {"type": "replan_from_step", "step_id": "mial"}, "'mial', which the plan does not have", id="id"
        ),
        pytest.param(
            {"type": "skip_steps", "step_ids": ["x"]}, "'x', which the plan does not have", id="skipped"
        ),
        pytest.param({"type": "add_remediation_steps", "step_id": "f"}, "has not failed", id="not failed"),
        pytest.param({"type": "teleport"}, "'teleport' is none of full_replan", id="word"),
    ],
)
@pytest.mark.parametrize("twice", [True, False])
def test_a_strategy_that_cannot_be_is_sent_back_once_and_then_another_one_is_taken(
    wrong: dict[str, Any], says: str, twice: bool
) -> None:
    good = replan("replan_from_step", step_id="m")
    bad = overall(True, replanning_strategy=wrong)
    ran = run(
        TOOLS,
        {
            "evaluation": sent_by("x"),
            "execution_plan": [PLAN, plan(step("x", "sms"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": [bad, bad if twice else good],
        },
    )
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 1, "what was done stays done"
    (seen,) = ran.events("reflection_completed")
    assert any(says in text for text in seen.violations)
    (updated,) = ran.events("plan_updated")
    assert updated.strategy == "replan_from_step"
    started = ran.events("replanning_started")[-1]
    assert (started.strategy.type, started.strategy.step_id) == ("replan_from_step", "m")
    assert seen.by == ("code" if twice else "model")


# ── the guard over rounds ─────────────────────────────────────────────────────


def test_a_plan_that_was_tried_is_refused_and_then_the_task_ends() -> None:
    def again(request: Any) -> Any:
        return plan(step(f"again_{len(request.turns)}_{request.turns[0].text.count('step')}", "find"))

    ran = run(
        TOOLS,
        {
            "execution_plan": [plan(step("a", "find")), *[plan(step(f"b{n}", "find")) for n in range(9)]],
            "evaluation": verdict(30, "half", success=False),
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    assert "had not been tried before" in ran.result.failure.reason
    assert ran.result.output == "half", "the partial answer is kept"
    assert ran.source.counts["find"] == 1


def test_a_small_models_plan_is_no_other_for_a_dependency_that_is_dropped() -> None:
    def tied(one: str, other: str) -> dict[str, Any]:
        return plan(step(one, "find", parameters={"n": 1}), step(other, "find", one, parameters={"n": 2}))

    model = ScriptedModel(
        {
            "execution_plan": [tied("a", "b"), *[tied(f"c{n}", f"d{n}") for n in range(9)]],
            "evaluation": verdict(30, "half", success=False),
            "overall_reflection": replan("full_replan"),
        },
        style="small",
    )

    async def main() -> Ran:
        return (await (await bench(TOOLS, model=model)).run()).check()

    ran = virtual_time(main())
    assert ran.result.failure is not None
    assert "had not been tried before" in ran.result.failure.reason
    assert all(not one.step.dependencies for one in ran.state.steps.values())
    assert not ran.events("plan_updated")


def test_plans_a_b_a_b_are_noticed() -> None:
    def find(n: int, name: str) -> dict[str, Any]:
        return plan(step(name, "find", parameters={"n": n}))

    ran = run(
        TOOLS,
        {
            "execution_plan": [
                find(1, "a"),
                find(2, "b"),
                find(1, "c"),
                find(2, "d"),
                find(1, "e"),
                find(2, "f"),
            ],
            "evaluation": verdict(30, success=False),
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.failure is not None
    assert ran.source.counts["find"] == 2


def test_rounds_that_bring_nothing_new_come_to_an_end() -> None:
    numbers = iter(range(1000))

    def anew(request: Any) -> Any:
        n = next(numbers)
        return plan(step(f"s{n}", "find", parameters={"n": n}))

    ran = run(
        TOOLS,
        {
            "execution_plan": anew,
            "evaluation": verdict(30, success=False),
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.failure is not None
    assert "brought nothing new" in ran.result.failure.reason
    assert ran.result.rounds <= 6


def test_rounds_that_get_better_go_on_as_long_as_they_do() -> None:
    numbers = iter(range(1000))
    scores = iter([10, 20, 30, 40, 50, 60, 70, 75, 78, 90])

    def anew(request: Any) -> Any:
        n = next(numbers)
        return plan(step(f"s{n}", "find", parameters={"n": n}))

    ran = run(
        TOOLS,
        {
            "execution_plan": anew,
            "evaluation": lambda request: verdict(score := next(scores), success=score >= 80),
            "overall_reflection": replan("full_replan"),
        },
    )
    assert ran.result.is_success
    assert ran.result.rounds == 10


@pytest.mark.parametrize(
    ("older", "rounds"),
    [({"max_task_replanning_attempts": 2}, 3), ({"max_reflection_rounds": 1}, 2), ({"max_task_replanning_attempts": 0}, 1)],
    ids=["two replans", "one reflection that replans", "none"],
)  # fmt: skip
def test_older_limits_on_rounds_bind_and_are_named(older: dict[str, int], rounds: int) -> None:
    numbers = iter(range(1000))

    def anew(request: Any) -> Any:
        n = next(numbers)
        return plan(step(f"s{n}", "find", parameters={"n": n}))

    scores = iter(range(10, 100))
    ran = run(
        TOOLS,
        {
            "execution_plan": anew,
            "evaluation": lambda request: verdict(next(scores), success=False),
            "overall_reflection": replan("full_replan"),
        },
        older=older,
    )
    assert ran.result.rounds == rounds
    assert ran.result.failure is not None
    assert ran.result.failure.limit in older


def test_a_budget_of_rounds_ends_the_task_and_is_named() -> None:
    numbers = iter(range(1000))

    def anew(request: Any) -> Any:
        n = next(numbers)
        return plan(step(f"s{n}", "find", parameters={"n": n}))

    ran = run(
        TOOLS,
        {
            "execution_plan": anew,
            "evaluation": verdict(30, success=False),
            "overall_reflection": replan("full_replan"),
        },
        budget={"max_rounds": 2},
    )
    assert ran.result.failure is not None
    assert (ran.result.failure.kind, ran.result.failure.limit) == ("budget", "max_rounds")


# ── selection in replanning mode ──────────────────────────────────────────────


def test_with_many_tools_the_selection_is_asked_again_with_what_was_used() -> None:
    tools = {**TOOLS, **{f"t{n}": FakeTool(**READS) for n in range(10)}}
    long = "ä" * 150 + "👩‍👩‍👧" * 60
    tools["find"] = FakeTool(output=long, **READS)
    selected = [
        {"tools": [{"tool_id": "find", "score": 90}, {"tool_id": "mail", "score": 90}]},
        {
            "tools": [{"tool_id": "sms", "score": 90}, {"tool_id": "find", "score": 90}],
            "changes_summary": "sms for mail",
        },
    ]
    ran = run(
        tools,
        {
            "tool_selection": selected,
            "evaluation": sent_by("s"),
            "execution_plan": [plan(step("f", "find"), step("m", "mail", "f")), plan(step("s", "sms"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("replan_from_step", step_id="m"),
        },
    )
    assert ran.result.is_success
    first, second = ran.events("tool_selection_completed")
    assert (first.phase, second.phase) == ("tool_selection", "replanning_tool_selection")
    assert second.changes_summary == "sms for mail"
    (asked,) = [r for r in ran.model.requests if r.schema_name == "tool_selection"][1:]
    text = asked.turns[0].text
    assert "the mailbox is full" in text
    assert "thought about it" in text


@pytest.mark.parametrize(
    ("slip", "offered"),
    [
        ({"steps": [], "cannot": "nothing listed sends anything"}, ["mail", "sms", "t0"]),
        (plan(step("s", "sms")), ["mail", "sms"]),
    ],
    ids=["cannot", "names it"],
)
def test_a_new_plan_is_made_of_more_tools_where_the_selection_for_it_left_out_what_it_needs(
    slip: dict[str, Any], offered: list[str]
) -> None:
    ran = run(
        {**TOOLS, **{f"t{n}": FakeTool(**READS) for n in range(10)}},
        {
            "tool_selection": [
                {"tools": [{"tool_id": "find", "score": 90}, {"tool_id": "mail", "score": 90}]},
                {"tools": [{"tool_id": "mail", "score": 90}]},
            ],
            "evaluation": sent_by("s"),
            "execution_plan": [plan(step("f", "find"), step("m", "mail", "f")), slip, plan(step("s", "sms"))],
            "step_reflection": GIVE_UP,
            "overall_reflection": replan("replan_from_step", step_id="m"),
        },
    )
    assert ran.result.is_success
    assert [one.phase for one in ran.events("tool_selection_completed")][1:] == [
        "replanning_tool_selection"
    ] * 2
    last = [one.turns[0].text for one in ran.model.requests if one.schema_name == "execution_plan"][-1]
    assert [name for name in ("mail", "sms", "t0") if f"tool: {name}\n" in last] == offered
    assert ran.source.counts["sms"] == 1


def test_what_a_step_did_after_it_was_healed_is_not_done_again_by_a_new_plan() -> None:
    def pay(parameters: Any) -> Any:
        if parameters["order"] == "o-?":
            raise ValueError("order: there is no order 'o-?'")
        return parameters["order"]

    order = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    tools = {
        "pay": FakeTool(output=pay, parameters=order, **ONCE),
        "mail": TOOLS["mail"],
        "sms": TOOLS["sms"],
    }
    ran = run(
        tools,
        {
            "evaluation": sent_by("m", "q"),
            "execution_plan": [
                plan(step("p", "pay", parameters={"order": "o-?"}), step("q", "mail", "p")),
                plan(step("n", "pay", parameters={"order": "o-1"}), step("m", "sms", "n")),
            ],
            "step_reflection": [reflection("retry_with_params", {"order": "o-1"}), GIVE_UP],
            "overall_reflection": replan("replan_from_step", step_id="q"),
        },
    )
    assert ran.result.is_success
    assert [call.parameters for call in ran.source.calls if call.tool_id == "pay"] == [
        {"order": "o-?"},
        {"order": "o-1"},
    ]
    assert ran.events("call_completed", step_id="n")[0].reused


# ── what was tried before, and is another try ─────────────────────────────────


def drafts(*plans: Any, scores: Any = None, effect: Any = "repeatable", **more: Any) -> Ran:
    scores = scores or [*[30] * (len(plans) - 1), 95]
    tools = {
        "write": FakeTool(output=lambda p: p["text"], effect=effect),
        "look": FakeTool(output="seen", **READS),
    }
    return run(
        tools,
        {
            "execution_plan": list(plans),
            "evaluation": [verdict(score, success=score >= 80) for score in scores],
            "overall_reflection": replan("full_replan"),
        },
        **more,
    )


def draft(step_id: str, text: str) -> Any:
    return plan(step(step_id, "write", parameters={"path": "r.md", "text": text}))


def test_a_state_that_was_overwritten_may_be_set_again_by_a_plan_that_set_it_before() -> None:
    ran = drafts(draft("a", "one"), draft("b", "two"), draft("c", "one"))
    assert ran.result.is_success
    assert not ran.events("plan_rejected")
    assert [call.parameters["text"] for call in ran.source.calls] == ["one", "two", "one"]


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(draft("c", "two"), id="what stands there now"),
        pytest.param(plan(step("l", "look")), id="a reading of before"),
    ],
)
def test_what_nothing_has_changed_since_is_still_the_same_plan(last: Any) -> None:
    ran = drafts(draft("a", "one"), plan(step("k", "look")), draft("b", "two"), last, scores=[30] * 4)
    assert any(
        "the same as an earlier one" in text
        for event in ran.events("plan_rejected")
        for text in event.violations
    )
    assert ran.result.failure is not None


def test_two_states_in_turn_end_where_nothing_gets_better() -> None:
    turns = [draft(f"s{n}", "one" if n % 2 else "two") for n in range(40)]
    ran = drafts(*turns, scores=[30] * 40)
    assert not ran.result.is_success
    assert ran.source.counts["write"] < 10


def after_an_answer(text: str) -> Ran:
    """A plan that failed; a person is asked, answers so, and the same is planned again."""

    async def main() -> Ran:
        made = await bench(
            {"look": FakeTool(output="seen", fail=["the disk is not mounted"], **READS)},
            {
                "execution_plan": [plan(step("a", "look")), *[plan(step(f"b{n}", "look")) for n in range(4)]],
                "step_reflection": GIVE_UP,
                "overall_reflection": [{**overall(False), "ask": "Mount the disk."}, replan("full_replan")],
                "evaluation": verdict(),
            },
        )
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        await made.service.answer(task_id, text)
        return await made.drive(task_id)

    return virtual_time(main())


def test_a_person_is_asked_what_a_reflection_asks_beside_another_round() -> None:
    async def main() -> Ran:
        made = await bench(
            {"look": FakeTool(output="seen", fail=["the disk is not mounted"], **READS)},
            {
                "execution_plan": [plan(step("a", "look")), plan(step("b", "look"))],
                "step_reflection": GIVE_UP,
                "overall_reflection": [
                    *[replan("full_replan") | {"ask_first": "Mount the disk."}] * 2,
                    replan("full_replan"),
                ],
                "evaluation": verdict(),
            },
        )
        task_id = await made.submit(interactive=True)
        waits = await made.drive(task_id)
        assert "Mount the disk." in str(waits.result.waiting_for)
        assert waits.source.counts["look"] == 1
        await made.service.answer(task_id, "It is mounted now.")
        return await made.drive(task_id)

    assert virtual_time(main()).check().result.is_success


def test_after_a_persons_word_the_same_plan_is_another_try() -> None:
    ran = after_an_answer("It is mounted now, try again.").check()
    assert ran.result.is_success
    assert ran.source.counts["look"] == 2
    assert not ran.events("plan_rejected")


def test_a_plan_that_was_made_with_that_word_is_no_other_try_again() -> None:
    """The planner finds nothing new, a person says something, the same plan is tried once: not twice."""

    async def main() -> Ran:
        made = await bench(
            {"find": FakeTool(output="found", **READS)},
            {
                "execution_plan": [plan(step(f"a{n}", "find")) for n in range(20)],
                "evaluation": [verdict(score, "half", success=False) for score in (20, 40, 60, 70, 75)],
                "overall_reflection": replan("full_replan"),
            },
        )
        task_id = await made.submit(interactive=True)
        await made.drive(task_id)
        await made.service.answer(task_id, "Look more closely.")
        return await made.drive(task_id)

    ran = virtual_time(main())
    assert ran.result.status == "waiting", "a person is asked again"
    assert len(ran.events("plan_updated")) == 1
    assert len(ran.events("evaluation_completed")) == 2


def test_a_plan_that_is_refused_for_more_than_that_is_no_mere_repeat() -> None:
    """Why there is no plan does not hang on how its faults are worded, or which comes first."""
    strange = plan(step("b", "look"), step("c", "nowhere"))
    ran = drafts(plan(step("a", "look")), *[plan(step("b", "look"))] * 2, strange, scores=[30] * 2)
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "planning"
    ran = drafts(plan(step("a", "look")), *[plan(step("b", "look"))] * 3, scores=[30] * 2)
    assert ran.result.failure is not None
    assert ran.result.failure.kind != "planning"


def _not_there(_: Any) -> Any:
    raise ValueError("there is no cartoon today")


WITH_AN_EXTRA = {
    **TOOLS,
    "mail": FakeTool(output="sent", effect="once"),
    "cartoon": FakeTool(output=_not_there, effect="reads"),
}
DONE = overall(False, done_in_substance=True)


@pytest.mark.parametrize("score", [95, 85])
def test_a_round_that_is_taken_for_done_before_it_was_judged_is_judged(score: int) -> None:
    ran = run(
        WITH_AN_EXTRA,
        {
            "execution_plan": plan(step("a", "mail"), step("b", "cartoon")),
            "step_reflection": GIVE_UP,
            "overall_reflection": DONE,
            "evaluation": verdict(score, "The mail was sent."),
        },
    )
    assert ran.result.is_success
    assert ran.result.output == "The mail was sent."
    asked = [one.schema_name for one in ran.model.requests]
    assert asked == ["execution_plan", "step_reflection", "overall_reflection", "evaluation"]


def test_a_judge_who_finds_it_undone_is_reflected_on_anew() -> None:
    ran = run(
        WITH_AN_EXTRA,
        {
            "execution_plan": plan(step("a", "mail"), step("b", "cartoon")),
            "step_reflection": GIVE_UP,
            "overall_reflection": [DONE, overall(False, ask="draw one")],
            "evaluation": verdict(40, "no cartoon", success=False),
        },
    )
    assert ran.result.failure is not None
    assert ran.result.failure.question == "draw one"
    assert ran.result.score == 40


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([step("a", "mail"), step("b", "cartoon"), step("c", "find", "b")], id="a step waits"),
        pytest.param([step("a", "find"), step("b", "refuse")], id="an effect failed"),
    ],
)
def test_where_something_that_matters_is_missing_skip_steps_is_named(steps: list[Any]) -> None:
    skip = overall(True, replanning_strategy={"type": "skip_steps", "step_ids": ["b"], "reason": "an extra"})
    ran = run(
        {**WITH_AN_EXTRA, "refuse": FakeTool(output=_not_there, effect="once")},
        {
            "execution_plan": plan(*steps),
            "step_reflection": GIVE_UP,
            "overall_reflection": [DONE, skip],
            "evaluation": verdict(95, "done"),
        },
    )
    reflected, *_ = ran.events("reflection_completed")
    assert "skip_steps" in reflected.violations[0]
    assert reflected.reflection.replanning_strategy.type == "skip_steps"


def test_by_steps_nobody_judges_what_is_taken_for_done() -> None:
    ran = run(
        WITH_AN_EXTRA,
        {
            "execution_plan": plan(step("a", "mail"), step("b", "cartoon")),
            "step_reflection": GIVE_UP,
            "overall_reflection": DONE,
        },
        evaluation="steps",
    )
    assert not ran.result.is_success
    assert len([one for one in ran.model.requests if one.schema_name == "overall_reflection"]) == 2
