"""The same call again: one that makes up for nothing is answered from the ledger, one that is meant is made."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.errors import ToolCallError
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
PAYMENT = {
    "type": "object",
    "properties": {
        "n": {"type": "number"},
        "memo": {"type": "string", "default": ""},
        "due": {"type": "string", "format": "date-time"},
        "to": {"type": "object", "properties": {"name": {"type": "string"}, "country": {"default": "DE"}}},
        "limit": {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}, {"type": "null"}], "default": None},
    },
    "required": ["n"],
}  # fmt: skip


def pays(**more: Any) -> FakeTool:
    return FakeTool(output=lambda p: {"paid": p.get("n")}, parameters=PAYMENT, **{**ONCE, **more})


def run(tools: dict[str, Any], answers: dict[str, Any] | None = None, wanted: Any = None, **more: Any) -> Ran:
    async def main() -> Ran:
        made = await bench(tools, {"evaluation": verdict(), **(answers or {})})
        return (await made.run(wanted, **more)).check()

    return virtual_time(main())


def in_two_rounds(first: Any, second: Any, strategy: dict[str, Any], **tools: Any) -> Ran:
    """A first plan that is judged poor, and what is planned instead."""
    answers = {
        "execution_plan": [first, second],
        "evaluation": [verdict(30, success=False), verdict()],
        "overall_reflection": overall(True, replanning_strategy={"reason": "more is wanted", **strategy}),
    }
    return run({"pay": pays(), "look": FakeTool(output={"n": 1}, **READS), **tools}, answers)


# ── one call in two forms ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "again"),
    [
        pytest.param({"n": 1}, {"n": 1, "memo": ""}, id="a default that is given"),
        pytest.param({"n": 1, "memo": ""}, {"n": 1}, id="a default that is left out"),
        pytest.param({"n": 1}, {"n": 1.0, "limit": None}, id="another form of a number"),
        pytest.param({"n": 1, "limit": "5.50"}, {"n": 1, "limit": 5.5}, id="a number as a text"),
        pytest.param(
            {"n": 1, "due": "2026-03-01T12:00:00Z"},
            {"n": 1, "due": "2026-03-01T13:00:00+01:00"},
            id="one moment",
        ),
        pytest.param(
            {"n": 1, "to": {"name": "Ann"}}, {"n": 1, "to": {"name": "Ann", "country": "DE"}}, id="inside"
        ),
    ],
)
def test_a_call_that_was_made_is_known_in_another_form(first: Any, again: Any) -> None:
    ran = in_two_rounds(
        plan(step("a", "pay", parameters=first)),
        plan(step("step_1", "pay", parameters=again), step("step_2", "look")),
        {"type": "full_replan"},
    )
    assert ran.source.counts["pay"] == 1
    assert ran.events("call_completed", step_id="step_1")[0].reused
    assert ran.source.calls[0].parameters == first, "what is called stays as it was given"


@pytest.mark.parametrize(
    "again", [{"n": 1, "memo": "x"}, {"n": 2}, {"n": 1, "due": "2026-03-01T12:00:00"}, {"n": 1, "to": {}}]
)
def test_another_call_is_another(again: Any) -> None:
    ran = in_two_rounds(
        plan(step("a", "pay", parameters={"n": 1})),
        plan(step("step_1", "pay", parameters=again)),
        {"type": "full_replan"},
    )
    assert ran.source.counts["pay"] == 2


# ── the same effect twice in one plan ─────────────────────────────────────────


@pytest.mark.parametrize(
    "second",
    [
        pytest.param("{{n.outputs.n}}", id="in other braces"),
        pytest.param('${ n.output["n"] }', id="with a quoted key"),
    ],
)
def test_one_reference_in_two_forms_is_one_call(second: str) -> None:
    wanted = plan(
        step("n", "look"),
        step("a", "pay", parameters={"n": "${n.output.n}"}),
        step("b", "pay", parameters={"n": second}),
    )
    ran = run({"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)}, wanted=wanted)
    assert ran.source.calls == []
    assert ran.result.failure is not None
    assert any("make the same call of 'pay'" in text for text in ran.result.failure.violations)


TWICE = plan(
    step("n", "look"),
    step("m", "look", parameters={"other": True}),
    step("a", "pay", parameters={"n": "${n.output.n}"}),
    step("b", "pay", parameters={"n": "${m.output.n}"}),
)


@pytest.mark.parametrize("serial", [False, True])
def test_two_references_that_come_to_one_call_pay_once(serial: bool) -> None:
    ran = run(
        {"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)},
        wanted=TWICE,
        enable_parallel_execution=not serial,
    )
    assert ran.source.counts["pay"] == 1
    assert sorted(ran.statuses().values()) == ["failed", "succeeded", "succeeded", "succeeded"]
    (failed,) = ran.events("step_failed")
    assert (failed.error.kind, failed.error.category) == ("repeated", "decomposition_error")
    assert "a new plan may say `repeat: true` on the step if that is meant" in failed.error.message
    assert not ran.result.is_success


def said_to_be_meant(**answers: Any) -> Ran:
    """The second of two calls that come to one says in a remedy that it is meant."""
    return run(
        {"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)},
        {
            "execution_plan": [
                TWICE,
                plan(step("b2", "pay", parameters={"n": "${m.output.n}"}, repeat=True)),
            ],
            "step_repair": step("b", "pay", parameters={"n": "${m.output.n}"}, repeat=True),
            **answers,
        },
        enable_parallel_execution=False,
    )


class SlowModel(ScriptedModel):
    """It thinks for some time."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        if request.schema_name == "step_reflection":
            await asyncio.sleep(10)
        return await super().ask(request, on_text)


