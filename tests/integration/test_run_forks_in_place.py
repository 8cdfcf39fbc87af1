"""What another task has made in place of its failed calls is not made beside that in a fork, and one effect stands for one call at most."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_forks_alike import fork_of, takes
from test_run_restated import ANEW

from replan.testing import virtual_time


class Bank:
    """It is closed to some at first, each by its tool."""

    def __init__(self, *closed: str) -> None:
        self.closed = set(closed)
        self.had: list[str] = []

    def tool(self, name: str, **spec: Any) -> FakeTool:
        def make(parameters: Any) -> Any:
            who = parameters["to"]
            if f"{name} {who}" in self.closed:
                raise ValueError(f"to: {who} is locked at the moment")
            self.had.append(f"{name} {who}")
            return {"id": len(self.had)}

        names = ("account", "to", "cents") if spec.pop("account", False) else ("to", "cents")
        return FakeTool(output=make, spec=spec, **takes(*names))


async def ran_and_forked(
    bank: Bank, tools: dict[str, Any], first: dict[str, Any], second: dict[str, Any], *, by: str = "steps"
) -> tuple[Ran, Ran, list[str]]:
    """A fork from before the first plan, which it makes too; what it is refused it leaves out."""
    told: list[str] = []

    def judged(request: Any) -> Any:
        told.append(request.turns[-1].text)
        return verdict(95)

    plans = [first, second]
    answers = {"execution_plan": lambda _: plans.pop(0) if plans else plan(), **ANEW, "evaluation": judged}
    made = await bench(tools, answers)
    ran = (await made.run(evaluation=by, max_rounds=2)).check()
    plans[:] = [first]
    bank.closed.clear()
    told.clear()
    return ran, await fork_of(made, ran, "plan_generated"), told


def pays(tool: str, *to: str, name: str = "p", **more: Any) -> list[dict[str, Any]]:
    return [step(f"{name}_{one}", tool, parameters={"to": one, "cents": 5}, **more) for one in to]


def refusals(fork: Ran) -> dict[str, bool]:
    """By step: whether nobody knows that what was had stands for it."""
    failed = [one for one in fork.events("call_failed") if one.error.kind == "repeated"]
    return {one.step_id: one.error.unsure for one in failed}


@pytest.mark.parametrize("says", [True, False], ids=["instead_of", "unsaid"])
@pytest.mark.parametrize("same", [True, False], ids=["parameters of those names", "others"])
def test_what_an_undeclared_tool_has_made_later_is_asked_about(*, same: bool, says: bool) -> None:
    bank = Bank("pay ann")
    tools = {"pay": bank.tool("pay"), "give": FakeTool(output="given", **takes("amount", "recipient"))}
    tools["wire"] = bank.tool("wire")
    by = {"to": "ann", "cents": 5} if same else {"amount": "5", "recipient": "ann"}
    marks = {"instead_of": ["p_ann"]} if says else {}
    later = plan(step("w", "wire" if same else "give", parameters=by, **marks))
    ran, fork, _ = virtual_time(ran_and_forked(bank, tools, plan(*pays("pay", "ann")), later))
    assert ran.statuses()["w"] == "succeeded"
    assert bank.had == (["wire ann"] if same else []), "nothing is paid beside it"
    assert refusals(fork) == {"p_ann": True}, "nobody has declared that it is the same"
    assert not fork.result.is_success


def test_what_a_later_plan_has_made_about_others_or_planned_at_first_is_in_nobodys_place() -> None:
    bank = Bank("pay ann")
    tools = {name: bank.tool(name) for name in ("pay", "note")}
    both = [*pays("pay", "ann"), *pays("note", "ann", name="n", dependencies=["p_ann"])]
    later = plan(*pays("note", "ann", name="m"), *pays("note", "bob", name="m"))
    _, fork, _ = virtual_time(ran_and_forked(bank, tools, plan(*both), later))
    assert bank.had.count("pay ann") == 1
    assert "p_ann" not in refusals(fork)


@pytest.mark.parametrize("account", [False, True], ids=["to whom", "one account for all"])
def test_one_payment_stands_for_one_that_had_failed(*, account: bool) -> None:
    """Bob's is made by the substitute, Ann's by nobody."""
    bank = Bank("pay ann", "pay bob", "wire ann")
    tools = {"pay": bank.tool("pay", substitutes=["wire"], account=account)}
    tools["wire"] = bank.tool("wire", account=account)
    more = {"account": "a1"} if account else {}
    first, second = (
        plan(
            *(
                step(f"{tool}_{one}", tool, parameters={"to": one, "cents": cents, **more})
                for one, cents in (("ann", 10), ("bob", 20))
            )
        )
        for tool in ("pay", "wire")
    )
    _, fork, _ = virtual_time(ran_and_forked(bank, tools, first, second, by="model"))
    assert bank.had == ["wire bob", "pay ann"]
    assert refusals(fork) == {"pay_bob": False}
    assert fork.result.is_success, fork.result.reason


@pytest.mark.parametrize("by", ["steps", "model"])
@pytest.mark.parametrize("says", [True, False], ids=["instead_of", "unsaid"])
def test_where_nothing_says_for_whom_it_was_the_judge_accounts_for_each(by: str, *, says: bool) -> None:
    bank = Bank("pay ann", "pay bob")
    tools = {"pay": bank.tool("pay")}
    second = plan(*pays("pay", "bob2", name="q", **({"instead_of": ["p_bob"]} if says else {})))
    _, fork, told = virtual_time(ran_and_forked(bank, tools, plan(*pays("pay", "ann", "bob")), second, by=by))
    if says:
        assert bank.had == ["pay bob2", "pay ann"]
        assert refusals(fork) == {"p_bob": False}
        assert fork.result.is_success is (by == "model"), fork.result.reason
        return
    assert bank.had == ["pay bob2"]
    assert refusals(fork) == {"p_ann": True, "p_bob": True}
    assert not fork.result.is_success
    if by == "model":
        assert any("p_ann" in one and "~~~ left out" in one for one in told)
