"""What a fork leaves out counts as left out, also where another task has had what was refused beside it."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_forks_alike import fork_of, takes
from test_run_restated import ANEW

from replan.testing import virtual_time


def each(name: str, *pairs: tuple[str, str]) -> dict[str, Any]:
    """Each is paid to an account, and told so."""
    return step(
        name,
        for_each=[{"account": account, "who": who} for account, who in pairs],
        actions=[
            action(f"{name}_p", "pay", to="${item.account}"),
            action(f"{name}_m", "note", to="${item.who}", text=f"${{{name}_p.output.id}}"),
        ],
    )


@pytest.mark.parametrize("by", ["steps", "model"])
def test_a_note_that_nobody_has_sent_is_left_out_though_its_payment_was_made_elsewhere(by: str) -> None:
    told: list[str] = []

    def pay(parameters: Any) -> Any:
        if parameters["to"] in ("ann", "bob"):
            raise ValueError("it has another account")
        return {"id": f"p {parameters['to']}"}

    def judged(request: Any) -> Any:
        told.append(request.turns[-1].text)
        return verdict(50 if len(told) < 3 else 95)

    async def main() -> Ran:
        tools = {
            "pay": FakeTool(output=pay, spec={"substitutes": ["wire"]}, **takes("to")),
            "wire": FakeTool(output={"id": "w"}, **takes("to")),
            "note": FakeTool(output="sent", **takes("to", "text")),
        }
        both, bob = each("one", ("ann", "ann"), ("bob", "bob")), each("two", ("bob2", "bob"))
        rest = plan(each("thr", ("bob2", "bob")), step("w", "wire", parameters={"to": "ann"}))
        plans = [plan(both), plan(bob)]
        answers = {
            "execution_plan": lambda _: plans.pop(0) if plans else plan(),
            **ANEW,
            "evaluation": judged,
        }
        made = await bench(tools, answers)
        ran = (await made.run(evaluation=by, max_rounds=2)).check()
        plans[:] = [rest]
        return await fork_of(made, ran, "step_started")

    fork = virtual_time(main())
    notes = [one.parameters["to"] for one in fork.events("call_started", tool_id="note")]
    assert "ann" not in notes
    if by == "steps":
        assert not fork.result.is_success
    else:
        assert any("~~~ left out" in one for one in told[-3:])


@pytest.mark.parametrize("by", ["steps", "model"])
def test_what_may_have_been_had_elsewhere_is_left_out_where_a_plan_does_without_it(by: str) -> None:
    """The task was refused Bob, and has paid his other account in place of that, or has not: nobody knows."""
    told: list[str] = []

    def pay(parameters: Any) -> Any:
        if parameters["to"] == "bob":
            raise ValueError("it has another account")
        if parameters["to"] == "bob2":
            raise TimeoutError
        return {"id": f"p {parameters['to']}"}

    def judged(request: Any) -> Any:
        told.append(request.turns[-1].text)
        return verdict(95)

    async def main() -> tuple[Ran, Ran]:
        tools = {"pay": FakeTool(output=pay, **takes("to"))}
        ann, bob = (step(who, "pay", parameters={"to": who}) for who in ("ann", "bob"))
        plans = [plan(ann, bob), plan(step("b2", "pay", parameters={"to": "bob2"}))]
        answers = {
            "execution_plan": lambda _: plans.pop(0) if plans else plan(),
            **ANEW,
            "evaluation": judged,
        }
        made = await bench(tools, answers)
        ran = (await made.run(evaluation=by, max_rounds=2)).check()
        return ran, await fork_of(made, ran, "step_started")

    ran, fork = virtual_time(main())
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    refused = [one.error for one in fork.events("call_failed") if one.error.kind == "repeated"]
    assert [one.unsure for one in refused] == [True]
    if by == "steps":
        assert not fork.result.is_success
    else:
        assert any("~~~ left out" in one for one in told[-3:])