@pytest.mark.parametrize("secs", [5, 50], ids=["before it was mended", "after that"])
@pytest.mark.parametrize("marked", [True, False])
def test_what_stands_for_a_failed_call_stands_for_its_twin(secs: float, *, marked: bool) -> None:
    asked: list[int] = []
    paid: list[int] = []

    def pay(parameters: Any) -> int:
        asked.append(parameters["n"])
        if len(asked) == 1:
            raise ToolCallError("n: 1 is closed, take 11", kind="tool")
        paid.append(parameters["n"])
        return len(paid)

    again: dict[str, Any] = {"repeat": True} if marked else {}
    wanted = plan(
        step("n", "look"),
        step("m", "slow", parameters={"other": True}),
        step("a", "pay", parameters={"n": "${n.output.n}"}, **again),
        step("b", "pay", parameters={"n": "${m.output.n}"}, **again),
    )
    tools = {
        "pay": FakeTool(output=pay, effect="once", delay_secs=1),
        "look": FakeTool(output={"n": 1}, **READS),
        "slow": FakeTool(output={"n": 1}, delay_secs=secs, **READS),
    }
    model = SlowModel(
        {"execution_plan": wanted, "step_reflection": reflection("retry_with_params", {"n": 11})}
    )

    async def main() -> Ran:
        made = await bench(tools, model=model)
        return (await made.run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert len(paid) == (2 if marked else 1)
    assert ran.statuses()["b" if secs < 10 else "a"] == "succeeded"


@pytest.mark.parametrize(
    "remedy",
    [
        reflection("repair_step", {"hint": "add a word"}, "decomposition_error"),
        reflection("retry_with_params", {"n": 1, "memo": "second try"}),
    ],
)
def test_what_is_refused_as_done_is_not_made_in_other_words_by_its_step(remedy: dict[str, Any]) -> None:
    ran = said_to_be_meant(
        step_reflection=remedy,
        step_repair=step("b", "pay", parameters={"n": "${m.output.n}", "memo": "second try"}),
        execution_plan=TWICE,
    )
    assert ran.source.counts["pay"] == 1
    assert not [one for one in ran.model.requests if one.schema_name == "step_repair"]


def test_the_planner_may_say_that_it_is_meant() -> None:
    ran = said_to_be_meant(step_reflection=reflection("replan", {"advice": "mark it"}, "decomposition_error"))
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 2


def test_a_step_written_anew_may_not_say_that_it_is_meant() -> None:
    ran = run(
        {"pay": FakeTool(fail=["n: too little"], output=7, effect="once")},
        {
            "execution_plan": plan(step("b", "pay", parameters={"n": 1})),
            "step_repair": step("b", "pay", parameters={"n": 2}, repeat=True),
            "step_reflection": reflection("repair_step", {"hint": "mark it"}, "decomposition_error"),
        },
    )
    assert ran.source.counts["pay"] == 1
    asked = [one for one in ran.model.requests if one.schema_name == "step_repair"]
    assert "`repeat` is not for a step that is rewritten" in asked[1].turns[-1].text
    assert "repeat" not in asked[0].json_schema["properties"]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(step("b", "pay", parameters={"n": "${m.output.n}"}, repeat=True), id="marked"),
        pytest.param(step("b", "pay", parameters={"n": "${m.output.n}", "memo": "x"}), id="another call"),
        pytest.param(
            step("b", "pay", for_each=[1, 1], parameters={"n": 2, "memo": ""}), id="items of a list"
        ),
    ],
)
def test_what_is_meant_twice_is_made_twice(second: Any) -> None:
    wanted = plan(*TWICE["steps"][:3], second)
    wanted["steps"][2] = {**wanted["steps"][2], "repeat": second.get("repeat", False)}
    ran = run({"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)}, wanted=wanted)
    assert ran.result.is_success
    assert ran.source.counts["pay"] == (3 if "for_each" in second else 2)


def test_an_item_that_another_step_pays_too_is_found() -> None:
    ran = run(
        {"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)},
        wanted=plan(
            step("n", "look"),
            step("a", "pay", parameters={"n": "${n.output.n}"}),
            step("b", "pay", "a", for_each=[1, 2], parameters={"n": "${item}"}),
        ),
    )
    assert [call.parameters["n"] for call in ran.source.calls if call.tool_id == "pay"] == [1, 2]
    assert ran.statuses()["b"] == "failed"


# ── once more ─────────────────────────────────────────────────────────────────

MORE = step("step_1", "pay", parameters={"n": 1}, repeat=True)


@pytest.mark.parametrize(
    ("strategy", "second"),
    [
        ({"type": "full_replan"}, plan(MORE)),
        ({"type": "full_replan"}, plan(MORE, step("step_2", "look"))),
        ({"type": "replan_from_step", "step_id": "z"}, plan(MORE)),
        (
            {"type": "replan_from_step", "step_id": "z"},
            plan(MORE, step("step_2", "look", parameters={"n": 5})),
        ),
        pytest.param(
            {"type": "full_replan"}, plan(MORE, {**MORE, "step_id": "step_2"}), id="the whole stated anew"
        ),
    ],
)
def test_one_payment_more_is_one_payment_more(strategy: dict[str, Any], second: Any) -> None:
    first = plan(step("a", "pay", parameters={"n": 1}), step("z", "look", "a"))
    ran = in_two_rounds(first, second, strategy)
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 2
    assert len({call.key for call in ran.source.calls if call.tool_id == "pay"}) == 2


@pytest.mark.parametrize("strategy", [{"type": "full_replan"}, {"type": "replan_from_step", "step_id": "z"}])
@pytest.mark.parametrize(("done", "stated"), [(2, 2), (3, 3), (3, 2), (2, 3), (2, 1), (3, 1)])
def test_a_plan_that_states_repeated_payments_anew_makes_only_what_is_missing(
    done: int, stated: int, strategy: dict[str, Any]
) -> None:
    first = plan(*[{**MORE, "step_id": f"a_{n}"} for n in range(done)], step("z", "look", "a_0"))
    second = plan(
        *[{**MORE, "step_id": f"b_{n}"} for n in range(stated)], step("y", "look", parameters={"n": 5})
    )
    ran = in_two_rounds(first, second, strategy)
    assert ran.result.is_success
    kept = strategy["type"] == "replan_from_step"  # beside the paying steps, not in their place
    wanted = done + stated if kept or stated == 1 else max(done, stated)
    assert ran.source.counts["pay"] == wanted
    assert len({call.key for call in ran.source.calls if call.tool_id == "pay"}) == wanted


def listed(name: str, numbers: Any) -> dict[str, Any]:
    return {**MORE, "step_id": name, "for_each": numbers, "parameters": {"n": "${item}"}}


def one_of(name: str, n: Any) -> dict[str, Any]:
    return {**MORE, "step_id": name, "parameters": {"n": n}}


def one_of_another(name: str) -> dict[str, Any]:
    return {**one_of(name, 3), "parameters": {"n": 3, "memo": "${l.output.text}"}}


def unmarked(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, "repeat": False} for one in steps]


@pytest.mark.parametrize(
    ("first", "again", "paid"),
    [
        pytest.param([listed("a", [1, 2]), one_of("b", 1)], None, {1: 2, 2: 1}, id="an item and a step"),
        pytest.param([listed("a", [1, 1])], None, {1: 2}, id="two items of a list"),
        pytest.param([listed("a", "${l.output.all}"), one_of("b", 1)], None, {1: 2, 2: 1}, id="a list read"),
        pytest.param(
            [listed("a", "${l.output.all}"), listed("b", [2, 1])], None, {1: 2, 2: 2}, id="a list read, and one given"
        ),
        pytest.param([one_of("a", "${l.output.n}"), one_of("b", 1)], None, {1: 2}, id="a reference, first"),
        pytest.param([one_of("a", 1), one_of("b", "${l.output.n}")], None, {1: 2}, id="a reference, last"),
        pytest.param(
            [one_of("a", 1), one_of("b", 1)], [one_of("a", "${l.output.n}"), one_of("b", 1)], {1: 2}, id="in another form"
        ),
        pytest.param(
            [one_of("a", 1), {**one_of("b", 1), "parameters": {"n": 1.0, "memo": ""}}], None, {1: 2}, id="a default"
        ),
        pytest.param([listed("a", [1, 2])], None, {1: 2, 2: 2}, id="each alone is once more"),
        pytest.param(
            unmarked(one_of("a", 1), one_of("b", 2)), [one_of("a", 1), one_of("b", 2)], {1: 2, 2: 2}, id="other calls are no likes"
        ),
        pytest.param(
            unmarked(one_of("a", 1), one_of_another("b")), [one_of("a", 1), one_of_another("b")],
            {1: 2, 3: 2},
            id="what differs in what is written is no like",
        ),
    ],
)  # fmt: skip
def test_likes_are_counted_by_what_is_called_and_not_by_how_it_is_written(
    first: list[Any], again: list[Any] | None, paid: dict[int, int]
) -> None:
    """`first` is judged poor, and the same (or `again`) is planned under new ids."""

    def version(steps: list[Any], name: str) -> Any:
        look = step(f"l{name}", "look", parameters={"n": len(name)})
        new = [{**one, "step_id": one["step_id"] + name} for one in steps]
        return json.loads(json.dumps(plan(look, *new)).replace("${l.", "${l" + name + "."))

    read = FakeTool(output={"n": 1, "all": [1, 2], "text": "x"}, **READS)
    ran = in_two_rounds(
        version(first, "_"), version(again or first, "__"), {"type": "full_replan"}, look=read
    )
    assert ran.result.is_success
    calls = [call for call in ran.source.calls if call.tool_id == "pay"]
    assert Counter(call.parameters["n"] for call in calls) == paid
    assert len({call.key for call in calls}) == len(calls)


@given(
    st.lists(st.integers(1, 2), min_size=1, max_size=3), st.lists(st.integers(1, 2), min_size=1, max_size=3)
)
def test_what_is_stated_anew_with_likes_pays_nothing_more(items: list[int], singles: list[int]) -> None:
    """A list and steps that share a call, stated twice: whatever else is marked by the same list, nothing is paid again."""
    singles = [*singles, *[items[0]] * (2 - singles.count(items[0]))]
    steps = [listed("a", items), *(one_of(f"b{n}", one) for n, one in enumerate(singles))]
    again = [{**one, "step_id": one["step_id"] + "_"} for one in reversed(steps)]
    ran = in_two_rounds(plan(*steps), plan(*again, step("l", "look")), {"type": "full_replan"})
    assert ran.result.is_success
    meant = Counter([*items, *singles])
    paid = Counter(call.parameters["n"] for call in ran.source.calls if call.tool_id == "pay")
    alone = {n for n in meant if meant[n] == 1 and n not in items}
    assert paid == {n: 2 if n in alone else count for n, count in meant.items()}


def test_the_same_in_every_round_is_paid_as_often_as_it_is_meant() -> None:
    twice = [{**MORE, "step_id": name} for name in ("a", "b")]
    rounds = [plan(*twice, step(f"look_{n}", "look", parameters={"n": n})) for n in range(4)]
    answers = {
        "execution_plan": rounds,
        "evaluation": [verdict(score, success=score > 80) for score in (30, 45, 60, 95)],
        "overall_reflection": overall(True, replanning_strategy={"reason": "more", "type": "full_replan"}),
    }
    ran = run({"pay": pays(), "look": lambda p: p["n"]}, answers)
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 2


def in_rounds(*plans: Any, scores: Any = None, **policy: Any) -> Ran:
    """Each plan judged better than the one before, and the last a success where its call was made."""
    scores = scores or [10 + n for n in range(len(plans))]
    answers = {
        "execution_plan": list(plans),
        "evaluation": [verdict(score, success=score >= 80) for score in scores],
        "overall_reflection": overall(True, replanning_strategy={"reason": "more", "type": "full_replan"}),
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "not made"}, "unknown"),
    }
    return run({"pay": pays()}, answers, **policy)


