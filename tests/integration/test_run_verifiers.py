"""Calls in doubt that a declared verifier settles: code alone decides, and one record settles one call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step
from test_run_recovery import READS

from replan.core.tools.rules import ToolRule, ToolRules
from replan.core.types import Verifier
from replan.errors import ConfigError
from replan.testing import MemoryStore, virtual_time

PAY = {
    "type": "object",
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order"],
}
LIST = {"type": "object", "properties": {"order": {"type": "string"}}, "additionalProperties": False}
HAPPENED = "output.payments[?order == call.parameters.order]"
LIMIT = 10.0


class World:
    """Payments that take effect at some time after they were asked for, and never answer while `silent` are left."""

    def __init__(self, *lags: float | None, keyed: bool = False) -> None:
        self.lags = list(lags)
        self.payments: list[dict[str, Any]] = []
        self.calls: list[Any] = []
        self.looks = 0
        self.down = 0
        self.keyed = keyed

    async def call(self, parameters: Any, key: str) -> Any:
        self.calls.append(key)
        lag = self.lags.pop(0) if self.lags else 0.0
        entry = {"id": f"p-{len(self.calls)}", "order": parameters["order"]}
        if self.keyed:
            entry["key"] = key
        if lag is not None:
            asyncio.get_running_loop().call_later(lag, self.payments.append, entry)
        if lag == 0.0:
            await asyncio.sleep(0.001)
            return entry
        raise TimeoutError("no answer")

    def look(self, parameters: Any) -> Any:
        self.looks += 1
        if self.looks <= self.down:
            raise ConnectionRefusedError("down")
        return {"payments": list(self.payments), "total": len(self.payments)}


def tools(world: World) -> Any:
    from replan.testing import FakeSource

    class Shop(FakeSource):
        async def call(self, call: Any) -> Any:
            if call.tool_id == "pay":
                self.calls.append(call)
                return await world.call(call.parameters, call.key)
            return await super().call(call)

    return Shop(
        {
            "pay": FakeTool(effect="once", parameters=PAY, spec={"timeout_secs": LIMIT}),
            "payments": FakeTool(output=world.look, parameters=LIST, **READS),
            "note": FakeTool(output=lambda p: p["text"], **READS),
        }
    )


def rule(**more: Any) -> ToolRules:
    declared = {"tool": "payments", "happened": HAPPENED, "output": "{payment: record.id}", **more}
    return ToolRules(rules=(("p?y", ToolRule(verify=Verifier(**declared))),))


def pays(*orders: str, repeat: bool = False) -> Any:
    return plan(
        *(
            step(f"p{n}", "pay", parameters={"order": order}, repeat=repeat)
            for n, order in enumerate(orders, start=1)
        )
    )


async def shop(world: World, store: Any = None, **more: Any) -> Bench:
    return await bench(tools(world), store=store, rules=rule(**more))


def run(world: World, wanted: Any, *, policy: Any = None, **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await shop(world, **more)).run(wanted, **(policy or {}))).check()

    return virtual_time(main())


def at(ran: Ran, kind: str) -> list[float]:
    return [round(one.ts - ran.records[0].ts, 3) for one in ran.records if one.type == kind]


def test_a_payment_that_appears_late_is_found_and_not_made_again() -> None:
    world = World(4.0)
    ran = run(world, pays("o-1"))
    assert ran.result.is_success
    assert len(world.payments) == len(world.calls) == 1
    assert ran.outputs()["p1"] == {"payment": "p-1"}
    (settled,) = ran.events("outcome_settled")
    assert (settled.happened, settled.by) == (True, "the verifier of 'pay'")
    assert settled.record
    assert 4 <= at(ran, "outcome_settled")[0] < 10, "it is looked for again before a no would count"


def test_a_no_counts_only_after_the_limit_of_the_tool_once_more() -> None:
    world = World(None)
    ran = run(world, pays("o-1"))
    assert ran.result.is_success
    assert (len(world.payments), len(world.calls)) == (1, 2)
    assert len(set(world.calls)) == 1, "the same call, with its key"
    assert at(ran, "call_started")[-1] >= LIMIT
    assert [one.happened for one in ran.events("outcome_settled")] == [False]


@pytest.mark.parametrize("after", [0.0, 3.0, 60.0])
def test_after_secs_says_when_a_no_counts(after: float) -> None:
    world = World(None)
    ran = run(world, pays("o-1"), after_secs=after)
    assert ran.result.is_success
    assert at(ran, "outcome_settled") == [pytest.approx(after, abs=0.1)]


def test_two_like_calls_and_one_record_make_one_payment_more() -> None:
    world = World(0.5, None)
    ran = run(world, pays("o-1", "o-1", repeat=True))
    assert ran.result.is_success
    assert len(world.payments) == 2
    assert len(world.calls) == 3
    assert {one.happened for one in ran.events("outcome_settled")} == {True, False}
    assert len({one.call_key for one in ran.events("outcome_settled")}) == 2
    assert len({str(output) for output in ran.outputs().values()}) == 2, "each has a payment of its own"


def test_the_record_of_a_like_call_that_succeeded_speaks_for_that_one_alone() -> None:
    world = World(0.0, None)
    wanted = plan(
        step("p1", "pay", parameters={"order": "o-1"}, repeat=True),
        step("p2", "pay", "p1", parameters={"order": "o-1"}, repeat=True),
    )
    ran = run(world, wanted)
    assert ran.result.is_success
    assert len(world.payments) == 2
    assert [one.happened for one in ran.events("outcome_settled")] == [False]


def test_equal_records_are_counted() -> None:
    world = World(0.5, 0.5)
    world.payments = []
    ran = run(
        world,
        pays("o-1", "o-1", repeat=True),
        happened="output.payments[?order == call.parameters.order].order",
        output="record",
    )
    assert ran.result.is_success
    assert len(world.payments) == len(world.calls) == 2


def test_a_record_known_by_the_key_is_this_calls_whatever_else_is_there() -> None:
    world = World(1.0, 1.0, keyed=True)
    ran = run(
        world,
        pays("o-1", "o-1", repeat=True),
        happened="length(output.payments[?key == call.key]) > `0`",
        output="output.payments[?key == call.key] | [0].id",
    )
    assert ran.result.is_success
    assert len(world.payments) == len(world.calls) == 2
    assert sorted(ran.outputs().values()) == ["p-1", "p-2"]


def test_what_cannot_be_told_apart_is_no_proof() -> None:
    world = World(1.0, 1.0)
    ran = run(
        world,
        pays("o-1", "o-1", repeat=True),
        happened="length(output.payments) > `0`",
        output="output.total",
    )
    assert len(world.calls) == 2
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"
    assert [one.happened for one in ran.events("outcome_settled")] == [True]


@pytest.mark.parametrize("happened", ["output", "output.payments", "output.total", "{all: output.payments}"])
def test_an_envelope_around_nothing_is_nothing(happened: str) -> None:
    world = World(None)
    ran = run(world, pays("o-1"), happened=happened)
    assert [one.happened for one in ran.events("outcome_settled")] == [False]
    assert len(world.payments) == 1


def test_a_reading_that_fails_is_made_again_and_is_no_answer() -> None:
    world = World(2.0)
    world.down = 6
    ran = run(world, pays("o-1"))
    assert ran.result.is_success
    assert len(world.calls) == 1


def test_a_verifier_that_cannot_look_leaves_the_doubt_to_a_person() -> None:
    world = World(1.0)
    world.down = 1_000
    ran = run(world, pays("o-1"))
    assert len(world.calls) == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


def test_a_dead_upstream_ends_as_known_not_to_have_happened() -> None:
    world = World(*[None] * 20)
    ran = run(world, pays("o-1"), after_secs=5)
    assert world.payments == []
    assert len(world.calls) == 3
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "step", "nothing is in doubt: each was found not to have happened"
    assert "did not happen" in ran.result.failure.reason


def test_the_reading_is_asked_with_what_the_call_was_made_with() -> None:
    world = World(1.0)
    ran = run(world, pays("o-1"), parameters={"order": "${call.parameters.order}"})
    readings = ran.events("call_started", tool_id="payments")
    assert readings
    assert {one.parameters["order"] for one in readings} == {"o-1"}


def test_a_task_that_is_killed_while_a_no_is_waited_for_goes_on_waiting_for_the_rest() -> None:
    async def main() -> tuple[Ran, float]:
        store = MemoryStore()
        made = await shop(world, store, after_secs=100)
        task_id = await made.submit(pays("o-1"), budget={"task_timeout_secs": 1_000})
        began = asyncio.get_running_loop().time()
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(40)
        driving.cancel()  # as a crash: nothing is recorded any more
        await asyncio.wait({driving})
        await asyncio.sleep(20)
        again = await shop(world, store, after_secs=100)
        ran = (await again.drive(task_id)).check()
        return ran, asyncio.get_running_loop().time() - began

    world = World(None)
    ran, took = virtual_time(main())
    assert ran.result.is_success
    assert [one.happened for one in ran.events("outcome_settled")] == [False]
    assert 120 <= took <= 135, (
        "the 20 seconds in which nobody drove it count for nothing, what was waited before does"
    )
    assert len(world.payments) == 1


def test_a_record_that_was_used_before_a_crash_settles_no_other_call_after_it() -> None:
    async def main() -> Ran:
        store = MemoryStore()
        made = await shop(world, store)
        wanted = plan(
            step("p1", "pay", parameters={"order": "o-1"}, repeat=True),
            step("wait", "note", "p1", parameters={"text": "x"}),
            step("p2", "pay", "wait", parameters={"order": "o-1"}, repeat=True),
        )
        task_id = await made.submit(wanted, budget={"task_timeout_secs": 1_000})
        driving = asyncio.ensure_future(made.drive(task_id))
        await asyncio.sleep(5)  # the first is settled, the second in doubt
        driving.cancel()
        await asyncio.wait({driving})
        again = await shop(world, store)
        return (await again.drive(task_id)).check()

    world = World(0.2, None)
    ran = virtual_time(main())
    assert ran.result.is_success
    assert len(world.payments) == 2
    assert [one.happened for one in ran.events("outcome_settled")] == [True, False]


def test_a_value_that_the_call_was_made_without_identifies_nothing() -> None:
    world = World(None)
    ran = run(world, pays("o-1"), happened="output.payments[?memo == call.parameters.amount] || `[]`")
    assert len(world.calls) == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "outcome_unknown"


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"tool": "paymentz"}, "there is no tool 'paymentz' to read with; the nearest are: payments"),
        ({"tool": "pay"}, "only a tool that reads"),
        ({"happened": "output.payments[?order == call.parameters.ordr]"}, "'pay' has no such parameter"),
        ({"happened": "output.["}, "no JMESPath"),
        ({"parameters": {"order": "${step_1.output}"}}, "none of ${call.key}"),
        ({"parameters": {"nr": 1}}, "'payments' has no parameter 'nr'; it has: order"),
        ({"parameters": {"order": 1}}, "order"),
        ({"happened": "call.params.order == output.order"}, "call.params"),
        ({"happened": "outputs.payments[?order == call.parameters.order]"}, "looks at 'outputs'"),
        ({"happened": "payments[?order == call.parameters.order]"}, "what was read is under output"),
        ({"happened": "output.found || result.found"}, "looks at 'result'"),
        ({"happened": "call.key"}, "looks at nothing that was read"),
        ({"happened": "`true`"}, "looks at nothing that was read"),
        ({"output": "id"}, "there is record, output and call"),
        ({"after_secs": -1}, "0 or more"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused_at_the_start(declared: Any, says: str) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError) as caught:
            await shop(World(), **declared)
        assert says in str(caught.value)
        assert "'pay'" in str(caught.value)

    virtual_time(main())
