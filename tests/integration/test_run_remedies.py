"""A remedy that is what the failed step was to do, in other words: the planner is asked once whether it is in its place, or comes before it."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step
from test_run_counterparts import END, fields
from test_run_very_call import REPLAN, overall

from replan.errors import ToolCallError
from replan.testing import virtual_time

REMEDY = overall(type="add_remediation_steps", reason="x", step_id="p")


class Office:
    """Pays people, but Ann only after what is needed first; sends letters."""

    def __init__(self, *, first: str = "") -> None:
        self.needed = first
        self.done: list[str] = []

    def pay(self, parameters: Any) -> Any:
        if parameters["to"] == "Ann" and not (self.needed and self.needed in self.done):
            raise ToolCallError("Ann is not there, the account is now Ann2", kind="tool")
        self.done.append(parameters["to"])
        return {"id": len(self.done)}

    def tell(self, parameters: Any) -> Any:
        self.done.append(f"letter: {parameters['text']}")
        return "told"

    def make(self, parameters: Any) -> Any:
        self.done.append("folder")
        return "made"

    def run(self, first: dict[str, Any], *then: dict[str, Any]) -> Ran:
        told = fields("to", session={"type": "string"})
        tools = {
            "pay": FakeTool(output=self.pay, parameters=told, effect="once"),
            "tell": FakeTool(output=self.tell, parameters=fields("text"), effect="once"),
            "make": FakeTool(output=self.make, effect="once"),
            "token": FakeTool(output="s2", effect="reads", spec={"volatile": True}),
        }
        answers = {
            "execution_plan": [first, *then],
            "step_reflection": [REPLAN] * 9,
            "overall_reflection": [REMEDY, END],
        }

        async def main() -> Ran:
            return await (await bench(tools, answers)).run(evaluation="steps")

        return virtual_time(main())


def told(ran: Ran) -> list[str]:
    return [text for one in ran.events("plan_rejected") for text in one.violations]


def pays(name: str, who: str, *needs: str, **more: Any) -> dict[str, Any]:
    session = {"session": f"${{{needs[0]}.output}}"} if needs else {}
    return step(name, "pay", *needs, parameters={"to": who, **session}, **more)


def tells(name: str, text: str, *needs: str) -> dict[str, Any]:
    return step(name, "tell", *needs, parameters={"text": text})


FIRST = plan(pays("p", "Ann"), tells("m", "it is paid", "p"))


def test_the_whole_rest_in_other_words_is_asked_about_and_made_once() -> None:
    office = Office()
    whole = plan(pays("q", "Ann2"), tells("n", "Ann is paid", "q"))
    in_its_place = plan({**pays("q", "Ann2"), "instead_of": ["p"]})
    ran = office.run(FIRST, whole, in_its_place)
    assert ran.result.is_success
    assert office.done == ["Ann2", "letter: it is paid"]
    in_place, letter = told(ran)
    assert "step 'q': step 'p' of the plan before" in in_place
    assert 'instead_of: ["p"]' in in_place
    assert "step 'n': step 'm' of the plan before" in letter
    assert "yet to run" in letter


def test_where_the_output_is_needed_the_step_is_written_again_under_its_own_id() -> None:
    office = Office()
    first = plan(pays("p", "Ann"), tells("m", "paid: ${p.output.id}", "p"))
    ran = office.run(first, plan(pays("q", "Ann2")), plan(pays("p", "Ann2")))
    assert "write step 'p' again, under its own id" in told(ran)[0]
    assert ran.result.is_success
    assert office.done == ["Ann2", "letter: paid: 1"]


@pytest.mark.parametrize("reads", [False, True])
def test_a_remedy_by_the_same_tool_is_made_where_it_is_said_again(*, reads: bool) -> None:
    """A fee that is to be paid first; over a session of its own, too."""
    office = Office(first="the office")
    fee = plan(*([step("l", "token"), pays("q", "the office", "l")] if reads else [pays("q", "the office")]))
    ran = office.run(FIRST, fee, fee)
    assert len(told(ran)) == 1
    assert ran.result.is_success
    assert office.done == ["the office", "Ann", "letter: it is paid"]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([step("f", "make")], id="another tool"),
        pytest.param([step("f", "make"), pays("q", "Bob")], id="beside an effect of the same"),
        pytest.param([step("f", "make"), pays("q", "Bob", when="f.output == `made`")], id="with a condition"),
        pytest.param([{**pays("q", "Bob"), "repeat": True, "repeat_reason": "twice"}, step("f", "make")], id="meant once more"),
    ],
)  # fmt: skip
def test_what_helps_by_itself_is_asked_about_never(steps: list[Any]) -> None:
    office = Office(first="folder")
    ran = office.run(FIRST, plan(*steps))
    assert not told(ran)
    assert ran.result.is_success
    assert "Ann" in office.done


def test_a_session_made_anew_is_asked_about_never() -> None:
    office = Office(first="Bob")
    first = plan(step("l", "token"), pays("p", "Ann", "l"), pays("b", "Bob"))
    again = plan(step("l2", "token"), {**pays("p", "Ann", "l2")})
    ran = office.run(first, again)
    assert not told(ran)
    assert ran.result.is_success
    assert sorted(office.done) == ["Ann", "Bob"]


def paying(name: str, *actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return step(name, actions=[*actions, action("letter", "tell", text="paid: ${payment.output.id}")], **more)


@pytest.mark.parametrize("id_of_another", [False, True], ids=["an action's", "a step's"])
def test_actions_may_have_the_ids_that_they_have_in_the_step_that_is_helped(*, id_of_another: bool) -> None:
    """A model writes `payment` in each of its plans."""
    office = Office(first="folder")
    first = plan(paying("p", action("payment", "pay", to="Ann")))
    opened = action("payment", "make")
    remedy = step("payment", "make") if id_of_another else step("q", actions=[opened])
    ran = office.run(first, plan(remedy))
    assert ran.result.is_success, ran.result.reason
    assert told(ran) == []
    assert office.done == ["folder", "Ann", "letter: paid: 2"]


def test_actions_of_two_new_steps_may_have_the_same_ids() -> None:
    office = Office()
    ann2 = plan(
        paying("a", action("payment", "pay", to="Ann2"), instead_of=["p"]),
        paying("b", action("payment", "pay", to="Bob"), dependencies=["a"]),
    )
    ran = office.run(plan(pays("p", "Ann")), ann2)
    assert ran.result.is_success, ran.result.reason
    assert told(ran) == []
    assert office.done == ["Ann2", "letter: paid: 1", "Bob", "letter: paid: 3"]