def test_a_third_one_is_no_plan_that_was_tried_and_is_not_made_where_nobody_agrees() -> None:
    again = [plan({**MORE, "step_id": f"step_{n}"}) for n in (1, 2)]
    ran = in_rounds(plan(step("a", "pay", parameters={"n": 1})), *again, scores=[30, 60, 95])
    assert ran.source.counts["pay"] == 2
    told = [text for one in ran.events("plan_rejected") for text in one.violations]
    assert told
    assert all("without a person who agrees no further round makes it again" in text for text in told)
    assert not ran.events("step_failed"), "it is told with the plan"


@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("rounds", [3, 8])
def test_a_model_with_a_new_reason_and_a_better_score_each_round_repeats_a_done_effect_in_one_round(
    first: int, rounds: int
) -> None:
    """What one plan means, it gets: the first as often as it says, and one later plan what it says beyond that."""
    marked = [{**MORE, "step_id": f"a_{n}", "repeat": first > 1} for n in range(first)]
    again = [
        plan({**MORE, "step_id": f"step_{n}", "repeat_reason": f"instalment {n} is due"})
        for n in range(1, rounds)
    ]
    ran = in_rounds(plan(*marked), *again)
    assert not ran.result.is_success
    assert ran.source.counts["pay"] == first + 1


