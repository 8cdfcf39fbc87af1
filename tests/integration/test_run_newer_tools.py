"""A tool of a newer release, with one more optional parameter or another default, makes no done call another call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_tasks import plan, step

from replan import Replan, RetryLater, TaskResult, ToolContext, tool
from replan.errors import ToolCallError
from replan.testing import ScriptedModel

PAID: list[Any] = []
KEYS: list[str] = []


def paid(*what: Any) -> dict[str, int]:
    PAID.append(what)
    return {"id": len(PAID)}


def old(to: str, cents: int = 500) -> dict[str, int]:
    """Pay."""
    return paid(to, cents)


def one_more(to: str, cents: int = 500, currency: str = "EUR") -> dict[str, int]:
    """Pay."""
    return paid(to, cents, currency)


def two_more(to: str, cents: int = 500, currency: str = "EUR", memo: str | None = None) -> dict[str, int]:
    """Pay."""
    return paid(to, cents, currency, memo)


def another_default(to: str, cents: int | None = None) -> dict[str, int]:
    """Pay."""
    return paid(to, cents)


def run(first: Any, newer: Callable[..., Any], again: Any, db: Path) -> TaskResult:
    """The first plan comes to a halt after its payment; the tool is another release when the task is taken up again."""
    PAID.clear()
    halted = asyncio.Event()

    @tool(effect="reads")
    async def halt() -> str:
        """Look."""
        if not halted.is_set():
            halted.set()
            await asyncio.Event().wait()
        raise ValueError("nothing there")

    def model(*plans: Any) -> ScriptedModel:
        return ScriptedModel(
            {
                "execution_plan": list(plans),
                "step_reflection": {
                    "root_cause_category": "tool_error",
                    "is_recoverable": True,
                    "confidence": 90,
                    "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
                },
                "overall_reflection": {
                    "problem_nature": "tools",
                    "should_replan": True,
                    "reflection_text": "again",
                    "replanning_strategy": {"type": "full_replan"},
                },
            }
        )

    def replan(pay: Callable[..., Any], *plans: Any) -> Replan:
        named = tool(effect="once", name="pay")(pay)
        more = {"enable_two_stage_planning": False, "evaluation": "steps"}
        return Replan(model(*plans), tools=[named, halt], db=str(db), **more)

    async def main() -> TaskResult:
        async with replan(old, plan(step("a", "pay", parameters=first), step("h", "halt", "a"))) as one:
            await one.submit("Pay Ann.", task_id="t1")
            await halted.wait()
        async with replan(newer, plan(step("b", "pay", parameters=again))) as one:
            return await one.resume("t1")

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "newer", "again", "payments"),
    [
        pytest.param({"to": "Ann"}, old, {"to": "Ann"}, 1, id="the same release"),
        pytest.param({"to": "Ann"}, one_more, {"to": "Ann"}, 1, id="one parameter more"),
        pytest.param({"to": "Ann"}, two_more, {"to": "Ann"}, 1, id="two more"),
        pytest.param({"to": "Ann"}, another_default, {"to": "Ann"}, 1, id="another default"),
        pytest.param({"to": "Ann"}, one_more, {"to": "Ann", "cents": 500}, 1, id="its old default given"),
        pytest.param({"to": "Ann", "cents": 500}, two_more, {"to": "Ann"}, 1, id="the same left out"),
        pytest.param({"to": "Ann"}, one_more, {"to": "Ann", "currency": "EUR"}, 1, id="the new one given"),
        pytest.param({"to": "Ann"}, one_more, {"to": "Ann", "currency": "USD"}, 2, id="another currency"),
        pytest.param({"to": "Ann"}, one_more, {"to": "Ann", "cents": 600}, 2, id="another amount"),
        pytest.param(
            {"to": "Ann"}, another_default, {"to": "Ann", "cents": 600}, 2, id="another amount, said"
        ),
    ],
)
def test_a_call_that_a_newer_release_of_its_tool_would_make_is_known(
    tmp_path: Path, first: Any, newer: Any, again: Any, payments: int
) -> None:
    result = run(first, newer, again, tmp_path / "tasks.db")
    assert result.succeeded
    assert len(PAID) == payments


def test_a_call_that_was_cut_off_is_made_again_with_its_key_by_a_newer_release(tmp_path: Path) -> None:
    KEYS.clear()
    begun = asyncio.Event()

    async def first(to: str, ctx: ToolContext) -> str:
        """Pay."""
        KEYS.append(ctx.key)
        begun.set()
        await asyncio.Event().wait()
        return "paid"

    async def second(to: str, ctx: ToolContext, currency: str = "EUR") -> str:
        """Pay."""
        KEYS.append(ctx.key)
        return "paid"

    def replan(pay: Callable[..., Any]) -> Replan:
        named = tool(effect="once", name="pay", honours_key=True)(pay)
        return Replan(ScriptedModel({}), tools=[named], db=str(tmp_path / "t.db"), evaluation="steps")

    async def main() -> TaskResult:
        async with replan(first) as one:
            given = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"to": "Ann"}}]}
            await one.submit("Pay Ann.", plan=given, task_id="t1")
            await begun.wait()
        async with replan(second) as one:
            return await one.resume("t1")

    assert asyncio.run(main()).succeeded
    assert len(KEYS) == 2
    assert len(set(KEYS)) == 1


@pytest.mark.parametrize(
    "refusal",
    [
        ToolCallError("409: a request with this key is in progress", kind="http", status=409, happened="no"),
        ToolCallError("no such account", happened="no"),
        PermissionError("token expired"),
        ValueError("the reference is taken"),
        RetryLater("busy", after_secs=0.001),
    ],
    ids=lambda one: type(one).__name__ + str(one)[:3],
)
def test_a_refusal_of_the_second_attempt_says_nothing_of_the_one_that_was_cut_off(
    tmp_path: Path, refusal: Exception
) -> None:
    begun = asyncio.Event()

    async def first(to: str) -> str:
        """Pay."""
        begun.set()
        await asyncio.Event().wait()
        return "paid"

    async def second(to: str) -> str:
        """Pay."""
        raise refusal

    def replan(pay: Callable[..., Any]) -> Replan:
        named = tool(effect="once", name="pay", honours_key=True, retries=1)(pay)
        return Replan(ScriptedModel({}), tools=[named], db=str(tmp_path / "t.db"), evaluation="steps")

    async def main() -> TaskResult:
        async with replan(first) as one:
            given = {"steps": [{"step_id": "a", "tool": "pay", "parameters": {"to": "Ann"}}]}
            await one.submit("Pay Ann.", plan=given, task_id="t1")
            await begun.wait()
        async with replan(second) as one:
            return await one.resume("t1")

    result = asyncio.run(main())
    assert result.failure is not None
    assert result.failure.kind == "outcome_unknown"
