"""A call that came to nothing and was made otherwise is the effect that it was meant as, for every tool that has that effect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_counterparts import END, fields
from test_run_very_call import REPLAN, overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time

WORDS = {"note": {"type": "string"}, "session": {"type": "string"}}
AGAIN = {"repeat": True, "repeat_reason": "she is owed it twice"}
FULL = overall(type="full_replan")
TRANSFER = {
    **reflection("retry_with_tool", {"tool_id": "transfer", "parameters": {"to": "Ann"}}),
    "root_cause_category": "tool_error",
}


class Bank:
    """`closed`: payments to these are refused, so many times each."""

    def __init__(self, **closed: int) -> None:
        self.closed = closed
        self.paid: list[str] = []
        self.sessions = itertools.count(1)

    def pay(self, parameters: Any) -> Any:
        if self.closed.get(parameters["to"], 0) > 0:
            self.closed[parameters["to"]] -= 1
            raise ToolCallError(f"{parameters['to']} is closed", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def tools(self) -> dict[str, FakeTool]:
        def pays(**spec: Any) -> FakeTool:
            return FakeTool(output=self.pay, effect="once", parameters=fields("to", **WORDS), spec=spec)

        token = FakeTool(output=lambda _: f"s{next(self.sessions)}", effect="reads", spec={"volatile": True})
        return {
            "pay": pays(), "upay": pays(unique_by=("to",)), "spay": pays(substitutes=("wire",)), "wire": pays(),
            "transfer": pays(), "token": token, "who": FakeTool(output=lambda p: p["n"], effect="reads"),
            "look": FakeTool(output=refused, effect="reads"), "tell": FakeTool(output="told", effect="once"),
        }  # fmt: skip

    def run(self, plans: Sequence[Any], *reflected: Any, to: str = "", rounds: int = 9) -> Ran:
        """`to`: whom a person pays in place of the first."""
        answers = {
            "execution_plan": list(plans),
            "step_reflection": [*reflected, *[REPLAN] * 9],
            "overall_reflection": [*[FULL] * (rounds - 1), END, END],
            "evaluation": verdict(),
        }

        async def main() -> Ran:
            made = await bench(self.tools(), answers)
            task_id = await made.submit(evaluation="steps", interactive=bool(to))
            ran = await made.drive(task_id)
            if to:
                await made.service.resolve_approval(task_id, approved=True, parameters={"to": to})
                ran = await made.drive(task_id)
            return ran

        return virtual_time(main())


def refused(parameters: Any) -> Any:
    raise ToolCallError("nothing to be seen", kind="tool")


def told(ran: Ran) -> list[str]:
    plans = [text for one in ran.events("plan_rejected") for text in one.violations]
    return [*plans, *(one.error.message for one in ran.events("step_reflected"))]


def pays(name: str, tool: str = "upay", *needs: str, to: str = "Ann", **more: Any) -> dict[str, Any]:
    said = {
        key: more.pop(key)
        for key in ("repeat", "repeat_reason", "for_each", "instead_of", "requires_approval")
        if key in more
    }
    return step(name, tool, *needs, parameters={"to": to, **more}, **said)


LATER: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "with a note": ("upay", [pays("q", note="x")]),
    "over another session": ("upay", [step("l", "token"), pays("q", "upay", "l", session="${l.output}")]),
    "as a list with a note": ("upay", [pays("q", to="${item}", note="x", for_each='["Ann"]')]),
    "by a tool that does the same": ("spay", [pays("q", "wire")]),
    "by one that does the same, over another session": (
        "spay",
        [step("l", "token"), pays("q", "wire", "l", session="${l.output}")],
    ),
    "plainly, over another session": (
        "pay",
        [step("l", "token"), pays("q", "pay", "l", session="${l.output}")],
    ),
    "plainly, in the very words": ("pay", [pays("q", "pay")]),
}  # fmt: skip


def first(tool: str, words: str, **more: Any) -> dict[str, Any]:
    return pays("p", tool, **({"session": "s0"} if words.endswith("session") else {}), **more)


def comes_next(kind: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    if kind == "more":
        return {**plan(*before), "more": "the rest"}
    return plan(*before, step("z", "look", before[-1]["step_id"]))


@pytest.mark.parametrize("kind", ["more", "full"])
@pytest.mark.parametrize("how", ["recovery", "another tool", "a later plan", "in its place", "a person"])
@pytest.mark.parametrize("words", LATER)
def test_it_is_not_made_as_it_was_meant_first(words: str, how: str, kind: str) -> None:
    tool, later = LATER[words]
    planned = [plan(*later, step("m", "tell")), plan(step("m", "tell"))]
    one = first(tool, words)
    if how in ("recovery", "another tool"):
        bank = Bank(Ann=1)
        fix = TRANSFER if how == "another tool" else reflection("retry_with_params", {"to": "Ann2"})
        ran = bank.run([comes_next(kind, [one]), *planned], fix)
    elif how == "a person":
        bank = Bank()
        asks = {**one, "requires_approval": True}
        ran = bank.run([comes_next(kind, [asks]), *planned], to="Ann2")
    else:
        bank = Bank(Ann=1)
        said = {"instead_of": ["p"]} if how == "in its place" else {}
        other = {**first(tool, words, **said), "step_id": "p2", "name": "p2"}
        other["parameters"] = {**other["parameters"], "to": "Ann2"}
        ran = bank.run([plan(one), comes_next(kind, [other]), *planned])
    assert bank.paid == (["Ann"] if how == "another tool" else ["Ann2"])
    assert any("'p'" in text and "leave it out" in text for text in told(ran))
    assert ran.state.status == "succeeded", ran.state.outcome


@pytest.mark.parametrize("how", ["recovery", "a person"])
def test_nor_where_only_a_reading_tells_whom_it_is_for(how: str) -> None:
    later = [step("w", "who", parameters={"n": "Ann"}), pays("q", "upay", "w", to="${w.output}", note="x")]
    asks = {"requires_approval": True} if how == "a person" else {}
    bank = Bank(**({} if asks else {"Ann": 1}))
    fix = [] if asks else [reflection("retry_with_params", {"to": "Ann2"})]
    ran = bank.run(
        [comes_next("more", [pays("p", **asks)]), plan(*later)], *fix, to="Ann2" if asks else "", rounds=1
    )
    assert bank.paid == ["Ann2"]
    assert any("step 'p' has meant this with 'upay'" in text for text in told(ran))


def test_what_a_person_has_changed_is_told_as_that() -> None:
    bank = Bank()
    one = pays("p", "pay", requires_approval=True)
    ran = bank.run([comes_next("full", [one]), plan(pays("q", "pay")), plan(step("m", "tell"))], to="Ann2")
    (text,) = [text for text in told(ran) if "step 'p'" in text]
    assert "which a person has changed and was made as pay" in text


@pytest.mark.parametrize("words", LATER)
@pytest.mark.parametrize("other", [{"to": "Bob"}, AGAIN], ids=["another one", "once more"])
def test_another_effect_is_made(words: str, other: dict[str, Any]) -> None:
    tool, later = LATER[words]
    said = {key: value for key, value in other.items() if key != "to"}
    later = [{**one, **said} if one["step_id"] == "q" else one for one in later]
    if "to" in other:
        later = [
            {**one, "parameters": {**one["parameters"], "to": "Bob"}} if one["step_id"] == "q" else one
            for one in later
        ]
        later = [{key: value for key, value in one.items() if key != "for_each"} for one in later]
    bank = Bank(Ann=1)
    fix = reflection("retry_with_params", {"to": "Ann2"})
    ran = bank.run([comes_next("more", [first(tool, words)]), plan(*later)], fix)
    assert not ran.events("plan_rejected")
    assert bank.paid == ["Ann2", other.get("to", "Ann")]


@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("whole", [True, False], ids=["with all of it", "with what is missing"])
def test_what_failed_again_over_another_session_was_not_replaced_by_what_was_done_beside_it(
    tool: str, *, whole: bool
) -> None:
    """Each session is good for one payment: the second plan pays Bob, which is Bob's own payment, and in nobody's place."""
    bank = Bank(Ann=2, Bob=1)

    def over(at: int, *who: str) -> dict[str, Any]:
        named = [pays(f"{one}{at}", tool, f"l{at}", to=one, session=f"${{l{at}.output}}") for one in who]
        return plan(step(f"l{at}", "token"), *named)

    ran = bank.run(
        [
            over(1, "Ann", "Bob"),
            over(2, "Ann", "Bob"),
            over(3, *(["Ann", "Bob"] if whole else ["Ann"])),
            over(4, "Ann"),
        ]
    )
    assert sorted(bank.paid) == ["Ann", "Bob"]
    assert not any("Ann" in text and "meant" in text for text in told(ran))
    assert ran.state.status == "succeeded"


@pytest.mark.parametrize("kind", ["more", "full"])
@pytest.mark.parametrize(
    "words", ["plainly, in the very words", "with a note", "by a tool that does the same"]
)
def test_what_a_person_has_changed_is_asked_anew_where_a_plan_means_it_beside_that(
    words: str, kind: str
) -> None:
    tool, later = LATER[words]
    bank = Bank()
    said = {"requires_approval": True}
    again = [{**one, **AGAIN, **said} for one in later]
    answers = {
        "execution_plan": [
            comes_next(kind, [first(tool, words, **said)]),
            plan(*again, step("m", "tell", "q")),
        ],
        "step_reflection": [REPLAN] * 9,
        "overall_reflection": [FULL, END, END],
    }

    async def main() -> Ran:
        made = await bench(bank.tools(), answers)
        task_id = await made.submit(evaluation="steps", interactive=True)
        await made.drive(task_id)
        await made.service.resolve_approval(task_id, approved=True, parameters={"to": "Ann2"})
        ran = await made.drive(task_id)
        assert bank.paid == ["Ann2"]
        assert ran.result.status == "waiting", ran.state.outcome
        (asked,) = ran.result.waiting_for
        assert asked.parameters["to"] == "Ann"
        await made.service.resolve_approval(task_id, approved=True)
        return await made.drive(task_id)

    ran = virtual_time(main())
    assert bank.paid == ["Ann2", "Ann"]
    assert ran.state.status == "succeeded", ran.state.outcome