def test_a_later_round_may_still_have_another_effect() -> None:
    plans = [plan({**MORE, "step_id": f"s_{n}", "parameters": {"n": n}, "repeat": False}) for n in range(5)]
    ran = in_rounds(*plans, scores=[10, 20, 30, 40, 95])
    assert ran.result.is_success
    assert ran.source.counts["pay"] == 5


def test_one_more_in_every_round_ends_where_it_makes_nothing_better() -> None:
    words = iter([f"{a}{b}" for a in "bcdfg" for b in ("ake", "oat", "ird", "all")])
    answers = {
        "execution_plan": [plan({**MORE, "step_id": f"step_{n}", "repeat": n > 0}) for n in range(40)],
        "evaluation": lambda _: {**verdict(30, success=False), "failures": [f"{next(words)} is missing"]},
        "overall_reflection": overall(True, replanning_strategy={"reason": "more", "type": "full_replan"}),
    }
    ran = run({"pay": pays()}, answers)
    assert not ran.result.is_success
    assert ran.source.counts["pay"] == 2, "the first, and one more by the round after it"


def test_a_plan_that_says_nothing_of_repeating_is_still_the_same_plan() -> None:
    answers = {
        "execution_plan": [plan(step("a", "pay", parameters={"n": 1})), *[plan(step(f"step_{n}", "pay", parameters={"n": 1})) for n in range(1, 6)]],
        "evaluation": [verdict(30, success=False)] * 3,
        "overall_reflection": overall(True, replanning_strategy={"reason": "more", "type": "full_replan"}),
    }  # fmt: skip
    ran = run({"pay": pays()}, answers)
    assert ran.source.counts["pay"] == 1
    assert any(
        "the same as an earlier one" in text
        for event in ran.events("plan_rejected")
        for text in event.violations
    )


