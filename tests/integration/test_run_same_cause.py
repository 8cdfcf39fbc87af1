"""Items of a list that fail for one cause: it is asked about once, and its remedy is each one's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
NAMES = ["Ann", "Bo", "Cy", "Di"]
DAY = {"day": "2026-12-05"}


def remind(parameters: Any) -> Any:
    if not parameters["day"][:4].isdigit():
        raise ValueError(f"422: field 'day': expected YYYY-MM-DD (2026-12-05?), got {parameters['day']!r}")
    return {"reminded": parameters["who"]}


def down(_: Any) -> Any:
    raise ValueError("the rates are out of service")


def invite(parameters: Any) -> Any:
    if "@" not in parameters["to"]:
        raise ValueError(f"550: no such mailbox {parameters['to']!r}")
    return {"invited": parameters["to"]}


TOOLS: dict[str, Any] = {
    "remind": FakeTool(output=remind, **ONCE),
    "rate": FakeTool(output=down, **READS),
    "bank_rate": FakeTool(output=lambda p: {"of": p["of"]}, **READS),
    "invite": FakeTool(output=invite, **ONCE),
}


def each(tool: str, parameters: dict[str, Any], items: Any = NAMES, **fields: Any) -> dict[str, Any]:
    return plan(step("s", tool, parameters=parameters, for_each=list(items), **fields))


def run(wanted: Any, *said: Any, tools: Any = TOOLS, **answers: Any) -> Ran:
    async def main() -> Ran:
        told = {"execution_plan": wanted, "evaluation": verdict(), "overall_reflection": overall(False)}
        return (await (await bench(tools, {**told, "step_reflection": list(said), **answers})).run()).check()

    return virtual_time(main())


def questions(ran: Ran) -> int:
    return sum(one.schema_name == "step_reflection" for one in ran.model.requests)


def made(ran: Ran, tool: str, name: str) -> list[Any]:
    return sorted(call.parameters[name] for call in ran.source.calls if call.tool_id == tool)


REMIND = {"who": "${item}", "day": "5 December 2026"}


def test_a_value_that_is_the_same_for_all_is_put_right_once() -> None:
    ran = run(each("remind", REMIND), reflection("retry_with_params", DAY))
    assert ran.result.is_success
    assert questions(ran) == 1
    assert made(ran, "remind", "who") == sorted(NAMES * 2)
    first, *others = ran.events("step_reflected")
    assert first.by == "model"
    assert all((one.by, one.action) == ("code", first.action) for one in others)
    assert "which failed in the same way" in others[0].reason


def test_a_step_that_is_to_be_rewritten_is_asked_about_once() -> None:
    anew = step("s", "remind", parameters={**REMIND, **DAY}, for_each=NAMES)
    ran = run(each("remind", REMIND), reflection("repair_step", {"hint": "the day"}), step_repair=anew)
    assert ran.result.is_success
    assert questions(ran) == 1


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.sampled_from(["Ann", "Annabel", "Bo", "Rome", "Oslo", "USD", "kg"]),
        min_size=2,
        max_size=5,
        unique=True,
    )
)
def test_another_tool_is_called_with_what_is_each_items_own(items: list[str]) -> None:
    first = reflection(
        "retry_with_tool", {"tool_id": "bank_rate", "parameters": {"of": items[0]}}, "tool_error"
    )
    said = [
        reflection("retry_with_tool", {"tool_id": "bank_rate", "parameters": {"of": one}}, "tool_error")
        for one in items[1:]
    ]
    ran = run(each("rate", {"of": "${item}"}, items), first, *said)
    assert ran.result.is_success
    assert made(ran, "bank_rate", "of") == sorted(items)
    assert questions(ran) == 1


def test_another_tool_whose_values_are_taken_by_name_is_named_once() -> None:
    ran = run(
        each("rate", {"of": "${item}"}),
        reflection("retry_with_tool", {"tool_id": "bank_rate"}, "tool_error"),
    )
    assert ran.result.is_success
    assert made(ran, "bank_rate", "of") == sorted(NAMES)
    assert questions(ran) == 1


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"of": "Ann's rate"}, id="made from the item's"),
        pytest.param({"of": "Ann", "at": "Rome"}, id="found nowhere in the call"),
    ],
)
def test_a_value_that_may_be_one_items_own_is_taken_over_to_no_other(values: dict[str, Any]) -> None:
    tools = {**TOOLS, "bank_rate": FakeTool(output="1.5", **READS)}
    said = reflection("retry_with_tool", {"tool_id": "bank_rate", "parameters": values}, "tool_error")
    other = reflection("retry_with_tool", {"tool_id": "bank_rate", "parameters": {"of": "x"}}, "tool_error")
    ran = run(each("rate", {"of": "${item}"}, ["Ann", "Bo"]), said, other, tools=tools)
    assert questions(ran) == 2
    asked = [one.turns[0].text for one in ran.model.requests if one.schema_name == "step_reflection"]
    assert "failed in the same way; then: retry_with_tool" not in asked[0]
    assert "failed in the same way; then: retry_with_tool" in asked[1]


def test_what_each_item_has_wrong_itself_is_asked_about_for_each() -> None:
    said = [reflection("retry_with_params", {"to": f"{name.lower()}@x.org"}) for name in NAMES]
    ran = run(each("invite", {"to": "${item}"}), *said)
    assert ran.result.is_success
    assert questions(ran) == len(NAMES)
    assert sum("@" in one for one in made(ran, "invite", "to")) == len(NAMES)


@pytest.mark.parametrize(
    "told", ["expected 'INV-{who}'", "is no invoice that is open", "'INV-Ann' is paid, 'INV-{who}' is open"]
)
def test_a_value_that_the_error_does_not_name_for_all_is_each_items_own(told: str) -> None:
    """Others' money is not booked to the first item's invoice, also where one text stands in the plan for all."""
    booked: list[tuple[str, str]] = []

    def pay(parameters: Any) -> Any:
        who, ref = parameters["to"], parameters["ref"]
        if ref != f"INV-{who}":
            raise ValueError(f"ref: {told.format(who=who)}")
        booked.append((who, ref))
        return "paid"

    said = [reflection("retry_with_params", {"ref": f"INV-{name}"}) for name in NAMES]
    tools = {"pay": FakeTool(output=pay, **ONCE)}
    ran = run(each("pay", {"to": "${item}", "ref": "INV"}), *said, tools=tools)
    assert ran.result.is_success
    assert sorted(booked) == [(name, f"INV-{name}") for name in NAMES]


def test_a_text_for_all_into_which_one_items_name_was_put_is_not_sent_to_the_others() -> None:
    def greet(parameters: Any) -> Any:
        if "Dear" not in parameters["text"]:
            raise ValueError("the text has no greeting")
        return "sent"

    tools = {"greet": FakeTool(output=greet, **ONCE)}
    said = [reflection("retry_with_params", {"text": f"Dear {name}, come!"}) for name in NAMES]
    ran = run(each("greet", {"to": "${item}", "text": "Come!"}), *said, tools=tools)
    assert questions(ran) == len(NAMES)
    sent = {(call.parameters["to"], call.parameters["text"]) for call in ran.source.calls}
    assert {(name, f"Dear {name}, come!") for name in NAMES} <= sent


def test_an_item_that_the_remedy_does_not_help_is_asked_about_by_itself() -> None:
    def fussy(parameters: Any) -> Any:
        if parameters["who"] == "Cy" and parameters["day"] != "2026-12-06":
            raise ValueError("400: this is not possible for a guest")
        return remind(parameters)

    tools = {**TOOLS, "remind": FakeTool(output=fussy, **ONCE)}
    ran = run(
        each("remind", REMIND), reflection("retry_with_params", DAY),
        reflection("retry_with_params", {"day": "2026-12-06"}), tools=tools,
    )  # fmt: skip
    assert ran.result.is_success
    assert questions(ran) == 2


@pytest.mark.parametrize(("category", "asked"), [("external_error", 1), ("tool_error", len(NAMES))])
def test_items_that_may_be_done_without_are_given_up_together_where_the_cause_is_out_of_reach(
    category: str, asked: int
) -> None:
    up = reflection("trigger_overall_reflection", {"summary": "it is down"}, category)
    ran = run(each("rate", {"of": "${item}"}, allow_failed_items=True), *[up] * len(NAMES))
    assert questions(ran) == asked
