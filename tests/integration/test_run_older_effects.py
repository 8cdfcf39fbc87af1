"""A plan made anew that puts a done effect behind a new one: it says which it means; the effect is neither answered in silence nor made again unsaid."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.testing import virtual_time

COMMAND: dict[str, Any] = {
    "type": "object",
    "properties": {"program": {"type": "string"}, "arguments": {"type": "array"}},
}
WHY = {"repeat": True, "repeat_reason": "it has to be of what is there now"}
NOTE = "what it was reused from was made before 'two' (write)"
STRATEGY = {"type": "full_replan"}


def copy(name: str, *needs: str, of: str = "o", **more: Any) -> dict[str, Any]:
    return step(name, "command", *needs, parameters={"program": "cp", "arguments": [of, "c"]}, **more)


def write(name: str, text: str, *needs: str) -> dict[str, Any]:
    return step(name, "write", *needs, parameters={"path": "o", "text": text})


FIRST = plan(write("one", "1"), copy("copy_one", "one"), step("look", "broken", "copy_one"))


def run(
    *anew: dict[str, Any],
    first: dict[str, Any] = FIRST,
    strategy: dict[str, Any] | None = None,
    answers: dict[str, Any] | None = None,
    tools: dict[str, FakeTool] | None = None,
    **more: Any,
) -> Ran:
    async def main() -> Ran:
        known = {
            "write": FakeTool(output="written", effect="repeatable"),
            "command": FakeTool(output="done", effect="once", parameters=COMMAND),
            "path": FakeTool(output="o", **READS),
            "broken": FakeTool(fail=["broken"] * 9, **READS),
            **(tools or {}),
        }
        said = {
            "evaluation": verdict(),
            "execution_plan": [first, *anew],
            "step_reflection": reflection("trigger_overall_reflection", {"summary": "it is broken"}),
            "overall_reflection": overall(True, replanning_strategy=strategy or STRATEGY),
            **(answers or {}),
        }
        made = await bench(known, said)
        return (await made.run(**more)).check()

    return virtual_time(main())


def refusals(ran: Ran) -> list[str]:
    return [text for event in ran.events("plan_rejected") for text in event.violations]


@pytest.mark.parametrize("kind", ["full_replan", "replan_from_step"])
@pytest.mark.parametrize("judge", ["model", "steps"])
def test_what_is_restated_behind_a_change_is_asked_about_and_made_where_it_is_said(
    judge: str, kind: str
) -> None:
    strategy = {"type": kind, **({"step_id": "look"} if kind == "replan_from_step" else {})}
    unsaid = plan(write("two", "2"), copy("copy_two", "two"))
    said = plan(write("two", "2"), copy("copy_two", "two", **WHY))
    ran = run(unsaid, said, strategy=strategy, evaluation=judge)
    (refused,) = refusals(ran)
    assert "'copy_two' makes the call of 'command' that step 'copy_one' has made" in refused
    assert "step 'two' (write)" in refused
    assert "repeat_reason" in refused
    assert ran.source.counts["command"] == 2
    assert ran.result.succeeded


def test_what_a_plan_leaves_out_at_the_hint_is_not_made_again() -> None:
    ran = run(plan(write("two", "2"), copy("copy_two", "two")), plan(write("two", "2")))
    assert ran.source.counts == {"write": 2, "command": 1, "broken": 1}
    assert ran.result.succeeded


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_planner_that_does_not_say_it_gets_no_success(judge: str) -> None:
    between = step("wait", "write", "two", parameters={"path": "elsewhere", "text": "x"})
    ran = run(plan(write("two", "2"), between, copy("copy_two", "wait")), evaluation=judge)
    assert ran.source.counts["command"] == 1, "never again unsaid"
    assert not ran.result.succeeded, "never answered with what it gave before the change"


def test_it_is_asked_too_where_nothing_tells_what_the_effect_is_made_of() -> None:
    first = plan(copy("copy_one", of="x"), step("look", "broken", "copy_one"))
    ran = run(plan(write("two", "2"), copy("copy_two", "two", of="x")), plan(write("two", "2")), first=first)
    assert len(refusals(ran)) == 1
    assert ran.result.succeeded


def test_what_goes_by_a_reading_is_asked_about_once_it_is_read() -> None:
    by_reading = {"program": "cp", "arguments": ["${read.output}", "c"]}
    anew = plan(
        step("read", "path", parameters={"a": 1}),
        write("two", "2"),
        step("copy_two", "command", "two", "read", parameters=by_reading),
    )
    ran = run(anew, plan(copy("copy_three", **WHY)), evaluation="steps")
    failed = next(event for event in ran.events("step_failed") if event.step_id == "copy_two")
    assert failed.error.kind == "repeated"
    assert "that step 'copy_one' has made" in failed.error.message


def test_a_result_that_was_judged_wrong_is_made_anew_where_the_plan_says_so() -> None:
    first = plan(copy("copy_one"))
    said = plan(write("two", "2"), copy("copy_two", "two", **WHY))
    no = verdict(20)
    ran = run(
        plan(write("two", "2"), copy("copy_two", "two")),
        said,
        first=first,
        answers={"evaluation": [no, verdict()]},
    )
    assert len(refusals(ran)) == 1
    assert ran.source.counts == {"write": 1, "command": 2}
    assert ran.result.succeeded


@pytest.mark.parametrize(
    "anew",
    [
        plan(copy("copy_two"), write("two", "2", "copy_two")),
        plan(write("two", "2"), copy("copy_two")),
        plan(write("two", "1"), copy("copy_two", "two")),
        plan(copy("copy_two"), step("seen", "path", "copy_two", parameters={"a": 1})),
        plan(write("two", "1"), copy("copy_two", "two"), copy("other", "copy_two", of="z")),
    ],
    ids=[
        "it comes first",
        "it waits for nothing",
        "nothing has changed",
        "a reading follows",
        "the rest goes on behind it",
    ],
)
def test_what_is_not_behind_a_change_is_reused_without_a_word(anew: dict[str, Any]) -> None:
    ran = run(anew)
    assert not refusals(ran)
    assert ran.result.succeeded
    assert ran.source.counts["command"] == 1 + ("z" in str(anew))
    assert not any("was not made again" in one for one in ran.result.shortfall)


def test_what_is_set_back_and_done_again_is_asked_about_since_another_state_was_there_last() -> None:
    first = plan(
        write("one", "1"),
        copy("copy_one", "one", repeat=True),
        write("two", "2", "copy_one"),
        copy("copy_two", "two", repeat=True),
        step("look", "broken", "copy_two"),
    )
    ran = run(
        plan(write("back", "1"), copy("copy_back", "back")),
        plan(write("back", "1"), copy("copy_back", "back", **WHY)),
        first=first,
    )
    assert len(refusals(ran)) == 1
    assert ran.source.counts == {"write": 3, "command": 3, "broken": 1}


def test_a_list_that_names_again_what_is_done_goes_on_with_the_rest_behind_what_lets_it() -> None:
    items = {"for_each": ["a", "b"], "parameters": {"to": "${item}"}}
    first = plan(step("pay", "pay", **items))
    anew = plan(
        step("unlock", "write", parameters={"path": "x", "text": "y"}),
        step("pay_2", "pay", "unlock", **items),
    )
    fails = {"b": 1}

    def pay(parameters: dict[str, Any]) -> dict[str, Any]:
        if fails.pop(parameters["to"], 0):
            raise ValueError("to: b is locked")
        return {"paid": parameters["to"]}

    ran = run(anew, first=first, tools={"pay": FakeTool(output=pay, effect="once")})
    assert ran.source.counts["pay"] == 3, "a, b refused, b paid"
    assert ran.result.succeeded


def test_an_item_that_is_about_what_was_changed_is_asked_about_all_the_same() -> None:
    files = {"parameters": {"program": "cp", "arguments": ["${item}", "c"]}}
    first = plan(step("copies", "command", for_each=["o", "p"], **files), step("look", "broken", "copies"))
    anew = plan(write("two", "2"), step("more", "command", "two", for_each=["o", "p", "q"], **files))
    ran = run(anew, plan(copy("last", **WHY)), first=first, evaluation="steps")
    failed = next(event for event in ran.events("step_failed") if event.step_id == "more")
    assert "item 1" in failed.error.message
    assert "item 1: this call alone (a step of its own says `repeat`" in failed.error.message
    assert "item 2" not in failed.error.message


@pytest.mark.parametrize("kind", ["replan_from_step", "add_remediation_steps"])
@pytest.mark.parametrize("written", ["one", "two"])
def test_it_is_no_copy_of_what_stands_where_it_waits_for_a_new_step_now(kind: str, written: str) -> None:
    strategy = {"type": kind, "step_id": "look"}
    ran = run(
        plan(write(written, "2"), copy("copy_one", written)),
        plan(write(written, "2"), copy("copy_one", written, **WHY)),
        strategy=strategy,
        tools={"broken": FakeTool(fail=["broken"], output="seen", **READS)},
    )
    assert len(refusals(ran)) == 1
    assert ran.source.counts["command"] == 2, "the second is of what is there now"
    assert ran.result.succeeded


def test_what_is_still_to_run_is_a_copy_whatever_it_waits_for() -> None:
    first = plan(step("look", "broken"), copy("copy_one", "look"))
    ran = run(
        plan(write("two", "2"), step("look", "broken", "two"), copy("copy_one", "look", "two")),
        first=first,
        strategy={"type": "add_remediation_steps", "step_id": "look"},
        tools={"broken": FakeTool(fail=["broken"], output="seen", **READS)},
    )
    assert not refusals(ran)
    assert ran.source.counts == {"write": 1, "broken": 2, "command": 1}
    assert ran.result.succeeded


@pytest.mark.parametrize("judge", ["model", "steps"])
def test_a_list_of_which_all_was_done_is_asked_about_as_one_call_is(judge: str) -> None:
    """Nothing tells what `make test` is made of."""
    made = {"parameters": {"program": "make", "arguments": ["${item}"]}, "for_each": ["test", "lint"]}
    first = plan(
        write("one", "1"), step("checks", "command", "one", **made), step("look", "broken", "checks")
    )
    ran = run(
        plan(write("two", "2"), step("again", "command", "two", **made)),
        plan(step("really", "command", **made, **WHY)),
        first=first,
        evaluation=judge,
    )
    failed = next(event for event in ran.events("step_failed") if event.step_id == "again")
    assert "waits for an effect that came after that" in failed.error.message
    assert ran.source.counts["command"] == 4
    assert ran.result.succeeded


@pytest.mark.parametrize("name", ["abc", "Makefile", "src"])
def test_an_item_names_what_was_changed_in_a_word_of_its_command_too(name: str) -> None:
    def written(step_id: str, text: str) -> dict[str, Any]:
        return step(step_id, "write", parameters={"path": name, "text": text})

    line = {"parameters": {"program": "sh", "arguments": ["${item}"]}}
    items = [f"cp {name} c", "test -f z"]
    first = plan(
        written("one", "1"),
        step("all", "command", "one", for_each=items, **line),
        step("look", "broken", "all"),
    )
    anew = plan(written("two", "2"), step("more", "command", "two", for_each=[*items, "true"], **line))
    ran = run(anew, first=first, evaluation="steps")
    failed = next(event for event in ran.events("step_failed") if event.step_id == "more")
    assert "item 1" in failed.error.message
    assert "item 2" not in failed.error.message
    assert not ran.result.is_success


# ── what a plan made anew writes under ids that were used ─────────────────────


STRATEGIES = ["replan_from_step", "add_remediation_steps"]


def paid(ran: Ran) -> list[Any]:
    return [event.parameters["to"] for event in ran.events("call_started") if event.tool_id == "pay"]


@pytest.mark.parametrize("kind", STRATEGIES)
@pytest.mark.parametrize("shape", ["list", "condition"])
def test_what_goes_by_a_new_step_under_its_old_id_is_no_copy_of_what_went_by_the_old_one(
    kind: str, shape: str
) -> None:
    def page(parameters: Any) -> list[str]:
        return [["Ann"], ["Bob"], []][parameters["n"]]

    def written(n: int) -> list[dict[str, Any]]:
        items: dict[str, Any] = {"parameters": {"to": "${item}"}, "for_each": "${l.output}"}
        if shape == "condition":
            items = {"parameters": {"to": "Bob"}, "when": "length(l.output) == `1`"}
        return [step("l", "page", parameters={"n": n}), step("p", "pay", "l", **items)]

    first = plan(*written(0 if shape == "list" else 2), step("look", "broken", "p"))
    ran = run(
        plan(*written(1)),
        plan(*written(1)),
        first=first,
        strategy={"type": kind, "step_id": "look"},
        tools={
            "page": FakeTool(output=page, **READS),
            "pay": FakeTool(output="paid", effect="once"),
            "broken": FakeTool(fail=["broken"], output="seen", **READS),
        },
    )
    assert paid(ran) == (["Ann", "Bob"] if shape == "list" else ["Bob"])
    assert ran.result.is_success


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_reading_under_its_old_id_is_asked_about_where_it_may_give_something_else(kind: str) -> None:
    shown = iter(["1", "2"])
    first = plan(write("one", "1"), step("seen", "show", "one"), step("look", "broken", "seen"))
    post = step("post", "pay", parameters={"to": "${seen.output}"})
    ran = run(
        plan(write("two", "2"), step("seen", "show"), post),
        plan(
            write("two", "2"),
            step("seen_2", "show", "two"),
            {**post, "parameters": {"to": "${seen_2.output}"}},
        ),
        first=first,
        strategy={"type": kind, "step_id": "look"},
        tools={
            "show": FakeTool(output=lambda p: next(shown), **READS),
            "pay": FakeTool(output="paid", effect="once"),
            "broken": FakeTool(fail=["broken"], output="seen", **READS),
        },
    )
    (said,) = refusals(ran)
    assert "is done under that id" in said
    assert paid(ran) == ["2"]


@pytest.mark.parametrize("mark", ["requires_approval", "allow_failed_items"])
def test_a_copy_of_what_is_still_to_run_brings_what_it_asks_for_beside_its_call(mark: str) -> None:
    items = {"parameters": {"to": "${item}"}, "for_each": ["Ann", "Bob"]}
    first = plan(step("look", "broken"), step("p", "pay", "look", **items))
    ran = run(
        plan(step("fix", "path"), step("p", "pay", "look", **items, **{mark: True})),
        first=first,
        strategy={"type": "add_remediation_steps", "step_id": "look"},
        tools={
            "pay": FakeTool(output="paid", effect="once"),
            "broken": FakeTool(fail=["broken"], output="seen", **READS),
        },
    )
    assert getattr(ran.state.steps["p"].step, mark)
    assert paid(ran) == ([] if mark == "requires_approval" else ["Ann", "Bob"])


@pytest.mark.parametrize("judge", ["model", "steps"])
@pytest.mark.parametrize("kind", ["full_replan", "replan_from_step"])
def test_what_was_announced_makes_nothing_good_that_failed(kind: str, judge: str) -> None:
    def pay(name: str, to: str, **more: Any) -> dict[str, Any]:
        return step(name, "pay", parameters={"to": to, "amount": 5}, expected_output="a receipt", **more)

    first = {**plan(pay("p", "Ann")), "more": "pay Bob, tell the boss"}
    ran = run(
        {**plan(pay("q", "Bob")), "more": "tell the boss"},
        plan(step("m", "command", parameters={"program": "tell"})),
        first=first,
        strategy={"type": kind, "step_id": "p"},
        tools={"pay": FakeTool(output="paid", fail=["to: closed"], effect="once")},
        evaluation=judge,
    )
    assert paid(ran) == ["Ann", "Bob"]
    assert not ran.result.is_success


@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_volatile_reading_that_is_stated_again_is_asked_about_with_what_goes_by_it(kind: str) -> None:
    states = iter(["busy", "ready"])

    def polled(reads: str, name: str) -> list[dict[str, Any]]:
        when = f"{reads}.output == 'ready'"
        return [step(reads, "status"), step(name, "pay", reads, parameters={"to": "Ann"}, when=when)]

    ran = run(
        plan(*polled("s", "p")),
        plan(*polled("s_2", "p_2")),
        first=plan(*polled("s", "p"), step("look", "broken", "p")),
        strategy={"type": kind, "step_id": "look"},
        tools={
            "status": FakeTool(output=lambda p: next(states), effect="reads", spec={"volatile": True}),
            "pay": FakeTool(output="paid", effect="once"),
            "broken": FakeTool(fail=["broken"], output="seen", **READS),
        },
    )
    assert any("is done under that id" in one for one in refusals(ran))
    assert paid(ran) == ["Ann"]
    assert ran.result.is_success


@pytest.mark.parametrize("shape", ["one", "a longer list"])
def test_the_very_call_that_failed_counts_in_whatever_shape_its_step_is_planned_again(shape: str) -> None:
    items: dict[str, Any] = {"parameters": {"to": "${item}"}}
    closed = {"Bob": 1}

    def pay(parameters: Any) -> str:
        if closed.pop(parameters["to"], 0):
            raise ValueError("to: closed until noon")
        return "paid"

    again = (
        step("x", "pay", parameters={"to": "Bob"})
        if shape == "one"
        else step("x", "pay", for_each=["Ann", "Bob", "Dan"], **items)
    )
    ran = run(
        plan(again),
        first={**plan(step("p", "pay", for_each=["Ann", "Bob"], **items)), "more": "tell the boss"},
        tools={"pay": FakeTool(output=pay, effect="once")},
    )
    assert paid(ran).count("Ann") == 1
    assert ran.result.is_success