# ── readings of an earlier round ──────────────────────────────────────────────


def polled(second: Any, **look: Any) -> Ran:
    states = iter(["running", "done", "later"])
    tools = {
        "state": FakeTool(output=lambda p: next(states), spec=look, **READS),
        "sleep": FakeTool(delay_secs=5, **READS),
    }
    answers = {
        "execution_plan": [plan(step("a", "state"), step("z", "pay", "a", parameters={"n": 1})), second],
        "evaluation": [verdict(30, success=False), verdict()],
        "overall_reflection": overall(True, replanning_strategy={"reason": "not yet", "type": "full_replan"}),
    }
    return run({**tools, "pay": pays(effect="reads")}, answers)


AGAIN = step("step_1", "state")


@pytest.mark.parametrize(
    ("second", "look", "made"),
    [
        pytest.param(
            plan(AGAIN, step("step_2", "pay", parameters={"n": 2})), {}, 1, id="nothing has happened since"
        ),
        pytest.param(plan({**AGAIN, "repeat": True}), {}, 2, id="it says so"),
        pytest.param(
            plan(step("step_0", "sleep"), {**AGAIN, "dependencies": ["step_0"]}), {}, 2, id="after something"
        ),
        pytest.param(
            plan(step("step_0", "sleep"), {**AGAIN, "dependencies": ["step_0"]}),
            {"stable": True},
            1,
            id="it is stable",
        ),
        pytest.param(
            plan(AGAIN, step("step_2", "pay", parameters={"n": 2})),
            {"volatile": True},
            2,
            id="it is volatile",
        ),
    ],
)
def test_a_state_is_read_again_where_it_may_have_changed(
    second: Any, look: dict[str, Any], made: int
) -> None:
    ran = polled(second, **look)
    assert ran.result.is_success
    assert ran.source.counts["state"] == made


