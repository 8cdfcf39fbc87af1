"""When steps start: by what they need, by free places, the longest way first; and what a failure stops."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, action, bench, plan, step

from replan.testing import virtual_time

EXACT = 0.001
"""How exact times are."""


def run(tools: dict[str, Any], wanted: dict[str, Any], **more: Any) -> Ran:
    async def main() -> Ran:
        return await (await bench(tools)).run(wanted, **more)

    return virtual_time(main()).check()


def slow(secs: float, **more: Any) -> FakeTool:
    return FakeTool(delay_secs=secs, **more)


def test_a_step_starts_when_its_last_dependency_ends_and_not_when_a_layer_does() -> None:
    ran = run(
        {"short": slow(10), "long": slow(100)},
        plan(
            step("a", "short", parameters={"n": 1}),
            step("b", "long"),
            step("c", "short", "a", parameters={"n": 2}),
            step("d", "short", "c", parameters={"n": 3}),
        ),
    )
    starts = ran.times("step_started")
    assert starts["c"] == pytest.approx(10, abs=EXACT)
    assert starts["d"] == pytest.approx(20, abs=EXACT)
    assert ran.times("step_completed")["b"] == pytest.approx(100, abs=EXACT)
    assert ran.state.active_secs == pytest.approx(100, abs=EXACT)


def test_the_end_of_a_step_and_the_start_of_what_it_frees_are_one_append() -> None:
    ran = run({"t": slow(10)}, plan(step("a", "t"), step("b", "t", "a", parameters={"n": 1}), step("c", "t")))
    at = ran.types().index("step_completed")
    assert ran.types()[at - 1 : at + 3] == [
        "call_completed",
        "step_completed",
        "step_started",
        "call_started",
    ]
    assert ran.records[at - 1].ts == ran.records[at + 2].ts


STEPS = [step(f"s{n}", "t", parameters={"n": n}) for n in range(7)]
ACTIONS = [step("s", actions=[action(f"a{n}", "t", n=n) for n in range(7)])]
ITEMS = [step("s", "t", for_each="${metadata.items}", parameters={"n": "${item}"})]


@pytest.mark.parametrize("limit", [1, 3, 20])
@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(STEPS, id="of steps"),
        pytest.param(ACTIONS, id="of actions"),
        pytest.param(ITEMS, id="of items"),
        pytest.param([*STEPS[:3], *ACTIONS, {**ITEMS[0], "step_id": "e"}], id="of all together"),
    ],
)
def test_parallel_max_concurrent_bounds_running_calls(steps: list[dict[str, Any]], limit: int) -> None:
    ran = run(
        {"t": slow(10)}, plan(*steps), metadata={"items": list(range(7))}, parallel_max_concurrent=limit
    )
    calls = ran.source.counts["t"]
    assert ran.source.most_running == min(limit, calls)
    assert ran.state.active_secs == pytest.approx(-(-calls // limit) * 10, abs=EXACT)
    assert set(ran.statuses().values()) == {"succeeded"}


def test_the_longest_way_to_the_end_goes_first_among_roots() -> None:
    ran = run(
        {"t": slow(10)},
        plan(
            step("lone_1", "t", parameters={"n": 1}),
            step("lone_2", "t", parameters={"n": 2}),
            step("head", "t", parameters={"n": 3}),
            step("middle", "t", "head", parameters={"n": 4}),
            step("tail", "t", "middle", parameters={"n": 5}),
        ),
        parallel_max_concurrent=1,
    )
    assert ran.order("step_started") == ["head", "middle", "lone_1", "lone_2", "tail"]
    assert ran.order("step_ready") == ["lone_1", "lone_2", "tail"]


def test_the_longest_way_goes_first_among_what_one_step_frees() -> None:
    ran = run(
        {"t": slow(10)},
        plan(
            step("root", "t"),
            step("leaf", "t", "root", parameters={"n": 1}),
            step("head", "t", "root", parameters={"n": 2}),
            step("tail", "t", "head", parameters={"n": 3}),
        ),
        parallel_max_concurrent=1,
    )
    assert ran.order("step_started")[:2] == ["root", "head"]


def test_a_step_of_several_calls_keeps_its_turn() -> None:
    """Its own place goes to its first call, not to something less urgent that waits."""
    ran = run(
        {"t": slow(10)},
        plan(
            step("lone", "t", parameters={"n": 1}),
            step("wide", actions=[action("x", "t", n=2), action("y", "t", n=3)]),
            step("after", "t", "wide", parameters={"n": 4}),
        ),
        parallel_max_concurrent=1,
    )
    assert [call.step_id for call in ran.source.calls] == ["wide", "wide", "lone", "after"]


def test_a_step_that_waits_for_a_place_is_recorded_as_ready() -> None:
    ran = run({"t": slow(10)}, plan(*STEPS), parallel_max_concurrent=3)
    assert ran.order("step_ready") == [f"s{n}" for n in range(3, 7)]
    assert "step_ready" not in run({"t": slow(10)}, plan(*STEPS), parallel_max_concurrent=7).types()


@pytest.mark.parametrize(
    ("steps", "policy", "mode", "reason"),
    [
        pytest.param(STEPS[:2], {"enable_parallel_execution": False}, "serial", "enable_parallel_execution", id="switched off"),
        pytest.param(STEPS[:1], {}, "serial", "fewer than parallel_min_steps = 2", id="one step"),
        pytest.param(STEPS[:3], {"parallel_min_steps": 4}, "serial", "fewer than parallel_min_steps = 4", id="few steps"),
        pytest.param([STEPS[0], {**STEPS[1], "dependencies": ["s0"]}], {}, "serial", "no two steps can overlap", id="a chain"),
        pytest.param(STEPS[:2], {}, "parallel", "up to 8 calls", id="two that can overlap"),
        pytest.param(ACTIONS, {}, "parallel", "up to 8 calls", id="one step of several actions"),
    ],
)  # fmt: skip
def test_the_mode_is_recorded_with_its_reason(
    steps: list[dict[str, Any]], policy: dict[str, Any], mode: str, reason: str
) -> None:
    ran = run({"t": slow(10)}, plan(*steps), **policy)
    (recorded,) = ran.events("execution_mode")
    assert recorded.mode == mode
    assert reason in recorded.reason
    if mode == "serial":
        assert ran.source.most_running == 1


def test_serial_mode_keeps_plan_order_among_steps_that_could_overlap() -> None:
    wanted = plan(
        step("wide", actions=[action("x", "t", n=1), action("y", "t", n=2)]),
        step("one", "t", parameters={"n": 3}),
        step("two", "t", "one", parameters={"n": 4}),
        step("each", "t", for_each="${metadata.items}", parameters={"n": "${item}"}),
    )
    ran = run({"t": slow(10)}, wanted, metadata={"items": [5, 6]}, enable_parallel_execution=False)
    assert [call.parameters["n"] for call in ran.source.calls] == [1, 2, 3, 5, 6, 4]
    assert ran.source.most_running == 1


def test_a_failed_step_stops_its_dependents_and_nothing_else() -> None:
    ran = run(
        {"ok": slow(10), "bad": FakeTool(fail=["no such thing"] * 9, delay_secs=1)},
        plan(
            step("bad", "bad"),
            step("child", "ok", "bad"),
            step("grandchild", "ok", "child", parameters={"n": 1}),
            step("mixed", "ok", "bad", "other", parameters={"n": 2}),
            step("other", "ok", parameters={"n": 3}),
            step("after", "ok", "other", parameters={"n": 4}),
        ),
    )
    assert ran.statuses() == {
        "bad": "failed", "child": "skipped", "grandchild": "skipped", "mixed": "skipped",
        "other": "succeeded", "after": "succeeded",
    }  # fmt: skip
    for skipped in ran.events("step_skipped"):
        assert (skipped.kind, skipped.because) == ("dependency_failed", "bad")
        assert "'bad'" in skipped.reason
    assert ran.source.counts["ok"] == 2
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "step"
    assert "no such thing" in ran.result.failure.reason
    assert ran.outputs() == {"other": "ok", "after": "ok"}


def test_several_failures_are_all_reported() -> None:
    ran = run(
        {"bad": FakeTool(fail=["one", "two"])},
        plan(step("a", "bad"), step("b", "bad", parameters={"n": 1}), step("c", "bad", "a", "b")),
    )
    assert ran.result.failure is not None
    assert len(ran.result.failure.root_causes) == 2
    assert "(and 1 more failed)" in ran.result.failure.reason
    assert "so 'c' could not run" in ran.result.failure.reason


def test_a_wide_plan_runs_in_bounded_appends_and_ends() -> None:
    wanted = plan(
        *(step(f"s{n}", "t", parameters={"n": n}) for n in range(500)),
        step("join", "t", *(f"s{n}" for n in range(500))),
    )
    ran = run({"t": slow(10)}, wanted, parallel_max_concurrent=100)
    assert ran.source.most_running == 100
    assert ran.order("step_completed")[-1] == "join"
    assert ran.order("step_completed").count("join") == 1
    assert len(ran.order("step_ready")) == 400
