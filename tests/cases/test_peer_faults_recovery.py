"""The rows of the peers' known faults that recovery closes: loops, lost ids, second payments, models that fail."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.errors import ModelUnavailable
from replan.testing import virtual_time

READS: dict[str, Any] = {"effect": "reads"}
ONCE: dict[str, Any] = {"effect": "once"}


def run(tools: dict[str, Any], answers: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await bench(tools, {"evaluation": verdict(), **answers})).run(**more)).check()

    return virtual_time(main())


def reflection(kind: str, data: Any, category: str = "unknown") -> dict[str, Any]:
    return {
        "root_cause_category": category,
        "is_recoverable": category not in ("server_error", "external_error"),
        "confidence": 80,
        "suggested_action": {"type": kind, "data": data},
    }


def overall(should: bool, **strategy: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "problem_nature": "decomposition",
        "should_replan": should,
        "reflection_text": "again",
    }
    return {**answer, "replanning_strategy": strategy} if strategy else answer


AGAIN = overall(True, type="full_replan")


@pytest.mark.parametrize("row", ["r5", "r8", "r10"])
def test_r5_r8_r10_the_same_call_again_and_again_is_made_once_then_the_guard(row: str) -> None:
    """The planner asks for one and the same call, round after round, under new ids."""
    ids = count()
    effect = READS if row == "r5" else ONCE
    ran = run(
        {"look": FakeTool(output="nothing", **effect)},
        {
            "execution_plan": lambda request: plan(step(f"s{next(ids)}", "look", parameters={"q": "x"})),
            "evaluation": verdict(20, "nothing found", success=False),
            "overall_reflection": AGAIN,
        },
    )
    assert ran.source.counts == {"look": 1}
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    assert ran.result.output == "nothing found"


@pytest.mark.parametrize("row", ["r5", "r8", "r10"])
def test_r5_r8_r10_a_failing_call_asked_for_again_and_again_is_not_made_again(row: str) -> None:
    """The reflection proposes the very call that failed, whatever it is told."""
    same = reflection("retry_with_params", {"q": "x"}, "parameter_error")
    ran = run(
        {"look": FakeTool(fail=["q: no such thing"] * 500, **READS)},
        {
            "execution_plan": plan(step("a", "look", parameters={"q": "x"})),
            "step_reflection": same,
            "step_repair": {"tool": "look", "parameters": {"q": "x"}},
            "overall_reflection": overall(False),
        },
    )
    assert ran.source.counts == {"look": 1}
    assert ran.result.failure is not None


@pytest.mark.parametrize(
    "verdicts",
    [
        pytest.param(verdict(10, "part", success=False), id="r11 always fails"),
        pytest.param({**verdict(0, "part", success=False), "failures": ["none"]}, id="r12 always says none"),
    ],
)
def test_r11_r12_a_progress_check_that_never_passes_ends_with_what_there_is(verdicts: dict[str, Any]) -> None:
    numbers = count()
    ran = run(
        {"work": FakeTool(output=lambda p: p, **READS)},
        {
            "execution_plan": lambda request: plan(
                step(f"w{(n := next(numbers))}", "work", parameters={"n": n})
            ),
            "evaluation": verdicts,
            "overall_reflection": AGAIN,
        },
    )
    assert ran.result.rounds <= 6
    assert ran.model.calls["overall_reflection"] <= 6
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "user_intervention_required"
    assert ran.result.output == "part"
    assert "w0" in ran.state.earlier, "every result is kept"


def test_r13_after_replanning_no_result_lands_on_another_step() -> None:
    """New steps that take old ids get free ones; old results stay under their own, also for the step itself."""
    stolen = plan(step("step_1", "work", parameters={"n": 9, "was": "${step_1.output.n}"}))
    ran = run(
        {"work": FakeTool(output=lambda p: p, **READS), "bad": FakeTool(fail=["no"] * 9, **READS)},
        {
            "execution_plan": [
                plan(
                    step("step_1", "work", parameters={"n": 1}),
                    step("step_2", "work", "step_1", parameters={"n": 2}),
                    step("step_3", "bad", "step_2"),
                ),
                stolen,
            ],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": AGAIN,
        },
    )
    assert ran.result.is_success
    assert ran.outputs()["step_4"] == {"n": 9, "was": 1}
    assert ran.outputs()["step_1"] == {"n": 1}


def test_c2_it_took_effect_then_timed_out_then_a_retry_then_a_replan_one_effect() -> None:
    sent: list[str] = []

    def pay(parameters: Any) -> Any:
        sent.append(parameters["order"])
        raise TimeoutError("no answer")

    ran = run(
        {
            "pay": FakeTool(output=pay, **ONCE),
            "payments": FakeTool(output=lambda p: [{"order": order} for order in sent], **READS),
            "bad": FakeTool(fail=["broken"] * 9, **READS),
            "note": FakeTool(**READS),
        },
        {
            "execution_plan": [
                plan(step("p", "pay", parameters={"order": "o-1234"}), step("b", "bad", "p")),
                plan(step("x", "pay", parameters={"order": "o-1234"}), step("y", "note", "x")),
            ],
            "step_reflection": [
                reflection("retry_with_params", {"order": "o-1234"}),  # refused: in doubt
                reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}),
                reflection("settle_outcome", {"happened": True, "evidence": '"order":"o-1234"'}),
                reflection("trigger_overall_reflection", {"summary": "b is broken"}, "tool_error"),
            ],
            "overall_reflection": AGAIN,
        },
    )
    assert sent == ["o-1234"]
    assert ran.result.is_success
    assert ran.events("call_completed", step_id="x")[0].reused


@pytest.mark.parametrize(
    "schema", ["evaluation", "step_reflection", "overall_reflection", "step_repair", "replan"]
)
@pytest.mark.parametrize(
    "says",
    [
        pytest.param(ModelUnavailable("the endpoint is down"), id="down"),
        pytest.param("I am afraid that I cannot do that.", id="refusing"),
        pytest.param("", id="empty"),
        pytest.param('{"wrong": ["shape"]}', id="wrong shape"),
        pytest.param("```json\n{", id="cut in a fence"),
        pytest.param(RuntimeError("a fault of the adapter"), id="raising what it should not"),
    ],
)
def test_c8_c9_a_role_that_fails_ends_in_bounds_with_a_typed_failure_and_all_results(
    schema: str, says: Any
) -> None:
    answers: dict[str, Any] = {
        "execution_plan": plan(step("a", "fine"), step("b", "bad", "a")),
        "evaluation": verdict(20, success=False),
        "step_reflection": reflection("repair_step", {"hint": "h"}, "tool_error"),
        "step_repair": {"tool": "bad", "parameters": {"n": 2}},
        "overall_reflection": overall(False),
    }
    if schema == "replan":
        answers["overall_reflection"] = AGAIN
        first = answers["execution_plan"]
        answers["execution_plan"] = [first, *[says] * 5]
    elif schema == "evaluation":
        answers["execution_plan"] = plan(step("a", "fine"))
        answers["evaluation"] = says
    else:
        answers[schema] = says
    ran = run({"fine": FakeTool(output="kept", **READS), "bad": FakeTool(fail=["no"] * 99, **READS)}, answers)
    assert ran.result.failure is not None
    wanted = {
        "evaluation": {"unjudged"},
        "overall_reflection": {"reflection"},
        "replan": {"model", "planning", "user_intervention_required"},
    }.get(schema, {"user_intervention_required"})
    assert ran.result.failure.kind in wanted
    assert ran.outputs()["a"] == "kept"
    assert sum(ran.model.calls.values()) <= 14


def test_c9_a_plan_or_a_reflection_in_a_fence_is_read() -> None:
    def fenced(value: dict[str, Any]) -> str:
        return f"Here it is:\n```json\n{json.dumps(value)}\n```\nGood luck!"

    ran = run(
        {
            "look": FakeTool(
                output=lambda p: p,
                parameters={"type": "object", "properties": {"q": {"enum": ["y"]}}, "required": ["q"]},
                **READS,
            ),
            "q": FakeTool(output="x", **READS),
        },
        {
            "execution_plan": fenced(
                plan(step("q", "q"), step("a", "look", parameters={"q": "${q.output}"}))
            ),
            "step_reflection": fenced(reflection("retry_with_params", {"q": "y"}, "parameter_error")),
        },
    )
    assert ran.result.is_success


def test_c10_an_old_failure_does_not_make_plans_anew_for_ever() -> None:
    """The failure of the first plan is left behind with its step; the new plan has failures of its own only."""
    ran = run(
        {"bad": FakeTool(fail=["no"] * 9, **READS), "good": FakeTool(**READS)},
        {
            "execution_plan": [plan(step("a", "bad")), plan(step("b", "good"))],
            "step_reflection": reflection("replan", {"advice": "use good"}, "tool_error"),
        },
    )
    assert ran.result.is_success
    assert ran.types().count("replanning_started") == 1


def test_c10_a_replan_is_charged_before_it_is_made() -> None:
    ran = run(
        {"bad": FakeTool(fail=["no"] * 9, **READS)},
        {
            "execution_plan": [plan(step("a", "bad")), *["nonsense"] * 9],
            "step_reflection": reflection("replan", {"advice": "again"}, "tool_error"),
        },
        older={"max_task_replanning_attempts": 1},
    )
    assert ran.state.recovery is not None
    assert ran.state.recovery.replans == 1
    assert ran.result.failure is not None


def test_c16_one_failing_command_is_not_run_157_times() -> None:
    """The message differs in ids, numbers and times; the parameters are fresh each time."""
    n = count(100)

    def command(parameters: Any) -> Any:
        raise RuntimeError(
            f"job {next(n)} failed at 2026-01-{1 + next(n) % 28:02d}T10:00:00Z: exit status {next(n)}"
        )

    ran = run(
        {"command": FakeTool(output=command, **READS)},
        {
            "execution_plan": lambda request: plan(
                step(f"s{next(n)}", "command", parameters={"line": f"make {next(n)}"})
            ),
            "step_reflection": lambda request: reflection(
                "retry_with_params", {"line": f"make -j{next(n)}"}, "parameter_error"
            ),
            "step_repair": lambda request: {"tool": "command", "parameters": {"line": f"make -k {next(n)}"}},
            "overall_reflection": AGAIN,
        },
    )
    assert ran.result.failure is not None
    assert ran.source.counts["command"] <= 25
    assert len({one.signature for one in ran.events("step_reflected")}) == 1


def test_c16_a_poll_whose_result_changes_is_no_repeat() -> None:
    """The same reading, round after round, each time further on: it goes on until it is done."""
    states = iter(["queued", "10 %", "40 %", "70 %", "90 %", "done"])
    scores = iter([10, 20, 40, 60, 79, 95])
    ids = count()

    ran = run(
        {"poll": FakeTool(output=lambda p: next(states), spec={"volatile": True}, **READS)},
        {
            "execution_plan": lambda request: plan(
                step(f"s{(i := next(ids))}", "poll", parameters={"round": i})
            ),
            "evaluation": lambda request: verdict(next(scores)),
            "overall_reflection": AGAIN,
        },
    )
    assert ran.result.is_success
    assert ran.source.counts["poll"] == 6


@pytest.mark.parametrize("changes", [True, False])
def test_c16_the_very_same_poll_goes_on_while_its_result_changes(changes: bool) -> None:
    """One and the same plan, round after round: allowed as long as the reading differs from the one before."""
    states = iter([*(f"{n} %" for n in range(30)), "done"]) if changes else iter(["queued"] * 99)
    ids = count()
    ran = run(
        {"poll": FakeTool(output=lambda p: next(states), spec={"volatile": True}, **READS)},
        {
            "execution_plan": lambda request: plan(step(f"s{next(ids)}", "poll")),
            "evaluation": lambda request: verdict(95 if '"done"' in request.turns[0].text else 30),
            "overall_reflection": AGAIN,
        },
    )
    assert ran.result.is_success is changes
    assert ran.source.counts["poll"] == (31 if changes else 2)


@pytest.mark.parametrize("copies", [True, False])
def test_r13_a_planner_that_counts_from_one_again_gets_other_ids(copies: bool) -> None:
    """New steps under the ids of kept ones get free ones and are not dropped; copies of kept steps do no harm."""
    first = plan(step("step_1", "work", parameters={"n": 1}), step("step_2", "bad", "step_1"))
    stolen = plan(step("step_1", "work", parameters={"n": 5}))
    copied = plan(step("step_1", "work", parameters={"n": 1}), step("step_3", "work", parameters={"n": 5}))
    ran = run(
        {"work": FakeTool(output=lambda p: p, **READS), "bad": FakeTool(fail=["no"] * 9, **READS)},
        {
            "execution_plan": [first, copied if copies else stolen],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": overall(True, type="replan_from_step", step_id="step_2"),
        },
    )
    assert ran.result.is_success
    assert ran.outputs() == {"step_1": {"n": 1}, "step_3": {"n": 5}}


def test_c25_tries_are_counted_by_the_step_and_not_reset_by_a_stop() -> None:
    """Tries of a step are charged to its lineage, whichever process makes them."""
    import asyncio

    async def main() -> Ran:
        made = await bench(
            {"bad": FakeTool(fail=["no"] * 99, delay_secs=5, **READS)},
            {
                "execution_plan": plan(step("a", "bad", parameters={"n": 0})),
                "evaluation": verdict(),
                "step_reflection": lambda request: reflection(
                    "retry_with_params", {"n": next(n)}, "parameter_error"
                ),
                "overall_reflection": overall(False),
            },
        )
        task_id = await made.submit(older={"max_step_retries": 1, "max_single_step_repairs": 0})
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(7)
        made.store.crash()
        driving.cancel()
        await asyncio.wait({driving})
        return (await made.drive(task_id)).check()

    n = count(1)
    ran = virtual_time(main())
    assert len(ran.events("step_reflected")) == 2
    assert ran.result.failure is not None