# ── a state that is set again ─────────────────────────────────────────────────

FOLDER = {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}


def test_a_way_back_and_forth_is_meant() -> None:
    ran = run(
        {"cd": FakeTool(output="ok", parameters=FOLDER, **ONCE), "ls": FakeTool(output=[], **READS)},
        wanted=plan(
            step("a", "cd", parameters={"folder": "temp"}),
            step("b", "cd", "a", parameters={"folder": ".."}),
            step("c", "cd", "b", parameters={"folder": "temp"}),
            step("d", "ls", "c"),
        ),
    )
    assert ran.result.is_success
    assert [call.parameters.get("folder") for call in ran.source.calls] == ["temp", "..", "temp", None]


NOTHING = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("between", "metadata"),
    [
        pytest.param([step("b", "save", "a")], {}, id="another effect without parameters"),
        pytest.param([step("b", "cd", "a", parameters={"folder": "x"})], {}, id="another effect with one"),
        pytest.param([step("b", "cd", "a")], {"folder": "y"}, id="one that the metadata fills in"),
    ],
)
def test_what_the_check_of_a_plan_takes_for_meant_is_made(between: Any, metadata: Any) -> None:
    tools = {
        "reboot": FakeTool(output="ok", parameters=NOTHING, **ONCE),
        "save": FakeTool(output="ok", parameters=NOTHING, **ONCE),
        "cd": FakeTool(output="ok", parameters=FOLDER, **ONCE),
    }
    steps = [step("a", "reboot"), *between, step("c", "reboot", "b")]
    ran = run(tools, wanted=plan(*steps), metadata=metadata)
    assert ran.result.is_success
    assert ran.source.counts["reboot"] == 2


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_no_payment_is_made_more_often_than_a_plan_means_it(amounts: list[int]) -> None:
    """Amounts that are known only when they are read; each like one but the first is refused."""
    ran = run(
        {"pay": pays(), "look": FakeTool(output=lambda p: {"n": p["n"]}, **READS)},
        wanted=plan(
            *[step(f"n{at}", "look", parameters={"n": n, "at": at}) for at, n in enumerate(amounts)],
            *[step(f"p{at}", "pay", parameters={"n": f"${{n{at}.output.n}}"}) for at in range(len(amounts))],
        ),
    )
    paid = [call.parameters["n"] for call in ran.source.calls if call.tool_id == "pay"]
    assert sorted(paid) == sorted(set(amounts))
    assert ran.result.is_success is (len(set(amounts)) == len(amounts))


