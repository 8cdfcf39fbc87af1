"""What a model proposes is held to more than what a person plans: no placeholder, no item unused, nothing repeated for no reason."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

SHIP = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "to": {"type": "string"}},
    "required": ["order", "to"],
}


def ships(parameters: Any) -> Any:
    if parameters["to"] == "Hill":
        raise ValueError("to: needs street and town, separated by a comma")
    return {"tracking": f"T-{parameters['order']}"}


def run(
    answers: dict[str, Any], wanted: Any = None, task: str = "Ship order O-1 to Ann.", **policy: Any
) -> Ran:
    async def main() -> Ran:
        tools = {
            "ship": FakeTool(output=ships, parameters=SHIP, effect="once"),
            "ship_slowly": FakeTool(output=ships, parameters=SHIP, effect="once"),
            "look": FakeTool(output={"ids": ["O-1", "O-2"]}, **READS),
        }
        made = await bench(tools, {"evaluation": verdict(), **answers})
        return (await made.run(wanted, text=task, **policy)).check()

    return virtual_time(main())


def ship(name: str, to: str, **more: Any) -> dict[str, Any]:
    return step(name, "ship", parameters={"order": "O-1", "to": to}, **more)


FAILS = plan(step("look", "look"), ship("s", "Hill"))
WAYS: dict[str, Any] = {
    "a plan": lambda to: {"execution_plan": [plan(ship("s", to)), plan(ship("s", "Hill 3, Rome"))]},
    "actions of a plan": lambda to: {
        "execution_plan": [
            plan(step("s", actions=[action("one", "ship", order="O-1", to=to)])),
            plan(ship("s", "Hill 3, Rome")),
        ]
    },
    "a plan made anew": lambda to: {
        "execution_plan": [FAILS, plan(ship("n", to)), plan(ship("n", "Hill 3, Rome"))],
        "step_reflection": reflection("replan", {"advice": "x"}, "parameter_error"),
    },
    "a step written anew": lambda to: {
        "execution_plan": FAILS,
        "step_reflection": reflection("repair_step", {"hint": "x"}, "parameter_error"),
        "step_repair": [ship("s", to), ship("s", "Hill 3, Rome")],
    },
    "other parameters": lambda to: {
        "execution_plan": FAILS,
        "step_reflection": [
            reflection("retry_with_params", {"to": to}, "parameter_error"),
            reflection("retry_with_params", {"to": "Hill 3, Rome"}, "parameter_error"),
        ],
    },
    "another tool": lambda to: {
        "execution_plan": FAILS,
        "evaluation": {**verdict(), "left_out_effects": [{"step": "s", "made_good_by": "s"}]},
        "step_reflection": [
            reflection("retry_with_tool", {"tool_id": "ship_slowly", "parameters": {"order": "O-1", "to": to}}, "tool_error"),
            reflection("retry_with_tool", {"tool_id": "ship_slowly", "parameters": {"order": "O-1", "to": "Hill 3, Rome"}}, "tool_error"),
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("to", ["<street>, <town>", "TODO", "your address"])
def test_a_placeholder_is_sent_back_wherever_a_model_writes_it(way: Any, to: str) -> None:
    ran = run(way(to))
    assert ran.result.is_success
    assert [call.parameters["to"] for call in ran.source.calls if "ship" in call.tool_id][
        -1
    ] == "Hill 3, Rome"
    assert all(call.parameters.get("to") != to for call in ran.source.calls)
    told = [turn.text for request in ran.model.requests for turn in request.turns]
    assert any("is a placeholder, not a value" in text for text in told)


def test_what_the_task_itself_says_is_a_value() -> None:
    ran = run(
        {"execution_plan": plan(ship("s", "<street>, <town>"))},
        task="Ship O-1 to <street>, <town>, as it is.",
    )
    assert ran.result.is_success


def test_what_an_error_asks_for_is_none() -> None:
    """Only outputs are grounds: that an error names the form of an address gives no address."""
    ran = run(WAYS["other parameters"]("<street and town>"))
    assert all(call.parameters.get("to") != "<street and town>" for call in ran.source.calls)


def test_a_person_may_plan_whatever_they_mean() -> None:
    ran = run(
        {},
        plan(
            ship("s", "TODO"), step("f", "ship", for_each=["a", "b"], parameters={"order": "O-2", "to": "x"})
        ),
    )
    assert ran.source.counts["ship"] == 3


# ── items that are not used ───────────────────────────────────────────────────

UNUSED: dict[str, Any] = {
    "a list": [ship("s", "Rome", for_each=["a", "b", "c"])],
    "a list read": [step("l", "look"), ship("s", "Rome", for_each="${l.output.ids}")],
    "an action": [
        step("s", for_each=["a", "b"], actions=[action("x", "look"), action("y", "ship", order="O-1", to="Rome")])
    ],
}  # fmt: skip
USED: dict[str, Any] = {
    "the item": [step("s", "ship", for_each=["O-1", "O-2"], parameters={"order": "${item}", "to": "Rome"})],
    "its index": [step("s", "ship", for_each=["a", "b"], parameters={"order": "O-${index}", "to": "Rome"})],
    "what is meant that often": [ship("s", "Rome", for_each=["a", "b"], repeat=True)],
    "a reading": [step("s", "look", for_each=["a", "b"])],
}


@pytest.mark.parametrize("steps", UNUSED.values(), ids=UNUSED)
def test_an_effect_for_each_item_that_uses_no_item_is_sent_back(steps: Any) -> None:
    ran = run({"execution_plan": [plan(*steps), plan(ship("s", "Rome"))]})
    assert ran.result.is_success
    assert ran.source.counts["ship"] == 1
    (refused,) = ran.events("plan_rejected")
    assert "use ${item}" in refused.violations[0]


@pytest.mark.parametrize("steps", USED.values(), ids=USED)
def test_what_uses_its_item_or_says_so_is_made_for_each(steps: Any) -> None:
    ran = run({"execution_plan": plan(*steps)})
    assert ran.result.is_success
    assert len(ran.source.calls) == (1 if steps[0]["tool"] == "look" else 2) or steps[0]["tool"] == "look"


def test_a_step_written_anew_uses_its_items_too() -> None:
    ran = run(
        {
            "execution_plan": FAILS,
            "step_reflection": reflection("repair_step", {"hint": "x"}, "parameter_error"),
            "step_repair": [ship("s", "Hill 3, Rome", for_each=["a", "b"]), ship("s", "Hill 3, Rome")],
        }
    )
    assert ran.result.is_success
    assert ran.source.counts["ship"] == 2, "the one that failed, and the one that is mended"


# ── repeated for no reason ────────────────────────────────────────────────────


def test_a_first_plan_that_repeats_what_is_not_there_is_sent_back() -> None:
    ran = run({"execution_plan": [plan(ship("s", "Rome", repeat=True)), plan(ship("s", "Rome"))]})
    assert ran.result.is_success
    (refused,) = ran.events("plan_rejected")
    assert "nothing in this plan is like this call" in refused.violations[0]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([ship("s", "Rome", repeat=True), ship("t", "Rome", repeat=True)], id="two alike"),
        pytest.param(
            [step("l", "look"), ship("s", "Rome", repeat=True),
             step("t", "ship", parameters={"order": "${l.output.ids[0]}", "to": "Rome"}, repeat=True)],
            id="two that may be alike",
        ),
        pytest.param([step("l", "look", repeat=True)], id="a reading"),
    ],
)  # fmt: skip
def test_a_first_plan_may_mark_what_may_come_twice(steps: Any) -> None:
    ran = run({"execution_plan": plan(*steps)})
    assert ran.result.is_success
    assert ran.events("plan_rejected") == []


def again(*plans: Any, **policy: Any) -> Ran:
    """The first plan ships, and is judged poor."""
    return run(
        {
            "execution_plan": [plan(ship("s", "Rome")), *plans],
            "evaluation": [verdict(30, success=False), verdict()],
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan", "reason": "x"}),
        },
        **policy,
    )


@pytest.mark.parametrize(
    "mark",
    [
        {"repeat": "a second parcel was ordered"},
        {"repeat": True, "repeat_reason": "a second parcel was ordered"},
        {"repeat": True, "repeat_because": "a second parcel was ordered"},
    ],
)
def test_a_later_plan_says_why_it_makes_an_effect_once_more(mark: dict[str, Any]) -> None:
    bare = ship("n", "Rome", repeat=True, repeat_reason="")
    ran = again(plan(bare), plan({**ship("n", "Rome"), **mark}))
    assert ran.result.is_success
    assert ran.source.counts["ship"] == 2
    (refused,) = ran.events("plan_rejected")
    assert "`repeat_reason`" in refused.violations[0]
    assert [one.repeat_reason for one in ran.result.steps] == ["", "a second parcel was ordered"]
    (changed,) = ran.events("plan_updated")
    assert changed.plan.steps[0].repeat_reason == "a second parcel was ordered"


def test_a_loop_of_payments_by_habit_pays_once() -> None:
    habit = [plan(ship(f"s{n}", "Rome", repeat=True, repeat_reason="")) for n in range(12)]
    ran = again(*habit)
    assert not ran.result.is_success
    assert ran.source.counts["ship"] == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        pytest.param(
            step("s", "order", parameters={"prices": {"b": 1}}),
            "prices: 'b' is too short (less than 2 characters)",
            id="a name that is too short",
        ),
        pytest.param(
            step("s", "order", parameters={"prices": {"bb": 1}}, when="not " * 2_000 + "metadata.x == 1"),
            "at most 2000 are allowed",
            id="a condition that is too long",
        ),
        pytest.param(
            step("s", "order", parameters={"prices": {"bb": 1}}, when="not " * 300 + "metadata.x == 1 and"),
            "`when`",
            id="a condition that is nested too deep",
        ),
        pytest.param(
            step("s", "order", parameters={"prices": {"bb": "${f(" + "'a' item " * 4_000 + ")}"}}),
            "at most 2000 are allowed",
            id="a function around too much",
        ),
    ],
)
def test_what_is_wrong_in_an_odd_way_goes_back_to_the_model(wrong: dict[str, Any], told: str) -> None:
    prices = {
        "type": "object",
        "propertyNames": {"minLength": 2},
        "additionalProperties": {"type": "integer"},
    }
    order = FakeTool(
        output=1, effect="reads", parameters={"type": "object", "properties": {"prices": prices}}
    )

    async def main() -> Ran:
        answers = [plan(wrong), plan(step("s", "order", parameters={"prices": {"bb": 1}}))]
        made = await bench({"order": order}, {"execution_plan": answers, "evaluation": verdict()})
        return (await made.run(text="Order.")).check()

    ran = virtual_time(main())
    assert ran.state.status == "succeeded"
    (rejected,) = ran.events("plan_rejected")
    assert told in " ".join(rejected.violations)
