"""Recovery killed at every point of writing goes on from its log: no rung is charged twice, nothing done is done again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection

from replan.errors import StoreFull
from replan.testing import MemoryStore, virtual_time

ONCE: dict[str, Any] = {"effect": "once"}


class DiesAfter(MemoryStore):
    """After so many appends nothing is written any more, as if the process had been killed."""

    def __init__(self, appends: int) -> None:
        super().__init__()
        self.left = appends

    def append(self, *args: Any, **more: Any) -> Any:
        if self.left == 0:
            self.left = -1
            self.crash()
            failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreFull("killed"))
            return failed
        self.left -= 1
        return super().append(*args, **more)


PAID: list[str] = []


def weather(parameters: Any) -> Any:
    if parameters["city"] != "Rome":
        raise ValueError(f"city: there is no city {parameters['city']!r}")
    return {"degrees": 30}


def pay(parameters: Any) -> Any:
    PAID.append(parameters["order"])
    if parameters["order"] == "o-lost" and PAID.count("o-lost") == 1:
        raise TimeoutError("no answer")
    return {"paid": parameters["order"]}


def tools() -> dict[str, Any]:
    PAID.clear()
    return {
        "weather": FakeTool(output=weather, delay_secs=1, **READS),
        "pay": FakeTool(output=pay, delay_secs=1, **ONCE),
        "payments": FakeTool(output=lambda p: [{"order": order} for order in PAID], **READS),
        "bad": FakeTool(fail=["it is broken"] * 99, delay_secs=1, **READS),
        "note": FakeTool(output=lambda p: p, delay_secs=1, **READS),
    }


def reflect(request: Any) -> Any:
    """What a model would say, from the prompt alone: a restarted process asks the same model again."""
    text = request.turns[0].text
    if request.schema_name == "overall_reflection":
        return overall(True, replanning_strategy={"type": "replan_from_step", "step_id": "b"})
    allowed = json.dumps(request.json_schema)
    if "settle_outcome" in allowed:
        evidence = {"happened": True, "evidence": '"order":"o-lost"'}
        return reflection("settle_outcome", evidence, "unknown")
    if "verify_outcome" in allowed:
        return reflection("verify_outcome", {"tool_id": "payments", "parameters": {}}, "unknown")
    if "it is broken" in text:
        return reflection("trigger_overall_reflection", {"summary": "broken"}, "tool_error")
    if "Bonn" in text:
        return reflection("repair_step", {"hint": "take Rome"})
    return reflection("retry_with_params", {"city": "Bonn"})


FIRST = plan(
    step("p", "pay", parameters={"order": "o-1"}),
    step("w", "weather", "p", parameters={"city": "Roma"}),
    step("l", "pay", "w", parameters={"order": "o-lost"}),
    step("b", "bad", "l"),
)
REST = plan(step("n", "note", parameters={"w": "${w.output.degrees}", "l": "${l.output}"}))


def planner(request: Any) -> Any:
    return REST if "it is broken" in request.turns[0].text else FIRST


ANSWERS: dict[str, Any] = {
    "execution_plan": planner,
    "evaluation": verdict(),
    "step_reflection": reflect,
    "overall_reflection": reflect,
    "step_repair": {"tool": "weather", "parameters": {"city": "Rome"}},
}


async def run_with(store: MemoryStore) -> Ran:
    made = await bench(tools(), ANSWERS, store=store)
    task_id = await made.submit()
    driving = asyncio.create_task(made.service.drive(task_id))
    await asyncio.wait({driving})
    if driving.exception() is None:
        return await made.ran(task_id, driving.result())
    return await made.drive(task_id)


def reflections(ran: Ran) -> list[tuple[str, str, str]]:
    return [(one.step_id, one.signature, one.action.type) for one in ran.events("step_reflected")]


def test_undisturbed_it_heals_on_every_rung() -> None:
    ran = virtual_time(run_with(MemoryStore())).check()
    assert ran.result.is_success, ran.result.failure
    assert [kind for _, _, kind in reflections(ran)] == [
        "retry_with_params",
        "repair_step",
        "verify_outcome",
        "settle_outcome",
        "trigger_overall_reflection",
    ]
    assert PAID == ["o-1", "o-lost"]
    assert ran.outputs()["n"]["w"] == 30


POINTS = range(60)


@pytest.mark.parametrize("points", [POINTS[n::6] for n in range(6)], ids=lambda points: f"from {points[0]}")
def test_killed_at_every_point_it_comes_to_the_same(points: range) -> None:
    expected = reflections(virtual_time(run_with(MemoryStore())))

    def killed(appends: int) -> Callable[[], Any]:
        return lambda: run_with(DiesAfter(appends))

    for appends in points:
        ran = virtual_time(killed(appends)()).check()
        where = f"killed after {appends} appends"
        assert PAID.count("o-1") <= 2, where
        calls = [event.call_key for event in ran.events("call_started", tool_id="pay")]
        done = [event.call_key for event in ran.events("call_completed", tool_id="pay") if not event.reused]
        assert len(done) == len(set(done)), where
        assert len(calls) == len(set(calls)), f"{where}: a payment was started twice"
        told = reflections(ran)
        extra = [one for one in told if one not in expected]
        assert all(
            kind in ("verify_outcome", "settle_outcome", "trigger_overall_reflection") for _, _, kind in extra
        ), where
        assert len({one for one in told if one[2] in ("retry_with_params", "repair_step")}) == len(
            [one for one in told if one[2] in ("retry_with_params", "repair_step")]
        ), f"{where}: a rung was charged twice"
        ended = ran.result.failure.kind if ran.result.failure is not None else "succeeded"
        assert ended in ("succeeded", "outcome_unknown"), where


def test_a_round_that_is_begun_is_judged_wherever_it_was_killed() -> None:
    """The old judgement does not stand for the new round's."""

    def second(request: Any) -> bool:
        return "SECOND" in request.turns[0].text

    def planner(request: Any) -> Any:
        text = "SECOND" if "judged 40" in request.turns[0].text or "overall 40" in request.turns[0].text or "40" in request.turns[0].text.split("Tools")[0] else "FIRST"  # fmt: skip
        return plan(step("b" if text == "SECOND" else "a", "note", parameters={"t": text}))

    answers = {
        "execution_plan": planner,
        "evaluation": lambda request: verdict(95 if second(request) else 40),
        "overall_reflection": overall(
            True, replanning_strategy={"type": "full_replan", "reason": "judged 40"}
        ),
    }

    async def main(appends: int) -> Ran:
        made = await bench(tools(), answers, store=DiesAfter(appends))
        task_id = await made.submit()
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.wait({driving})
        return await (made.ran(task_id) if driving.exception() is None else made.drive(task_id))

    for appends in range(40):
        ran = virtual_time(main(appends)).check()
        where = f"killed after {appends} appends"
        assert ran.result.is_success, where
        assert ran.result.rounds == 2, where
        assert [event.round for event in ran.events("round_started")] == [1, 2], where
