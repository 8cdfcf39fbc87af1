"""Expressions in a running plan: in parameters, lists and conditions, beside effects that are had, and beside secrets."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import READS
from test_run_restated import ANEW, refused

from replan.core.kinds.building import build
from replan.kinds.texts import workflow_of
from replan.testing import virtual_time

PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["to", "cents"],
}
OFFER = {
    "type": "object",
    "properties": {"price": {"type": "number"}, "by": {"type": "string"}},
    "additionalProperties": False,
}


def run(*plans: dict[str, Any], prices: tuple[float, ...] = (19.99,), **task: Any) -> Ran:
    told = iter([*prices, *[prices[-1]] * 9])
    tools = {
        "offer": FakeTool(
            output=lambda _: {"price": next(told), "by": "Ann"},
            spec={"output_schema": OFFER, "volatile": True},
            **READS,
        ),
        "rows": FakeTool(output=[{"who": "Ann", "sum": 1.5}, {"who": "Bob", "sum": 2}], **READS),
        "pay": FakeTool(output={"id": 1}, effect="once", parameters=PAY),
        "look": FakeTool(output=refused, **READS),
    }

    async def main() -> Ran:
        one = await bench(tools, {"execution_plan": list(plans), **ANEW})
        return (await one.run(evaluation="steps", max_rounds=2, **task)).check()

    return virtual_time(main())


def paid(ran: Ran) -> list[dict[str, Any]]:
    return [one.parameters for one in ran.events("call_started", tool_id="pay")]


def test_a_number_is_worked_out_for_a_call_that_takes_a_whole_one() -> None:
    ran = run(
        plan(
            step("o", "offer"),
            step("p", "pay", parameters={"to": "${= o.output.by }", "cents": "${= o.output.price * 100 }"}),
        )
    )
    assert paid(ran) == [{"to": "Ann", "cents": 1999}]
    assert ran.result.is_success


def test_each_item_has_its_own() -> None:
    parameters = {"to": "${item.who}", "cents": "${= item.sum * 100 + index }"}
    ran = run(plan(step("r", "rows"), step("p", "pay", for_each="${r.output}", parameters=parameters)))
    assert sorted(paid(ran), key=str) == [{"to": "Ann", "cents": 150}, {"to": "Bob", "cents": 201}]


@pytest.mark.parametrize(
    ("items", "calls"),
    [
        (
            "${= merge_by(r.output, metadata.known, 'who') }",
            [{"to": "Ann", "cents": 150}, {"to": "Bob", "cents": 203}],
        ),
        ("${= o.output.price > 5 ? r.output[:1] : [] }", [{"to": "Ann", "cents": 150}]),
        ("${= o.output.price > 50 ? r.output : [] }", []),
    ],
)
def test_a_list_may_be_one(items: str, calls: list[dict[str, Any]]) -> None:
    cents = "${= item.sum * 100 + item.more }" if "merge_by" in items else "${= item.sum * 100 }"
    parameters = {"to": "${item.who}", "cents": cents}
    ran = run(
        plan(step("r", "rows"), step("o", "offer"), step("p", "pay", for_each=items, parameters=parameters)),
        metadata={"known": [{"who": "Bob", "more": 3}, {"who": "Ann", "more": 0}]},
    )
    assert sorted(paid(ran), key=str) == calls
    assert ran.result.is_success


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("${= o.output.price * 2 }", "`for_each` needs a list, and ${= o.output.price * 2 } gives a"),
        ("${= o.output.by + 1 }", "a text + a number is nothing"),
        ("${= [item.who] }", "`for_each` cannot refer to its own item"),
        ("${= p.output }", "${p.output} refers to its own step"),
        ("${= nobody.output }", "'nobody' is not a step"),
        ("${= [1 }", "is no expression"),
        ("all of ${= [1] }", "an expression that gives one, or a list"),
        ("${= [metadata.api_key] }", "it is a secret, which nothing is computed with"),
        ("${= r.output[0] }", "gives an object, and a list is needed"),
    ],
)
def test_what_is_no_list_to_go_through_is_told(items: str, told: str) -> None:
    pays = step("p", "pay", for_each=items, parameters={"to": "${item.who}", "cents": 1})
    ran = run(
        plan(step("r", "rows"), step("o", "offer"), pays),
        plan(step("r2", "rows")),
        metadata={"api_key": "k-12345678"},
    )
    said = [*ran.events("plan_rejected"), *ran.events("step_failed")][0]
    assert told in str(said)
    assert not paid(ran)


@pytest.mark.parametrize(
    ("when", "status"),
    [
        ("${= sum(r.output[*].sum) > 3 && o.output.price < 20 }", "completed"),
        ("${= sum(r.output[*].sum) > 4 }", "skipped"),
        ("${= r.output[0].who + 1 == 'Ann1' }", "failed"),
    ],
)
def test_a_condition_may_be_one(when: str, status: str) -> None:
    pays = step("p", "pay", "r", "o", parameters={"to": "Ann", "cents": 1}, when=when)
    ran = run(plan(step("r", "rows"), step("o", "offer"), pays), plan(step("r2", "rows")))
    assert ran.events("step_" + status)[-1].step_id == "p"


@pytest.mark.parametrize(
    ("cents", "told"),
    [
        ("${= o.output.price + o.output.by }", "a number + a text is nothing"),
        ("${= text(o.output.price) }", "cents has to be a whole number, and ${= text(o.output.price) } gives a text"),
        ("${= nobody.output * 2 }", "'nobody' is not a step"),
        ("${= o.output.price * }", "is no expression: it ends too early"),
        ("${= o.output.nothing * 2 }", "${o.output.nothing} selects nothing"),
        ("${= x-1.output * 2 }", "a minus sign stands between blanks"),
        ("${= p.output * 2 }", "refers to its own step"),
        ("${= sqrt(o.output.price) }", "there is no function 'sqrt'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_the_plan(cents: str, told: str) -> None:
    wrong = plan(step("o", "offer"), step("p", "pay", parameters={"to": "Ann", "cents": cents}))
    ran = run(wrong, plan(step("r", "rows")))
    (rejected,) = ran.events("plan_rejected")
    assert told in "\n".join(rejected.violations)
    assert not paid(ran)


@pytest.mark.parametrize("prices", [(10.0,), (10.0, 12.0)])
def test_what_is_worked_out_of_a_reading_made_anew_is_no_second_effect(prices: tuple[float, ...]) -> None:
    def pays(number: int, cents: str) -> list[dict[str, Any]]:
        return [
            step(f"o{number}", "offer"),
            step(f"p{number}", "pay", parameters={"to": "Ann", "cents": cents.format(number)}),
        ]

    first = plan(*pays(1, "${{= o{}.output.price * 100 }}"), step("l", "look", "p1"))
    ran = run(first, plan(*pays(2, "${{=100 * o{}.output.price}}")), prices=prices)
    assert len(paid(ran)) == 1


def test_nothing_is_worked_out_of_a_secret() -> None:
    written = {"to": "${= upper(metadata.api_key) }", "cents": 1}
    ran = run(
        plan(step("p", "pay", parameters=written)),
        plan(step("r", "rows")),
        metadata={"api_key": "k-12345678"},
    )
    assert not paid(ran)
    (rejected,) = ran.events("plan_rejected")
    assert "${metadata.api_key} would put a secret of the metadata there" in rejected.violations[0]


FLOW = """
id: bill
description: d
slots:
  rate: {type: number}
  note: {type: string}
