"""Tasks that are gone on with after an upgrade: what is done stays, what no longer fits is recovered, nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import reflection

from replan.core.events import PlanGenerated, TaskSubmitted, VersionsChanged, dump, load, misread
from replan.core.tools.versions import Versions, changed, stricter, version_of
from replan.core.types import JsonObject, ToolSpec, strength_of
from replan.errors import InputError
from replan.testing import MemoryStore, ScriptedModel, VirtualClock, virtual_time

ONE = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}
OTHER = {
    "type": "object",
    "properties": {"iban": {"type": "string"}},
    "required": ["iban"],
    "additionalProperties": False,
}
SLOW = FakeTool(delay_secs=100, output="slow", effect="reads")
PLAN = plan(
    step("first", "pay", parameters={"to": "Ann"}),
    step("slow", "slow", "first"),
    step("second", "pay", "slow", parameters={"to": "Bob"}),
    step("third", "note", "slow"),
)


def pay(parameters: JsonObject = ONE, *, effect: Any = "once", **spec: Any) -> FakeTool:
    return FakeTool(output=lambda given: given, parameters=parameters, effect=effect, spec=spec)


class Upgrade:
    """A task that one process begins, and that another one, with other tools, goes on with."""

    def __init__(
        self, wanted: JsonObject = PLAN, answers: Mapping[str, Any] | None = None, **policy: Any
    ) -> None:
        self.store, self.clock = MemoryStore(), VirtualClock()
        self.wanted, self.answers, self.policy = wanted, answers, policy
        self.sources: list[Any] = []

    async def bench(self, tools: Mapping[str, Any], version: str = "1") -> Bench:
        model = ScriptedModel(dict(self.answers or {}))
        made = await bench(
            {"slow": SLOW, "note": FakeTool(), **tools}, store=self.store, model=model, clock=self.clock
        )
        made.parts.version = version
        self.sources.append(made.source)
        return made

    async def begin(self, tools: Mapping[str, Any], *, for_secs: float = 50) -> str:
        made = await self.bench(tools)
        task_id = await made.submit(self.wanted if self.answers is None else None, **self.policy)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(for_secs)
        driving.cancel()
        await asyncio.wait({driving})
        return task_id

    async def go_on(self, task_id: str, tools: Mapping[str, Any], version: str = "2") -> Ran:
        return (await (await self.bench(tools, version)).drive(task_id)).check()

    async def run(self, before: Mapping[str, Any], after: Mapping[str, Any], **more: Any) -> Ran:
        return await self.go_on(await self.begin(before), after, **more)

    def calls(self, tool: str) -> list[JsonObject]:
        return [call.parameters for source in self.sources for call in source.calls if call.tool_id == tool]


def test_nothing_is_said_where_nothing_has_changed() -> None:
    upgrade = Upgrade()
    ran = virtual_time(upgrade.run({"pay": pay()}, {"pay": pay()}, version="1"))
    assert ran.result.is_success
    assert ran.events("versions_changed") == []
    (made,) = ran.events("plan_generated")
    assert made.made_with.tools.keys() == {"pay", "slow", "note"}
    assert made.made_with.replan == "1"
    assert upgrade.calls("pay") == [{"to": "Ann"}, {"to": "Bob"}]


def test_nothing_is_said_of_tools_by_whoever_only_ends_a_task() -> None:
    async def main() -> Ran:
        upgrade = Upgrade()
        task_id = await upgrade.begin({"pay": pay()})
        ends = await bench({}, store=upgrade.store, clock=upgrade.clock)  # a command that looks for no tools
        await ends.service.cancel(task_id)
        return (await ends.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "cancelled"
    assert ran.events("versions_changed") == []


def test_another_release_of_replan_is_told_and_changes_nothing() -> None:
    ran = virtual_time(Upgrade().run({"pay": pay()}, {"pay": pay()}))
    assert ran.result.is_success
    (said,) = ran.events("versions_changed")
    assert (said.before, said.made_with.replan, said.tools, said.unfit, said.optional) == (
        "1",
        "2",
        (),
        {},
        True,
    )


def test_it_is_told_once_however_often_the_task_is_taken_up() -> None:
    async def main() -> Ran:
        upgrade = Upgrade()
        task_id = await upgrade.begin({"pay": pay()})
        for _ in range(3):
            made = await upgrade.bench({"pay": pay(description="Pay")}, "2")
            driving = asyncio.create_task(made.service.drive(task_id))
            await asyncio.sleep(10)
            driving.cancel()
            await asyncio.wait({driving})
        return await upgrade.go_on(task_id, {"pay": pay()})

    assert len(virtual_time(main()).events("versions_changed")) == 1


def test_a_call_that_no_longer_fits_goes_to_recovery_with_that_reason() -> None:
    mend = reflection("repair_step", {"hint": "say the iban"})
    written = step("second", "pay", "slow", parameters={"iban": "B-1"})
    answers = {
        "execution_plan": PLAN,
        "step_reflection": mend,
        "step_repair": written,
        "evaluation": verdict(),
    }
    upgrade = Upgrade(answers=answers)
    ran = virtual_time(upgrade.run({"pay": pay()}, {"pay": pay(OTHER)}))
    (said,) = ran.events("versions_changed")
    assert [(one.tool_id, one.what) for one in said.tools] == [("pay", ("parameters",))]
    assert said.unfit.keys() == {"second"}
    assert said.unfit["second"].kind == "tool_changed"
    (looked,) = ran.events("step_reflected")
    assert looked.error == said.unfit["second"]
    assert "the tool 'pay' has changed (its parameters)" in looked.error.message
    assert "iban" in looked.error.message
    assert upgrade.calls("pay") == [{"to": "Ann"}, {"iban": "B-1"}], "what is done stays done"
    assert ran.result.is_success


def test_without_a_model_it_fails_with_that_reason_and_nothing_is_called() -> None:
    upgrade = Upgrade()
    ran = virtual_time(upgrade.run({"pay": pay()}, {"pay": pay(OTHER)}))
    assert ran.result.status == "failed"
    assert upgrade.calls("pay") == [{"to": "Ann"}]
    assert ran.statuses() == {
        "first": "succeeded",
        "slow": "succeeded",
        "second": "failed",
        "third": "succeeded",
    }
    assert "since the plan was made, the tool 'pay' has changed" in str(ran.result.steps[2].error)


def test_a_change_that_still_fits_is_no_fault() -> None:
    wider = {**ONE, "properties": {**ONE["properties"], "memo": {"type": "string"}}}  # type: ignore[dict-item]
    upgrade = Upgrade()
    ran = virtual_time(upgrade.run({"pay": pay()}, {"pay": pay(wider)}))
    assert ran.result.is_success
    assert len(ran.events("versions_changed")[0].tools) == 1
    assert upgrade.calls("pay") == [{"to": "Ann"}, {"to": "Bob"}]


def test_a_tool_that_is_gone_is_recovered_from_and_one_that_comes_back_is_called() -> None:
    other = reflection(
        "retry_with_tool", {"tool_id": "transfer", "parameters": {"to": "Bob"}}, category="tool_error"
    )
    upgrade = Upgrade(answers={"execution_plan": PLAN, "step_reflection": other, "evaluation": verdict()})
    ran = virtual_time(upgrade.run({"pay": pay(), "transfer": pay()}, {"transfer": pay()}))
    assert ran.events("versions_changed")[0].tools[0].what == ("gone",)
    assert "the tool 'pay' is gone" in ran.events("step_reflected")[0].error.message
    assert upgrade.calls("transfer") == [{"to": "Bob"}]

    async def back() -> Ran:
        again = Upgrade()
        task_id = await again.begin({"pay": pay()}, for_secs=50)
        made = await again.bench({}, "1")
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        driving.cancel()
        await asyncio.wait({driving})
        return await again.go_on(task_id, {"pay": pay()}, "1")

    ran = virtual_time(back())
    assert ran.result.is_success, ran.result.failure
    assert [one.tools[0].what for one in ran.events("versions_changed")] == [("gone",), ("back",)]


def test_what_reads_no_longer_but_acts_is_taken_as_it_is_now() -> None:
    wanted = plan(step("slow", "slow"), step("look", "pay", "slow", parameters={"to": "Ann"}))
    upgrade = Upgrade(wanted, approval="destructive", interactive=True)

    async def main() -> Ran:
        task_id = await upgrade.begin({"pay": pay(effect="reads")})
        return await (await upgrade.bench({"pay": pay()}, "2")).drive(task_id)

    ran = virtual_time(main())
    assert [one.kind for one in ran.result.waiting_for] == ["approval"]
    assert upgrade.calls("pay") == []


def test_what_acts_no_longer_but_reads_is_taken_as_it_was() -> None:
    wanted = plan(step("slow", "slow"), step("send", "pay", "slow", parameters={"to": "Ann"}))
    upgrade = Upgrade(wanted, approval="destructive", interactive=True)

    async def main() -> tuple[Ran, Ran]:
        task_id = await upgrade.begin({"pay": pay()})
        made = await upgrade.bench({"pay": pay(effect="reads")}, "2")
        first = await made.drive(task_id)
        await made.service.resolve_approval(task_id, approved=True)
        return first, await upgrade.go_on(task_id, {"pay": pay(effect="reads")})

    first, ran = virtual_time(main())
    assert first.events("versions_changed")[0].held == {"pay": {"effect": "once"}}
    assert [one.kind for one in first.result.waiting_for] == ["approval"], "the plan was made for an effect"
    assert ran.result.is_success
    assert len(ran.events("versions_changed")) == 1
    assert ran.events("call_started", tool_id="pay")[0].effect == "once"


def test_a_cut_off_effect_is_not_made_again_because_the_tool_has_come_to_honour_keys() -> None:
    wanted = plan(step("send", "pay", parameters={"to": "Ann"}))
    before = FakeTool(delay_secs=100, parameters=ONE, effect="once")

    async def main(after: FakeTool) -> tuple[Ran, Upgrade]:
        upgrade = Upgrade(wanted)
        return await upgrade.run({"pay": before}, {"pay": after}), upgrade

    ran, upgrade = virtual_time(main(pay(honours_key=True)))
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert len(upgrade.calls("pay")) == 1
    ran, upgrade = virtual_time(main(pay(OTHER, honours_key=True)))
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown", (
        "nor as another call, as the tool takes other parameters now"
    )
    assert len(upgrade.calls("pay")) == 1


def test_what_a_tool_gives_now_is_held_against_what_refers_to_it() -> None:
    def read(field: str) -> FakeTool:
        schema = {"type": "object", "properties": {field: {"type": "string"}}, "additionalProperties": False}
        return FakeTool(output={field: "x"}, spec={"output_schema": schema})

    wanted = plan(
        step("slow", "slow"),
        step("read", "read", "slow"),
        step("use", "note", "read", parameters={"id": "${read.output.id}"}),
    )
    ran = virtual_time(Upgrade(wanted).run({"read": read("id")}, {"read": read("number")}))
    (said,) = ran.events("versions_changed")
    assert {name: fault.category for name, fault in said.unfit.items()} == {"use": "dependency_error"}
    assert ran.statuses()["read"] == "succeeded"


def test_a_log_of_an_older_release_that_says_nothing_of_versions_goes_on_as_before() -> None:
    async def main() -> Ran:
        upgrade = Upgrade()
        task_id = await upgrade.begin({"pay": pay()})
        first, *rest = await upgrade.store.read(task_id)
        upgrade.store = MemoryStore()
        assert isinstance(first.event, TaskSubmitted)
        await upgrade.store.create(task_id, first.event, first.ts)
        claim = await upgrade.store.claim(task_id)
        for record in rest:
            event = record.event
            if isinstance(event, PlanGenerated):
                event = event.model_copy(update={"made_with": None})
            await upgrade.store.append(claim, [event], ts=record.ts, round=record.round)
        await upgrade.store.release(claim)
        return await upgrade.go_on(task_id, {"pay": pay()})

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.events("versions_changed") == []


def test_an_older_release_may_go_on_where_nothing_follows_from_the_change_and_only_there() -> None:
    plain = VersionsChanged(made_with=Versions(), optional=True)
    strict = VersionsChanged(made_with=Versions(), held={"pay": {"effect": "once"}})
    assert not misread(load("kind_of_the_future", dump(plain)))
    assert misread(load("kind_of_the_future", dump(strict)))


def test_whoever_lacks_a_tool_is_told_before_anything_happens_unless_its_source_has_it_no_more() -> None:
    async def main() -> tuple[str, list[Any], str]:
        upgrade = Upgrade()
        task_id = await upgrade.begin({"pay": pay()})
        lacking = await upgrade.bench({})
        with pytest.raises(InputError, match="'pay', not to be found"):
            await lacking.service.check_resumable(task_id)
        listed = await lacking.service.cannot_go_on()
        whole = await upgrade.bench({"pay": pay()})
        assert await whole.service.cannot_go_on() == []
        healing = Upgrade(answers={"execution_plan": PLAN, "evaluation": verdict()})
        healed = await healing.begin({"pay": pay()})
        await (await healing.bench({})).service.check_resumable(healed)  # a model finds another way
        return task_id, listed, ""

    task_id, listed, _ = virtual_time(main())
    assert [(one.task_id, "'pay', not to be found" in one.why) for one in listed] == [(task_id, True)]


def spec(effect: Any, asks: bool, key: bool, clean: bool | None, wide: bool) -> ToolSpec:
    return ToolSpec(
        id="t", effect=effect, requires_approval=asks, honours_key=key, errors_are_clean=clean,
        parameters=ONE if wide else OTHER,
    )  # fmt: skip


specs = st.builds(
    spec,
    st.sampled_from(["reads", "repeatable", "once"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, True, False]),
    st.booleans(),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(before=specs, now=specs)
def test_a_tool_is_never_taken_less_strictly_than_when_it_was_planned_with_or_than_it_is(
    before: ToolSpec, now: ToolSpec
) -> None:
    taken = now.model_copy(update=stricter(version_of(before), version_of(now)))
    for one in (before, now):
        assert strength_of(taken.effect) >= strength_of(one.effect)
        assert taken.requires_approval >= one.requires_approval
        assert taken.honours_key <= one.honours_key or one is now
        assert one.errors_are_clean is not False or taken.errors_are_clean is False
    assert taken.honours_key <= before.honours_key
    assert taken.parameters == now.parameters
    same = before.model_dump() == now.model_dump()
    assert (changed(version_of(before), version_of(now)) == ()) == same


NAMES = ("a", "b", "c")
releases = st.fixed_dictionaries(
    {
        name: st.none()
        | st.fixed_dictionaries(
            {
                "effect": st.sampled_from(["reads", "repeatable", "once"]),
                "honours_key": st.booleans(),
                "parameters": st.sampled_from([ONE, OTHER]),
            }
        )
        for name in NAMES
    }
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    upgrades=st.lists(st.tuples(releases, st.integers(1, 60)), min_size=1, max_size=4),
    needs=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_however_tools_change_on_the_way_no_effect_is_had_twice_and_the_task_ends(
    upgrades: list[tuple[Any, int]], needs: list[bool]
) -> None:
    """A tool is called again only if, each time, it was said that this does no harm."""
    steps = [
        step(f"s{n}", NAMES[n % 3], *([f"s{n - 1}"] if after and n else []), parameters={"to": f"to {n}"})
        for n, after in enumerate(needs)
    ]
    first = {name: {"effect": "once", "honours_key": False, "parameters": ONE} for name in NAMES}
    made: list[tuple[str, str]] = []

    def tool(name: str, release: JsonObject) -> FakeTool:
        def call(given: JsonObject) -> str:
            made.append((name, str(given)))
            return "ok"

        spec = {"honours_key": release["honours_key"]}
        return FakeTool(
            call, effect=release["effect"], parameters=release["parameters"], delay_secs=20, spec=spec
        )

    def tools(release: Any) -> dict[str, FakeTool]:
        return {name: tool(name, one) for name, one in release.items() if one is not None}

    async def main() -> tuple[Ran, Upgrade]:
        upgrade = Upgrade(plan(*steps), parallel_max_concurrent=2)
        task_id = await upgrade.begin(tools(first), for_secs=30)
        for at, (release, secs) in enumerate(upgrades):
            upgraded = await upgrade.bench(tools(release), str(at))
            driving = asyncio.create_task(upgraded.service.drive(task_id))
            await asyncio.sleep(secs)
            driving.cancel()
            await asyncio.wait({driving})
        last = await upgrade.bench(tools(first), "last")
        ended = await last.ran(task_id)
        return (ended if ended.state.ended else await last.drive(task_id)).check(), upgrade

    ran, upgrade = virtual_time(main())
    assert ran.state.ended
    assert len(made) == len(set(made)), "the plan was made for effects, and stays so"
    begun = [(call.tool_id, str(call.parameters)) for source in upgrade.sources for call in source.calls]
    assert len(begun) == len(set(begun)), "nor is one that was cut off begun again"


def test_what_a_wait_asks_again_and_again_is_asked_no_more_once_it_has_an_effect() -> None:
    asked = {"tool": "pay", "parameters": {"to": "Ann"}, "condition": "output.to == 'Bob'", "every_secs": 100}
    upgrade = Upgrade(plan(step("poll", "wait_for_condition", parameters=asked)))

    async def main() -> Ran:
        task_id = await upgrade.begin({"pay": pay(effect="reads")})
        await asyncio.sleep(500)
        return await upgrade.go_on(task_id, {"pay": pay()})

    ran = virtual_time(main())
    assert len(upgrade.calls("pay")) == 1, "the first reading alone"
    assert ran.events("versions_changed")[0].unfit.keys() == {"poll"}
    assert "only a tool that reads" in str(ran.result.steps[0].error)
