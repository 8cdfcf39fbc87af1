"""A call that code made once more, and that then failed for good, is over: a later plan may have its effect over another session."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_counterparts import END, fields
from test_run_very_call import overall, reflection

from replan.errors import ToolCallError
from replan.testing import virtual_time

SESSION = {"session": {"type": "string"}}


class Bank:
    """Turns away the first calls, and then its first session has expired."""

    def __init__(self, busy: int) -> None:
        self.busy = busy
        self.sessions = 0
        self.paid: list[str] = []

    def pay(self, parameters: Any) -> Any:
        self.busy -= 1
        if self.busy >= 0:
            raise ToolCallError("busy", status=429, retry_after=1.0)
        if parameters["session"] == "s1":
            raise ToolCallError("the session has expired", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def log_in(self, parameters: Any) -> Any:
        self.sessions += 1
        return f"s{self.sessions}"

    def run(self, *plans: Any) -> Ran:
        tools = {
            "pay": FakeTool(output=self.pay, effect="once", parameters=fields("to", **SESSION)),
            "log_in": FakeTool(output=self.log_in, effect="reads", spec={"volatile": True}),
        }
        answers = {
            "execution_plan": list(plans), "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}),
            "overall_reflection": [overall(type="full_replan"), END, END], "evaluation": verdict(),
        }  # fmt: skip

        async def main() -> Ran:
            return (await (await bench(tools, answers)).run(max_rounds=2)).check()

        return virtual_time(main())


def pays(name: str, to: str, *needs: str, session: str, **more: Any) -> dict[str, Any]:
    return step(name, "pay", *needs, parameters={"to": to, "session": session}, **more)


def read(name: str) -> Any:
    return plan(step(f"l{name}", "log_in"), pays(name, "Ann", f"l{name}", session=f"${{l{name}.output}}"))


PLANS: dict[str, Any] = {
    "read": lambda: [read("p"), read("q")],
    "written": lambda: [plan(pays("p", "Ann", session="s1")), plan(pays("q", "Ann", session="s2"))],
    "in a list": lambda: [
        plan(pays("p", "${item}", session="s1", for_each=["Ann"])),
        plan(pays("q", "${item}", session="s2", for_each=["Ann"])),
    ],
}


@pytest.mark.parametrize("busy", [0, 1, 2])
@pytest.mark.parametrize("words", PLANS)
def test_its_effect_may_be_had_by_a_later_plan(words: str, busy: int) -> None:
    bank = Bank(busy)
    ran = bank.run(*PLANS[words]())
    assert not ran.events("plan_rejected")
    assert ran.result.is_success, ran.result.reason
    assert bank.paid == ["Ann"]


@pytest.mark.parametrize("busy", [0, 1])
def test_one_that_has_succeeded_then_is_known_again(busy: int) -> None:
    bank = Bank(busy)
    first = plan(pays("p", "Ann", session="s0"), pays("x", "Bob", "p", session="s1"))
    again = plan(pays("q", "Ann", session="s2"), pays("y", "Bob", session="s2"))
    ran = bank.run(first, again, plan(pays("z", "Bob", session="s2")))
    assert "step 'p' has made this call" in ran.events("plan_rejected")[0].violations[0]
    assert bank.paid == ["Ann", "Bob"]
