"""Parts that work something off one by one in the same words: what tells one effect from the next is asked about once, and held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict

from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}
NEW: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}
REPLY = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("mail", "text", "session", "kind")},
    "required": ["mail", "text"],
}
AGAIN = {"repeat": True, "repeat_reason": "it is another mail"}


class Mails:
    """The oldest mail that is open, a session that is new each time, and what was sent."""

    def __init__(self, *mails: tuple[str, str]) -> None:
        self.open = list(mails)
        self.sessions = 0
        self.sent: list[Any] = []

    def next(self, _: Any) -> dict[str, str]:
        name, sender = self.open.pop(0)
        return {"id": name, "from": sender}

    def login(self, _: Any) -> dict[str, str]:
        self.sessions += 1
        return {"session": f"S{self.sessions}"}

    def reply(self, parameters: Any) -> str:
        self.sent.append({name: value for name, value in parameters.items() if name != "session"})
        return "sent"

    def run(self, parts: Sequence[Sequence[dict[str, Any]]]) -> Ran:
        tools = {
            "inbox": FakeTool(output=self.next, **NEW),
            "login": FakeTool(output=self.login, **NEW),
            "reply": FakeTool(output=self.reply, parameters=REPLY, **ONCE),
        }
        plans: list[Any] = [{**plan(*steps), "more": "the next mail"} for steps in parts[:-1]]
        answers = {
            "evaluation": verdict(),
            "execution_plan": [*plans, plan(*parts[-1])],
            "step_reflection": {
                "root_cause_category": "tool_error",
                "is_recoverable": True,
                "confidence": 90,
                "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "no"}},
            },
            "overall_reflection": {
                "problem_nature": "tools",
                "should_replan": False,
                "reflection_text": "no",
            },
        }

        async def main() -> Ran:
            made = await bench(tools, answers)
            return (await made.run(evaluation="steps")).check()

        return virtual_time(main())


def answer(n: int, *, session: bool = False, said: bool = False, text: str = "Thank you.") -> list[Any]:
    words = {"mail": f"${{i{n}.output.id}}", "text": text.replace("N", str(n))}
    first = [step(f"i{n}", "inbox")]
    if session:
        first.append(step(f"l{n}", "login"))
        words["session"] = f"${{l{n}.output.session}}"
    return [*first, step(f"a{n}", "reply", parameters=words, **(AGAIN if said else {}))]


def refusals(ran: Ran) -> list[str]:
    return [text for event in ran.events("plan_rejected") for text in event.violations]


BOX = [("m1", "ann"), ("m2", "bob"), ("m3", "ann"), ("m4", "cid"), ("m5", "dan")]


@pytest.mark.parametrize("session", [False, True], ids=["by its mail alone", "over a new session each"])
@pytest.mark.parametrize(
    "text", ["Thank you.", "Dear ${iN.output.from}"], ids=["a value", "of the same reading"]
)
def test_mails_that_are_answered_one_by_one_in_the_same_words_are_asked_about_once(
    *, session: bool, text: str
) -> None:
    mails = Mails(*BOX)
    of = {"session": session, "text": text}
    first, *rest = [answer(n, **of) for n in range(1, 6)]  # type: ignore[arg-type]
    asked = text == "Thank you."  # else only its readings tell
    parts = [first, rest[0], answer(2, said=True, **of), *rest[1:]] if asked else [first, *rest]  # type: ignore[arg-type]
    ran = mails.run(parts)
    assert ran.result.succeeded
    assert [one["mail"] for one in mails.sent] == ["m1", "m2", "m3", "m4", "m5"]
    assert len(refusals(ran)) == asked


def test_the_hint_says_first_how_another_effect_is_had() -> None:
    ran = Mails(*BOX).run([answer(1), answer(2), answer(2, said=True)])
    (text,) = refusals(ran)
    assert text.index("if it is another effect, say `repeat: true`") < text.index("leave it out")


def test_one_that_is_read_once_more_after_that_is_not_answered_again() -> None:
    mails = Mails(("m1", "ann"), ("m2", "bob"), ("m1", "ann"))
    ran = mails.run([answer(1), answer(2, said=True), answer(3)])
    assert [one["mail"] for one in mails.sent] == ["m1", "m2"]
    assert not ran.result.succeeded


def test_nor_is_one_over_a_session_that_is_opened_once_more() -> None:
    mails = Mails(("m1", "ann"), ("m2", "bob"), ("m2", "bob"))
    parts = [answer(1, session=True), answer(2, session=True, said=True), answer(3, session=True)]
    ran = mails.run(parts)
    assert [one["mail"] for one in mails.sent] == ["m1", "m2"]
    (failed,) = ran.events("step_failed")
    assert "'a2' has made this call" in failed.error.message


def test_a_session_alone_tells_none_from_another_whatever_was_said_of_one() -> None:
    mails = Mails()

    def greet(n: int, **more: Any) -> list[Any]:
        words = {"mail": "m1", "text": "Hello", "session": f"${{l{n}.output.session}}"}
        return [step(f"l{n}", "login"), step(f"a{n}", "reply", parameters=words, **more)]

    ran = mails.run([greet(1), greet(2, **AGAIN), greet(3), [step("l3", "login")]])
    assert len(mails.sent) == 2
    assert len(refusals(ran)) == 1


def test_nor_does_another_reading_beside_the_one_that_has_given_the_same() -> None:
    """The time of day in the text makes no second answer to one mail."""
    mails = Mails(("m1", "9:00"), ("m2", "9:01"), ("m1", ""))

    def at(n: int, mail: str, **more: Any) -> list[Any]:
        words = {"mail": f"${{{mail}.output.id}}", "text": f"${{l{n}.output.session}}", "kind": "reply"}
        return [step(f"l{n}", "login"), step(f"a{n}", "reply", parameters=words, **more)]

    mails.run(
        [
            [step("i1", "inbox"), *at(1, "i1")],
            [step("i2", "inbox"), *at(2, "i2", **AGAIN)],
            [step("i3", "inbox"), *at(3, "i3")],
        ]
    )
    assert [one["mail"] for one in mails.sent] == ["m1", "m2"]
