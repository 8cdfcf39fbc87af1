"""A plan made anew keeps steps that are yet to run: it does not do what they do beside them, unless it says so."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_counterparts import END, fields
from test_run_very_call import REPLAN, overall

from replan.errors import ToolCallError
from replan.testing import virtual_time

SESSION = {"session": {"type": "string"}}
AGAIN = {"repeat": True, "repeat_reason": "she is owed it twice"}


class Counter:
    """A bank whose counter is closed for the first so many payments by `pay`."""

    def __init__(self, closed: int) -> None:
        self.closed = closed
        self.paid: list[str] = []
        self.sessions = itertools.count(1)
        self.looked = False

    def pay(self, parameters: Any) -> Any:
        if self.closed:
            self.closed -= 1
            raise ToolCallError("the counter is closed", kind="tool")
        return self.wire(parameters)

    def wire(self, parameters: Any) -> Any:
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def rates(self, parameters: Any) -> Any:
        if not self.looked:
            self.looked = True
            raise ToolCallError("no rates yet", kind="tool")
        return 1

    def tools(self) -> dict[str, FakeTool]:
        return {
            "pay": FakeTool(
                output=self.pay, parameters=fields("to", **SESSION), effect="once", spec={"substitutes": ("wire",)}
            ),
            "wire": FakeTool(output=self.wire, parameters=fields("to", **SESSION), effect="once"),
            "upay": FakeTool(
                output=self.pay, parameters=fields("to", note={"type": "string"}), effect="once",
                spec={"unique_by": ("to",)},
            ),
            "token": FakeTool(output=lambda _: f"s{next(self.sessions)}", effect="reads", spec={"volatile": True}),
            "open": FakeTool(output="open", effect="once"),
            "rates": FakeTool(output=self.rates, effect="reads"),
            "slow": FakeTool(output="slow", effect="reads"),
            "slower": FakeTool(output="slower", effect="reads", delay_secs=60),
        }  # fmt: skip

    def run(self, first: dict[str, Any], then: list[dict[str, Any]], kind: str, **how: Any) -> Ran:
        answers = {
            "execution_plan": [first, *then],
            "step_reflection": [REPLAN] * 9,
            "overall_reflection": [overall(type=kind, reason="x", **how), END],
        }

        async def main() -> Ran:
            return await (await bench(self.tools(), answers)).run(evaluation="steps")

        return virtual_time(main())


def told(ran: Ran) -> list[str]:
    return [text for one in ran.events("plan_rejected") for text in one.violations]


def pays(name: str, *needs: str, who: str = "Ann", tool: str = "pay", **more: Any) -> dict[str, Any]:
    parameters = {"to": who, **({"session": more.pop("session")} if "session" in more else {})}
    return step(name, tool, *needs, parameters={**parameters, **more.pop("extra", {})}, **more)


REMEDIES = {
    "a tool that does the same": [pays("q", "o", tool="wire")],
    "another session": [step("l2", "token"), pays("q", "o", session="${l2.output}")],
    "another session as a value": [pays("q", "o", session="s9")],
    "other words beside": [pays("q", "o", tool="upay", extra={"note": "again"})],
}


@pytest.mark.parametrize("words", REMEDIES)
def test_a_remedy_that_has_the_effect_itself_is_told_with_the_plan(words: str) -> None:
    """The failed step is made again once the remedy is done."""
    bank, opened = Counter(1), step("o", "open")
    tool = "upay" if words == "other words beside" else "pay"
    session = {"session": "${l.output}"} if words == "another session" else {}
    first = plan(
        *([step("l", "token")] if session else []),
        pays("p", *(["l"] if session else []), tool=tool, **session),
    )
    remedy = plan(opened, *REMEDIES[words])
    ran = bank.run(first, [remedy, plan(opened)], "add_remediation_steps", step_id="p")
    text = next(one for one in told(ran) if one.startswith("step 'q'"))
    assert "step 'p'" in text
    assert ran.state.status == "succeeded"
    assert bank.paid == ["Ann"]


@pytest.mark.parametrize("kind", ["replan_from_step", "add_remediation_steps"])
@pytest.mark.parametrize("words", ["a tool that does the same", "another session", "a list"])
def test_a_branch_that_stays_is_not_written_once_more_beside_it(kind: str, words: str) -> None:
    """It is under way still as the plan is made anew: `p` has not begun."""
    bank = Counter(0)
    many = {"for_each": json.dumps(["Ann", "Bob"])} if words == "a list" else {}
    who = "${item}" if many else "Ann"
    first = plan(
        step("s", "slower"), step("l", "token"), pays("p", "s", "l", who=who, session="${l.output}", **many),
        step("r", "rates"), step("m", "slow", "r"),
    )  # fmt: skip
    again = (
        pays("q", who=who, tool="wire", **many)
        if "tool" in words
        else pays("q", who=who, session="${l2.output}", **many)
    )
    anew = [step("l2", "token"), step("r2", "rates"), step("m2", "slow", "r2"), again]
    without = anew[:-1]
    ran = bank.run(first, [plan(*anew), plan(*without)], kind, step_id="r")
    assert sorted(bank.paid) == (["Ann", "Bob"] if many else ["Ann"])
    assert ran.state.status == "succeeded", ran.state.outcome


def test_one_that_says_so_is_made_beside_it() -> None:
    bank = Counter(1)
    remedy = plan(step("o", "open"), {**pays("q", "o", tool="wire"), **AGAIN})
    ran = bank.run(plan(pays("p")), [remedy], "add_remediation_steps", step_id="p")
    assert not told(ran)
    assert bank.paid == ["Ann", "Ann"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pays("q", "o", who="Bob", tool="wire"), id="somebody else"),
        pytest.param(pays("q", "o", who="${w.output}", tool="wire"), id="whoever a reading names"),
        pytest.param(
            {**pays("q", "o", tool="wire"), "when": "o.output == `closed`"}, id="only if it is needed"
        ),
    ],
)
def test_another_effect_is_told_of_nothing(other: dict[str, Any]) -> None:
    bank = Counter(1)
    steps = [step("o", "open"), step("w", "slow"), other]
    ran = bank.run(plan(pays("p")), [plan(*steps)], "add_remediation_steps", step_id="p")
    assert not told(ran)
    assert "Ann" in bank.paid
