"""A plan that is made anew while a person is asked for a call of the old one: what means that call is asked for where it stands now."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step
from test_run_left_out import ANEW, GIVE_UP
from test_run_people import TO
from test_run_recovery import overall

from replan.errors import InputError
from replan.testing import virtual_time


def _look(parameters: Any) -> Any:
    raise ValueError("it cannot be read")


def pay(step_id: str, to: str, **more: Any) -> dict[str, Any]:
    return step(step_id, "pay", parameters={"to": to}, **more)


def each(step_id: str, *whom: str) -> dict[str, Any]:
    return pay(step_id, "${item}", for_each=list(whom))


def both(step_id: str, *whom: str) -> dict[str, Any]:
    made = [action(f"{step_id}{n}", "pay", to=name) for n, name in enumerate(whom)]
    return {"step_id": step_id, "name": step_id, "actions": made}


async def started(first: dict[str, Any], then: dict[str, Any]) -> tuple[Bench, str]:
    tools = {
        "pay": FakeTool(output=lambda given: given["to"], parameters=TO, effect="once"),
        "look": FakeTool(output=_look, delay_secs=1, effect="reads", parameters=TO),
    }
    look = step("l", "look", parameters={"to": "x"})
    made = await bench(
        tools,
        {
            "execution_plan": [plan(first, look), plan(then)],
            "step_reflection": [GIVE_UP] * 9,
            "overall_reflection": [ANEW, overall(False)],
        },
    )
    return made, await made.submit(interactive=True, approval="destructive", evaluation="steps")


async def agreed(made: Bench, task_id: str) -> tuple[list[str], Ran]:
    """Whom somebody was asked for, one after the other, and what became of it."""
    asked: list[str] = []
    ran = await made.drive(task_id)
    while ran.result.status == "waiting":
        assert ran.result.waiting_for, "there is something to answer"
        one = ran.result.waiting_for[0]
        asked.append(one.parameters["to"])
        await made.service.resolve_approval(task_id, approved=True, approval_id=one.id)
        ran = await made.drive(task_id)
    return asked, ran.check()


@pytest.mark.parametrize(
    ("first", "then", "whom"),
    [
        pytest.param(pay("a", "Ann"), pay("b", "Ann"), ["Ann"], id="one call"),
        pytest.param(pay("a", "Ann"), pay("a", "Ann"), ["Ann"], id="under its own id"),
        pytest.param(pay("a", "Ann"), each("b", "Ann", "Bob"), ["Ann", "Bob"], id="in a list, beside another"),
        pytest.param(each("a", "Ann", "Bob"), each("b", "Bob", "Ann"), ["Ann", "Bob"], id="a list in another order"),
        pytest.param(both("a", "Ann", "Bob"), each("b", "Ann", "Bob", "Cid"), ["Ann", "Bob", "Cid"], id="actions by a list"),
    ],
)  # fmt: skip
def test_what_the_new_plan_means_is_asked_for_and_made_once(
    first: dict[str, Any], then: dict[str, Any], whom: list[str]
) -> None:
    async def main() -> tuple[list[str], Ran]:
        return await agreed(*await started(first, then))

    asked, ran = virtual_time(main())
    assert sorted(asked) == whom, "each once"
    assert ran.result.is_success
    assert sorted(one.output for one in ran.events("call_completed", tool_id="pay")) == whom


def test_the_request_of_the_old_plan_is_answered_no_more() -> None:
    async def main() -> None:
        made, task_id = await started(pay("a", "Ann"), pay("b", "Ann"))
        ran = await made.drive(task_id)
        old, new = ran.events("approval_requested")
        assert (old.step_id, new.step_id) == ("a", "b")
        assert old.call_key == new.call_key
        assert [one.id for one in ran.result.waiting_for] == [new.approval_id]
        with pytest.raises(InputError, match="is not asked for any more"):
            await made.service.resolve_approval(task_id, approved=True, approval_id=old.approval_id)
        await made.service.resolve_approval(task_id, approved=True, approval_id=new.approval_id)
        assert (await made.drive(task_id)).check().result.is_success

    virtual_time(main())


def test_who_drives_it_again_asks_no_second_time() -> None:
    async def main() -> Ran:
        made, task_id = await started(both("a", "Ann", "Bob"), each("b", "Ann", "Bob"))
        await made.drive(task_id)
        await made.drive(task_id)
        return await made.drive(task_id)

    ran = virtual_time(main())
    assert [one.step_id for one in ran.events("approval_requested")] == ["a", "a", "b", "b"]
    assert len(ran.result.waiting_for) == 2


def test_a_change_that_a_person_makes_is_that_of_the_call_where_it_stands_now() -> None:
    async def main() -> Ran:
        made, task_id = await started(both("a", "Ann", "Bob"), each("b", "Bob", "Ann"))
        ran = await made.drive(task_id)
        for one in ran.result.waiting_for:
            await made.service.resolve_approval(
                task_id, approved=True, approval_id=one.id, parameters={"to": f"{one.parameters['to']} Smith"}
            )
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.outputs()["b"] == ["Bob Smith", "Ann Smith"]
