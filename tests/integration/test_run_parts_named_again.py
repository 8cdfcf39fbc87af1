"""A next part (`more`) that names again what is done, in other words: as far as it can be known, that is told with the plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
PEOPLE = ["Ann", "Bob", "Cid"]
PAY = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "text": {"type": "string"}, "account": {"type": "string"}},
    "required": ["to"],
}
SHIP = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
FAILS: dict[str, Any] = {
    "step_reflection": {
        "root_cause_category": "tool_error",
        "is_recoverable": True,
        "confidence": 90,
        "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
    },
    "overall_reflection": {"problem_nature": "tools", "should_replan": False, "reflection_text": "no"},
}


def run(plans: list[dict[str, Any]], *, metadata: dict[str, Any] | None = None) -> Ran:
    """Each plan is a part, but the last; one that was refused is answered with the next."""
    sessions = iter(range(1, 100))
    tools = {
        "people": FakeTool(output=PEOPLE, effect="reads"),
        "pay": FakeTool(output=lambda p: {"paid": p["to"]}, parameters=PAY, **ONCE),
        "ship": FakeTool(output=lambda p: {"tracking": f"T-{p['order']}"}, parameters=SHIP, **ONCE),
        "login": FakeTool(output=lambda _: {"session": f"S{next(sessions)}"}, **ONCE),
        "create": FakeTool(output="created", **ONCE),
        "note": FakeTool(output="noted", **ONCE),
    }

    async def main() -> Ran:
        made = await bench(tools, {"evaluation": verdict(), "execution_plan": plans, **FAILS})
        return (await made.run(metadata=metadata, evaluation="steps")).check()

    return virtual_time(main())


def part(*steps: dict[str, Any]) -> dict[str, Any]:
    return {**plan(*steps), "more": "the rest"}


def pay(name: str, to: str, *needs: str, **more: Any) -> dict[str, Any]:
    return step(name, "pay", *needs, parameters={"to": to, **more.pop("words", {})}, **more)


def refusals(ran: Ran) -> list[str]:
    return [text for event in ran.events("plan_rejected") for text in event.violations]


def paid(ran: Ran) -> list[str]:
    return sorted(call.parameters["to"] for call in ran.source.calls if call.tool_id == "pay")


READ = step("l", "people")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param([READ, pay("p", "${l.output[0]}")], id="by a reference"),
        pytest.param([pay("p", "${item}", for_each='["Ann"]')], id="as an item"),
        pytest.param([READ, pay("p", "${item}", for_each="${l.output[:1]}")], id="as an item of what was read"),
        pytest.param([step("p", actions=[action("p1", "pay", to="Ann"), action("p2", "note")])], id="as an action"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "again",
    [
        pytest.param(pay("x", "Ann"), id="a step"),
        pytest.param(step("x", actions=[action("x1", "pay", to="Ann"), action("x2", "note", of="x")]), id="an action"),
        pytest.param(pay("x", "${item}", "y", for_each='["Ann"]'), id="a list after an effect"),
    ],
)  # fmt: skip
def test_what_was_done_in_other_words_and_is_named_again_by_its_values_is_told_with_the_plan(
    first: list[dict[str, Any]], again: dict[str, Any]
) -> None:
    ran = run([part(*first), plan(pay("y", "Bob"), again), plan(pay("y", "Bob"))])
    (text,) = refusals(ran)
    assert "makes the call of 'pay' that step 'p'" in text
    assert ran.result.succeeded
    assert not ran.events("step_failed")
    assert paid(ran) == ["Ann", "Bob"]


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(pay("x", "${l.output[0]}"), id="by what was read"),
        pytest.param(pay("x", "${p.output.paid}"), id="by what it gave itself"),
        pytest.param(pay("x", "${item}", "y", for_each="${l.output[:1]}"), id="a list of what was read, after an effect"),
        pytest.param(pay("x", "${metadata.boss}"), id="by the metadata"),
    ],
)  # fmt: skip
def test_so_is_what_refers_to_nothing_but_what_is_done(again: dict[str, Any]) -> None:
    first = [READ, pay("p", "Ann")]
    ran = run([part(*first), plan(pay("y", "Bob"), again), plan(pay("y", "Bob"))], metadata={"boss": "Ann"})
    assert len(refusals(ran)) == 1
    assert ran.result.succeeded
    assert paid(ran) == ["Ann", "Bob"]


def test_each_of_several_actions_is_told_at_once() -> None:
    both = step(
        "x",
        actions=[action("x1", "pay", to="Ann"), action("x2", "pay", to="Bob"), action("x3", "pay", to="Cid")],
    )
    rest = step("x", actions=[action("x3", "pay", to="Cid")])
    ran = run([part(READ, pay("p", "${item}", for_each="${l.output[:2]}")), plan(both), plan(rest)])
    one, two = refusals(ran)
    assert one.startswith("step 'x', action 'x1' makes the call of 'pay' that step 'p', item 1 has made")
    assert two.startswith("step 'x', action 'x2' makes the call of 'pay' that step 'p', item 2 has made")
    assert len(ran.events("plan_rejected")) == 1
    assert paid(ran) == PEOPLE


def test_of_a_list_that_is_read_it_is_said_how_an_item_is_left_out() -> None:
    again = pay("x", "${item}", "y", for_each="${l.output[:2]}")
    ran = run(
        [
            part(READ, pay("p", "Ann")),
            plan(pay("y", "Cid"), again),
            plan(pay("y", "Cid"), {**again, "for_each": "${l.output[1:2]}"}),
        ]
    )
    (text,) = refusals(ran)
    assert "step 'x', item 1: this call alone (to leave it out, write the list without it" in text
    assert paid(ran) == PEOPLE


@pytest.mark.parametrize("text", ["Hi Ann", "Hi ${l.output[0]}"])
def test_so_is_a_text_in_which_a_reference_stood(text: str) -> None:
    first = part(READ, pay("p", "ann", words={"text": "Hi ${l.output[0] | @}"}))
    ran = run([first, plan(pay("x", "ann", words={"text": text}), pay("y", "Bob")), plan(pay("y", "Bob"))])
    assert len(refusals(ran)) == 1
    assert paid(ran) == ["Bob", "ann"]


def test_what_is_named_again_and_meant_again_is_had_again() -> None:
    again = pay("x", "Ann", repeat=True)
    ran = run(
        [
            part(READ, pay("p", "${l.output[0]}")),
            plan(pay("x", "Ann"), pay("y", "Bob")),
            plan(again, pay("y", "Bob")),
        ]
    )
    assert len(refusals(ran)) == 1
    assert paid(ran) == ["Ann", "Ann", "Bob"]


@pytest.mark.parametrize("values", ['["Ann", "Bob", "Cid"]', "${l.output}"])
def test_a_list_that_goes_on_with_a_rest_is_asked_nothing(values: str) -> None:
    ran = run([part(READ, pay("p", "${l.output[0]}")), plan(pay("x", "${item}", for_each=values))])
    assert refusals(ran) == []
    assert ran.result.succeeded
    assert paid(ran) == PEOPLE


@pytest.mark.parametrize("values", ['["Ann", "Bob"]', "${l.output[:2]}"])
def test_also_where_what_is_done_was_done_twice(values: str) -> None:
    twice = [pay(name, "Ann", repeat=True) for name in "pq"]
    ran = run([part(READ, *twice), plan(pay("x", "${item}", for_each=values))])
    assert ran.result.succeeded
    assert paid(ran) == ["Ann", "Ann", "Bob"]


def test_a_value_that_looks_like_a_reference_is_none() -> None:
    odd = FakeTool(output=["${l.output}", "Bob"], effect="reads")

    async def main() -> Ran:
        tools = {"people": odd, "pay": FakeTool(output="paid", parameters=PAY, **ONCE)}
        plans = [part(READ, pay("p", "${l.output[0]}")), plan(pay("x", "${l.output[1]}")), plan()]
        made = await bench(tools, {"evaluation": verdict(), "execution_plan": plans})
        return (await made.run(evaluation="steps")).check()

    ran = virtual_time(main())
    assert refusals(ran) == []
    assert paid(ran) == ["${l.output}", "Bob"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.integers(0, 2)), min_size=1, max_size=3, unique_by=lambda one: one[0]),
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.integers(0, 2)), min_size=1, max_size=3, unique_by=lambda one: one[0]),
)  # fmt: skip
def test_however_two_parts_name_whom_they_pay_nobody_is_paid_twice_and_no_step_fails(
    first: list[tuple[str, int]], second: list[tuple[str, int]]
) -> None:
    def named(part_of: str, people: list[tuple[str, int]]) -> list[dict[str, Any]]:
        return [
            [
                pay(f"{part_of}{to}", to),
                pay(f"{part_of}{to}", f"${{l.output[{PEOPLE.index(to)}]}}"),
                pay(f"{part_of}{to}", "${item}", for_each=[to]),
            ][how]
            for to, how in people
        ]

    done = {to for to, _ in first}
    rest = [one for one in second if one[0] not in done]
    ran = run([part(READ, *named("a", first)), plan(*named("b", second)), plan(*named("b", rest))])
    assert ran.result.succeeded
    assert not ran.events("step_failed")
    assert len(ran.events("plan_rejected")) <= 1
    assert paid(ran) == sorted(done | {to for to, _ in second})


# ── a whole part restated ──


def shipping(n: int, *needs: str) -> list[dict[str, Any]]:
    return [
        step(f"q{n}", "people", *needs),
        step(f"h{n}", "ship", parameters={"order": "${item}"}, for_each=f"${{q{n}.output}}"),
        pay(f"t{n}", "boss", words={"text": f"shipped ${{h{n}.output[0].tracking}}"}),
    ]


@pytest.mark.parametrize("beside", [[], [pay("y", "Bob")]], ids=["alone", "beside something new"])
def test_what_is_told_of_a_list_that_was_all_done_is_answered_with_it(beside: list[dict[str, Any]]) -> None:
    ran = run([part(*shipping(1)), plan(*shipping(2), *beside)])
    assert refusals(ran) == []
    assert ran.result.succeeded
    assert ran.source.counts["ship"] == 3
    assert paid(ran) == [*("Bob" for _ in beside), "boss"]


def test_what_is_told_of_it_behind_something_new_is_not() -> None:
    ran = run([part(*shipping(1)), plan(pay("y", "Bob"), *shipping(2, "y"))])
    assert paid(ran) == ["Bob", "boss"], "told, and not done again"
    assert not ran.result.succeeded


# ── once more, part by part ──


def ticket(n: int, title: str, **said: Any) -> list[dict[str, Any]]:
    words = {"title": title, "session": f"${{l{n}.output.session}}"}
    return [step(f"l{n}", "login", **said), step(f"c{n}", "create", parameters=words)]


def test_each_part_may_begin_with_what_the_others_began_with_where_the_one_before_did_something_else() -> (
    None
):
    titles = "ABCDEFGH"
    parts = [part(*ticket(n, title, **({"repeat": True} if n else {}))) for n, title in enumerate(titles)]
    ran = run([*parts, plan()])
    assert ran.result.succeeded
    assert refusals(ran) == []
    assert ran.source.counts == {"login": 8, "create": 8}


def test_it_comes_to_an_end_where_nobody_agrees_and_that_is_told_with_the_plan() -> None:
    parts = [part(*ticket(n, f"T{n}", **({"repeat": True} if n else {}))) for n in range(14)]
    ran = run(parts)
    assert ran.source.counts["login"] == 10
    assert all("without a person who agrees" in text for text in refusals(ran))
    assert not ran.events("step_failed")


def test_what_did_nothing_else_since_is_told_so_with_the_plan() -> None:
    ran = run(
        [
            part(*ticket(0, "A")),
            part(step("l1", "login", repeat=True)),
            plan(step("l2", "login", repeat=True)),
            plan(step("c", "create", parameters={"title": "B", "session": "${l1.output.session}"})),
        ]
    )
    (text,) = refusals(ran)
    assert "step 'l2': this very call of 'login' was made already" in text
    assert ran.result.succeeded
    assert ran.source.counts == {"login": 2, "create": 2}
