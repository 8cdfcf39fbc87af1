"""Several things done with each item of a list, one after the other: actions that use what others of their step have given."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from run_tasks import FakeSource, FakeTool, Ran, action, bench, plan, step
from test_run_recovery import READS
from test_run_restated import ANEW

from replan.errors import ToolCallError
from replan.ports import ToolCall
from replan.testing import MemoryStore, virtual_time

NAMES = ["Ann", "Bob", "Cyd"]


class Slow(FakeSource):
    """Tools that may take their time."""

    async def call(self, call: ToolCall) -> Any:
        found = await super().call(call)
        return await found if asyncio.iscoroutine(found) else found


class World:
    """Opens accounts, pays to them, and mails that; each takes its time."""

    def __init__(self, **secs: float) -> None:
        self.secs = secs
        self.done: list[str] = []
        self.fails: dict[str, int] = {}

    def _say(self, what: str) -> None:
        if self.fails.get(what, 0):
            self.fails[what] -= 1
            raise ToolCallError(f"{what} is not possible at the moment", kind="tool")
        self.done.append(what)

    async def open(self, parameters: dict[str, Any]) -> dict[str, str]:
        await asyncio.sleep(self.secs.get(parameters["who"], 1.0))
        self._say(f"open {parameters['who']}")
        return {"account": f"{parameters['who']}-1", "text": parameters.get("text", "")}

    async def pay(self, parameters: dict[str, Any]) -> dict[str, str]:
        await asyncio.sleep(1.0)
        self._say(f"pay {parameters['account']}")
        return {"receipt": f"R {parameters['account']}"}

    def mail(self, parameters: dict[str, Any]) -> str:
        self._say(f"mail {parameters['text']}")
        return "sent"

    def tools(self) -> Slow:
        return Slow({
            "open": FakeTool(output=self.open, **READS),
            "pay": FakeTool(output=self.pay, effect="once"),
            "mail": FakeTool(output=self.mail, effect="once"),
            "names": FakeTool(output=NAMES, **READS),
        })  # fmt: skip


def each(name: str = "e", *needs: str, **more: Any) -> dict[str, Any]:
    """What is done with each name. It is written the last first: what is used says the order."""
    return step(
        name,
        "",
        *needs,
        for_each="${n.output}",
        actions=[
            action("m", "mail", text="${= item + ': ' + p.output.receipt }"),
            action("p", "pay", account="${o.output.account}"),
            action("o", "open", who="${item}"),
        ],
        **more,
    )


async def ran(world: World, *plans: dict[str, Any], **task: Any) -> Ran:
    one = await bench(world.tools(), {"execution_plan": list(plans), **ANEW}, store=task.pop("store", None))
    return (await one.run(evaluation="steps", max_rounds=len(plans), **task)).check()


def run(world: World, *plans: dict[str, Any], **task: Any) -> Ran:
    return virtual_time(ran(world, *plans, **task))


def test_each_item_goes_its_own_way_in_order() -> None:
    world = World(Ann=5.0)
    done = run(world, plan(step("n", "names"), each()))
    assert done.result.is_success
    mails = {name: world.done.index(f"mail {name}: R {name}-1") for name in NAMES}
    assert mails["Ann"] > max(mails["Bob"], mails["Cyd"])
    assert world.done.index("pay Bob-1") < world.done.index("open Ann")  # nobody waits for the slowest
    assert done.times("step_completed")["e"] == 6.0
    assert done.outputs()["e"][1] == {
        "m": "sent",
        "p": {"receipt": "R Bob-1"},
        "o": {"account": "Bob-1", "text": ""},
    }


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_it_takes_no_more_places_than_there_are(limit: int) -> None:
    world = World()
    done = run(world, plan(step("n", "names"), each()), parallel_max_concurrent=limit)
    assert done.result.is_success
    assert len(world.done) == 9


def test_one_step_without_a_list_may_have_an_order_too() -> None:
    world = World()
    both = step("s", actions=[action("x", "mail", text="last"), action("y", "open", who="Ann")])
    both["actions"][0]["dependencies"] = ["y"]
    assert run(world, plan(both)).result.is_success
    assert world.done == ["open Ann", "mail last"]


def test_what_needs_something_that_has_failed_is_not_made_and_the_next_plan_does_the_rest() -> None:
    world = World()
    world.fails = {"pay Bob-1": 1}
    rest = step("e2", for_each='["Bob"]', actions=[
        action("p2", "pay", account="${o2.output.account}"), action("o2", "open", who="${item}"),
        action("m2", "mail", text="${item}: ${p2.output.receipt}"),
    ])  # fmt: skip
    done = run(world, plan(step("n", "names"), each()), plan(rest))
    failed = done.events("step_failed")[0]
    assert failed.error.message.startswith(
        "1 of 9 calls failed; action 'p', item 2: pay Bob-1 is not possible"
    )
    assert sorted(one for one in world.done if one.startswith(("pay", "mail"))) == sorted(
        f"{what}" for name in NAMES for what in (f"pay {name}-1", f"mail {name}: R {name}-1")
    )


def test_a_list_may_do_without_the_items_that_fail() -> None:
    world = World()
    world.fails = {"pay Bob-1": 9}
    done = run(world, plan(step("n", "names"), each(allow_failed_items=True)))
    assert [one["p"]["receipt"] for one in done.outputs()["e"]] == ["R Ann-1", "R Cyd-1"]
    assert "mail Bob" not in " ".join(world.done)


def test_outputs_that_are_kept_apart_are_there_for_the_next_action() -> None:
    world, text = World(), "x" * 5_000
    long = step("e", for_each='["Ann"]', actions=[
        action("o", "open", who="${item}", text=text), action("m", "mail", text="${= text(length(o.output.text)) }"),
    ])  # fmt: skip
    done = run(world, plan(long), max_output_bytes=1_000)
    assert done.result.is_success
    assert "mail 5000" in world.done


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ([action("a", "mail", text="${a.output}")], "action 'a' refers to itself"),
        ([action("a", "mail", text="${b.output}"), action("b", "mail", text="${a.output}")], "its actions wait for each other: a → b → a"),
        ([action("a", "mail", text="${e.output}"), action("b", "mail", text="x")], "refers to its own step; of its own step an action may"),
        ([{**action("a", "mail", text="x"), "dependencies": ["a"]}, action("b", "mail", text="y")], "action 'a' depends on itself"),
        ([{**action("a", "mail", text="x"), "dependencies": ["n"]}, action("b", "mail", text="y")], "depends on 'n', which is no action of its step"),
    ],
)  # fmt: skip
def test_an_order_that_cannot_be_is_told_with_the_plan(actions: list[dict[str, Any]], told: str) -> None:
    world = World()
    done = run(
        world, plan(step("n", "names"), step("e", "", "n", actions=actions)), plan(step("n2", "names"))
    )
    (rejected,) = done.events("plan_rejected")
    assert told in "\n".join(rejected.violations)
    assert not world.done


@pytest.mark.parametrize("at", range(1, 60, 4))
def test_it_goes_on_where_it_was_cut_off(at: int) -> None:
    """Only what was under way is made again, and that only reads."""

    async def main() -> tuple[World, Ran]:
        world = World(Ann=3.0)
        store = MemoryStore()
        one = await bench(
            world.tools(), {"execution_plan": [plan(step("n", "names"), each())], **ANEW}, store=store
        )
        task_id = await one.submit(evaluation="steps")
        driving = asyncio.create_task(one.drive(task_id))
        await asyncio.sleep(at / 10)
        driving.cancel()
        await asyncio.wait([driving])
        again = await bench(world.tools(), {**ANEW}, store=store)
        return world, (await again.drive(task_id)).check()

    world, done = virtual_time(main())
    effects = [one for one in world.done if not one.startswith("open")]
    assert len(effects) == len(set(effects))
    if done.result.is_success:
        assert len(effects) == 6


def test_an_effect_of_an_earlier_plan_is_not_made_again_by_the_same_words() -> None:
    world = World()
    world.fails = {"mail Cyd: R Cyd-1": 1}
    again = plan(step("n", "names"), each("e"), step("last", "names", "e"))
    done = run(world, plan(step("n", "names"), each()), again)
    effects = [one for one in world.done if not one.startswith("open")]
    assert len(effects) == len(set(effects)) == 6
    assert done.result.is_success


def test_what_a_done_action_has_given_is_known_to_the_check_of_a_remedy() -> None:
    """The very call that the step is to make again, with the value in place of the reference, is told with the plan."""
    world = World()
    world.fails = {"mail R Ann-1": 1}
    first = step(
        "a", actions=[action("p", "pay", account="Ann-1"), action("m", "mail", text="${p.output.receipt}")]
    )
    same, other = (
        step("b", "mail", parameters={"text": "R Ann-1"}),
        step("c", "open", parameters={"who": "Ann"}),
    )
    strategy = {"type": "add_remediation_steps", "step_id": "a", "reason": "it helps"}
    overall = {**ANEW["overall_reflection"], "replanning_strategy": strategy}

    async def main() -> Ran:
        answers = {
            **ANEW,
            "execution_plan": [plan(first), plan(same), plan(other)],
            "overall_reflection": overall,
        }
        return (await (await bench(world.tools(), answers)).run(evaluation="steps", max_rounds=2)).check()

    done = virtual_time(main())
    (rejected,) = done.events("plan_rejected")
    assert "does the same with 'mail'" in rejected.violations[0]
    assert world.done == ["pay Ann-1", "open Ann", "mail R Ann-1"]
    assert done.result.is_success


def test_many_items_take_time_that_grows_with_them() -> None:
    world = World()
    many = step("e", for_each=json.dumps(list(map(str, range(1_500)))), actions=[
        action("p", "pay", account="${item}"), action("m", "mail", text="${p.output.receipt}"),
    ])  # fmt: skip
    done = run(world, plan(many), parallel_max_concurrent=64)
    assert done.result.is_success
    assert len(world.done) == 3_000


def test_a_plan_whose_actions_have_other_names_alone_is_the_same_plan() -> None:
    world = World()
    world.fails = {"mail Cyd: R Cyd-1": 9}
    done = run(world, plan(step("n", "names"), each()), plan(step("n", "names"), each("e")))
    (rejected,) = done.events("plan_rejected")
    assert "the same as an earlier one" in rejected.violations[0]
