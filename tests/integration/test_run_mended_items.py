"""A list, or actions, of which recovery had made one call in other words and another failed: what was had stands, and the rest is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step, verdict
from test_run_counterparts import END, fields
from test_run_forks import forked
from test_run_very_call import overall, reflection

from replan.errors import ToolCallError
from replan.ports import ModelReply, ModelRequest
from replan.testing import ScriptedModel, virtual_time

EVERYONE = ["Ann", "Bob", "Cy"]


class Bank:
    """Ann has moved to Ann-2, and nobody reaches Cy, until the locks are opened."""

    def __init__(self) -> None:
        self.locked = {"Ann", "Cy"}
        self.paid: list[str] = []

    def pay(self, parameters: Any) -> Any:
        if parameters["to"] in self.locked:
            raise ToolCallError(f"{parameters['to']} is locked", kind="tool")
        self.paid.append(parameters["to"])
        return {"id": len(self.paid)}

    def wire(self, parameters: Any) -> Any:
        self.paid.append(f"{parameters['to']} by wire")
        return {"id": len(self.paid)}

    def open(self, parameters: Any) -> Any:
        self.locked.clear()
        return {}

    def tools(self) -> dict[str, FakeTool]:
        def once(does: Any, **spec: Any) -> FakeTool:
            return FakeTool(output=does, effect="once", parameters=fields("to"), spec=spec)

        return {
            "pay": once(self.pay, substitutes=("wire",)), "upay": once(self.pay, unique_by=("to",), substitutes=("wire",)), "wire": once(self.wire),
            "open": FakeTool(output=self.open, effect="repeatable"),
            "people": FakeTool(output=EVERYONE, effect="reads"), "new_people": FakeTool(output=["Bob", "Cy", "Ann"], effect="reads"),
        }  # fmt: skip


MENDS: dict[str, tuple[dict[str, Any], str]] = {
    "other parameters": (reflection("retry_with_params", {"to": "Ann-2"}), "Ann-2"),
    "another tool": (
        {**reflection("retry_with_tool", {"tool_id": "wire", "parameters": {"to": "Ann"}}), "root_cause_category": "tool_error"},
        "Ann by wire",
    ),
}  # fmt: skip


def steps(form: str, tool: str, everyone: Sequence[str] = EVERYONE) -> list[dict[str, Any]]:
    if form == "actions":
        return [step("m", actions=[action(f"a{to}", tool, to=to) for to in everyone])]
    items, before = (list(everyone), []) if form == "list" else ("${p.output}", [step("p", "people")])
    return [
        *before,
        step("m", tool, *(["p"] if before else []), parameters={"to": "${item}"}, for_each=items),
    ]


class Thoughtful(ScriptedModel):
    """Takes its time to end the recovery of a call, so that others come to theirs."""

    async def ask(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        found = await super().ask(request, on_text)
        if "trigger_overall_reflection" in found.text:
            await asyncio.sleep(60)
        return found


def reflects(mend: dict[str, Any], name: str = "Ann") -> Any:
    """Whoever has moved is paid otherwise, once; what else fails is for a new plan."""
    mends = [mend]

    def answer(request: Any) -> dict[str, Any]:
        told = "\n".join(turn.text for turn in request.turns)
        if f"{name} is locked" in told and "Cy is locked" not in told and mends:
            return mends.pop()
        return reflection("trigger_overall_reflection", {"summary": "no"})

    return answer


async def failed(
    bank: Bank, given: list[dict[str, Any]], mend: dict[str, Any], *plans: Any, **more: Any
) -> tuple[Bench, str, Ran]:
    answers = {
        "execution_plan": [plan(*given), *plans], "step_reflection": reflects(mend), "overall_reflection": END,
        "evaluation": verdict(), **more,
    }  # fmt: skip
    made = await bench(bank.tools(), model=Thoughtful(answers))
    task_id = await made.submit(max_rounds=3)
    return made, task_id, await made.drive(task_id)


@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("mend", MENDS)
@pytest.mark.parametrize("form", ["list", "list that is read", "actions"])
def test_who_tries_it_again_does_not_make_again_what_was_made_in_other_words(
    form: str, mend: str, tool: str
) -> None:
    bank = Bank()
    answer, had = MENDS[mend]

    async def main() -> Ran:
        made, task_id, ran = await failed(bank, steps(form, tool), answer)
        assert ran.state.status == "failed"
        assert sorted(bank.paid) == sorted([had, "Bob"])
        bank.locked.clear()
        return await made.drive(await forked(made, task_id, retry=("m",)))

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.reason
    assert sorted(bank.paid) == sorted([had, "Bob", "Cy"])
    assert len(ran.outputs()["m"]) == 3


@pytest.mark.parametrize("tool", ["pay", "upay"])
@pytest.mark.parametrize("mend", MENDS)
@pytest.mark.parametrize("form", ["list", "list that is read", "actions"])
def test_remedies_may_go_before_it_and_the_rest_of_it_is_made_after_them(
    form: str, mend: str, tool: str
) -> None:
    bank = Bank()
    answer, had = MENDS[mend]
    remedy = [overall(type="add_remediation_steps", step_id="m"), END]

    async def main() -> Ran:
        opened = plan(step("o", "open"))
        return (await failed(bank, steps(form, tool), answer, opened, overall_reflection=remedy))[2]

    ran = virtual_time(main())
    assert not ran.events("plan_rejected")
    assert ran.result.is_success, ran.result.reason
    assert sorted(bank.paid) == sorted([had, "Bob", "Cy"])


def test_an_item_that_stands_there_twice_is_had_twice_and_only_one_of_them_was() -> None:
    bank = Bank()

    async def main() -> Ran:
        twice = steps("list", "pay", ["Ann", "Ann"])
        made, task_id, _ = await failed(bank, twice, MENDS["other parameters"][0])
        assert bank.paid == ["Ann-2"]
        bank.locked.clear()
        return await made.drive(await forked(made, task_id, retry=("m",)))

    ran = virtual_time(main())
    assert bank.paid == ["Ann-2", "Ann"]
    assert ran.result.is_success, ran.result.reason


def test_a_new_plan_that_writes_it_anew_is_asked_all_the_same() -> None:
    bank = Bank()
    anew = step("m", "pay", "o", parameters={"to": "${item}"}, for_each=["Cy", "Ann"])
    plans = [plan(step("o", "open"), one) for one in (anew, {**anew, "for_each": ["Cy"]})]
    again = [overall(type="full_replan"), END, END]

    async def main() -> Ran:
        mend = MENDS["other parameters"][0]
        return (await failed(bank, steps("list", "pay"), mend, *plans, overall_reflection=again))[2]

    ran = virtual_time(main())
    assert "was made as pay" in ran.events("plan_rejected")[0].violations[0]
    assert sorted(bank.paid) == ["Ann-2", "Bob", "Cy"]
