"""A plan made anew keeps steps that are yet to run: it does not do what they do beside them, unless it says so."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_counterparts import END, fields
from test_run_very_call import REPLAN, overall

from replan.errors import ToolCallError
from replan.testing import virtual_time

SESSION = {"session": {"type": "string"}}
AGAIN = {"repeat": True, "repeat_reason": "she is owed it twice"}


class Counter:
    """A bank whose counter is closed for the first so many payments by `pay`."""

    def __init__(self, closed: int, *, secs: float = 0) -> None:
        self.closed, self.secs = closed, secs
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
                output=self.pay, parameters=fields("to", **SESSION), effect="once", delay_secs=self.secs,
                spec={"substitutes": ("wire",)},
            ),
            "wire": FakeTool(output=self.wire, parameters=fields("to", **SESSION), effect="once"),
            "who": FakeTool(output=lambda parameters: parameters["n"], effect="reads"),
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


ORDERS = {
    "after it": (("s",), ("w",)),
    "before it": (("w",), ("s",)),
    "while it is under way": (("s",), ("s2",)),
}


def by_readings(
    order: str, other: str, who: str = "Ann", **said: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plan whose `p` stays, and one with `q` beside it. Whom they pay shows when they are called."""
    mine, theirs = ORDERS[order]
    first = plan(
        step("s", "slower"), step("w", "slower", "s"), step("l", "token"), step("v", "who", parameters={"n": "Ann"}),
        pays("p", *mine, "l", "v", who="${v.output}", session="${l.output}"),
        step("r", "rates"), step("m", "slow", "r"),
    )  # fmt: skip
    needs = [name for name in theirs if name != "s2"] or ["s"]
    q = pays("q", *needs, "v2", who="${v2.output}", **said)
    q = {**q, "tool": "wire"} if other == "a tool that does the same" else q
    if other == "another session":
        q["parameters"]["session"] = "${l2.output}"
        q["dependencies"].append("l2")
    anew = plan(
        step("l2", "token"), step("v2", "who", parameters={"n": who}), step("r2", "rates"), step("m2", "slow", "r2"), q
    )  # fmt: skip
    return first, anew


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", ["a tool that does the same", "another session"])
@pytest.mark.parametrize("kind", ["replan_from_step", "add_remediation_steps"])
def test_what_shows_when_it_is_called_is_not_made_beside_a_branch_that_stays(
    kind: str, other: str, order: str
) -> None:
    first, anew = by_readings(order, other)
    bank = Counter(0, secs=30)
    ran = bank.run(first, [anew, plan(step("m3", "slow"))], kind, step_id="r")
    assert bank.paid == ["Ann"]
    faults = [one.error for one in ran.events("step_reflected") if one.error.kind == "repeated"]
    assert [("'p'" in one.message, "'q'" in one.message) for one in faults[:1]] == [
        (order != "before it", order == "before it")
    ]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("other", ["a tool that does the same", "another session"])
@pytest.mark.parametrize("more", [{"who": "Bob"}, AGAIN], ids=["somebody else", "once more"])
def test_what_is_another_effect_is_made_beside_a_branch_that_stays(
    more: dict[str, Any], other: str, order: str
) -> None:
    first, anew = by_readings(order, other, **more)
    bank = Counter(0, secs=30)
    ran = bank.run(first, [anew], "replan_from_step", step_id="r")
    assert sorted(bank.paid) == ["Ann", more.get("who", "Ann")]
    assert ran.state.status == "succeeded"


def test_what_one_plan_has_chosen_twice_is_made_twice_also_where_one_of_both_was_written_anew() -> None:
    """Both are kept by the next plan, one of them after a repair."""
    bank = Counter(0)
    first = plan(
        step("l", "token"), pays("b", session="${l.output.id}"), step("s", "slower", "b"), step("r", "rates", "b"),
        pays("a", "s", session="s9"),
    )  # fmt: skip
    answers = {
        "execution_plan": [first, plan(step("r2", "rates"))],
        "step_reflection": [
            {**REPLAN, "suggested_action": {"type": "repair_step", "data": {"hint": "output"}}},
            *[REPLAN] * 5,
        ],
        "step_repair": [pays("b", "l", session="${l.output}")],
        "overall_reflection": [overall(type="replan_from_step", reason="x", step_id="r"), END],
    }

    async def main() -> Ran:
        return await (await bench(bank.tools(), answers)).run(evaluation="steps")

    ran = virtual_time(main())
    assert bank.paid == ["Ann", "Ann"]
    assert ran.state.status == "succeeded", ran.state.outcome


@pytest.mark.parametrize("kind", ["replan_from_step", "add_remediation_steps"])
@pytest.mark.parametrize("how", ["a list", "actions"])
def test_of_several_calls_only_that_one_is_to_be_left_out(kind: str, how: str) -> None:
    bank = Counter(0)
    first = plan(step("s", "slower"), pays("p", "s", who="Bob"), step("r", "rates"), step("m", "slow", "r"))
    if how == "a list":
        both = pays("q", who="${item}", tool="wire", for_each=json.dumps(["Bob", "Eve"]))
        rest = pays("q", who="${item}", tool="wire", for_each=json.dumps(["Eve"]))
        place, out = "step 'q', item 1: ", "leave item 1 out of its list, and nothing else"
    else:
        acts = [action(f"q{n}", "wire", to=who) for n, who in enumerate(["Bob", "Eve"])]
        both, rest = step("q", actions=acts), step("q", actions=acts[1:])
        place, out = "step 'q', action 'q0': ", "leave that action out, and nothing else"
    again = [step("r2", "rates"), step("m2", "slow", "r2")]
    ran = bank.run(first, [plan(*again, both), plan(*again, rest)], kind, step_id="r")
    text = next(one for one in told(ran) if one.startswith("step 'q'"))
    assert text.startswith(place)
    assert out in text
    assert sorted(bank.paid) == ["Bob", "Eve"]
