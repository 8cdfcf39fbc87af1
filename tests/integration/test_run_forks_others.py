"""What was done about somebody else is not about a fork's call, though both were of one amount and over one session."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_forks import forked
from test_run_forks_alike import takes
from test_run_restated import ANEW

from replan.testing import virtual_time


class Office:
    """All that was done, in order; each call gives back what it was told."""

    def __init__(self, *closed: str) -> None:
        self.closed = {*closed}
        self.done: list[str] = []
        self.logins = 0

    def tool(self, name: str, *names: str, **spec: Any) -> FakeTool:
        def make(told: Any) -> Any:
            one = f"{name} {told.get('to', '')}".strip()
            if one in self.closed:
                raise ValueError(f"to: {told['to']} is locked at the moment")
            self.done.append(one)
            return {**told, "id": 1_000 + len(self.done)}

        return FakeTool(output=make, delay_secs=1, spec=spec, **takes(*names))

    def login(self, _: Any) -> Any:
        self.logins += 1
        return {"session": f"s{self.logins}"}

    def tools(self, *before: str) -> dict[str, Any]:
        """`before`: the parameters that all take before their own."""
        return {
            "login": FakeTool(output=self.login, spec={"volatile": True}),
            "pay": self.tool("pay", *before, "to", "cents", substitutes=["wire"]),
            "wire": self.tool("wire", *before, "to", "cents"),
            "letter": self.tool("letter", *before, "to", "cents"),
            "ship": self.tool("ship", *before, "to", "cents"),
            "logout": self.tool("logout", *before or ("to",)),
        }


def does(name: str, tool: str, to: str = "", cents: int = 10, *needs: str, session: str = "") -> Any:
    told: dict[str, Any] = {"to": to, "cents": cents} if to else {}
    over = {"session": session} if session else {}
    return step(name, tool, *needs, parameters={**over, **told})


async def forked_at(made: Bench, ran: Ran, wanted: dict[str, Any]) -> Ran:
    at = next(one.seq for one in ran.records if one.type == "plan_generated") - 1
    return (await made.drive(await forked(made, ran.result.task_id, at=at, plan=wanted))).check()


def asked(fork: Ran) -> list[str]:
    return [one.error.message for one in fork.events("call_failed") if one.error.kind == "repeated"]


@pytest.mark.parametrize("cents", [10, 12], ids=["one amount", "two amounts"])
def test_what_was_paid_by_a_substitute_to_another_is_not_about_this_payment(cents: int) -> None:
    async def main() -> tuple[Office, Ran]:
        office = Office("pay cid")
        plans = [
            plan(does("a", "pay", "ann"), does("c", "pay", "cid", cents)),
            plan(does("d", "wire", "cid", cents)),
        ]
        made = await bench(office.tools(), {"execution_plan": plans, "evaluation": verdict(), **ANEW})
        ran = (await made.run(max_rounds=2)).check()
        assert office.done == ["pay ann", "wire cid"]
        return office, await forked_at(made, ran, plan(does("a", "pay", "ann")))

    office, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert office.done == ["pay ann", "wire cid"]
    assert not asked(fork)


@pytest.mark.parametrize("by", ["letter", "ship", "logout"])
@pytest.mark.parametrize("name", ["session", "token"])
def test_a_session_in_common_makes_no_two_effects_about_the_same(name: str, by: str) -> None:
    """Nor is a payment taken back by the end of the session that it was made over."""

    async def main() -> tuple[Office, Ran]:
        office = Office()
        tools = office.tools(name)
        after = {name: "s7"} if by == "logout" else {name: "s7", "to": "bob", "cents": 10}
        first = step("a", "letter", parameters={name: "s7", "to": "ann", "cents": 10})
        made = await bench(tools)
        ran = (await made.run(plan(first, step("b", by, "a", parameters=after)))).check()
        return office, await forked_at(made, ran, plan(first))

    office, fork = virtual_time(main())
    assert fork.result.is_success, fork.result.reason
    assert len(office.done) == 2, "it is given what the other has had"
    assert not asked(fork)


def test_what_is_done_about_the_same_over_another_session_is_about_it_all_the_same() -> None:
    async def main() -> tuple[Office, Ran]:
        office = Office()
        pays = does("a", "pay", "ann", session="s1")
        takes_back = does("b", "ship", "ann", 10, "a", session="s2")
        made = await bench(office.tools("session"))
        ran = (await made.run(plan(pays, takes_back))).check()
        return office, await forked_at(made, ran, plan(pays))

    office, fork = virtual_time(main())
    assert not fork.result.is_success
    assert office.done == ["pay ann", "ship ann"]
    assert "was about the same after that" in asked(fork)[0]
