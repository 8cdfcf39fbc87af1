"""Replan: the programs that need its recovery, reflection and replanning."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

from bench.conformance.agents import POLLS
from bench.conformance.case import Calls, Cases, Facts
from bench.conformance.replan_harness import Ran, diagnosis, plan, reflection, run, step, verdict
from replan import tool

AGAIN = reflection(True)
"""The overall reflection that always wants another round."""


def doing(calls: Calls, name: str, effect: Any = "reads") -> Any:
    @tool(name=name, effect=effect)
    def call(n: int = 0) -> str:
        """Answer."""
        calls.made(name)
        return f"{name} done"

    return call


def failing(calls: Calls, name: str, error: Exception, effect: Any = "reads") -> Any:
    @tool(name=name, effect=effect)
    def call() -> str:
        """Raise."""
        calls.made(name)
        raise error

    return call


def numbered(tools: Callable[[int], str]) -> Callable[[Any], dict[str, Any]]:
    """A planner that makes a plan of one step, with an id never used before, each time."""
    numbers = count(1)

    def answer(_: Any) -> dict[str, Any]:
        n = next(numbers)
        return plan(step(f"step_{n}", tools(n)))

    return answer


def replans(ran: Ran) -> int:
    return ran.kinds["replanning_started"]


def exercised(ran: Ran) -> bool:
    """True if a reflection was asked for: a Replan without recovery would pass most of these rows by doing nothing."""
    return ran.model.calls["step_reflection"] + ran.model.calls["overall_reflection"] > 0


async def the_same_call_again() -> Facts:
    """Every round the plan means the same payment, under a new id; no verdict is ever good."""
    calls = Calls()
    answers = {
        "execution_plan": numbered(lambda n: "pay"),
        "evaluation": verdict(20),
        "overall_reflection": AGAIN,
    }
    ran = await run([doing(calls, "pay", "once")], answers)
    return {"calls": calls["pay"], "died": ran.end, "exercised": exercised(ran)}


def _rounds(ran: Ran, calls: Calls) -> Facts:
    return {
        "replans": replans(ran),
        "checks": ran.model.calls["evaluation"],
        "work": calls["work"],
        "died": "",
        "partial": "work done" in ran.outputs.values(),
        "told": ran.reason[:120],
    }


async def the_check_always_fails() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": numbered(lambda n: "work"),
        "evaluation": "I cannot say",
        "overall_reflection": AGAIN,
    }
    return _rounds(await run([doing(calls, "work")], answers), calls)


async def the_check_says_none() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": numbered(lambda n: "work"),
        "evaluation": verdict(0, None),
        "overall_reflection": AGAIN,
    }
    ran = await run([doing(calls, "work")], answers)
    return {**_rounds(ran, calls), "exercised": exercised(ran)}


async def the_check_says_none_to_new_ideas() -> Facts:
    """Every round tries other parameters: no repetition, so that only a limit ends it."""
    calls = Calls()
    numbers = count(1)

    def planner(_: Any) -> dict[str, Any]:
        n = next(numbers)
        return plan(step(f"step_{n}", "work", n=n))

    answers = {"execution_plan": planner, "evaluation": verdict(0, None), "overall_reflection": AGAIN}
    ran = await run([doing(calls, "work")], answers, budget={"max_rounds": 4})
    return {**_rounds(ran, calls), "exercised": exercised(ran)}


async def ids_after_a_replan() -> Facts:
    """The third step fails; the planner counts from 1 again, and is told that these ids are taken."""
    calls = Calls()
    tools = [doing(calls, name) for name in "abde"] + [failing(calls, "c", RuntimeError("boom"))]
    first = plan(
        step("step_1", "a"),
        step("step_2", "b", "step_1"),
        step("step_3", "c", "step_2"),
        step("step_4", "b", "step_3", n=4),
    )
    answers = {
        "execution_plan": [
            first,
            plan(step("step_1", "d"), step("step_2", "e", "step_1")),
            plan(step("step_5", "d"), step("step_6", "e", "step_5")),
        ],
        "step_reflection": diagnosis("replan", advice="another way"),
        "overall_reflection": reflection(
            True, {"type": "replan_from_step", "step_id": "step_3", "reason": "x"}
        ),
        "evaluation": verdict(95),
    }
    ran = await run(tools, answers)
    kept = calls["a"] == 1 and "a done" in ran.outputs.values()
    return {"new_runs": calls["d"], "old_kept": kept, "died": ran.end, "exercised": exercised(ran)}


async def paid_then_timed_out() -> Facts:
    """The payment is made, its answer lost. Every remedy that the model knows is to pay again."""
    calls = Calls()
    answers = {
        "execution_plan": numbered(lambda n: "pay"),
        "step_reflection": diagnosis("retry_with_params", n=1),
        "overall_reflection": AGAIN,
        "evaluation": verdict(20),
    }
    tools = [failing(calls, "pay", TimeoutError("no answer in 30 s"), "once"), doing(calls, "payments")]
    ran = await run(tools, answers)
    return {
        "effects": calls["pay"],
        "died": ran.end,
        "in_doubt": ran.kinds["outcome_unknown"] > 0,
        "exercised": exercised(ran),
    }


async def paid_then_looked_up() -> Facts:
    """A reading tool shows the record of this very payment, and the model asks it."""
    calls = Calls()
    record = {"id": "p-1", "invoice": "INV-7031", "state": "booked"}

    @tool(effect="once")
    def pay(invoice: str) -> dict[str, str]:
        """Pay an invoice."""
        calls.made("pay")
        raise TimeoutError("no answer in 30 s")

    @tool(effect="reads")
    def payments() -> list[dict[str, str]]:
        """All payments."""
        return [record] * calls["pay"]

    seen = json.dumps(record)
    answers = {
        "execution_plan": plan(step("step_1", "pay", invoice="INV-7031")),
        "step_reflection": [
            diagnosis("verify_outcome", tool_id="payments", parameters={}),
            diagnosis("settle_outcome", happened=True, output=record, evidence=seen),
        ],
        "evaluation": verdict(95),
    }
    ran = await run([pay, payments], answers)
    told = ran.kinds["outcome_unknown"] > 0 and ran.kinds["outcome_settled"] > 0
    return {
        "effects": calls["pay"],
        "died": ran.end,
        "in_doubt": told and ran.result.is_success,
        "exercised": exercised(ran),
    }


async def the_planner_is_gone() -> Facts:
    calls = Calls()
    asked = count()

    def planner(_: Any) -> Any:
        return plan(step("step_1", "work")) if next(asked) == 0 else RuntimeError("the planner is gone")

    answers = {"execution_plan": planner, "evaluation": verdict(20), "overall_reflection": AGAIN}
    ran = await run([doing(calls, "work")], answers)
    kept = "work done" in ran.outputs.values()
    return {"model_calls": ran.model_calls, "died": "", "partial": kept, "exercised": exercised(ran)}


async def reflections_in_a_fence() -> Facts:
    def fenced(said: Any) -> str:
        return f"Here it is:\n```json\n{json.dumps(said)}\n```"

    calls = Calls()
    answers = {
        "execution_plan": [fenced(plan(step("step_1", "bad"))), fenced(plan(step("step_2", "good")))],
        "step_reflection": fenced(diagnosis("trigger_overall_reflection", summary="it raises")),
        "overall_reflection": fenced(AGAIN),
        "evaluation": fenced(verdict(95)),
    }
    ran = await run([failing(calls, "bad", RuntimeError("boom")), doing(calls, "good")], answers)
    return {
        "read": ran.result.is_success,
        "model_calls": ran.model_calls,
        "died": ran.end,
        "exercised": exercised(ran),
    }


async def no_verdict_to_be_had() -> Facts:
    calls = Calls()
    answers = {"execution_plan": numbered(lambda n: "work"), "evaluation": RuntimeError("no judge")}
    ran = await run([doing(calls, "work")], answers)
    return {"taken_as_done": ran.result.is_success, "replans": replans(ran), "died": ""}


async def no_reflection_to_be_had() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": plan(step("step_1", "bad"), step("step_2", "good")),
        "step_reflection": RuntimeError("no reflection"),
        "overall_reflection": RuntimeError("no reflection"),
    }
    ran = await run([failing(calls, "bad", RuntimeError("boom")), doing(calls, "good")], answers)
    return {
        "taken_as_done": ran.result.is_success,
        "replans": replans(ran),
        "died": "",
        "exercised": exercised(ran),
    }


def polling(polls: Calls) -> Any:
    @tool(effect="reads", volatile=True)
    def poll(n: int = 0) -> str:
        """How far it is."""
        return "ready" if polls.made("poll") == POLLS else f"{polls['poll']} of {POLLS} done"

    return poll


async def in_circles() -> tuple[Calls, Ran]:
    """Whatever fails, the model proposes the other tool; whatever the plan was, it comes again."""
    calls = Calls()
    tools = [failing(calls, name, RuntimeError(f"{name} cannot do it")) for name in "ab"]
    answers = {
        "execution_plan": numbered(lambda n: "ab"[(n - 1) % 2]),
        "step_reflection": lambda request: diagnosis(
            "retry_with_tool", "tool_error", tool_id="ab"[calls.total() % 2], parameters={}
        ),
        "overall_reflection": AGAIN,
        "evaluation": verdict(20),
    }
    return calls, await run(tools, answers)


def _circles(calls: Calls, ran: Ran, polls: Calls, polled: Ran) -> Facts:
    return {
        "calls": calls.total(),
        "died": ran.end,
        "polls": polls["poll"],
        "poll_died": polled.end,
        "exercised": exercised(ran),
    }


async def in_circles_and_polling_by_rounds() -> Facts:
    """A poll each round, until the verdict is good."""
    polls = Calls()

    def judge(_: Any) -> dict[str, Any]:
        return verdict(95) if polls["poll"] == POLLS else verdict(20)

    answers = {
        "execution_plan": numbered(lambda n: "poll"),
        "evaluation": judge,
        "overall_reflection": AGAIN,
    }
    polled = await run([polling(polls)], answers)
    return _circles(*await in_circles(), polls, polled)


async def in_circles_and_polling_by_steps() -> Facts:
    """All polls are steps of one plan, each after the one before."""
    polls = Calls()
    steps = [step(f"step_{n}", "poll", *([f"step_{n - 1}"] if n > 1 else [])) for n in range(1, POLLS + 1)]
    answers = {"execution_plan": plan(*steps), "evaluation": verdict(95)}
    polled = await run([polling(polls)], answers)
    return _circles(*await in_circles(), polls, polled)


def register(case: Cases) -> None:
    """Put these among Replan's cases."""
    for row, program, option in (
        ("R5", the_same_call_again, ""),
        ("R11", the_check_always_fails, ""),
        ("R12", the_check_says_none, ""),
        ("R12", the_check_says_none_to_new_ideas, "a new idea every round, max_rounds=4"),
        ("R13", ids_after_a_replan, ""),
        ("C2", paid_then_timed_out, ""),
        ("C2", paid_then_looked_up, "a reading tool that can tell"),
        ("C8", the_planner_is_gone, ""),
        ("C9", reflections_in_a_fence, "reflections too"),
        ("C10", no_verdict_to_be_had, ""),
        ("C10", no_reflection_to_be_had, "no reflection to be had"),
        ("C16", in_circles_and_polling_by_steps, "a poll a step"),
        ("C16", in_circles_and_polling_by_rounds, "a poll a round"),
    ):
        case(row, option=option)(program)
