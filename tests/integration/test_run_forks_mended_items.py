"""Of a list one item was refused and mended: a fork from any event before that, which states the whole as it was made, has it all and makes nothing twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, action, bench, plan, step, verdict
from test_run_forks import forked
from test_run_forks_alike import takes
from test_run_recovery import reflection
from test_run_restated import ANEW

from replan.testing import virtual_time

BEFORE = {"tool_selection_completed", "plan_generated", "execution_mode", "step_started", "call_started", "call_completed", "call_failed", "step_reflected"}  # fmt: skip
"""The events from before which a fork is made."""


def pays(who: str, cents: int, by: str = "pay", text: str = "") -> list[dict[str, Any]]:
    name = f"{by}_{who}"
    note = {"to": who, "text": text or f"Paid ${{{name}.output.id}}"}
    return [
        step(name, by, parameters={"to": who, "cents": cents}),
        step(f"note_{who}", "note", parameters=note),
    ]


def listed(cents: dict[str, int]) -> dict[str, Any]:
    return step(
        "each",
        for_each=[{"who": who, "cents": each} for who, each in cents.items()],
        actions=[
            action("p", "pay", to="${item.who}", cents="${item.cents}"),
            action("m", "note", to="${item.who}", text="Paid ${p.output.id}"),
        ],
    )


@pytest.mark.parametrize("cents", [5, 7], ids=["one amount", "two amounts"])
@pytest.mark.parametrize("mended", ["in the step", "by a plan"])
@pytest.mark.parametrize("form", ["a list", "steps"])
def test_what_was_mended_stands_for_what_a_fork_states_as_it_was_made(
    form: str, mended: str, cents: int
) -> None:
    had: Counter[str] = Counter()

    def pay(one: Any) -> Any:
        if one["to"] == "dan":
            raise ValueError("not served here")
        return sent("pay", one)

    def sent(tool: str, one: Any) -> Any:
        had[f"{tool} {one['to']}"] += 1
        return {"id": f"{tool} {one['to']}"}

    tools = {
        "pay": FakeTool(output=pay, delay_secs=1, spec={"substitutes": ["wire"]}, **takes("to", "cents")),
        "wire": FakeTool(output=lambda one: sent("wire", one), delay_secs=1, **takes("to", "cents")),
        "note": FakeTool(output=lambda one: sent("note", one), delay_secs=1, **takes("to", "text")),
    }
    by_wire = {"tool_id": "wire", "parameters": {"to": "dan", "cents": cents}}
    whole = plan(*pays("ann", 5), *pays("dan", cents, "wire"))
    first = (
        plan(listed({"ann": 5, "dan": cents}))
        if form == "a list"
        else plan(*pays("ann", 5), *pays("dan", cents))
    )
    plans = [first]
    answers: dict[str, Any] = {
        "execution_plan": lambda _: plans.pop(0) if plans else whole,
        "evaluation": lambda _: verdict(95),
        **ANEW,
    }
    if mended == "in the step":
        answers["step_reflection"] = reflection("retry_with_tool", by_wire, "tool_error")

    async def fork_of(made: Bench, task_id: str, at: int) -> str:
        answers["step_reflection"] = ANEW["step_reflection"]
        plans[:] = []
        fork = await made.drive(await forked(made, task_id, at=at))
        return "" if fork.check().result.is_success else f"{at}: {fork.result.reason}"

    async def main() -> list[str]:
        made = await bench(tools, answers)
        ran = (await made.run()).check()
        assert ran.result.is_success, ran.result.reason
        planned = next(one.seq for one in ran.records if one.type == "plan_generated")
        at = [one.seq for one in ran.records if one.seq >= planned and one.type in BEFORE]
        assert len(at) > 10
        return [await fork_of(made, ran.result.task_id, seq) for seq in at]

    failed = virtual_time(main())
    assert not any(failed), list(filter(None, failed))
    assert had == {"pay ann": 1, "note ann": 1, "wire dan": 1, "note dan": 1}