steps:
  - step_id: o
    tool: offer
  - step_id: p
    tool: pay
    parameters: {to: "${= 'for ' + slots.note }", cents: "${= round(o.output.price * slots.rate * 100) }"}
    when: "${= o.output.price * slots.rate > 1 }"
"""


def test_slots_of_a_workflow_stand_in_them_as_values() -> None:
    note = "x' + o.output.by + '${o.output.by}}"
    made = build(workflow_of(FLOW, "bill.yaml"), {"rate": 0.5, "note": note})
    ran = run(plan(*made["steps"]))
    assert paid(ran) == [{"to": f"for {note}", "cents": 1000}]


def test_slots_of_a_workflow_stand_in_a_list_that_is_one() -> None:
    flow = """
id: bill
description: d
slots:
  most: {type: number}
  names: {type: array, items: {type: string}}
steps:
  - step_id: o
    tool: offer
  - step_id: p
    tool: pay
    for_each: "${= o.output.price <= slots.most ? slots.names : [] }"
    parameters: {to: "${item}", cents: 5}
"""
    names = ["Ann", "x' + '${o.output.by}"]
    for most, wanted in ((50, names), (5, [])):
        made = build(workflow_of(flow, "bill.yaml"), {"most": most, "names": names})
        assert sorted(one["to"] for one in paid(run(plan(*made["steps"])))) == wanted
