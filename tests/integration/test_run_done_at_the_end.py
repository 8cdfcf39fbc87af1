"""A task that ends without success says which effects it has had, so that nobody has them again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from run_tasks import Ran, bench, step
from run_tasks import plan as run_plan

from replan import Replan, tool
from replan.errors import ToolCallError
from replan.testing import FakeTool, ScriptedModel, virtual_time

pytestmark = pytest.mark.anyio
REST = "What is listed as done has taken effect and stays so: ask for the rest only."


class Bank:
    """Payments that were made; one to Bob is refused, one to Cy hangs."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def tools(self) -> list[Any]:
        @tool(effect="once")
        async def pay(to: str) -> str:
            if to == "Bob":
                raise ToolCallError("Bob has no account", happened="no")
            if to == "Cy":
                await asyncio.Event().wait()
            self.paid.append(to)
            return f"paid {to}"

        @tool(effect="reads")
        async def look(at: str) -> str:
            if at == "nothing":
                raise ValueError("there is nothing")
            return at

        @tool(effect="repeatable")
        async def note(text: str) -> str:
            return text

        return [pay, look, note]


@asynccontextmanager
async def opened(answers: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[tuple[Replan, Bank]]:
    bank = Bank()
    async with Replan(ScriptedModel(answers or {}), tools=bank.tools(), db=None, **options) as replan:
        yield replan, bank


def plan(*steps: tuple[str, str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = [{"step_id": name, "tool": tool, "parameters": given, **more} for name, tool, given in steps]
    return {"steps": made}


PAID = ("ada", "pay", {"to": "Ada"})
LOOKS = ("look", "look", {"at": "nothing"})


def told(result: Any) -> tuple[str, ...]:
    """What the failure says is done; that its advice asks for the rest, and that nothing is in doubt."""
    assert result.failure is not None
    assert (REST in result.failure.advice) == bool(result.failure.done)
    assert result.failure.in_doubt == result.failure.undone == ()
    done: tuple[str, ...] = result.failure.done
    return done


async def test_a_later_step_that_fails_leaves_the_payment_named() -> None:
    async with opened(evaluation="steps") as (replan, bank):
        result = await replan.run("pay and look", plan=plan(PAID, LOOKS))
    assert bank.paid == ["Ada"]
    assert told(result) == ("""the call of 'pay' in step 'ada' with {"to":"Ada"}""",)


async def test_items_that_were_paid_are_named_beside_the_one_that_was_not() -> None:
    items = {"step_id": "a", "tool": "pay", "for_each": "${metadata.people}", "parameters": {"to": "${item}"}}
    async with opened(evaluation="steps") as (replan, bank):
        people = ["Ada", "Bob", "Dan"]
        result = await replan.run("pay all", plan={"steps": [items]}, metadata={"people": people})
    assert sorted(bank.paid) == ["Ada", "Dan"]
    done = told(result)
    assert len(done) == 2
    assert ['"Ada"' in done[0], '"Dan"' in done[1]] == [True, True]


@pytest.mark.parametrize("others", [(("n", "note", {"text": "x"}), LOOKS), (LOOKS,)])
async def test_what_is_read_or_may_be_repeated_is_no_effect_to_name(others: Any) -> None:
    async with opened(evaluation="steps") as (replan, _):
        result = await replan.run("look", plan=plan(*others))
    assert told(result) == ()


async def test_a_budget_names_what_was_paid_before_it() -> None:
    async with opened({"evaluation": {}}, max_llm_calls=0) as (replan, bank):
        result = await replan.run("pay", plan=plan(PAID))
    assert (bank.paid, result.failure and result.failure.kind) == (["Ada"], "budget")
    assert len(told(result)) == 1


async def test_a_judge_that_cannot_be_understood_names_what_was_paid() -> None:
    async with opened({"evaluation": "no idea"}) as (replan, bank):
        result = await replan.run("pay", plan=plan(PAID))
    assert (bank.paid, result.failure and result.failure.kind) == (["Ada"], "unjudged")
    assert len(told(result)) == 1


@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
def test_a_task_that_is_stopped_names_what_was_paid_and_does_not_ask_to_start_over(how: str) -> None:
    async def main() -> Ran:
        tools = {"pay": FakeTool(effect="once"), "look": FakeTool(delay_secs=1_000)}
        made = await bench(tools)
        wanted = run_plan(step("ada", "pay", parameters={"to": "Ada"}), step("look", "look", "ada"))
        task_id = await made.submit(wanted, budget={"task_timeout_secs": 30})
        driving = asyncio.create_task(made.drive(task_id))
        if how == "cancelled":
            await asyncio.sleep(10)
            await made.service.cancel(task_id)
        return (await driving).check()

    result = virtual_time(main()).result
    assert result.status == how
    assert len(told(result)) == 1
    assert result.failure is not None
    assert not any("start over" in advice for advice in result.failure.advice)


async def test_a_doubt_is_told_with_what_is_done() -> None:
    async with opened(evaluation="steps") as (replan, bank):
        steps = plan(PAID, ("cy", "pay", {"to": "Cy"}), timeout_secs=0.3)
        steps["steps"][1]["dependencies"] = ["ada"]
        result = await replan.run("pay both", plan=steps)
    assert (bank.paid, result.failure.kind) == (["Ada"], "outcome_unknown")
    assert (len(result.failure.done), len(result.failure.in_doubt)) == (1, 1)
    assert REST in result.failure.advice
