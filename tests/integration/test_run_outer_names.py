"""Other steps, the item and the metadata inside filters of a running plan: what is selected, waited for, left out and kept secret."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import READS

from replan.testing import virtual_time

ROWS = [{"who": "Ann", "cents": 150}, {"who": "Bob", "cents": 200}, {"who": "Ann", "cents": 50}]
PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}},
    "required": ["to", "cents"],
}


def run(*steps: dict[str, Any], **task: Any) -> Ran:
    tools = {
        "rows": FakeTool(output=ROWS, **READS),
        "who": FakeTool(output={"name": "Ann"}, **READS),
        "nobody": FakeTool(output={}, **READS),
        "pay": FakeTool(output={"id": 1}, effect="once", parameters=PAY),
        "note": FakeTool(output=lambda call: call, **READS),
    }

    async def main() -> Ran:
        one = await bench(tools, {"execution_plan": [plan(*steps)]})
        return (await one.run(evaluation="steps", max_rounds=1, **task)).check()

    return virtual_time(main())


def paid(ran: Ran) -> list[dict[str, Any]]:
    return sorted((one.parameters for one in ran.events("call_started", tool_id="pay")), key=str)


def test_a_value_is_looked_up_for_each_item() -> None:
    ran = run(
        step("r", "rows"),
        step(
            "p",
            "pay",
            for_each=["Ann", "Bob"],
            parameters={"to": "${item}", "cents": "${= sum(r.output[?who == item].cents) }"},
        ),
    )
    assert ran.result.is_success
    assert paid(ran) == [{"to": "Ann", "cents": 200}, {"to": "Bob", "cents": 200}]


@pytest.mark.parametrize(
    ("items", "calls"),
    [
        ("${r.output[?who != left.output.name]}", [{"to": "Bob", "cents": 200}]),
        (
            "${r.output[?who == '${left.output.name}' && cents > ${metadata.least}]}",
            [{"to": "Ann", "cents": 150}],
        ),
    ],
)
def test_a_list_is_chosen_by_what_another_step_gives(items: str, calls: list[dict[str, Any]]) -> None:
    ran = run(
        step("r", "rows"),
        step("left", "who"),
        step("p", "pay", for_each=items, parameters={"to": "${item.who}", "cents": "${item.cents}"}),
        metadata={"least": 100},
    )
    assert ran.result.is_success
    assert paid(ran) == calls
    started = ran.times("call_started")
    assert started["left"] <= started["p"]
    assert set(ran.state.steps["p"].step.dependencies) == {"r", "left"}


def test_a_condition_and_actions_look_at_it() -> None:
    ran = run(
        step("r", "rows"),
        step("chosen", "who"),
        step(
            "each",
            when="length(r.output[?who == chosen.output.name]) == `2`",
            for_each=["x"],
            actions=[
                {"action_id": "named", "tool": "who", "parameters": {"of": "${item}"}},
                {
                    "action_id": "pay",
                    "tool": "pay",
                    "parameters": {
                        "to": "${named.output.name}",
                        "cents": "${r.output[?who == named.output.name].cents | [0]}",
                    },
                },
            ],
        ),
        step("none", "note", when="length(r.output[?who == chosen.output.name]) == `3`"),
    )
    assert ran.result.is_success
    assert paid(ran) == [{"to": "Ann", "cents": 150}]
    assert [event.step_id for event in ran.events("step_skipped")] == ["none"]


def test_what_is_not_there_fails_the_step_and_selects_nothing_quietly() -> None:
    ran = run(
        step("r", "rows"),
        step("n", "nobody"),
        step(
            "p",
            "pay",
            for_each="${r.output[?who != n.output.name]}",
            parameters={"to": "${item.who}", "cents": "${item.cents}"},
        ),
    )
    assert not ran.result.is_success
    assert paid(ran) == []


def test_what_uses_a_skipped_step_in_a_filter_is_skipped() -> None:
    ran = run(
        step("r", "rows"),
        step("who", "who", when="length(r.output) > `9`"),
        step("p", "note", parameters={"x": "${r.output[?who == ${who.output.name}]}"}),
        step("q", "note", when="length(r.output[?who == ${who.output.name}]) > `0`"),
    )
    assert {event.step_id for event in ran.events("step_skipped")} == {"who", "p", "q"}


def test_a_secret_is_compared_with_nothing() -> None:
    def told(text: str) -> str:
        key = {"api_key": "k3y-0f-many-signs"}
        ran = run(step("r", "rows"), step("n", "note", parameters={"x": text}), metadata=key)
        (rejected,) = ran.events("plan_rejected")
        return str(rejected.violations[0])

    assert "would put a secret" in told("${r.output[*].{who: who, key: ${metadata.api_key}}}")
    assert "would put a secret" in told("${r.output[?who == ${metadata.api_key}]}")