def test_actions_that_come_to_one_call_are_made_once() -> None:
    ran = run(
        {"pay": pays(), "look": FakeTool(output={"n": 1}, **READS)},
        wanted=plan(
            step("n", "look"),
            step("m", "look", parameters={"other": True}),
            step("s", actions=[action("x", "pay", n="${n.output.n}"), action("y", "pay", n="${m.output.n}")]),
        ),
    )
    assert ran.source.counts["pay"] == 1
    assert ran.statuses()["s"] == "failed"


def test_what_may_be_done_again_is_told_apart_from_what_may_not() -> None:
    tools = {
        "pay": pays(),
        "write": FakeTool(output="written", effect="repeatable"),
        "look": FakeTool(output={"n": 1}, **READS),
    }
    first = plan(
        step("a", "pay", parameters={"n": 1, "memo": 'for "Ann"'}),
        step("w", "write", parameters={"file": "a.txt"}),
        step("r", "look"),
    )
    answers = {
        "execution_plan": [first, plan(step("step_1", "look", parameters={"other": True}))],
        "evaluation": [verdict(30, success=False), verdict()],
        "overall_reflection": overall(True, replanning_strategy={"reason": "more", "type": "full_replan"}),
    }
    ran = run(tools, answers)
    asked = [one for one in ran.model.requests if one.schema_name == "execution_plan"][1].turns[-1].text
    once, _, rest = asked.partition("may be done again where it has to be")
    never = once[once.index("never do it again") :]
    assert 'pay {"n": 1, "memo": "for \\"Ann\\""} in a' in never
    assert "write {" not in never
    assert 'write {"file": "a.txt"} in w' in rest
    assert "look {" not in never


# ── what a later call has overwritten ─────────────────────────────────────────

SETTING = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}, "to": {"type": "string"}},
}


