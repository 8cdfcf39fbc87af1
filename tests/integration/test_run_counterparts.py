"""Tools that are declared to do the very same thing: what one of them has done, a later plan has to ask for by another."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_very_call import REPLAN, overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time
from thorough import examples

How = Literal["full", "from", "more"]
"""How the next plan comes: all anew, from the step that failed, or as a next part."""
HOW: tuple[How, ...] = ("full", "from", "more")
WHO = ("Ann", "Bob", "Cid", "Dan")
AGAIN = {"repeat": True, "repeat_reason": "she is owed it twice"}
END = {"problem_nature": "external", "should_replan": False, "reflection_text": "x"}


def fields(*required: str, **more: Any) -> dict[str, Any]:
    named: dict[str, Any] = {name: {"type": "string"} for name in required}
    return {"type": "object", "properties": {**named, **more}, "required": list(required)}


CENTS = {"cents": {"type": "integer", "default": 500}}
NOTE = {"note": {"type": "string", "default": ""}}


class Bank:
    """Whom it has paid, by whatever tool. Those who have `moved` are known as Bob2, say; what nobody hears of is in doubt."""

    def __init__(self, *, moved: Sequence[str] = (), silent: Sequence[str] = (), gifts: bool = True) -> None:
        self.moved, self.silent, self.gifts = moved, silent, gifts
        self.paid: list[str] = []
        self._owed = itertools.count(5)
        self._names = iter(WHO)

    def pay(self, parameters: Any) -> Any:
        who = parameters.get("to") or parameters.get("recipient")
        if who in self.moved:
            raise ToolCallError(f"{who} is {who}2 by now", kind="tool")
        if parameters.get("as") == "gift" and not self.gifts:
            raise ToolCallError("gifts are not taken", kind="tool")
        self.paid.append(who)
        if who in self.silent:
            raise ToolCallError("the connection was lost", kind="tool", happened="unknown")
        return {"id": len(self.paid)}

    def tell(self, parameters: Any) -> str:
        if parameters["to"] == "boss":
            raise ToolCallError("the box is full", kind="tool")
        return "told"

    def tools(self) -> dict[str, FakeTool]:
        once: dict[str, Any] = {"output": self.pay, "effect": "once"}
        return {
            "pay": FakeTool(
                parameters=fields("to", **CENTS, **NOTE), spec={"substitutes": ("wire", "quote")}, **once
            ),
            "wire": FakeTool(parameters=fields("to", **CENTS, **{"as": {"type": "string"}}), **once),
            "sepa": FakeTool(
                parameters=fields("recipient", **CENTS), spec={"substitutes": ("WIRE",)}, **once
            ),
            "cheque": FakeTool(parameters=fields("to", **CENTS), **once),
            "quote": FakeTool(output="5", parameters=fields("to"), effect="reads"),
            "who": FakeTool(
                output=lambda parameters: {"name": parameters["of"]}, parameters=fields("of"), effect="reads"
            ),
            "owed": FakeTool(output=lambda _: next(self._owed), effect="reads", spec={"volatile": True}),
            "next": FakeTool(output=lambda _: next(self._names), effect="reads", spec={"volatile": True}),
            "tell": FakeTool(output=self.tell, parameters=fields("to"), effect="once"),
        }

    def run(
        self,
        plans: Sequence[Sequence[dict[str, Any]]],
        how: How = "full",
        reflected: Sequence[dict[str, Any]] = (),
        **policy: Any,
    ) -> Ran:
        """Each plan but the last ends with a step that fails, or with more to be planned."""
        parts: list[dict[str, Any]] = [_first(at, steps, how) for at, steps in enumerate(plans[:-1])]
        kind = "replan_from_step" if how == "from" else "full_replan"
        again = [overall(type=kind, step_id=f"m{at}", reason="x") for at in range(len(parts))]
        answers = {
            "execution_plan": [
                *parts,
                *[plan(*plans[-1], step("end", "tell", parameters={"to": "chief"}))] * 3,
            ],
            "step_reflection": [*reflected, *[REPLAN] * 9],
            "overall_reflection": [*again, END] if how != "more" else [END],
        }

        async def main() -> Ran:
            made = await bench(self.tools(), answers)
            return await made.run(evaluation="steps", **policy)

        return virtual_time(main())


def _first(at: int, steps: Sequence[dict[str, Any]], how: How) -> dict[str, Any]:
    if how == "more":
        return {**plan(*steps), "more": "the rest"}
    return plan(*steps, step(f"m{at}", "tell", *[one["step_id"] for one in steps], parameters={"to": "boss"}))


def pays(name: str, who: str = "Ann", tool: str = "pay", **more: Any) -> dict[str, Any]:
    to = "recipient" if tool == "sepa" else "to"
    return step(name, tool, parameters={to: who}, **more)


def listed(name: str, *whom: str, tool: str = "pay") -> dict[str, Any]:
    return pays(name, "${item}", tool, for_each=json.dumps(whom))


def looked_up(name: str, who: str = "Ann", tool: str = "pay") -> list[dict[str, Any]]:
    return [step(f"w{name}", "who", parameters={"of": who}), pays(name, f"${{w{name}.output.name}}", tool)]


def told(ran: Ran) -> list[str]:
    """What was asked with a plan, and at run time."""
    with_plans = [text for one in ran.events("plan_rejected") for text in one.violations]
    return [
        *with_plans,
        *(one.error.message for one in ran.events("step_reflected") if one.error.kind == "repeated"),
    ]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("first", "then"),
    [("pay", "wire"), ("wire", "pay"), ("pay", "sepa"), ("sepa", "pay"), ("sepa", "wire")],
)
def test_what_one_tool_has_done_is_asked_about_with_the_plan_that_says_it_by_another(
    first: str, then: str, how: How
) -> None:
    bank = Bank()
    ran = bank.run([[pays("p", tool=first)], [pays("q", tool=then)]], how)
    assert bank.paid == ["Ann"]
    text = told(ran)[0]
    assert text.startswith("step 'q'")
    assert "step 'p' has done this" in text
    assert f"{first!r} and {then!r} do the same: leave it out" in text
    assert not ran.events("step_reflected", step_id="q")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("first", "then", "paid"),
    [
        pytest.param(
            [listed("p", "Ann", "Bob")],
            [listed("q", "Bob", "Cid", tool="wire")],
            ["Ann", "Bob"],
            id="items of two lists",
        ),
        pytest.param(
            [listed("p", "Ann", "Bob")], [pays("q", "Bob", "wire")], ["Ann", "Bob"], id="one of a list"
        ),
        pytest.param(
            [pays("p")], [step("q", actions=[action("q1", "wire", to="Ann")])], ["Ann"], id="an action"
        ),
        pytest.param(
            [pays("p")],
            [step("q", "wire", parameters={"to": "Ann", "cents": 500})],
            ["Ann"],
            id="the default, said",
        ),
        pytest.param(
            [step("p", "pay", parameters={"to": "Ann", "note": "rent"})],
            [pays("q", tool="wire")],
            ["Ann"],
            id="a note that only one takes",
        ),
    ],
)
def test_however_the_two_are_written(first: Any, then: Any, paid: list[str], how: How) -> None:
    bank = Bank()
    ran = bank.run([first, then], how)
    assert bank.paid == paid
    assert ran.events("plan_rejected")
    assert "do the same" in told(ran)[0]


@pytest.mark.parametrize("how", HOW)
def test_what_only_values_tell_is_asked_at_run_time(how: How) -> None:
    bank = Bank()
    ran = bank.run([[pays("p")], looked_up("q", tool="wire")], how)
    assert bank.paid == ["Ann"]
    (fault,) = {one.error.message for one in ran.events("step_reflected", step_id="q")}
    assert "step 'p' has done this with 'pay'" in fault


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("again", ["${wp.output.name}", "${wq.output.name}", "Ann"])
def test_what_is_read_of_what_is_done_or_in_the_same_words_is_asked_with_the_plan(
    again: str, how: How
) -> None:
    bank = Bank()
    then = [pays("q", again, "wire")] if "wq" not in again else looked_up("q", tool="wire")
    ran = bank.run([looked_up("p"), then], how)
    assert bank.paid == ["Ann"]
    assert bool(ran.events("plan_rejected")) == (how != "more" or "wq" not in again)
    assert "step 'p' has done this with 'pay'" in told(ran)[0]


def owes(name: str, tool: str, **more: Any) -> list[dict[str, Any]]:
    """What Ann owes is more at each look."""
    owed = step(f"o{name}", "owed", **more)
    return [owed, step(name, tool, parameters={"to": "Ann", "cents": f"${{o{name}.output}}"})]


def next_one(name: str, tool: str, **more: Any) -> list[dict[str, Any]]:
    return [step(f"n{name}", "next", **more), pays(name, f"${{n{name}.output}}", tool)]


@pytest.mark.parametrize("how", ["full", "from"])
@pytest.mark.parametrize("written", [owes, next_one])
def test_what_a_reading_gives_is_no_choice_of_the_plan(written: Any, how: How) -> None:
    bank = Bank()
    ran = bank.run([written("p", "pay"), written("q", "wire")], how)
    assert len(bank.paid) == 1
    assert ran.events("plan_rejected")


@pytest.mark.parametrize(
    ("first", "then", "how"),
    [
        pytest.param(next_one("p", "pay"), next_one("q", "wire"), "more", id="one by one, in parts"),
        pytest.param(
            next_one("p", "pay"), next_one("q", "wire", **AGAIN), "full", id="the next one, said so"
        ),
        pytest.param(looked_up("p"), looked_up("q", "Bob", "wire"), "full", id="another reading"),
    ],
)
def test_another_reading_is_another_effect(first: Any, then: Any, how: How) -> None:
    bank = Bank()
    ran = bank.run([first, then], how)
    assert sorted(bank.paid) == ["Ann", "Bob"]
    assert not told(ran)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("who", ["Bob", "Bob2"])
@pytest.mark.parametrize("known", [True, False], ids=["told with the plan", "told at run time"])
def test_a_payment_that_was_mended_in_its_step_is_done_under_both_names(
    who: str, how: How, *, known: bool
) -> None:
    bank = Bank(moved=["Bob"])
    again = [pays("q", who, "wire")] if known else looked_up("q", who, "wire")
    ran = bank.run([[pays("p", "Bob")], again], how, [reflection("retry_with_params", {"to": "Bob2"})])
    assert bank.paid == ["Bob2"]
    assert bool(ran.events("plan_rejected")) == known
    assert "Bob2" in told(ran)[0]


@pytest.mark.parametrize("how", ["full", "from"])
@pytest.mark.parametrize("more", [{}, {"instead_of": "p"}])
@pytest.mark.parametrize(("failed", "then"), [("pay", "wire"), ("wire", "pay"), ("wire", "sepa")])
def test_what_a_plan_has_paid_in_place_of_what_failed_is_done(
    failed: str, then: str, more: Any, how: How
) -> None:
    bank = Bank(moved=["Bob"])
    plans = [[pays("p", "Bob", failed)], [pays("p2", "Bob2", **more)], [pays("q", "Bob", then)]]
    ran = bank.run(plans, how, max_rounds=3)
    assert bank.paid == ["Bob2"]
    assert "since then step 'p2' has made 'pay'" in told(ran)[0]


@pytest.mark.parametrize("how", HOW)
def test_a_second_payment_that_is_meant_is_made(how: How) -> None:
    bank = Bank()
    ran = bank.run([[pays("p")], [pays("q", tool="wire", **AGAIN)]], how)
    assert bank.paid == ["Ann", "Ann"]
    assert not told(ran)


def test_a_third_by_a_third_tool_is_not_made_in_a_third_round_where_nobody_agrees() -> None:
    bank = Bank()
    plans = [[pays("p")], [pays("q", tool="wire", **AGAIN)], [pays("r", tool="sepa", **AGAIN)]]
    ran = bank.run(plans, max_rounds=3)
    assert bank.paid == ["Ann", "Ann"]
    assert "no further round makes it again" in told(ran)[0]


def test_a_person_is_asked_for_a_second_payment_by_another_tool() -> None:
    bank = Bank()
    ran = bank.run([[pays("p")], [pays("q", tool="wire", **AGAIN)]], interactive=True)
    assert bank.paid == ["Ann"]
    (asked,) = ran.events("approval_requested", step_id="q")
    assert "done already, and meant once more: she is owed it twice" in asked.why


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("first", "then", "paid"),
    [
        pytest.param([pays("p")], [pays("q", "Bob", "wire")], ["Ann", "Bob"], id="somebody else"),
        pytest.param(
            [pays("p")], [pays("q", "Bob", "sepa")], ["Ann", "Bob"], id="somebody else, by another name"
        ),
        pytest.param(
            [pays("p")],
            [step("q", "wire", parameters={"to": "Ann", "cents": 7})],
            ["Ann", "Ann"],
            id="another amount",
        ),
        pytest.param([pays("p")], [pays("q", tool="quote")], ["Ann"], id="a substitute that only reads"),
        pytest.param([pays("p", tool="quote")], [pays("q")], ["Ann"], id="after one that only reads"),
        pytest.param(
            [pays("p")], [pays("q", tool="cheque")], ["Ann", "Ann"], id="a tool of which nobody has said so"
        ),
        pytest.param(
            [pays("p"), pays("w", tool="wire")],
            [pays("x", "Bob")],
            ["Ann", "Ann", "Bob"],
            id="one plan that says both",
        ),
    ],
)
def test_what_is_another_effect_is_made_unasked(first: Any, then: Any, paid: list[str], how: How) -> None:
    bank = Bank()
    ran = bank.run([first, then], how)
    assert sorted(bank.paid) == paid
    assert not told(ran)
    assert ran.result.is_success


@pytest.mark.parametrize("how", ["full", "from"])
def test_what_failed_is_paid_by_another_tool_unasked(how: How) -> None:
    bank = Bank(moved=["Bob"])
    plans = [[pays("p", "Bob")], [pays("q", "Bob2", "wire"), pays("x", "Cid", "sepa")]]
    ran = bank.run(plans, how)
    assert sorted(bank.paid) == ["Bob2", "Cid"]
    assert not told(ran)


def test_what_a_plan_has_chosen_twice_and_could_not_have_a_later_one_goes_on_with_unasked() -> None:
    bank = Bank()
    late = step("w", "wire", "m0", parameters={"to": "Ann"})
    again = [pays("p2"), step("w2", "wire", parameters={"to": "Ann"})]

    async def main() -> Ran:
        first = plan(pays("p"), step("m0", "tell", "p", parameters={"to": "boss"}), late)
        answers = {
            "execution_plan": [first, plan(*again)],
            "step_reflection": REPLAN,
            "overall_reflection": [overall(type="full_replan"), END],
        }
        return await (await bench(bank.tools(), answers)).run(evaluation="steps")

    ran = virtual_time(main())
    assert bank.paid == ["Ann", "Ann"]
    assert not told(ran)


@pytest.mark.parametrize("silent", [False, True], ids=["done", "in doubt"])
@pytest.mark.parametrize("fix", ["tool", "step"])
def test_recovery_makes_no_payment_that_another_step_has_made_by_another_tool(
    fix: str, *, silent: bool
) -> None:
    bank = Bank(moved=["Bob"], silent=["Ann"] * silent)
    mend = (
        reflection("retry_with_tool", {"tool_id": "wire", "parameters": {"to": "Ann"}})
        if fix == "tool"
        else reflection("repair_step", {"hint": "Ann"})
    )
    mend["root_cause_category"] = "tool_error"

    async def main() -> Ran:
        later = [step("w", "who", parameters={"of": "Bob"}), pays("q", "${w.output.name}")]
        answers = {
            "execution_plan": plan(pays("p"), *later),
            "step_reflection": [mend, REPLAN, REPLAN],
            "step_repair": step("q", "wire", "w", parameters={"to": "Ann"}),
            "overall_reflection": END,
        }
        return await (await bench(bank.tools(), answers)).run(evaluation="steps")

    ran = virtual_time(main())
    assert bank.paid == ["Ann"]
    asked = [text for one in ran.events("step_reflected") for text in one.violations]
    asked += [one.reason for one in ran.events("overall_reflection_triggered")]
    assert any(
        "step 'p' (by 'pay', which does the same) makes this very call of 'wire'" in text for text in asked
    )


def mended(wanted: dict[str, Any], fix: dict[str, Any], **bank: Any) -> tuple[Bank, Ran]:
    made = Bank(**bank)

    async def main() -> Ran:
        answers = {
            "execution_plan": wanted,
            "step_reflection": [fix, REPLAN, REPLAN],
            "overall_reflection": END,
        }
        return await (await bench(made.tools(), answers)).run(evaluation="steps")

    return made, virtual_time(main())


def test_recovery_makes_no_payment_that_another_step_is_still_to_make_by_another_tool() -> None:
    fix = reflection("retry_with_tool", {"tool_id": "wire", "parameters": {"to": "Ann"}})
    fix["root_cause_category"] = "tool_error"
    wanted = plan(
        pays("q", "Bob"),
        step("p", "pay", "m", parameters={"to": "Ann"}),
        step("m", "quote", parameters={"to": "x"}),
    )
    bank, ran = mended(wanted, fix, moved=["Bob"])
    assert bank.paid in ([], ["Ann"])
    assert "step 'p' (by 'pay', which does the same)" in ran.events("step_reflected")[0].violations[0]


@pytest.mark.parametrize("by", ["wire", "sepa"])
def test_of_two_that_one_plan_has_chosen_each_may_be_mended(by: str) -> None:
    """It is what the plan has meant for that place, by whichever tool."""
    if by == "wire":
        fix = reflection("retry_with_params", {"as": "loan"})
    else:
        fix = reflection("retry_with_tool", {"tool_id": "sepa", "parameters": {"recipient": "Ann"}})
        fix["root_cause_category"] = "tool_error"
    wanted = plan(pays("p"), step("w", "wire", "p", parameters={"to": "Ann", "as": "gift"}))
    bank, ran = mended(wanted, fix, gifts=False)
    assert bank.paid == ["Ann", "Ann"]
    assert ran.result.is_success


def test_what_was_refused_as_done_is_not_done_by_another_tool_in_its_place() -> None:
    fix = reflection("retry_with_tool", {"tool_id": "sepa", "parameters": {"recipient": "Ann"}})
    bank = Bank()
    ran = bank.run([[pays("p")], looked_up("q")], "more", [{**fix, "root_cause_category": "tool_error"}])
    assert bank.paid == ["Ann"]
    (refused, *_) = ran.events("step_reflected", step_id="q")
    assert refused.error.kind == "repeated"
    assert "its effect is had already" in refused.violations[0]


def test_recovery_takes_a_substitute_for_the_second_of_two_like_payments() -> None:
    tries: list[str] = []
    bank = Bank()

    def pay(parameters: Any) -> Any:
        tries.append(parameters["to"])
        if len(tries) == 2:
            raise ToolCallError("closed for today", kind="tool")
        return bank.pay(parameters)

    async def main() -> Ran:
        tools = bank.tools()
        tools["pay"] = FakeTool(
            output=pay, effect="once", parameters=tools["pay"].parameters, spec=tools["pay"].spec
        )
        mend = {**reflection("retry_with_tool", {"tool_id": "wire"}), "root_cause_category": "tool_error"}
        answers = {
            "execution_plan": plan(listed("p", "Ann", "Ann")),
            "step_reflection": [mend, REPLAN],
            "overall_reflection": END,
        }
        return await (await bench(tools, answers)).run(evaluation="steps")

    ran = virtual_time(main())
    assert bank.paid == ["Ann", "Ann"]
    assert ran.result.is_success


TOOLS = ("pay", "wire", "sepa")


@st.composite
def some_plans(draw: st.DrawFn, *, apart: bool = False) -> list[list[dict[str, Any]]]:
    """Each names everybody at most once, by any of three tools, in any way of writing it; some of it is marked. `apart`: no two name the same."""
    plans = []
    for at in range(draw(st.integers(2, 4))):
        whom = draw(st.lists(st.sampled_from(WHO), min_size=1, max_size=3, unique=True))
        whom = [f"{who} {at}" for who in whom] if apart else whom
        tool = draw(st.sampled_from(TOOLS))
        shape = draw(st.sampled_from(["steps", "list", "looked up", "mixed"]))
        marks = AGAIN if at and not apart and draw(st.integers(0, 4)) == 0 else {}
        steps: list[dict[str, Any]] = []
        if shape == "list":
            steps = [{**listed(f"s{at}", *whom, tool=tool), **marks}]
        else:
            for n, who in enumerate(whom):
                by = draw(st.sampled_from(TOOLS)) if shape == "mixed" else tool
                made = (
                    looked_up(f"s{at}{n}", who, by) if shape == "looked up" else [pays(f"s{at}{n}", who, by)]
                )
                steps += [*made[:-1], {**made[-1], **marks}]
        plans.append(steps)
    return plans


@settings(max_examples=examples(240))
@given(
    plans=some_plans(),
    how=st.sampled_from(HOW),
    moved=st.sets(st.sampled_from(WHO), max_size=2),
    fixes=st.lists(st.sampled_from(["right", "another tool", "somebody else", "no"]), max_size=4),
)
@example(
    plans=[[pays("s00", "Ann")], [{**pays("s10", "Bob"), **AGAIN}]],
    how="full",
    moved={"Bob"},
    fixes=["no", "somebody else"],
)
def test_nobody_is_paid_twice_without_a_mark(
    plans: list[list[dict[str, Any]]], how: How, moved: set[str], fixes: list[str]
) -> None:
    """Whatever fails and is mended: who is paid more than once is owed it by as many marks."""
    bank = Bank(moved=sorted(moved))
    reflected = [_fix(kind, sorted(moved)) for kind in fixes]
    bank.run(plans, how, reflected, max_rounds=4)
    marked = Counter(
        who for steps in plans for one in steps if one.get("repeat") for who in _whom(one, steps)
    )
    for who, times in Counter(one.removesuffix("2") for one in bank.paid).items():
        assert times <= 1 + marked[who], (who, bank.paid)


@settings(max_examples=examples(80))
@given(plans=some_plans(apart=True), how=st.sampled_from(HOW))
def test_nobody_is_asked_where_each_plan_pays_others(plans: list[list[dict[str, Any]]], how: How) -> None:
    bank = Bank()
    ran = bank.run(plans, how, max_rounds=5)
    assert not told(ran)
    assert sorted(bank.paid) == sorted(who for steps in plans for one in steps for who in _whom(one, steps))


def _fix(kind: str, moved: list[str]) -> dict[str, Any]:
    if kind == "right" and moved:
        return reflection("retry_with_params", {"to": f"{moved[0]}2"})
    if kind == "another tool" and moved:
        return {
            **reflection("retry_with_tool", {"tool_id": "wire", "parameters": {"to": f"{moved[0]}2"}}),
            "root_cause_category": "tool_error",
        }
    if kind == "somebody else":
        return {
            **reflection("retry_with_tool", {"tool_id": "sepa", "parameters": {"recipient": "Ann"}}),
            "root_cause_category": "tool_error",
        }
    return REPLAN


def _whom(one: dict[str, Any], steps: list[dict[str, Any]]) -> list[str]:
    """Whom a step pays."""
    if one["tool"] not in TOOLS:
        return []
    (to,) = one["parameters"].values()
    if one.get("for_each"):
        return list(json.loads(one["for_each"]))
    looked = {
        f"${{{other['step_id']}.output.name}}": other["parameters"]["of"]
        for other in steps
        if other["tool"] == "who"
    }
    return [looked.get(to, to)]
