"""What a step was to do that was skipped behind a failed reading shows in the same reading of a later plan, however recovery has had it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict
from test_run_left_out import ANEW, BY_STEPS_AND_MODEL, GIVE_UP
from test_run_recovery import overall, reflection
from test_run_very_effects import fields

from replan.errors import ToolCallError
from replan.testing import virtual_time

MORE = "pay the rest"
VOLATILE: dict[str, Any] = {"effect": "reads", "spec": {"volatile": True}}


class Office:
    """Whom a name means is known by the full name alone; everybody is paid for good."""

    def __init__(self, *, down: int = 0) -> None:
        """`down`: how often the list of all cannot be read."""
        self.paid: list[str] = []
        self.down = down

    def who(self, parameters: Any) -> Any:
        if not parameters["of"].endswith("Smith"):
            raise ToolCallError("of: the full name is wanted", kind="tool")
        return {"name": parameters["of"].split()[0]}

    def everybody(self, _: Any) -> Any:
        self.down -= 1
        if self.down >= 0:
            raise ToolCallError("the list is locked", kind="tool")
        return {"names": ["Bob", "Cid"]}

    def pay(self, parameters: Any) -> Any:
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def run(self, *plans: tuple[Sequence[Any], str], mended: Sequence[str], **way: Any) -> Ran:
        """`mended`: what each failed reading is given in its place, in their order; nothing: it is given up."""
        tools = {
            "who": FakeTool(output=self.who, parameters=fields("of"), **VOLATILE),
            "everybody": FakeTool(output=self.everybody, **VOLATILE),
            "pay": FakeTool(output=self.pay, effect="once", parameters=fields("to")),
        }
        healed = [reflection("retry_with_params", {"of": one}) if one else GIVE_UP for one in mended]

        async def main() -> Ran:
            answers = {
                "execution_plan": [{**plan(*steps), "more": more} for steps, more in plans],
                "step_reflection": healed,
                "overall_reflection": [*[ANEW] * (len(plans) - 1), overall(False)],
                "evaluation": [verdict()] * 9,
            }
            return (await (await bench(tools, answers)).run(**way)).check()

        return virtual_time(main())


def reads(name: str, of: str, *needs: str) -> Any:
    return step(name, "who", *needs, parameters={"of": of})


def pays(name: str, to: str, *needs: str, **more: Any) -> Any:
    return step(name, "pay", *needs, parameters={"to": to}, **more)


def listed(name: str, *items: str) -> Any:
    return pays(name, "${item}", for_each=list(items))


FIRST = [reads("g", "Dan"), reads("v", "Bob", "g"), pays("b", "${v.output.name}"), pays("a", "Ann")]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(
    ("second", "succeeds"),
    [
        pytest.param([reads("w", "Bob"), pays("p", "${w.output.name}")], True, id="behind the reading"),
        pytest.param([reads("w", "Bob"), listed("p", "Eve", "${w.output.name}")], True, id="in a list"),
        pytest.param([reads("w", "Bob"), listed("p", "Eve", "Bob")], True, id="by its value"),
        pytest.param([step("w", "", actions=[action("w1", "who", of="Bob")]), pays("p", "${w1.output.name}")], True, id="by an action"),
        pytest.param([step("w", "who", parameters={"of": "${item}"}, for_each=["Bob"]), pays("p", "${w.output[0].name}")], True, id="by a list of readings"),
        pytest.param([reads("w", "Bob"), listed("p", "Eve", "Dan")], False, id="somebody else"),
        pytest.param([reads("w", "Bob"), pays("p", "Eve")], False, id="left out"),
    ],
)  # fmt: skip
def test_the_reading_that_recovery_mends_in_a_later_plan_tells_whom_the_first_was_to_pay(
    second: list[Any], succeeds: bool, way: dict[str, Any]
) -> None:
    office = Office()
    ran = office.run((FIRST, MORE), (second, ""), mended=["", "Bob Smith"], **way)
    assert ran.result.is_success == succeeds
    assert max(Counter(office.paid).values()) == 1


ALL = [step("w", "who", parameters={"of": "${item}"}, for_each=["Bob", "Cid Smith"])]


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize("shape", ["list", "actions"])
@pytest.mark.parametrize(
    ("then", "succeeds"), [(["Bob", "Cid"], True), (["Cid"], False), (["Cid", "Dan"], False)]
)
def test_of_readings_that_failed_in_part_each_counts(
    then: list[str], shape: str, succeeds: bool, way: dict[str, Any]
) -> None:
    """What waited for all of them was to do more than what the others gave."""
    office = Office()
    first = [*ALL, pays("b", "${item.name}", for_each="${w.output}")]
    if shape == "actions":
        both = [action("w1", "who", of="Bob"), action("w2", "who", of="Cid Smith")]
        first = [
            step("w", "", actions=both),
            listed("b", "${w.actions.w1.output.name}", "${w.actions.w2.output.name}"),
        ]
    ran = office.run(
        (first, MORE), ([reads("x", "Bob"), listed("p", *then)], ""), mended=["", "Bob Smith"], **way
    )
    assert ran.result.is_success == succeeds


@BY_STEPS_AND_MODEL
@pytest.mark.parametrize(("then", "succeeds"), [(["Bob", "Cid"], True), (["Bob"], False)])
def test_a_list_that_is_read_without_a_parameter_is_the_one_that_is_read_next(
    then: list[str], succeeds: bool, way: dict[str, Any]
) -> None:
    office = Office(down=1)
    first = [step("l", "everybody"), pays("b", "${item}", for_each="${l.output.names}")]
    second = [step("l2", "everybody"), *[pays(f"p{n}", who, "l2") for n, who in enumerate(then)]]
    assert office.run((first, MORE), (second, ""), mended=["", ""], **way).result.is_success == succeeds


@BY_STEPS_AND_MODEL
def test_who_would_have_been_paid_over_again_behind_a_new_effect_is_not_missing(way: dict[str, Any]) -> None:
    """A reading alone tells that it is a done one: no plan has said that it is meant once more."""
    office = Office()
    second = [
        pays("e", "Eve"),
        reads("w", "Bob"),
        reads("z", "Ann Smith"),
        pays("x", "${z.output.name}", "e", "w"),
    ]
    ran = office.run(
        ([pays("a", "Ann")], MORE), (second, ""), ([reads("k", "Kim Smith")], ""), mended=[""], **way
    )
    assert ran.result.is_success
    assert Counter(office.paid) == Counter(["Ann", "Eve"])