def sets(step_id: str, *needs: str, tool: str = "put", **parameters: str) -> Any:
    return step(step_id, tool, *needs, parameters=parameters)


@pytest.mark.parametrize(
    ("first", "again", "made"),
    [
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", path="conf", text="1")],
            [sets("c", path="conf", text="0")],
            3,
            id="the same file, written otherwise since",
        ),
        pytest.param(
            [sets("a", to="temp"), sets("b", "a", to="..")],
            [sets("c", to="temp")],
            3,
            id="a state, left since",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", path="other", text="1")],
            [sets("c", path="conf", text="0"), sets("d", "c", path="other", text="1")],
            2,
            id="other files",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", path="conf", text="1")],
            [sets("c", path="conf", text="1")],
            2,
            id="the latest of them",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", path="conf", text="1")],
            [sets("c", path="conf", text="0"), sets("d", "c", path="conf", text="1")],
            4,
            id="both anew",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", tool="drop", path="conf")],
            [sets("c", path="conf", text="0")],
            3,
            id="deleted by another tool",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", tool="move", path="conf", to="old")],
            [sets("c", path="conf", text="0")],
            2,
            id="moved away by another tool",
        ),
        pytest.param(
            [sets("a", tool="drop", path="conf"), sets("b", "a", path="conf", text="0")],
            [sets("c", tool="drop", path="conf")],
            3,
            id="deleted, written, and to be deleted",
        ),
        pytest.param(
            [sets("a", path="conf", text="0"), sets("b", "a", tool="drop", path="other")],
            [sets("c", path="conf", text="0")],
            2,
            id="another thing by another tool",
        ),
    ],
)
def test_what_was_overwritten_since_is_set_again(first: list[Any], again: list[Any], made: int) -> None:
    tools = {
        name: FakeTool(output=lambda p: "set", parameters=SETTING, effect=effect)
        for name, effect in (("put", "repeatable"), ("drop", "repeatable"), ("move", "once"))
    }
    ran = in_two_rounds(plan(*first), plan(*again, step("l", "look")), {"type": "full_replan"}, **tools)
    assert ran.result.is_success
    assert ran.source.counts["put"] + ran.source.counts["drop"] == made


@pytest.mark.parametrize(
    ("strategy", "marked", "payments"),
    [
        ("replan_from_step", 0, 1),
        ("replan_from_step", 1, 2),
        ("replan_from_step", 2, 3),
        ("full_replan", 0, 1),
        ("full_replan", 1, 2),
        ("full_replan", 2, 2),
    ],
)
def test_a_step_that_is_kept_counts_among_the_like_ones_and_its_effect_is_theirs(
    strategy: str, marked: int, payments: int
) -> None:
    """One payment is done. A plan that keeps its step means that one and the new ones; one that does not, the new ones in all."""
    first = [step("a", "pay", parameters={"n": 1}), step("g", "look", "a")]
    again = [step(f"x{at}", "pay", parameters={"n": 1}, repeat=True) for at in range(marked)]
    rest = [*(again or [step("x", "pay", parameters={"n": 1})]), step("h", "look", parameters={"k": 2})]
    chosen = {
        "type": strategy,
        "reason": "it helps",
        **({"step_id": "g"} if strategy != "full_replan" else {}),
    }
    tools = {
        "pay": FakeTool(output="paid", effect="once"),
        "look": FakeTool(output="seen", fail=["nothing there"], effect="reads"),
    }

    async def main() -> Ran:
        answers = {
            "execution_plan": [plan(*first), plan(*rest)],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
            "overall_reflection": overall(True, replanning_strategy=chosen),
            "evaluation": verdict(),
        }
        return (await (await bench(tools, answers)).run()).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.source.counts["pay"] == payments
    asked = [one for one in ran.model.requests if one.schema_name == "execution_plan"][-1]
    assert "a step that is kept is one of them" in asked.instructions
