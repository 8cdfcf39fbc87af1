"""Replan: the programs of the rows E, effects that are made twice or taken for done."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from bench.conformance.agents_kinds import HIDDEN
from bench.conformance.case import Calls, Cases, Facts
from bench.conformance.replan_harness import Ran, diagnosis, plan, reflection, run, scripted, step, verdict
from replan import Replan, TaskResult, tool

AGAIN = reflection(True)
SETTLED_NO = [
    diagnosis("verify_outcome", tool_id="payments", parameters={}),
    diagnosis("settle_outcome", happened=False, evidence="[]"),
    diagnosis("retry_with_params", "parameter_error", n=1),
]
"""The model looks, finds nothing, says that it did not happen, and would pay again."""


def paying(calls: Calls, fails: Callable[[], None] = lambda: None) -> Any:
    @tool
    def pay(n: int = 0, memo: str = "") -> str:
        """Pay."""
        calls.made("pay")
        fails()
        return "paid"

    return pay


def reading(name: str, output: Any) -> Any:
    @tool(name=name, effect="reads")
    def read() -> Any:
        """Read."""
        return output

    return read


def paid(ran: Ran, calls: Calls) -> Facts:
    return {"effects": calls["pay"], "died": ran.end, "in_doubt": ran.kinds["outcome_unknown"] > 0}


async def paid_late() -> Facts:
    calls = Calls()

    @tool(timeout=0.2)
    def pay(n: int = 0) -> str:
        """Pay, slowly."""
        time.sleep(0.6)
        calls.made("pay")
        return "paid"

    answers = {
        "execution_plan": plan(step("a", "pay", n=1)),
        "step_reflection": SETTLED_NO,
        "evaluation": verdict(95),
    }
    ran = await run([pay, reading("payments", [])], answers)
    await asyncio.sleep(0.8)
    return paid(ran, calls)


async def claimed() -> Facts:
    calls = Calls()

    @tool
    def pay() -> str:
        """Pay."""
        raise TimeoutError("no answer in 30 s")

    quoted = '"payments": []'
    answers = {
        "execution_plan": plan(step("a", "pay")),
        "step_reflection": [
            diagnosis("verify_outcome", tool_id="payments", parameters={}),
            diagnosis("settle_outcome", happened=True, output="paid", evidence=quoted),
        ],
        "evaluation": verdict(95, "It is paid."),
    }
    ran = await run([pay, reading("payments", {"payments": [], "total": 0})], answers)
    return {"effects": calls["pay"], "success": ran.result.is_success}


async def hidden_timeouts() -> Facts:
    counts = {}
    for how, fails in HIDDEN.items():
        calls = Calls()
        answers = {
            "execution_plan": plan(step("a", "pay", n=1)),
            "step_reflection": diagnosis("retry_with_params", "parameter_error", n=1),
            "evaluation": verdict(95),
        }
        await run([paying(calls, fails)], answers)
        counts[how] = calls["pay"]
    return {"effects": counts}


async def a_busy_refusal() -> Facts:
    asked: list[int] = []

    @tool
    def book(seat: int) -> str:
        """Book a seat."""
        asked.append(seat)
        if seat == 7:
            raise RuntimeError("Seat 7 is temporarily blocked; choose another seat")
        return f"seat {seat} is yours"

    answers = {
        "execution_plan": plan(step("a", "book", seat=7)),
        "step_reflection": diagnosis("retry_with_params", "parameter_error", seat=8),
        "evaluation": verdict(95),
    }
    ran = await run([book], answers)
    return {"asked": asked, "died": ran.end}


async def a_default_spelt_out() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": [plan(step("a", "pay", n=1)), plan(step("b", "pay", n=1, memo=""))],
        "evaluation": [verdict(20), verdict(95)],
        "overall_reflection": AGAIN,
    }
    return paid(await run([paying(calls)], answers), calls)


async def twice_in_one_plan() -> Facts:
    calls = Calls()
    first = step("n", "number")
    twice = [step("a", "pay", n="${n.output.n}"), step("b", "pay", n="{{n.outputs.n}}")]
    answers = {"execution_plan": [plan(first, *twice), plan(first, twice[0])], "evaluation": verdict(95)}
    return paid(await run([paying(calls), reading("number", {"n": 5})], answers), calls)


async def twice_on_purpose() -> Facts:
    calls = Calls()
    answers = {
        "execution_plan": [
            plan(step("a", "pay", n=1)),
            plan({**step("b", "pay", n=1), "repeat": True, "repeat_reason": "it is to be paid twice"}),
        ],
        "evaluation": [verdict(40, "paid once, and twice was asked for"), verdict(95)],
        "overall_reflection": AGAIN,
    }
    return paid(await run([paying(calls)], answers), calls)


def accounts(to: list[str], slow: str) -> list[Any]:
    def writing(name: str) -> Any:
        @tool(name=f"set_{name}", effect="repeatable", output_params=["account"])
        def write() -> dict[str, str]:
            """Set the account."""
            time.sleep(0.2 if name == slow else 0.0)
            return {"account": name}

        return write

    @tool
    def pay(n: int, account: str) -> str:
        """Pay to the account."""
        to.append(account)
        return "paid"

    return [writing("A"), writing("B"), pay]


async def two_writers_of_one_field() -> Facts:
    to: list[str] = []
    steps = plan(
        step("a", "set_A"), step("p1", "pay", "a", n=1), step("b", "set_B"), step("p2", "pay", "b", n=2)
    )
    ran = await run(accounts(to, "A"), given=steps)
    return {"paid": sorted(to), "died": ran.end}


async def conditional(output: Any) -> Facts:
    calls = Calls()
    steps = plan(step("acc", "look"), {**step("p", "pay", "acc"), "when": "acc.output.status != 'blocked'"})
    return paid(await run([reading("look", output), paying(calls)], given=steps), calls)


async def a_condition_on_a_text_with_json() -> Facts:
    return await conditional('{"status": "blocked"}')


async def a_condition_without_its_field() -> Facts:
    return await conditional({})


async def asked(
    replan_of: Callable[[Path], Replan], agree: Callable[[Replan, TaskResult], Any], **more: Any
) -> TaskResult:
    """A task that waits for a person, and goes on once it has been agreed to."""
    with tempfile.TemporaryDirectory() as folder:
        async with replan_of(Path(folder) / "replan.db") as replan:
            waiting = await replan.run("do it", **more)
            await agree(replan, waiting)
            return await replan.resume(waiting.task_id)


async def an_edit_of_one_parameter() -> Facts:
    made: list[Any] = []

    @tool
    def pay(amount: int, currency: str = "USD", note: str = "") -> str:
        """Pay."""
        made.extend([amount, currency, note])
        return "paid"

    answers = {
        "execution_plan": plan(step("a", "pay", amount=5, currency="EUR", note="rent")),
        "evaluation": verdict(95),
    }

    async def agree(replan: Replan, waiting: TaskResult) -> None:
        await replan.approve(waiting.task_id, waiting.waiting_for[0].id, parameters={"amount": 10}, by="me")

    result = await asked(
        lambda db: Replan(
            model=scripted(answers), tools=[pay], db=db, interactive=True, approval="destructive"
        ),
        agree,
    )
    return {"paid": made, "died": "" if result.is_success else result.status}


async def another_secret_after_the_yes() -> Facts:
    made: list[str] = []

    @tool(secrets=["account"])
    def pay(amount: int, account: str) -> str:
        """Pay."""
        made.append(account)
        raise ValueError("this account is closed, use the other one")

    answers = {
        "execution_plan": plan(step("a", "pay", amount=5, account="${metadata.account}")),
        "step_reflection": diagnosis(
            "retry_with_params", "parameter_error", account="another one, of Mallory"
        ),
    }

    async def agree(replan: Replan, waiting: TaskResult) -> None:
        await replan.approve(waiting.task_id, waiting.waiting_for[0].id, by="me")

    result = await asked(
        lambda db: Replan(model=scripted(answers), tools=[pay], db=db, interactive=True, approval="all"),
        agree,
        secrets={"account": SecretStr("the right one")},
    )
    again = any(one.kind == "approval" for one in result.waiting_for)
    return {"paid": made, "asked": again}


async def a_stand_in_that_deletes() -> Facts:
    calls = Calls()

    @tool(effect="reads")
    def get_ticket(n: int) -> str:
        """Get a ticket."""
        raise RuntimeError("the view is broken")

    @tool
    def delete_ticket(n: int) -> str:
        """Delete a ticket."""
        calls.made("delete_ticket")
        return "ok"

    answers = {
        "execution_plan": plan(step("a", "get_ticket", n=17)),
        "step_reflection": diagnosis(
            "retry_with_tool", "tool_error", tool_id="delete_ticket", parameters={"n": 17}
        ),
        "evaluation": verdict(95),
    }
    ran = await run([get_ticket, delete_ticket], answers)
    return {"deleted": calls["delete_ticket"], "died": ran.end}


def register(case: Cases) -> None:
    """Put these among Replan's cases."""
    for row, program in {
        "E1": paid_late,
        "E2": claimed,
        "E3": hidden_timeouts,
        "E5": a_busy_refusal,
        "E6": a_default_spelt_out,
        "E7": twice_in_one_plan,
        "E8": twice_on_purpose,
        "E9": two_writers_of_one_field,
        "E10": a_condition_on_a_text_with_json,
        "E11": a_condition_without_its_field,
        "E12": an_edit_of_one_parameter,
        "E13": another_secret_after_the_yes,
        "E14": a_stand_in_that_deletes,
    }.items():
        case(row)(program)
