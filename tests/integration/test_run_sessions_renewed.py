"""A login that is done is answered with the session that it gave. Where that has ended, an honest plan gets another one."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_left_out import ANEW, GIVE_UP
from test_run_recovery import overall
from test_run_very_effects import fields

from replan.testing import virtual_time

AGAIN = {"repeat": True, "repeat_reason": "the session has ended"}
ALL = ["Ann", "Bob", "Cyd"]


class Desk:
    """A desk with a login. `good_for`: so many calls each session serves."""

    def __init__(
        self,
        *,
        effect: str = "once",
        good_for: int = 1,
        paying: str = "once",
        dead: int = 0,
        closed: str = "",
    ) -> None:
        self.logins, self.paid, self.used = 0, list[str](), dict[str, int]()
        self.good_for, self.dead, self.closed = good_for, dead, closed
        self.tools = {
            "login": FakeTool(output=self.login, effect=effect, parameters=fields("user")),
            "pay": FakeTool(output=self.pay, effect=paying, parameters=fields("to", "session")),
            "send": FakeTool(
                output=self.send,
                effect=paying,
                parameters={
                    "type": "object",
                    "properties": {"to": {"type": "string"}, "headers": {"type": "object"}},
                },
            ),
            "reopen": FakeTool(output=self.reopen, effect="once", parameters=fields("account")),
        }
        self.plans = 0
        self.asked = list[str]()

    def login(self, _: Any) -> Any:
        self.logins += 1
        return {"session": f"s{self.logins}"}

    def pay(self, one: Any) -> Any:
        used = self.used.get(one["session"], 0)
        if used >= self.good_for or int(one["session"][1:]) <= self.dead:
            raise ValueError("401: log in again")
        if one["to"] == self.closed:
            raise ValueError("the account is closed")
        self.used[one["session"]] = used + 1
        self.paid.append(one["to"])
        return {"id": f"p{len(self.paid)}"}

    def send(self, one: Any) -> Any:
        return self.pay({"to": one["to"], "session": one["headers"]["Authorization"].removeprefix("Bearer ")})

    def reopen(self, _: Any) -> Any:
        self.closed = ""
        return "open"

    def plan(self, request: Any, form: str, *, says: bool = True) -> Any:
        """What an honest model writes: a login, and who is still to be paid. `says`: it says `repeat` where it is asked."""
        told = request.turns[-1].text if len(request.turns) > 1 else ""
        more: dict[str, Any] = AGAIN if says and "`repeat: true`" in told else {}
        self.asked += [told] if told else []
        self.plans += 1
        name, left = f"l{self.plans}", [one for one in ALL if one not in self.paid]
        login = step(name, "login", parameters={"user": "clerk"}, **more)
        session = f"${{{name}.output.session}}"
        if form == "a list":
            words = {"to": "${item}", "session": session}
            return plan(login, step(f"p{self.plans}", "pay", parameters=words, for_each=left))
        if form == "actions":
            acts = [action(f"{one}{self.plans}", "pay", to=one, session=session) for one in left]
            first = {**action(name, "login", user="clerk"), **more}
            return plan(step(f"all{self.plans}", "", actions=[first, *acts]))
        if form == "headers":
            over = {"Authorization": f"Bearer {session}"}
            pays = [
                step(f"{one}{self.plans}", "send", parameters={"to": one, "headers": over}) for one in left
            ]
        else:
            pays = [
                step(f"{one}{self.plans}", "pay", parameters={"to": one, "session": session}) for one in left
            ]
        return plan(login, *pays)

    def run(self, planned: Any, rounds: int = 9) -> Ran:
        async def main() -> Ran:
            answers = {
                "execution_plan": planned,
                "step_reflection": [GIVE_UP] * 40,
                "overall_reflection": [ANEW] * rounds + [overall(False)],
            }
            return (await (await bench(self.tools, answers)).run(evaluation="steps")).check()

        return virtual_time(main())


@pytest.mark.parametrize("form", ["steps", "a list", "actions", "headers"])
def test_a_login_that_counts_each_time_is_asked_about_and_made_anew_as_often_as_its_session_ends(
    form: str,
) -> None:
    desk = Desk()
    ran = desk.run(lambda request: desk.plan(request, form))
    assert ran.result.is_success, ran.result.reason
    assert sorted(desk.paid) == ALL
    assert (desk.logins, len(desk.asked)) == (3, 2)
    assert "'login'" in desk.asked[0]


@pytest.mark.parametrize("paying", ["once", "reads"])
@pytest.mark.parametrize("effect", ["repeatable", "reads"])
def test_one_that_does_no_harm_is_made_anew_unasked(effect: str, paying: str) -> None:
    desk = Desk(effect=effect, paying=paying)
    ran = desk.run(lambda request: desk.plan(request, "steps"))
    assert ran.result.is_success, ran.result.reason
    assert (sorted(desk.paid), desk.logins, desk.asked) == (ALL, 3, [])


@pytest.mark.parametrize("effect", ["once", "repeatable", "reads"])
def test_a_session_that_was_dead_before_it_served_is_made_anew_too(effect: str) -> None:
    desk = Desk(effect=effect, good_for=9, dead=1)
    ran = desk.run(lambda request: desk.plan(request, "steps"))
    assert ran.result.is_success, ran.result.reason
    assert (sorted(desk.paid), desk.logins) == (ALL, 2)


def test_a_login_is_never_made_again_unsaid() -> None:
    """What gives a session may be an effect of its own: who does not say that it is meant once more has it once."""
    desk = Desk()
    ran = desk.run(lambda request: desk.plan(request, "steps", says=False))
    assert not ran.result.is_success
    assert (len(desk.paid), desk.logins) == (1, 1)


def test_a_session_that_never_serves_is_not_made_anew_for_ever() -> None:
    desk = Desk(dead=99)
    ran = desk.run(lambda request: desk.plan(request, "steps"))
    assert not ran.result.is_success
    assert (desk.paid, desk.logins) == ([], 2)


def test_who_is_asked_may_go_on_over_the_session_that_is_there() -> None:
    """Cyd's account is closed: the session is good."""
    desk = Desk(good_for=9, closed="Cyd")

    def planned(request: Any) -> Any:
        if len(request.turns) == 1:
            return desk.plan(request, "steps")
        desk.asked.append(request.turns[-1].text)
        over = {"to": "Cyd", "session": "${l1.output.session}"}
        first = step("o", "reopen", parameters={"account": "Cyd"})
        return plan(first, step("c", "pay", parameters=over, dependencies=["o"]))

    ran = desk.run(planned)
    assert ran.result.is_success, ran.result.reason
    assert (sorted(desk.paid), desk.logins, len(desk.asked)) == (ALL, 1, 1)


def test_a_later_plan_is_answered_with_the_latest_session_and_not_with_the_first() -> None:
    """A second login was for Bob; Cyd is paid over that, though her plan states the login as any other."""
    desk = Desk(good_for=2)
    plans = iter(
        [
            plan(step("l", "login", parameters={"user": "clerk"}), pays("Ann", "l"), pays("Eve", "l"), pays("Bob", "l", "Eve")),
            plan(step("m", "login", parameters={"user": "clerk"}, **AGAIN), pays("Bob", "m"), pays("Cyd", "m", "Bob", closed=True)),
            plan(step("n", "login", parameters={"user": "clerk"}), pays("Dan", "n")),
        ]
    )  # fmt: skip
    desk.closed = "closed"
    ran = desk.run(lambda _: next(plans), rounds=2)
    assert ran.result.is_success, ran.result.reason
    assert sorted(desk.paid) == ["Ann", "Bob", "Dan", "Eve"]
    assert (desk.logins, desk.used) == (2, {"s1": 2, "s2": 2})


def pays(to: str, over: str, after: str = "", *, closed: bool = False) -> Any:
    words = {"to": "closed" if closed else to, "session": f"${{{over}.output.session}}"}
    return step(to, "pay", parameters=words, dependencies=[after] if after else [])
