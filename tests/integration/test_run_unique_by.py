"""Effects that their tool says how to tell apart (`unique_by`), and those of which that is known by the names of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_recovery import READS
from test_run_restated import ANEW, refused, told

from replan.errors import ToolCallError
from replan.testing import virtual_time

WORDS = {"type": "string"}
INVOICE = {
    "type": "object",
    "properties": {"invoice": WORDS, "amount": {"type": "integer", "default": 1}, "as_": WORDS},
    "required": ["invoice"],
}
REQUEST = {
    "type": "object",
    "properties": {"url": WORDS, "body": {"type": "object"}, "cookies": WORDS, "connection": {}},
}
AGAIN = {"repeat": True, "repeat_reason": "twice"}


class Bank:
    """It writes down what is paid; each login gives another session."""

    def __init__(self, *by: str, secs: float = 1, volatile: bool = True) -> None:
        self.by, self.secs, self.volatile = by, secs, volatile
        self.logins = 0
        self.paid: list[dict[str, Any]] = []

    def login(self, parameters: Any) -> dict[str, str]:
        self.logins += 1
        return {"session": f"S{self.logins}"}

    def pay(self, parameters: Any) -> dict[str, int]:
        if parameters.get("as_") == "nobody":
            raise ToolCallError("as_: unknown", kind="tool")
        if parameters.get("as_") == "lost":
            raise ToolCallError("the line broke", kind="transport", happened="unknown")
        self.paid.append(parameters)
        return {"id": len(self.paid)}

    def run(
        self,
        *plans: Sequence[dict[str, Any]] | dict[str, Any],
        answers: dict[str, Any] | None = None,
        **more: Any,
    ) -> Ran:
        spec = {"unique_by": self.by}
        pay = FakeTool(output=self.pay, effect="once", delay_secs=self.secs, parameters=INVOICE, spec=spec)
        tools = {
            "login": FakeTool(output=self.login, effect="reads", spec={"volatile": self.volatile}),
            "find": FakeTool(output=lambda p: {"invoice": p.get("of", "7")}, effect="reads"),
            "pay": pay,
            "request": FakeTool(output=self.pay, effect="once", parameters=REQUEST),
            "look": FakeTool(output=refused, **READS),
        }
        made = [one if isinstance(one, dict) else plan(*one) for one in plans]

        async def main() -> Ran:
            one = await bench(tools, {"execution_plan": made, **ANEW, **(answers or {})})
            ran = await one.run(evaluation="steps", max_rounds=len(made), **more)
            return ran if ran.result.status == "waiting" else ran.check()

        return virtual_time(main())


def pay(name: str, *needs: str, invoice: str = "7", tool: str = "pay", **more: Any) -> dict[str, Any]:
    said = {key: more.pop(key) for key in ("repeat", "repeat_reason", "for_each") if key in more}
    return step(name, tool, *needs, parameters={"invoice": invoice, **more}, **said)


LOOK = step("z", "look", "p")


# ── in one plan ──


def test_two_steps_of_a_plan_with_one_effect_are_a_violation_unless_it_says_that_it_is_meant() -> None:
    twice = [pay("p", amount=1), pay("q", amount=2)]
    bank = Bank("invoice")
    ran = bank.run([pay("p", amount=1), pay("q", amount=2)])
    assert bank.paid == []
    (rejected, *_) = ran.events("plan_rejected")
    assert "`repeat: true`" in rejected.violations[0]

    bank = Bank("invoice")
    bank.run([{**one, **AGAIN} for one in twice])
    assert [one["amount"] for one in bank.paid] == [1, 2]


def test_without_the_word_of_the_tool_they_are_two_effects() -> None:
    bank = Bank()
    bank.run([pay("p", amount=1), pay("q", amount=2)])
    assert len(bank.paid) == 2


@pytest.mark.parametrize("side_by_side", [True, False])
def test_what_shows_when_it_is_called_is_not_made_twice(*, side_by_side: bool) -> None:
    bank = Bank("invoice")
    second = pay("q", *(() if side_by_side else ("p",)), invoice="${f.output.invoice}", amount=2)
    ran = bank.run([step("f", "find"), pay("p", "f"), second])
    assert len(bank.paid) == 1
    assert not ran.result.is_success
    assert any("the same 'invoice'" in text for name in ("p", "q") for text in told(ran, name))


@pytest.mark.parametrize("last", [1, 2], ids=["wholly alike", "in other words"])
@pytest.mark.parametrize("said", [False, True])
def test_items_of_a_list_that_are_one_effect_are_made_once(last: int, *, said: bool) -> None:
    bank = Bank("invoice")
    words = {"invoice": "${item.no}", "amount": "${item.amount}"}
    items = f'[{{"no": "7", "amount": 1}}, {{"no": "8", "amount": 1}}, {{"no": "7", "amount": {last}}}]'
    bank.run([step("p", "pay", parameters=words, for_each=items, **(AGAIN if said else {}))])
    assert sorted(one["invoice"] for one in bank.paid) == ["7", "7", "8"][0 if said else 1 :]


def test_without_a_value_for_what_tells_them_apart_all_parameters_do() -> None:
    bank = Bank("as_")
    ran = bank.run([pay("p", invoice="7"), pay("q", invoice="8"), pay("r", invoice="9", as_="me")])
    assert ran.result.is_success
    bank = Bank("as_")
    bank.run([pay("p", invoice="7"), LOOK], [pay("q", invoice="8"), pay("r", "q", invoice="7", as_="me")])
    assert [one["invoice"] for one in bank.paid] == ["7", "8", "7"]


# ── by later plans ──


@pytest.mark.parametrize("more", ["", "invoice 8"], ids=["made anew", "in a next part"])
def test_an_effect_that_was_had_is_asked_about_with_a_later_plan(more: str) -> None:
    bank = Bank("invoice")
    first = [pay("p", amount=1), *([] if more else [LOOK])]
    ran = bank.run(
        {**plan(*first), **({"more": more} if more else {})}, [pay("q", amount=2), pay("r", invoice="8")]
    )
    assert [one["invoice"] for one in bank.paid].count("7") == 1
    assert any("calls of 'pay' with the same 'invoice' are one effect" in text for text in told(ran, "q"))
    assert not ran.events("call_started", step_id="q")


def test_it_is_had_once_more_where_that_is_said() -> None:
    bank = Bank("invoice")
    bank.run([pay("p", amount=1), LOOK], [pay("q", amount=2, **AGAIN)])
    assert [one["amount"] for one in bank.paid] == [1, 2]


def test_values_decide_and_not_how_they_are_written() -> None:
    bank = Bank("invoice")
    other = step("f2", "find", parameters={"of": "8"})
    first = [step("f", "find"), pay("p", invoice="${f.output.invoice}"), LOOK]
    bank.run(first, [other, pay("q", invoice="${f2.output.invoice}")])
    assert [one["invoice"] for one in bank.paid] == ["7", "8"]

    bank = Bank("invoice")
    third = step("f2", "find", parameters={"of": "7"})
    ran = bank.run(first, [third, pay("q", invoice="${f2.output.invoice}", amount=5)])
    assert [one["invoice"] for one in bank.paid] == ["7"]
    assert not ran.result.is_success


def test_one_whose_outcome_nobody_knows_is_not_had_by_another_call_even_if_that_says_repeat() -> None:
    bank = Bank("invoice")
    ran = bank.run([pay("p", as_="lost")], [pay("q", as_="me", **AGAIN)])
    assert bank.paid == []
    assert not ran.result.is_success


def test_one_that_failed_is_made_by_another_call() -> None:
    bank = Bank("invoice")
    ran = bank.run([pay("p", as_="nobody")], [pay("q", as_="me")])
    assert [one["as_"] for one in bank.paid] == ["me"]
    assert ran.statuses()["q"] == "succeeded"


def test_the_very_same_call_is_answered_as_ever() -> None:
    bank = Bank("invoice")
    ran = bank.run([pay("p"), LOOK], [pay("q"), pay("r", invoice="8")])
    assert len(bank.paid) == 2
    assert ran.statuses() == {"q": "succeeded", "r": "succeeded"}


NOTED = {
    "type": "object",
    "properties": {
        "amount": {"type": ["number", "string"], "format": "decimal"},
        "at": {"type": "string", "format": "date-time"},
        "body": {"$ref": "#/$defs/Body"},
        "note": WORDS,
    },
    "$defs": {"Body": {"type": "object", "properties": {"title": {"type": "string", "default": "none"}}}},
}


@pytest.mark.parametrize(
    ("by", "one", "other"),
    [
        ("at", "2030-01-01T00:00:00Z", "2030-01-01T01:00:00+01:00"),
        ("amount", 10, 10.0),
        ("body.title", {"text": "a"}, {"title": "none", "text": "b"}),
    ],
)
def test_values_that_mean_the_same_are_one_effect_however_they_are_written(
    by: str, one: Any, other: Any
) -> None:
    name = by.partition(".")[0]
    bank = Bank()
    tool = FakeTool(output=bank.pay, effect="once", parameters=NOTED, spec={"unique_by": (by,)})
    first = [step("p", "note", parameters={name: one, "note": "a"}), LOOK]
    again = [step("q", "note", parameters={name: other, "note": "b"})]

    async def main() -> Ran:
        tools = {"note": tool, "look": FakeTool(output=refused, **READS)}
        made = await bench(tools, {"execution_plan": [plan(*first), plan(*again)], **ANEW})
        return (await made.run(evaluation="steps", max_rounds=2)).check()

    ran = virtual_time(main())
    assert len(bank.paid) == 1
    assert any("are one effect" in text for text in told(ran, "q"))


def test_one_that_had_more_parameters_is_told_all_the_same() -> None:
    bank = Bank("invoice")
    found = [step("f", "find"), pay("p", "f", invoice="${f.output.invoice}", as_="me"), LOOK]
    ran = bank.run(found, [step("f2", "find"), pay("q", "f2", invoice="${f2.output.invoice}")])
    assert len(bank.paid) == 1
    assert any("the same 'invoice'" in text for text in told(ran, "q"))

    bank = Bank()
    first = [
        step("l", "login"),
        step("p", "request", parameters={"cookies": "${l.output.session}", "url": "u", "note": "n"}),
    ]
    bank.run(
        [*first, LOOK],
        [
            step("l2", "login"),
            step("q", "request", parameters={"cookies": "${l2.output.session}", "url": "u"}),
        ],
    )
    assert len(bank.paid) == 2, "a note less is another effect"


def test_in_other_words_too_an_effect_is_had_once_more_only_and_then_with_a_persons_yes() -> None:
    def again(at: int) -> list[dict[str, Any]]:
        return [pay(f"p{at}", amount=at, **AGAIN), {**LOOK, "step_id": f"z{at}", "dependencies": [f"p{at}"]}]

    bank = Bank("invoice")
    bank.run([pay("p", amount=1), LOOK], *(again(at) for at in (2, 3, 4)))
    assert [one["amount"] for one in bank.paid] == [1, 2]

    bank = Bank("invoice")
    ran = bank.run([pay("p", amount=1), LOOK], again(2), interactive=True)
    assert ran.result.status == "waiting"
    assert [one["amount"] for one in bank.paid] == [1]


def test_a_mark_is_for_the_call_that_has_it_and_not_for_what_recovery_puts_in_its_place() -> None:
    bank = Bank("invoice")
    mend = {
        **ANEW["step_reflection"],
        "root_cause_category": "parameter_error",
        "suggested_action": {"type": "retry_with_params", "data": {"invoice": "7", "as_": "me"}},
    }
    anew = ANEW["step_reflection"]
    second = [pay("q", invoice="8", as_="nobody", **AGAIN)]
    bank.run([pay("p", amount=1), LOOK], second, answers={"step_reflection": [anew, mend, anew, anew]})
    assert [one["invoice"] for one in bank.paid] == ["7"]


@pytest.mark.parametrize("literal", [True, False])
def test_so_is_one_over_another_session(*, literal: bool) -> None:
    def part(at: int) -> list[dict[str, Any]]:
        session = f"S{at}" if literal else f"${{l{at}.output.session}}"
        words = {"body": {"title": "A"}, "cookies": session}
        made = step(f"p{at}", "request", parameters=words, **(AGAIN if at else {}))
        return [
            *([] if literal else [step(f"l{at}", "login")]),
            made,
            {**LOOK, "step_id": f"z{at}", "dependencies": [f"p{at}"]},
        ]

    bank = Bank()
    bank.run(*(part(at) for at in range(4)))
    assert len(bank.paid) == 2

    bank = Bank()
    ran = bank.run(part(0), part(1), interactive=True)
    assert ran.result.status == "waiting"
    assert len(bank.paid) == 1


# ── by the names of parameters ──


@pytest.mark.parametrize(
    "words",
    [
        {"body": {"title": "A", "auth": "${l.output.session}"}},
        {"body": {"title": "A", "inner": [{"session_id": "${l.output.session}"}]}},
        {"url": "https://x.test/t?title=A&token=${l.output.session}"},
        {"url": "https://x.test/t?token=${l.output.session}#a", "body": {"title": "A"}},
        {"cookies": "${l.output.session}", "body": {"title": "A"}},
        {"connection": "${l.output}", "body": {"title": "A"}},
    ],
)
@pytest.mark.parametrize("other", [{}, {"parameters": {"user": "boss"}}], ids=["the same", "another user"])
def test_a_credential_within_a_parameter_makes_no_second_effect(
    words: dict[str, Any], other: dict[str, Any]
) -> None:
    bank = Bank()
    first = [step("l", "login"), step("p", "request", parameters=words), LOOK]
    bank.run(first, [step("l", "login", **other), step("p2", "request", parameters=words)])
    assert len(bank.paid) == 1


@pytest.mark.parametrize(
    ("then", "made"),
    [
        ({"body": {"title": "A", "auth": "S3"}}, 1),
        ({"body": {"title": "B", "auth": "S3"}}, 2),
        ({"body": {"title": "A", "auth": "S3", "note": "n"}}, 2),
    ],
    ids=["only the session", "the title too", "a note more"],
)
def test_a_session_that_is_copied_as_a_value_is_none_of_its_own(then: dict[str, Any], made: int) -> None:
    bank = Bank()
    first = [step("p", "request", parameters={"body": {"title": "A", "auth": "S1"}}), LOOK]
    ran = bank.run(first, [step("p2", "request", parameters=then)])
    assert len(bank.paid) == made
    if made == 1:
        assert any("body may have another value by now" in text for text in told(ran, "p2"))


def test_in_one_plan_two_sessions_are_two_effects() -> None:
    bank = Bank()
    one, two = ({"body": {"title": "A", "auth": name}} for name in ("S1", "S2"))
    bank.run([step("p", "request", parameters=one), step("q", "request", parameters=two)])
    assert len(bank.paid) == 2
