"""What current releases of the peers got wrong, and their users reported: each a test that Replan gets it right.

The rows R were run on the peers; the rows C come from their users. A row of several sides has several tests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeSource, FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.events import TERMINAL
from replan.ports import ToolCall
from replan.testing import MemoryStore, virtual_time

EXACT = 0.001
"""How exact times are."""


def run(tools: Any, wanted: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return (await (await bench(tools)).run(wanted, **more)).check()

    return virtual_time(main())


async def killed(made: Bench, task_id: str, after: float) -> None:
    """Drive for some seconds, then lose the process: nothing more is written, every claim is void."""
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.sleep(after)
    made.store.crash()
    driving.cancel()
    await asyncio.wait({driving})


# ── R: run on the peers ───────────────────────────────────────────────────────


def parallel_three() -> tuple[dict[str, Any], dict[str, Any]]:
    tools = {
        "pay": FakeTool(effect="once", delay_secs=1, output="paid"),
        "slow": FakeTool(delay_secs=10, output="slow result"),
        "failing": FakeTool(effect="reads", delay_secs=2, fail=[ConnectionResetError("gone")]),
    }
    return tools, plan(step("p", "pay"), step("s", "slow"), step("f", "failing"))


def test_r1_of_three_in_parallel_only_the_failed_one_is_tried_again() -> None:
    ran = run(*parallel_three())
    assert ran.source.counts == {"pay": 1, "slow": 1, "failing": 2}
    assert ran.outputs() == {"p": "paid", "s": "slow result", "f": "ok"}


def test_r1_after_a_kill_nothing_that_finished_runs_again() -> None:
    async def main() -> Ran:
        tools, wanted = parallel_three()
        made = await bench(tools)
        task_id = await made.submit(wanted)
        await killed(made, task_id, 5)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.source.counts["pay"] == 1
    assert set(ran.statuses().values()) == {"succeeded"}


def test_r2_a_step_waits_for_what_it_needs_and_for_no_layer() -> None:
    tools = {"quick": FakeTool(delay_secs=100), "long": FakeTool(delay_secs=1_000)}
    steps = [
        step("a", "quick", parameters={"n": 1}),
        step("b", "long"),
        step("c", "quick", "a", parameters={"n": 2}),
        step("d", "quick", "c", parameters={"n": 3}),
    ]
    ran = run(tools, plan(*steps), budget={"task_timeout_secs": None})
    assert ran.times("step_started")["c"] == pytest.approx(100, abs=EXACT)
    assert ran.state.active_secs == pytest.approx(1_000, abs=EXACT)


@pytest.mark.parametrize("row", ["r4", "r7", "r9"])
def test_r4_r7_r9_one_that_raises_takes_nobody_with_it(row: str) -> None:
    raised: dict[str, BaseException] = {
        "r4": RuntimeError("boom"),
        "r7": ExceptionGroup("several", [RuntimeError("boom")]),
        "r9": asyncio.CancelledError(),
    }
    tools = {
        "pay": FakeTool(effect="once", delay_secs=1),
        "slow": FakeTool(delay_secs=10),
        "raises": FakeTool(delay_secs=2, fail=[raised[row]] * 9),
    }
    ran = run(tools, plan(step("p", "pay"), step("s", "slow"), step("x", "raises")), max_transient_retries=0)
    assert ran.statuses() == {"p": "succeeded", "s": "succeeded", "x": "failed"}
    assert not [call for call in ran.source.cancelled if call.tool_id != "raises"]
    assert ran.source.counts == {"pay": 1, "slow": 1, "raises": 1}


def test_r6_an_unknown_tool_is_answered_with_those_that_exist_and_the_task_goes_on() -> None:
    async def main() -> Ran:
        answers = {
            "execution_plan": [plan(step("a", "get_wether")), plan(step("a", "get_weather"))],
            "evaluation": verdict(),
        }
        return (await (await bench({"get_weather": FakeTool(), "send": FakeTool()}, answers)).run()).check()

    ran = virtual_time(main())
    told = ran.model.requests[1].turns[-1].text
    assert "'get_wether' does not exist; there are: get_weather" in told
    assert "denied" not in told
    assert ran.result.is_success


def test_r14_what_depends_on_a_failure_never_runs_and_says_why() -> None:
    tools = {"bad": FakeTool(fail=["no"]), "t": FakeTool()}
    ran = run(tools, plan(step("a", "bad"), step("b", "t", "a"), step("c", "t", "b", parameters={"n": 1})))
    assert ran.source.counts["t"] == 0
    assert {one.step_id: one.reason for one in ran.result.steps if one.reason} == {
        "b": "step 'a', which it depends on, failed",
        "c": "step 'a', which it depends on, failed",
    }


def test_r15_the_scheduler_returns_when_a_tool_raises() -> None:
    ran = run({"bad": FakeTool(fail=["no"]), "t": FakeTool()}, plan(step("a", "bad"), step("b", "t")))
    assert ran.statuses() == {"a": "failed", "b": "succeeded"}
    assert ran.result.status == "failed"


def test_r16_an_output_is_never_scanned_for_references() -> None:
    said = "the price is $1, see ${a.output} and {{a.output}}"
    tools = {"give": FakeTool(output=said), "echo": lambda p: p}
    wanted = plan(
        step("a", "give"),
        step("b", "echo", parameters={"v": "${a.output}"}),
        step("c", "echo", parameters={"v": "> ${b.output.v}"}),
    )
    assert run(tools, wanted).outputs()["c"] == {"v": f"> {said}"}


def test_r17_a_dollar_in_a_text_stays_and_values_keep_their_types() -> None:
    tools = {"give": FakeTool(output={"k": [1, None, True]}), "echo": lambda p: p}
    text = "the budget is $100 or $1"
    wanted = plan(
        step("a", "give"),
        step("b", "echo", parameters={"t": text, "whole": "${a}", "inside": "got ${a.output}"}),
    )
    assert run(tools, wanted).outputs()["b"] == {
        "t": text,
        "whole": {"k": [1, None, True]},
        "inside": 'got {"k": [1, null, true]}',
    }


def test_r13_ids_are_never_used_again() -> None:
    """Replanning comes later; what it stands on is that the state knows every id that was used."""
    ran = run({"t": FakeTool()}, plan(step("a", "t"), step("b", actions=[action("x", "t", n=1)])))
    assert ran.state.ids_used() == {"a", "b", "x"}


# ── C: reported by users ──────────────────────────────────────────────────────


@pytest.mark.parametrize("at", [0.5, 1.5, 2.5, 5.0])
def test_c1_across_a_kill_each_effect_is_made_once(at: float) -> None:
    async def main() -> Ran:
        made = await bench(
            {
                "one": FakeTool(effect="repeatable", delay_secs=1),
                "two": FakeTool(effect="repeatable", delay_secs=4),
                "bad": FakeTool(delay_secs=2, fail=["no"] * 9),
            }
        )
        task_id = await made.submit(plan(step("a", "one"), step("b", "two"), step("c", "bad")))
        await killed(made, task_id, at)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.statuses() == {"a": "succeeded", "b": "succeeded", "c": "failed"}
    made = [call.tool_id for call in ran.source.effects]
    assert sorted(made) == ["one", "two"]
    for tool in ("one", "two"):
        assert len({call.key for call in ran.source.calls if call.tool_id == tool}) == 1


class DiesAfter(MemoryStore):
    """The process is lost once so many appends are on disk."""

    def __init__(self, appends: int) -> None:
        super().__init__()
        self.left = appends

    def append(self, *args: Any, **more: Any) -> Any:
        if not self.left:
            self.crash()
        self.left -= 1
        return super().append(*args, **more)


def test_c3_killed_at_every_point_of_writing_nothing_finished_runs_again() -> None:
    wanted = plan(
        step("a", "pay"),
        step("b", actions=[action("x", "pay", n=1), action("y", "read", n=2)]),
        step("c", "read", parameters={"v": "${a.output}"}),
        step("d", "pay", parameters={"w": "${b.output.x}"}),
    )

    async def killed_after(appends: int) -> Ran:
        made = await bench(
            {"pay": FakeTool(effect="once", delay_secs=3), "read": FakeTool(delay_secs=2)},
            store=DiesAfter(appends),
        )
        task_id = await made.submit(wanted)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.wait({driving})
        driving.exception()
        return (await made.drive(task_id) if appends < 90 else await made.ran(task_id)).check()

    async def main() -> None:
        for appends in range(30):
            ran = await killed_after(appends)
            calls = [call for call in ran.source.calls if call.tool_id == "pay"]
            assert len(calls) == len({call.key for call in calls}), f"paid twice, killed after {appends}"
            for name, status in ran.statuses().items():
                if status == "failed":
                    assert ran.events("outcome_unknown", step_id=name), (
                        f"{name} failed, killed after {appends}"
                    )

    virtual_time(main())


def test_c4_an_accepted_task_is_a_stored_task() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool()})
        task_id = await made.submit(plan(step("a", "t")))
        made.store.crash()
        (found,) = await made.store.list_tasks()
        assert (found.task_id, found.status) == (task_id, "queued")
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).result.is_success


def test_c6_a_join_fires_once_with_both_inputs_after_a_kill() -> None:
    async def main() -> Ran:
        made = await bench(
            {
                "quick": FakeTool(delay_secs=1),
                "long": FakeTool(delay_secs=10),
                "join": FakeTool(output=lambda p: p),
            }
        )
        join = step("j", "join", parameters={"l": "${a.output}", "r": "${b.output}"})
        task_id = await made.submit(plan(join, step("a", "quick"), step("b", "long")))
        await killed(made, task_id, 5)
        assert (await made.service.state(task_id)).steps["a"].status == "succeeded"
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.source.counts == {"quick": 1, "long": 2, "join": 1}
    assert ran.outputs()["j"] == {"l": "ok", "r": "ok"}


def test_c7_what_ended_in_another_order_is_found_by_its_content() -> None:
    class Backwards(FakeSource):
        async def call(self, call: ToolCall) -> Any:
            await asyncio.sleep(60 - 10 * call.parameters["n"])
            return await super().call(call)

    async def main() -> Ran:
        made = await bench(Backwards({"t": FakeTool(effect="repeatable", output=lambda p: p["n"])}))
        wanted = plan(step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"}))
        task_id = await made.submit(wanted, metadata={"items": [0, 1, 2, 3, 4]})
        await killed(made, task_id, 35)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert sorted(call.parameters["n"] for call in ran.source.calls) == [0, 1, 2, 3, 4]
    assert ran.outputs()["s"] == [0, 1, 2, 3, 4]


def test_c12_references_at_any_depth_several_in_a_text() -> None:
    tools = {"one": FakeTool(output=1), "two": FakeTool(output={"n": [2]}), "echo": lambda p: p}
    deep = {"sum": "${a}+${b.output.n[0]}", "rows": [{"x": ["{{a.output}}", {"y": "${b.output.n}"}]}]}
    ran = run(tools, plan(step("a", "one"), step("b", "two"), step("c", "echo", parameters=deep)))
    assert ran.outputs()["c"] == {"sum": "1+2", "rows": [{"x": [1, {"y": [2]}]}]}


def test_c12_a_missing_reference_fails_before_the_call() -> None:
    tools = {"one": FakeTool(output={"n": 1}), "echo": lambda p: p}
    ran = run(tools, plan(step("a", "one"), step("b", "echo", parameters={"v": "is: ${a.output.m}"})))
    assert ran.statuses()["b"] == "failed"
    assert ran.source.counts["echo"] == 0


def test_c12_parameters_that_are_no_json_are_refused_and_not_taken_as_none() -> None:
    ran = run({"t": FakeTool()}, plan({**step("a", "t"), "parameters": '{"x": '}))
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "planning"
    assert "holds no JSON object" in ran.result.failure.violations[0]
    assert ran.source.calls == []


def test_c17_a_large_output_has_a_handle_and_all_of_it_can_be_referred_to() -> None:
    rows = [{"id": n, "text": "x" * 50} for n in range(2_000)]
    tools = {"give": FakeTool(output=rows), "echo": lambda p: p["v"]}
    wanted = plan(step("a", "give"), step("b", "echo", parameters={"v": "${a.output[1999].id}"}))
    ran = run(tools, wanted, max_output_bytes=16_384)
    (kept,) = ran.events("call_completed", step_id="a")
    assert kept.artifact.size > 100_000
    assert kept.artifact.shape.startswith("list of 2000 × object {id: number")
    assert ran.outputs()["b"] == 1999


@pytest.mark.parametrize("size", [1_000, 1_000_000, 12_000_000])
def test_c18_no_size_of_a_result_is_tried_again(size: int) -> None:
    ran = run({"give": FakeTool(output="x" * size)}, plan(step("a", "give")))
    assert ran.source.counts["give"] == 1
    assert len(ran.result.output) == size


@pytest.mark.parametrize("effect", ["reads", "once"])
def test_c19_a_cancel_reaches_the_tool_and_what_was_under_way_is_in_doubt(effect: Any) -> None:
    async def main() -> tuple[Ran, float]:
        made = await bench({"hung": FakeTool(delay_secs=100_000, effect=effect), "t": FakeTool()})
        task_id = await made.submit(
            plan(step("a", "hung"), step("b", "t", "a")), budget={"task_timeout_secs": None}
        )
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        asked = asyncio.get_running_loop().time()
        await made.service.cancel(task_id)
        await driving
        took = asyncio.get_running_loop().time() - asked
        await asyncio.sleep(1_000)
        assert len(asyncio.all_tasks()) == 1
        return (await made.ran(task_id)).check(), took

    ran, took = virtual_time(main())
    assert took < 2
    assert len(ran.source.cancelled) == 1
    assert ran.source.counts["t"] == 0
    assert bool(ran.state.in_doubt) is (effect == "once")


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"tool": FakeTool(fail=[RuntimeError("x")] * 9)}, id="the tool"),
        pytest.param({"judge": RuntimeError("x")}, id="the judge"),
        pytest.param({"planner": RuntimeError("x")}, id="the planner"),
    ],
)
def test_c20_a_watcher_always_sees_exactly_one_end(broken: dict[str, Any]) -> None:
    async def main() -> list[Any]:
        answers = {
            "execution_plan": broken.get("planner", plan(step("a", "t"))),
            "evaluation": broken.get("judge", verdict()),
        }
        made = await bench({"t": broken.get("tool", FakeTool())}, answers)
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        seen = [record async for record in made.service.watch(task_id)]
        await driving
        return [record.event for record in seen if isinstance(record.event, TERMINAL)]

    assert len(virtual_time(main())) == 1


def test_c22_cancelled_in_the_middle_no_call_stays_open_and_a_finished_one_stays_done() -> None:
    async def main() -> Ran:
        made = await bench(
            {"quick": FakeTool(effect="once"), "long": FakeTool(effect="once", delay_secs=100)}
        )
        task_id = await made.submit(plan(step("s", actions=[action("x", "quick"), action("y", "long")])))
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        await made.service.cancel(task_id)
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert [event.action_id for event in ran.events("call_completed")] == ["x"]
    assert [event.action_id for event in ran.events("call_failed")] == ["y"]
    assert [event.action_id for event in ran.events("outcome_unknown")] == ["y"]


@pytest.mark.parametrize(
    ("budget", "calls"),
    [
        pytest.param({"max_tool_calls": 0}, 0, id="no tool call"),
        pytest.param({"max_llm_calls": 0}, 0, id="no model call"),
        pytest.param({"max_rounds": 0}, 0, id="no round"),
    ],
)
def test_c25_zero_is_none_and_not_unlimited(budget: dict[str, Any], calls: int) -> None:
    async def main() -> Ran:
        made = await bench(
            {"t": FakeTool()}, {"execution_plan": plan(step("a", "t")), "evaluation": verdict()}
        )
        return (await made.run(budget=budget)).check()

    ran = virtual_time(main())
    assert len(ran.source.calls) == calls
    assert ran.result.failure is not None
    assert ran.result.failure.limit in budget


def test_c25_a_stop_does_not_reset_the_count_of_tries() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=10, fail=[ConnectionResetError()] * 99)})
        task_id = await made.submit(plan(step("a", "t")), max_transient_retries=3)
        for _ in range(2):
            await killed(made, task_id, 15)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert [call.attempt for call in ran.source.calls] == [1, 2, 3, 4, 5, 6]
    assert len(ran.events("call_failed")) == 4, "one and three retries; two tries were cut off by the kills"
    assert ran.statuses() == {"a": "failed"}


# ── also worth a test each ────────────────────────────────────────────────────


def test_a_second_stop_and_going_on_works_too() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=10)})
        steps = [step(f"s{n}", "t", *([f"s{n - 1}"] if n else []), parameters={"n": n}) for n in range(5)]
        task_id = await made.submit(plan(*steps))
        for _ in range(3):
            await killed(made, task_id, 15)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert set(ran.statuses().values()) == {"succeeded"}
    assert ran.types().count("task_resumed") == 3


def test_a_watcher_that_leaves_does_not_end_the_task() -> None:
    async def main() -> Ran:
        made = await bench({"t": FakeTool(delay_secs=10)})
        task_id = await made.submit(plan(step("a", "t"), step("b", "t", "a", parameters={"n": 1})))
        driving = asyncio.create_task(made.service.drive(task_id))
        async for record in made.service.watch(task_id, ephemeral=True):
            if record.type == "step_started":
                break
        await driving
        return (await made.ran(task_id)).check()

    assert virtual_time(main()).result.is_success
