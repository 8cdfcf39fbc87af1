"""What stands beside what, and what comes after what, in a family: among the actions of one step as among steps."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step
from test_run_forks import at_of, forked, own
from test_run_forks_alike import takes

from replan.testing import virtual_time


def act(name: str, tool: str, *needs: str, **parameters: Any) -> dict[str, Any]:
    return {"action_id": name, "tool": tool, "parameters": parameters, "dependencies": [*needs]}


class World:
    """What was done, in its order; calls take their time."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    def tool(self, name: str, parameter: str, **more: Any) -> FakeTool:
        def make(asked: Any) -> dict[str, str]:
            self.done.append((name, asked.get(parameter, "")))
            return {"id": f"{name} {len(self.done)}"}

        return FakeTool(output=make, delay_secs=2, **{**takes(parameter), **more})

    def tools(self) -> dict[str, Any]:
        return {
            "pay": self.tool("pay", "to"),
            "refund": self.tool("refund", "to"),
            "keyed": self.tool("keyed", "to", spec={"honours_key": True}),
            "wire": self.tool("wire", "to", spec={"substitutes": ["pay"]}),
            "write": self.tool("write", "text"),
            "publish": self.tool("publish", "at"),
        }


def renamed(wanted: dict[str, Any]) -> dict[str, Any]:
    (one,) = wanted["steps"]
    names = {each["action_id"]: f"{each['action_id']}1" for each in one["actions"]}
    actions = [
        {**each, "action_id": names[each["action_id"]], "dependencies": [names[n] for n in each["dependencies"]]}
        for each in one["actions"]
    ]  # fmt: skip
    return {"steps": [{**one, "step_id": "t", "actions": actions}]}


@pytest.mark.parametrize("form", ["the same", "other ids", "no plan"])
@pytest.mark.parametrize(
    ("first", "second", "needs"),
    [("pay", "wire", ()), ("pay", "pay", ()), ("keyed", "pay", ()), ("pay", "wire", ("x",))],
)
def test_a_fork_with_the_very_plan_has_what_was_done_from_any_event(
    first: str, second: str, needs: tuple[str, ...], form: str
) -> None:
    """The two actions stand beside each other, or the one comes after the other, as in the other task."""
    world = World()
    wanted = plan(step("s", actions=[act("x", first, to="ann"), act("y", second, *needs, to="bob")]))

    async def main() -> list[Ran]:
        made = await bench(world.tools())
        ran = (await made.run(wanted)).check()
        given = {"the same": {"plan": wanted}, "other ids": {"plan": renamed(wanted)}, "no plan": {}}[form]
        # from where the task has a plan to where it has ended
        events = [one.seq for one in ran.records if one.seq >= at_of(ran, "plan_generated")][:-1]
        return [
            (await made.drive(await forked(made, ran.result.task_id, at=at, **given))).check()
            for at in events
        ]

    forks = virtual_time(main())
    for one in forks:
        assert one.result.is_success, one.result.reason
    assert sorted(world.done) == sorted([(first, "ann"), (second, "bob")])


@pytest.mark.parametrize(
    "needs", [("w",), ("m", "w"), ()], ids=["after it", "by way of another", "beside it"]
)
def test_what_was_published_before_the_own_text_does_not_stand_for_what_comes_after_that(
    needs: tuple[str, ...],
) -> None:
    """Both write and publish by the actions of one step: the other's page is no page of the text here."""
    world = World()

    def written(text: str) -> dict[str, Any]:
        between = [act("m", "pay", "w", to="ann")] if "m" in needs else []
        after = needs[:1]
        return plan(
            step("s", actions=[act("w", "write", text=text), *between, act("p", "publish", *after, at="x")])
        )

    async def main() -> Ran:
        made = await bench(world.tools())
        ran = (await made.run(written("1"))).check()
        at = at_of(ran, "plan_generated")
        return (await made.drive(await forked(made, ran.result.task_id, at=at, plan=written("2")))).check()

    fork = virtual_time(main())
    assert fork.result.is_success == (not needs), fork.result.reason
    assert world.done.count(("publish", "x")) == 1
    if needs:
        assert "which this step waits for" in str([one.event for one in own(fork)])


@pytest.mark.parametrize("after", [True, False])
def test_what_a_later_action_of_its_step_took_back_does_not_stand_for_it(*, after: bool) -> None:
    """The other pays and then refunds by the actions of one step; the fork pays alone. Beside the payment, a refund is another one's."""
    world = World()
    wanted = plan(
        step(
            "s", actions=[act("x", "pay", to="ann"), act("y", "refund", *(["x"] if after else []), to="ann")]
        )
    )

    async def main() -> Ran:
        made = await bench(world.tools())
        ran = (await made.run(wanted)).check()
        alone = plan(step("p", "pay", parameters={"to": "ann"}))
        at = at_of(ran, "plan_generated")
        return (await made.drive(await forked(made, ran.result.task_id, at=at, plan=alone))).check()

    fork = virtual_time(main())
    assert fork.result.is_success != after, fork.result.reason
    assert world.done.count(("pay", "ann")) == 1
