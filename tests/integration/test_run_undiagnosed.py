"""A model that is away while a failed step is diagnosed: the others go on, the task waits, and the step is mended once it is resumed."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall, reflection
from test_run_refused_key import AWAY, FAULTS, GIVE_UP, PAY

from replan.run.session.stops import ModelAway
from replan.testing import virtual_time

BETTER = reflection("retry_with_params", {"q": "good"}, "parameter_error")
REPAIR = reflection("repair_step", {"summary": "write it anew"}, "parameter_error")
NO_ROUND = overall(False, "external")
TWO = plan(
    step("p", "pay"), step("l", "look", "p", parameters={"q": "bad"}), step("o", "slow", parameters={"n": 1}),
    step("o2", "slow", "o", parameters={"n": 2}), step("after", "see", "l"),
)  # fmt: skip


def drives(
    answers: dict[str, Any], *, wanted: Any = TWO, times: int = 2, fails: int = 1, **policy: Any
) -> list[Ran]:
    tools = {
        "pay": FakeTool(output="paid", **PAY),
        "look": FakeTool(output="seen", fail=["ValueError: no such thing"] * fails, **READS),
        "see": FakeTool(output="seen too", **READS),
        "slow": FakeTool(output="slow", delay_secs=5, **READS),
    }  # fmt: skip

    async def main() -> list[Ran]:
        scripted = {"execution_plan": wanted, "evaluation": verdict(), "overall_reflection": NO_ROUND}
        made = await bench(tools, {**scripted, **answers})
        task_id = await made.submit(**policy)
        return [await made.drive(task_id) for _ in range(times)]

    return virtual_time(main())


def asked(ran: Ran, schema: str) -> int:
    return len(ran.events("llm_call_started", schema_name=schema))


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("reflects", [True, False])
def test_the_step_is_mended_once_it_is_resumed_and_the_others_have_been_done(
    kind: str, reflects: bool
) -> None:
    first, last = drives({"step_reflection": [FAULTS[kind], BETTER]}, enable_auto_reflection=reflects)
    assert [one.kind for one in first.result.waiting_for] == [kind]
    assert [one.step_id for one in first.events("step_completed")] == ["p", "o", "o2"]
    assert not first.events("step_reflected"), "nothing was decided without a diagnosis"
    last.check()
    assert last.result.is_success
    assert last.source.counts == {"pay": 1, "look": 2, "slow": 2, "see": 1}
    assert asked(last, "step_reflection") == 2
    assert asked(last, "overall_reflection") == 0


def test_as_long_as_it_is_away_it_waits_again_and_nothing_is_called() -> None:
    *waits, last = drives({"step_reflection": [AWAY, AWAY, AWAY, BETTER]}, times=4)
    assert {ran.result.status for ran in waits} == {"waiting"}
    assert waits[-1].source.counts["look"] == 2, "only what the diagnosis says, at the end"
    assert last.check().result.is_success


def test_a_step_that_could_not_be_written_anew_is_so_later() -> None:
    anew = {"steps": [step("l", "look", "p", parameters={"q": "good"})]}
    first, last = drives({"step_reflection": REPAIR, "step_repair": [AWAY, anew]})
    assert first.result.status == "waiting"
    last.check()
    assert asked(last, "step_repair") == 2
    assert asked(last, "step_reflection") == 1
    assert last.source.counts["pay"] == 1


def test_several_items_of_a_step_are_each_diagnosed() -> None:
    wanted = plan(step("l", "look", for_each=["a", "b", "c"], parameters={"q": "${item}"}))
    first, last = drives({"step_reflection": [AWAY, AWAY, *[BETTER] * 2]}, wanted=wanted, fails=2)
    assert first.result.status == "waiting"
    assert last.check().result.is_success
    assert last.source.counts["look"] == 4, "the second is the same reading as the first"


def test_where_another_step_ends_the_round_that_comes_first() -> None:
    wanted = plan(step("l", "look", parameters={"q": "bad"}), step("k", "look", parameters={"q": "worse"}))
    answers = {
        "step_reflection": [AWAY, reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error")]
    }
    (only,) = drives(answers, wanted=wanted, fails=2, times=1)
    assert only.check().result.status == "failed"
    assert asked(only, "overall_reflection") == 1


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("by_worker", [False, True])
def test_a_doubt_beside_a_step_that_ends_the_round_is_asked_about_once_a_drive(
    kind: str, by_worker: bool
) -> None:
    tools = {
        "pay": FakeTool(output="paid", fail=[TimeoutError("no answer")], delay_secs=5, **PAY),
        "look": FakeTool(output="seen", fail=["no such thing"], **READS),
    }
    wanted = plan(step("p", "pay"), step("l", "look", parameters={"q": "bad"}))
    answers = [GIVE_UP, FAULTS[kind], FAULTS[kind], GIVE_UP]

    async def main() -> Ran:
        scripted = {"execution_plan": wanted, "overall_reflection": NO_ROUND}
        made = await bench(tools, {**scripted, "step_reflection": answers})
        made.parts.gives_back = by_worker
        task_id = await made.submit()
        for times in (1, 2):
            if by_worker:
                with pytest.raises(ModelAway):
                    await made.drive(task_id)
            else:
                ran = await made.drive(task_id)
                assert [one.kind for one in ran.result.waiting_for] == [kind]
            assert asked(await made.ran(task_id), "step_reflection") == 1 + times
        return (await made.drive(task_id)).check()

    last = virtual_time(main())
    assert last.result.failure is not None
    assert last.result.failure.kind == "outcome_unknown"
    assert asked(last, "step_reflection") == 4
    assert last.source.counts == {"pay": 1, "look": 1}


def test_a_worker_gives_it_back_after_the_others_have_been_done() -> None:
    async def main() -> Ran:
        tools = {
            "look": FakeTool(output="seen", fail=["no such thing"], **READS),
            "slow": FakeTool(output="slow", delay_secs=5, **READS),
        }
        wanted = plan(step("l", "look", parameters={"q": "bad"}), step("o", "slow", parameters={"n": 1}))
        made = await bench(
            tools, {"execution_plan": wanted, "evaluation": verdict(), "step_reflection": [AWAY, BETTER]}
        )
        made.parts.gives_back = True
        task_id = await made.submit()
        with pytest.raises(ModelAway):
            await made.drive(task_id)
        ran = await made.drive(task_id)
        assert ran.source.counts == {"look": 2, "slow": 1}
        return ran.check()

    assert virtual_time(main()).result.is_success
