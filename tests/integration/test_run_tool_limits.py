"""A tool's own limits in a running task: nothing is called over them, and nobody else waits for it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.state.task import StepState
from replan.core.tools.rules import ToolRule, ToolRules
from replan.ports import ToolCall
from replan.run.steps.executor import Executor
from replan.testing import FakeSource, MemoryStore, fake_source, virtual_time


def run(tools: dict[str, Any], wanted: dict[str, Any], rules: dict[str, ToolRule], **more: Any) -> Ran:
    async def main() -> Ran:
        bench_ = await bench(tools, rules=ToolRules(rules=tuple(rules.items())))
        return await bench_.run(wanted, **more)

    return virtual_time(main()).check()


def limited(count: int, tool: str = "t") -> list[dict[str, Any]]:
    return [step(f"{tool}{n}", tool, parameters={"n": n}) for n in range(count)]


ITEMS = step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})
ACTIONS = step("s", actions=[action(f"a{n}", "t", n=n) for n in range(6)])


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(limited(6), id="steps"),
        pytest.param([ITEMS], id="items"),
        pytest.param([ACTIONS], id="actions"),
    ],
)
def test_no_more_calls_run_side_by_side_than_the_tool_allows(steps: list[dict[str, Any]]) -> None:
    ran = run(
        {"t": FakeTool(delay_secs=10, output=lambda given: given["n"])},
        plan(*steps),
        {"t": ToolRule(max_concurrent=2)},
        metadata={"items": list(range(6))},
    )
    assert ran.result.is_success
    assert ran.source.most_running == 2
    assert ran.state.active_secs == pytest.approx(30, abs=0.01)


def test_a_rate_is_kept_and_those_who_wait_hold_no_place() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=0), "other": FakeTool(delay_secs=1)},
        plan(*limited(9), *limited(20, "other")),
        {"t": ToolRule(rate="1/10s")},
        parallel_max_concurrent=2,
    )
    starts = sorted(at for name, at in ran.times("step_started").items() if name.startswith("t"))
    assert starts == pytest.approx([10 * n for n in range(9)], abs=1.01)
    others = [at for name, at in ran.times("step_completed").items() if name.startswith("other")]
    assert max(others) <= 12, "two places, twenty steps of a second: whoever waits for the rate takes none"


def test_the_most_urgent_step_is_the_next_to_be_let_in() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=5), "long": FakeTool(delay_secs=100)},
        plan(*limited(4), step("end", "long", "t3")),
        {"t": ToolRule(max_concurrent=1)},
    )
    assert ran.order("step_started")[0] == "t3"


def test_a_retry_waits_for_the_limits_too() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=1, fail=[ConnectionRefusedError("busy")] * 2)},
        plan(*limited(3)),
        {"t": ToolRule(rate="1/10s", max_concurrent=1)},
    )
    assert ran.result.is_success
    begun = [record.ts for record in ran.records if record.type == "call_started"]
    assert all(later - first >= 9.99 for first, later in pairwise(begun))
    assert len(begun) == 5


def test_like_calls_that_wait_are_one_effect_each() -> None:
    steps = [step(f"s{n}", "send", parameters={"to": "me"}) for n in range(4)]
    ran = run(
        {"send": FakeTool(delay_secs=1, effect="once")},
        plan(*steps),
        {"send": ToolRule(max_concurrent=1)},
    )
    keys = [event.call_key for event in ran.events("call_started")]
    assert len(set(keys)) == len(keys)
    assert len(ran.source.effects) == len(keys)


def test_a_call_that_waited_when_the_task_was_stopped_was_never_begun() -> None:
    async def main() -> tuple[Ran, Ran]:
        store, source = MemoryStore(), fake_source({"send": FakeTool(delay_secs=50, effect="once")})
        rules = ToolRules(rules=(("send", ToolRule(max_concurrent=1)),))
        first = await bench(source, store=store, rules=rules)
        steps = [step(f"s{n}", "send", parameters={"n": n}) for n in range(2)]
        task_id = await first.submit(plan(*steps))
        driving = asyncio.ensure_future(first.drive(task_id))
        await asyncio.sleep(10)
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        before = await first.ran(task_id)
        store.crash()
        second = await bench(source, store=store, rules=rules)
        return before, await second.drive(task_id)

    before, after = virtual_time(main())
    assert [event.step_id for event in before.events("call_started")] == ["s0"]
    assert after.statuses()["s1"] == "succeeded"


def test_an_approval_that_the_rules_ask_for_is_asked_for() -> None:
    ran = virtual_time(_approval())
    assert ran.state.status == "waiting"
    assert [one.tool_id for one in ran.result.waiting_for] == ["send"]
    assert ran.source.calls == []


async def _approval() -> Ran:
    rules = ToolRules(rules=(("send", ToolRule(requires_approval=True)),))
    made = await bench({"send": FakeTool(effect="once")}, rules=rules)
    return await made.run(plan(step("s", "send")), interactive=True)


def test_every_attempt_is_counted() -> None:
    async def main() -> Any:
        made = await bench({"t": FakeTool(delay_secs=0, fail=[ConnectionRefusedError("busy")] * 2)})
        await made.run(plan(*limited(4)))
        return made.service.parts

    parts = virtual_time(main())
    stats = parts.record.of(parts.tools.resolve("t"))
    assert (stats.calls, stats.failures) == (6, 2)


def test_calls_that_waited_for_a_place_do_not_come_all_at_once_over_the_rate() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=0.1), "long": FakeTool(delay_secs=100)},
        plan(*limited(2, "long"), *limited(6)),
        {"t": ToolRule(rate="1/10s")},
        parallel_max_concurrent=2,
    )
    begun = [record.ts for record in ran.records if getattr(record.event, "tool_id", "") == "t"]
    starts = [ts for ts, kind in zip(begun, kinds(ran, "t"), strict=True) if kind == "call_started"]
    assert len(starts) == 6
    assert all(later - first >= 9.99 for first, later in pairwise(starts))


def kinds(ran: Ran, tool: str) -> list[str]:
    return [record.type for record in ran.records if getattr(record.event, "tool_id", "") == tool]


def test_a_budget_that_is_used_up_does_not_wait_for_a_limit() -> None:
    ran = run(
        {"t": FakeTool(delay_secs=1)},
        plan(*limited(3)),
        {"t": ToolRule(rate="1/100s")},
        budget={"max_tool_calls": 1},
    )
    assert ran.state.status == "failed"
    assert ran.state.active_secs < 20
    assert len(ran.events("call_started")) == 1


class Staggered(FakeSource):
    """Its calls with the same delay end in one turn of the event loop after the other."""

    async def call(self, call: ToolCall) -> Any:
        output = await super().call(call)
        for _ in range(call.parameters.get("n", 0)):
            await asyncio.sleep(0)
        return output


@pytest.mark.parametrize("others", [limited(3), [{**ITEMS, "step_id": "t0"}]], ids=["steps", "items"])
def test_a_scheduler_that_fails_again_and_again_does_not_wait_for_a_limit(
    others: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fails: list[str] = []

    def broken(self: Executor, step: StepState, outcome: Any, place: Any) -> None:
        fails.append(step.step.step_id)
        if len(fails) == 6:
            monkeypatch.undo()
        raise RuntimeError("a fault of the scheduler")

    async def main() -> Ran:
        source = Staggered({"t": FakeTool(delay_secs=1), "other": FakeTool(delay_secs=5)})
        rules = ToolRules(rules=(("t", ToolRule(rate="1/100s")),))
        made = await bench(source, rules=rules)
        return await made.run(plan(*limited(6, "other"), *others), metadata={"items": list(range(3))})

    monkeypatch.setattr("replan.run.steps.executor.Executor.end", broken)
    ran = virtual_time(main()).check()
    assert len(fails) == 6
    fallen = [record.ts for record in ran.records if record.type == "execution_mode"][1]
    assert fallen - ran.records[0].ts < 20


def test_a_step_that_waits_for_a_limit_is_not_started_once_the_round_is_reflected_upon() -> None:
    async def main() -> Ran:
        rules = ToolRules(rules=(("t", ToolRule(rate="1/100s")),))
        said = {
            "root_cause_category": "unknown",
            "root_cause": "who knows",
            "is_recoverable": True,
            "confidence": 0.9,
            "analysis": "because",
            "suggested_action": {"type": "trigger_overall_reflection", "data": {"summary": "enough"}},
        }
        closing = {
            "problem_nature": "tools",
            "should_replan": False,
            "reflection_text": "enough",
            "root_causes": ["the tool"],
        }
        made = await bench(
            {"t": FakeTool(delay_secs=1), "bad": FakeTool(delay_secs=5, fail=["broken"] * 9)},
            {
                "execution_plan": plan(*limited(3), step("bad", "bad")),
                "evaluation": verdict(),
                "step_reflection": said,
                "overall_reflection": closing,
            },
            rules=rules,
        )
        return await made.run()

    ran = virtual_time(main()).check()
    assert "overall_reflection_triggered" in ran.types()
    assert [event.step_id for event in ran.events("call_started", tool_id="t")] == ["t0"]
    assert ran.state.active_secs < 20
