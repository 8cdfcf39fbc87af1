"""A next part (`more`) is one plan with what stands before it: a like call of a `once` tool is refused unless it is meant, never answered."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
COMMAND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "program": {"type": "string"},
        "arguments": {"type": "array"},
        "pieces": {"type": "integer"},
    },
}
WHY = {"repeat": True, "repeat_reason": "the files have changed since"}


def run(plans: list[Any], **more: Any) -> Ran:
    async def main() -> Ran:
        tools = {
            "stock": FakeTool(output=lambda p: {"left": 3}, spec={"volatile": True}, **READS),
            "write": FakeTool(output="written", effect="repeatable"),
            "command": FakeTool(output="done", parameters=COMMAND, **ONCE),
            "enter": FakeTool(
                output="entered",
                parameters={"type": "object", "properties": {"folder": {"type": "string"}}},
                **ONCE,
            ),
            **more.pop("tools", {}),
        }
        made = await bench(
            tools, {"evaluation": verdict(), "execution_plan": plans, **more.pop("answers", {})}
        )
        return (await made.run(**more)).check()

    return virtual_time(main())


def copy(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    return step(name, "command", *needs, parameters={"program": "cp", "arguments": ["o", "c"]}, **more)


def write(name: str, text: str, *needs: str) -> dict[str, Any]:
    return step(name, "write", *needs, parameters={"path": "o", "text": text})


FIRST = {**plan(write("one", "1"), copy("copy_one", "one")), "more": "write 2 and copy it again"}


def refusals(ran: Ran) -> list[str]:
    return [text for event in ran.events("plan_rejected") for text in event.violations]


@pytest.mark.parametrize("again", ["copy_two", "copy_one"])
@pytest.mark.parametrize("judge", ["model", "steps"])
def test_the_same_command_after_the_change_is_asked_about_and_then_made(judge: str, again: str) -> None:
    unsaid = plan(write("two", "2"), copy(again, "two"))
    said = plan(write("two", "2"), copy(again, "two", **WHY))
    ran = run([FIRST, unsaid, said], evaluation=judge)
    (refused,) = refusals(ran)
    assert "makes the call of 'command' that step 'copy_one' has made" in refused
    assert "`repeat: true`" in refused
    assert ran.result.succeeded
    assert ran.source.counts == {"write": 2, "command": 2}


def test_what_the_next_part_leaves_out_at_the_hint_is_not_made_again() -> None:
    ran = run([FIRST, plan(write("two", "2"), copy("copy_two", "two")), plan(write("two", "2"))])
    assert len(refusals(ran)) == 1
    assert ran.result.succeeded
    assert ran.source.counts == {"write": 2, "command": 1}


def test_a_copy_of_what_stays_that_waits_for_nothing_new_is_only_a_copy() -> None:
    ran = run([FIRST, plan(write("one", "1"), copy("copy_one", "one"), write("two", "2", "copy_one"))])
    assert refusals(ran) == []
    assert ran.result.succeeded
    assert ran.source.counts == {"write": 2, "command": 1}


def test_of_several_like_calls_of_the_next_part_each_says_that_it_is_meant_and_is_one_more() -> None:
    half = plan(copy("b", **WHY), copy("c", "b"))
    both = plan(copy("b", **WHY), copy("c", "b", **WHY))
    ran = run([FIRST, half, both])
    (refused,) = refusals(ran)
    assert "step 'b' and step 'c' make the call of 'command' that step 'copy_one' has made" in refused
    assert ran.result.succeeded
    assert ran.source.counts["command"] == 3


REFLECTED: dict[str, Any] = {
    "step_reflection": reflection("trigger_overall_reflection", {"summary": "it is done"}),
    "overall_reflection": overall(),
}
PIECES = "${look_2.output.left}"
FIRST_ORDER = {
    **plan(step("look", "stock"), step("first", "command", parameters={"pieces": "${look.output.left}"})),
    "more": "look again and order what is low",
}


@pytest.mark.parametrize(
    "second",
    [
        pytest.param([step("second", "command", parameters={"pieces": PIECES})], id="a step"),
        pytest.param([write("w", "1"), step("second", "command", "w", for_each=[PIECES], parameters={"pieces": "${item}"})],
                     id="a list after an effect"),
    ],
)  # fmt: skip
def test_a_like_call_that_shows_only_when_its_references_are_read_is_refused_and_not_answered(
    second: list[dict[str, Any]],
) -> None:
    ran = run([FIRST_ORDER, plan(step("look_2", "stock"), *second)], answers=REFLECTED)
    assert ran.source.counts["command"] == 1
    (refused,) = ran.events("step_failed")
    assert refused.step_id == "second"
    assert "step 'first'" in refused.error.message
    assert "makes this very call of 'command' already" in refused.error.message


@pytest.mark.parametrize("judge", ["model", "steps"])
@pytest.mark.parametrize(
    "second",
    [
        pytest.param([step("second", "command", for_each=[PIECES, 8], parameters={"pieces": "${item}"})], id="read anew"),
        pytest.param([step("second", "command", for_each=[3, 8], parameters={"pieces": "${item}"})], id="written"),
        pytest.param([step("second", "command", "look_2", for_each=[8, 3], parameters={"pieces": "${item}"})], id="after a reading"),
    ],
)  # fmt: skip
def test_a_list_may_name_again_what_is_done_and_goes_on_with_the_rest(
    second: list[dict[str, Any]], judge: str
) -> None:
    ran = run([FIRST_ORDER, plan(step("look_2", "stock"), *second)], evaluation=judge)
    assert ran.result.succeeded
    assert ran.source.counts["command"] == 2


def enter(name: str, folder: str, *needs: str, **more: Any) -> dict[str, Any]:
    return step(name, "enter", *needs, parameters={"folder": folder}, **more)


def test_also_of_a_tool_that_sets_a_state_the_order_of_the_parts_does_not_say_that_it_is_meant_again() -> (
    None
):
    first = {**plan(enter("in", "temp")), "more": "go up, and in again"}
    up = enter("up", "..")
    ran = run([first, plan(up, enter("again", "temp", "up")), plan(up, enter("again", "temp", "up", **WHY))])
    assert len(refusals(ran)) == 1
    assert ran.result.succeeded
    assert ran.source.counts == {"enter": 3}


@pytest.mark.parametrize(
    "last", [[], [enter("third", "cellar", "again")]], ids=["as it was", "and gone on with"]
)
def test_a_part_that_states_a_chain_of_done_steps_again_does_none_of_them_twice(last: list[Any]) -> None:
    first = {**plan(enter("in", "temp"), enter("up", "..", "in")), "more": "tell it"}
    chain = [enter("also", "temp"), enter("again", "..", "also"), *last]
    ran = run([first, plan(*chain, write("w", "1", "again")), plan(write("w", "1"))])
    assert len(refusals(ran)) == 2
    assert ran.result.succeeded
    assert ran.source.counts == {"enter": 2, "write": 1}


def test_nor_where_that_shows_only_when_references_are_read() -> None:
    first = {
        **plan(step("look", "stock"), enter("in", "${look.output.left | to_string(@)}")),
        "more": "tell it",
    }
    again = enter("again", "${look_2.output.left | to_string(@)}", "up")
    ran = run(
        [first, plan(step("look_2", "stock"), enter("up", ".."), again)],
        answers={
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "it is done"}),
            "overall_reflection": overall(),
        },
    )
    assert ran.source.counts == {"stock": 2, "enter": 2}
    assert not ran.result.succeeded


def test_a_state_that_nothing_has_changed_since_the_part_before_is_not_set_again_unsaid() -> None:
    ran = run(
        [
            {**plan(step("in", "enter", parameters={"folder": "temp"})), "more": "go on"},
            plan(step("again", "enter", parameters={"folder": "temp"})),
            plan(),
        ]
    )
    assert len(refusals(ran)) == 1
    assert ran.source.counts == {"enter": 1}


def test_what_a_plan_restates_after_a_failure_is_answered_from_the_ledger_as_before() -> None:
    ran = run(
        [
            {**plan(copy("copy_one")), "more": "the rest"},
            plan(step("bad", "broken")),
            plan(copy("copy_two"), write("two", "2", "copy_two")),
        ],
        tools={"broken": FakeTool(fail=["broken"] * 9, **READS)},
        answers={
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan"}),
        },
    )
    assert ran.source.counts["command"] == 1
    assert ran.result.succeeded


# ── old ids in a next part ──

PAY: dict[str, Any] = {
    "pay": FakeTool(
        output=lambda p: f"paid {p['to']}",
        parameters={"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
        **ONCE,
    )
}


def pay(name: str, to: str, *needs: str, **more: Any) -> dict[str, Any]:
    return step(name, "pay", *needs, parameters={"to": to}, **more)


def paid(ran: Ran) -> list[str]:
    return sorted(call.parameters["to"] for call in ran.source.calls if call.tool_id == "pay")


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_step_of_the_next_part_that_goes_through_another_list_is_no_copy_of_the_one_with_its_id(
    judge: str,
) -> None:
    first = {**plan(pay("p", "${item}", for_each='["Ann", "Bob"]')), "more": "the rest"}
    ran = run([first, plan(pay("p", "${item}", for_each='["Cid"]'))], tools=PAY, evaluation=judge)
    assert refusals(ran) == []
    assert ran.result.succeeded
    assert paid(ran) == ["Ann", "Bob", "Cid"]


@pytest.mark.parametrize("name", ["p", "q"])
@pytest.mark.parametrize("judge", ["model", "steps"])
def test_what_its_condition_has_skipped_can_be_planned_again_under_any_id(judge: str, name: str) -> None:
    look, again = step("look", "stock"), step("look_again", "stock")
    skipped = pay("p", "Ann", "look", when="${look.output.left} == `7`")
    first = {**plan(look, skipped), "more": "pay Ann"}
    ran = run([first, plan(again, pay(name, "Ann", "look_again"))], tools=PAY, evaluation=judge)
    assert refusals(ran) == []
    assert ran.result.succeeded
    assert paid(ran) == ["Ann"]


def test_a_volatile_reading_under_its_old_id_is_asked_about_and_read_anew_under_a_new_one() -> None:
    invoices = iter(["Ann", "Bob"])
    tools = {**PAY, "next": FakeTool(output=lambda p: next(invoices), spec={"volatile": True}, **READS)}
    first = {**plan(step("n", "next"), pay("p", "${n.output}")), "more": "the next one"}
    same = plan(step("n", "next"), pay("p", "${n.output}"))
    anew = plan(step("n2", "next"), pay("p2", "${n2.output}"))
    ran = run([first, same, anew], tools=tools)
    (refused,) = refusals(ran)
    assert "step 'n' is done under that id" in refused
    assert ran.result.succeeded
    assert paid(ran) == ["Ann", "Bob"]


def test_a_reading_from_before_an_effect_is_asked_about_where_a_new_step_goes_by_it() -> None:
    tools = {**PAY, "read": FakeTool(output="text", **READS)}
    first = {**plan(step("r", "read"), write("w", "2", "r")), "more": "read it again and pay"}
    same = plan(step("r", "read"), pay("p", "${r.output}"))
    ran = run([first, same, plan(pay("p", "${r.output}"))], tools=tools)
    (refused,) = refusals(ran)
    assert "leave it out if what it gave is meant" in refused
    assert ran.result.succeeded
    assert ran.source.counts == {"read": 1, "write": 1, "pay": 1}


def part(*steps: Any, more: str = "once more") -> dict[str, Any]:
    return {**plan(*steps), "more": more}


def test_run_mend_and_run_again_in_three_parts_is_done_as_it_was_announced() -> None:
    ran = run(
        [
            part(write("one", "1"), copy("copy_one", "one")),
            part(write("two", "2"), copy("copy_two", "two", **WHY)),
            plan(write("three", "3"), copy("copy_three", "three", **WHY)),
        ]
    )
    assert ran.result.succeeded
    assert ran.source.counts == {"write": 3, "command": 3}


def test_without_a_person_parts_that_do_nothing_else_first_repeat_an_effect_once() -> None:
    ran = run([part(copy("a")), part(copy("b", **WHY)), plan(copy("c", **WHY)), plan()])
    assert ran.source.counts == {"command": 2}
    (refused,) = refusals(ran)
    assert "without a person who agrees" in refused
    assert ran.result.succeeded, "it is told with the plan, which then does without"


def test_parts_that_announce_one_more_each_time_come_to_an_end_where_nobody_is_asked() -> None:
    def planned(request: Any) -> dict[str, Any]:
        n = len(counted)
        counted.append(n)
        return part(write(f"w{n}", str(n)), copy(f"c{n}", f"w{n}", **(WHY if n else {})))

    counted: list[int] = []
    ran = run([planned] * 60)
    assert ran.source.counts["command"] == 10
    assert not ran.result.succeeded


@pytest.mark.parametrize("between", [False, True])
def test_a_persons_yes_settles_each_further_one_in_parts_of_its_own(between: bool) -> None:
    def again(name: str, text: str) -> list[Any]:
        return [write(f"w{name}", text), copy(name, f"w{name}", **WHY)] if between else [copy(name, **WHY)]

    parts = [part(copy("a")), part(*again("b", "2")), plan(*again("c", "3"))]

    async def main() -> tuple[Ran, int]:
        tools = {
            "write": FakeTool(output="written", effect="repeatable"),
            "command": FakeTool(output="done", parameters=COMMAND, **ONCE),
        }
        made = await bench(tools, {"evaluation": verdict(), "execution_plan": parts})
        task_id = await made.submit(interactive=True)
        ran, asked = await made.drive(task_id), 0
        while ran.result.status == "waiting" and asked < 5:
            asked += 1
            await made.service.resolve_approval(task_id, approved=True)
            ran = await made.drive(task_id)
        return ran.check(), asked

    ran, asked = virtual_time(main())
    assert asked == 2
    assert ran.result.succeeded
    assert ran.source.counts["command"] == 3


@pytest.mark.parametrize("behind", [(), ("two",)], ids=["by itself", "behind a new effect"])
def test_what_a_plan_before_has_done_whose_steps_are_gone_is_asked_about_too(behind: tuple[str, ...]) -> None:
    """A first part, a plan made anew in its place, and the part after that."""
    first = {**plan(copy("copy_one"), step("look", "broken", "copy_one")), "more": "copy it again"}
    anew = {**plan(step("stock", "stock")), "more": "copy it again"}
    ran = run(
        [
            first,
            anew,
            plan(write("two", "2"), copy("copy_two", *behind)),
            plan(write("two", "2"), copy("copy_two", *behind, **WHY)),
        ],
        tools={"broken": FakeTool(fail=["broken"] * 9, **READS)},
        answers={
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "it is broken"}),
            "overall_reflection": overall(True, replanning_strategy={"type": "full_replan"}),
        },
    )
    (said,) = refusals(ran)
    assert "'copy_one' of an earlier plan has made" in said
    assert ran.source.counts["command"] == 2
    assert ran.result.is_success
