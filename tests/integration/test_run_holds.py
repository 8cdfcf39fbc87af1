"""Nothing of one task holds the event loop for long, however large what it is given, or gets, may be.

Counted are the calls of functions in the loop's thread between two turns of somebody else, not seconds: some 300,000 are 50 ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from run_tasks import Bench, bench, plan, step, verdict

from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel

MOST = 120_000
ONE = plan(step("a", "look", parameters={"q": 1}))


class AtOnce(ScriptedModel):
    """Its text comes in one piece."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        return await super().ask(request)


def look(parameters: dict[str, Any]) -> Any:
    given = parameters.get("q")
    return given if isinstance(given, int) else 1


def longest_hold(answers: dict[str, Any], work: Callable[[Bench], Awaitable[Any]]) -> int:
    """The most calls between two turns of a task beside the work."""
    calls = longest = 0

    def count(_frame: Any, event: str, _given: Any) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    async def others() -> None:
        nonlocal calls, longest
        while True:
            longest, calls = max(longest, calls), 0
            await asyncio.sleep(0)

    async def main() -> None:
        table = await bench(
            {"look": look, "rows": lambda given: [{"id": n} for n in range(given["n"])]},
            model=AtOnce(answers),
        )
        ticking = asyncio.create_task(others())
        await asyncio.sleep(0)
        sys.setprofile(count)
        try:
            await work(table)
        finally:
            sys.setprofile(None)
            ticking.cancel()

    asyncio.run(main())
    return longest


def given(wanted: dict[str, Any], *, ends: str = "succeeded") -> Callable[[Bench], Awaitable[Any]]:
    async def work(table: Bench) -> None:
        task_id = await table.submit(wanted, budget={"task_timeout_secs": None})
        state = await table.service.drive(task_id)
        assert state.status == ends
        assert len((await table.service.result_from(state)).steps) >= len(wanted["steps"]) * (
            ends == "succeeded"
        )

    return work


async def by_a_model(table: Bench) -> None:
    task_id = await table.submit(budget={"task_timeout_secs": None})
    state = await table.service.drive(task_id)
    assert state.status == "succeeded"
    await table.service.result_from(state)


WIDE = plan(*(step(f"s{n}", "look", parameters={"q": n}) for n in range(2_000)))
CHAIN = plan(
    step("s0", "look", parameters={"q": 0}),
    *(step(f"s{n}", "look", parameters={"q": [n, f"${{s{n - 1}.output}}"]}) for n in range(1, 1_200)),
)
BAD = plan(*(step(f"s{n}", "look", parameters={"q": f"${{no{n}.output.x}}"}) for n in range(2_000)))
UNKNOWN = plan(*(step(f"s{n}", f"toool{n}", parameters={"q": n}) for n in range(2_000)))
ROWS = [{"id": n, "name": f"row {n}"} for n in range(30_000)]


@pytest.mark.parametrize(
    ("answers", "work"),
    [
        pytest.param({}, given(WIDE), id="a wide plan"),
        pytest.param({}, given(CHAIN), id="a chain"),
        pytest.param({}, given(BAD, ends="failed"), id="a plan of bad references"),
        pytest.param(
            {},
            given(plan(step("a", "look", parameters={"q": {f"p{n}": n for n in range(30_000)}}))),
            id="many parameters",
        ),
        pytest.param(
            {},
            given(
                plan(step("a", "look", for_each=json.dumps(list(range(2_000))), parameters={"q": "${item}"}))
            ),
            id="many items",
        ),
        pytest.param(
            {"execution_plan": [WIDE], "evaluation": verdict()}, by_a_model, id="a wide plan of a model"
        ),
        pytest.param(
            {"execution_plan": [BAD, ONE], "evaluation": verdict()},
            by_a_model,
            id="bad references of a model",
        ),
        pytest.param(
            {"execution_plan": [UNKNOWN, ONE], "evaluation": verdict()},
            by_a_model,
            id="unknown tools of a model",
        ),
        pytest.param(
            {"execution_plan": ONE, "evaluation": verdict(output=ROWS)},
            by_a_model,
            id="an answer of many rows",
        ),
        pytest.param(
            {"execution_plan": ONE, "evaluation": ["no json {" * 200_000, verdict()]},
            by_a_model,
            id="an answer that is none",
        ),
    ],
)
def test_others_have_their_turn(answers: dict[str, Any], work: Callable[[Bench], Awaitable[Any]]) -> None:
    assert longest_hold(answers, work) < MOST
