"""Forks: a task that goes on from an event of another one, and makes none of its effects again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_recovery import READS, overall

from replan.core.events import CallStarted, Record, TaskForked
from replan.core.limits.policy import Budget, Policy
from replan.core.state.fold import fold
from replan.errors import InputError
from replan.run.service.forking import Forking
from replan.testing import virtual_time

ONCE: dict[str, Any] = {"effect": "once"}


def tools(**more: Any) -> dict[str, Any]:
    return {
        "read": FakeTool(output="read", delay_secs=1, **READS),
        "send": FakeTool(output=lambda p: f"sent {p.get('to', '')}", delay_secs=5, **ONCE),
        **more,
    }


SENDS = plan(
    step("a", "read"),
    step("s", "send", "a", parameters={"to": "Ann"}),
    step("t", "send", "s", parameters={"to": "Bob"}),
)


def at_of(ran: Ran, kind: str, **wanted: Any) -> int:
    """The number of the first event of this kind with these values."""
    return next(
        one.seq
        for one in ran.records
        if one.type == kind and all(getattr(one.event, name) == value for name, value in wanted.items())
    )


async def forked(made: Bench, origin: str, **wanted: Any) -> str:
    task_id, _ = await made.service.fork(origin, Forking(**wanted))
    return task_id


def own(ran: Ran) -> list[Record]:
    """The events that are not shared."""
    forks = [one.seq for one in ran.records if isinstance(one.event, TaskForked)]
    return ran.records[forks[-1] :]


@pytest.mark.parametrize("at", range(1, 20))
def test_a_fork_from_any_event_of_an_ended_task_makes_no_effect_again(at: int) -> None:
    async def main() -> tuple[Ran, Ran | None]:
        made = await bench(tools())
        ran = (await made.run(SENDS, interactive=True)).check()
        if at >= ran.records[-1].seq:
            return ran, None
        fork = await made.drive(await forked(made, ran.result.task_id, at=at, by="Ann"))
        assert (await made.ran(ran.result.task_id)).records == ran.records, "the other task stays as it is"
        return ran, fork.check()

    first, fork = virtual_time(main())
    if fork is None:
        return
    assert fork.result.is_success
    assert fork.source.counts["send"] == 2
    assert fork.outputs() == first.outputs()
    assert [one._replace(task_id="x") for one in fork.records[:at]] == [
        one._replace(task_id="x") for one in first.records[:at]
    ]


def test_a_fork_says_where_it_comes_from_and_spends_what_is_its_own() -> None:
    async def main() -> tuple[Ran, Ran, Any, Any]:
        made = await bench(tools())
        ran = (await made.run(SENDS)).check()
        origin = ran.result.task_id
        fork = await made.drive(
            await forked(
                made, origin, at=at_of(ran, "step_completed", step_id="s"), by="Ann", reason="to see"
            )
        )
        return ran, fork.check(), await made.service.kin(fork.result.task_id), await made.service.kin(origin)

    ran, fork, kin, of_origin = virtual_time(main())
    (event,) = fork.events("task_forked")
    assert (event.by, event.reason, event.origin) == ("Ann", "to see", ran.result.task_id)
    assert kin.origin == ran.result.task_id
    assert list(of_origin.forks) == [fork.result.task_id]
    assert fork.result.usage.tool_calls == 0, "the call that it has from the other task is none of its own"
    assert ran.result.usage.tool_calls == 3


def test_what_the_other_task_does_after_the_fork_is_not_done_again() -> None:
    """The other task runs on; whoever comes first makes a call, and the other one has its output."""

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id = await made.submit(SENDS)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(3)  # `s` is under way
        fork = await forked(made, task_id)
        forking = asyncio.create_task(made.service.drive(fork))
        await asyncio.gather(driving, forking)
        return (await made.ran(task_id)).check(), (await made.ran(fork)).check()

    first, fork = virtual_time(main())
    assert first.result.is_success
    assert fork.result.is_success
    assert first.source.counts["send"] == 2
    assert fork.outputs() == first.outputs() == {"a": "read", "s": "sent Ann", "t": "sent Bob"}
    (settled,) = fork.events("outcome_settled", step_id="s")
    assert settled.by == f"task {first.result.task_id!r}"
    copied = [*fork.events("call_completed", step_id="t"), *first.events("call_completed", step_id="t")]
    assert sorted(bool(one.of_task) for one in copied) == [False, True]


def test_a_call_of_a_fork_is_not_made_by_the_task_that_it_comes_from() -> None:
    """The fork is faster: the other task, which knew of no fork when it began, has the output of its call."""

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(wait=FakeTool(output="waited", delay_secs=60, **READS)))
        wanted = plan(
            step("a", "read"), step("w", "wait", "a"), step("s", "send", "w", parameters={"to": "Ann"})
        )
        task_id = await made.submit(wanted, evaluation="model")
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(3)
        at_once = plan(step("s", "send", parameters={"to": "Ann"}))
        fork = await forked(made, task_id, at=1, plan=at_once, policy=Policy(evaluation="steps"))
        await made.service.drive(fork)
        await made.service.cancel(task_id) if driving.done() else None
        await driving
        return await made.ran(task_id), (await made.ran(fork)).check()

    first, fork = virtual_time(main())
    assert first.source.counts["send"] == 1
    assert [one.of_task for one in first.events("call_completed", step_id="s")] == [fork.result.task_id]
    assert [one.of_task for one in fork.events("call_completed", step_id="s")] == [""]


def test_a_call_that_failed_cleanly_there_is_made_here() -> None:
    refuses = FakeTool(output=lambda p: 1 / 0 if p["fail"] else "sent", **ONCE)

    async def main() -> tuple[Ran, Ran]:
        made = await bench({"send": refuses, "read": FakeTool(output="read", **READS)})
        wanted = plan(step("a", "read"), step("s", "send", "a", parameters={"fail": True}))
        ran = (await made.run(wanted)).check()
        fork = await made.drive(
            await forked(made, ran.result.task_id, at=at_of(ran, "step_completed", step_id="a"))
        )
        return ran, fork.check()

    first, fork = virtual_time(main())
    assert not first.result.is_success
    assert fork.source.counts["send"] == 2
    assert [one.kind for one in (fork.events("call_failed")[-1].error,)] == ["tool"]


def test_a_doubt_of_the_other_task_is_a_doubt_here() -> None:
    def lost(_: Any) -> str:
        raise TimeoutError("no answer")

    async def main() -> tuple[Ran, Ran, Ran]:
        made = await bench({"send": FakeTool(output=lost, **ONCE), "read": FakeTool(output="read", **READS)})
        wanted = plan(step("a", "read"), step("s", "send", "a"))
        ran = await made.run(wanted, interactive=True)
        origin = ran.result.task_id
        fork = await made.drive(await forked(made, origin, at=at_of(ran, "step_completed", step_id="a")))
        await made.service.answer(origin, "yes", output="it was sent")
        other = await made.drive(await forked(made, origin, at=at_of(ran, "step_completed", step_id="a")))
        return ran, fork, other.check()

    first, fork, other = virtual_time(main())
    assert first.result.status == "waiting"
    assert fork.result.status == "waiting"
    assert fork.source.counts["send"] == 1
    assert "has made this very call" in fork.events("outcome_unknown")[-1].reason
    assert other.outputs()["s"] == "it was sent", "what a person has said there counts here"


def test_what_a_person_says_of_a_doubt_of_the_other_task_counts_in_the_fork() -> None:
    tried: list[int] = []

    def once_lost(_: Any) -> str:
        tried.append(1)
        if len(tried) == 1:
            raise TimeoutError("no answer")
        return "sent"

    async def main() -> Ran:
        made = await bench(
            {"send": FakeTool(output=once_lost, **ONCE), "read": FakeTool(output="read", **READS)}
        )
        ran = await made.run(plan(step("a", "read"), step("s", "send", "a")), interactive=True)
        fork = await forked(made, ran.result.task_id, at=at_of(ran, "step_completed", step_id="a"))
        await made.drive(fork)
        await made.service.answer(fork, "no")
        return (await made.drive(fork)).check()

    fork = virtual_time(main())
    assert fork.result.is_success
    assert len(tried) == 2, "the person has said that it did not happen"


def test_a_fork_of_a_fork_knows_what_all_of_them_have_done() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        ran = (await made.run(SENDS)).check()
        at = at_of(ran, "step_completed", step_id="a")
        more = plan(step("n", "send", parameters={"to": "Cy"}), step("s", "send", parameters={"to": "Ann"}))
        one = (await made.drive(await forked(made, ran.result.task_id, at=at, plan=more))).check()
        two = (await made.drive(await forked(made, one.result.task_id, at=at + 1))).check()
        three = (await made.drive(await forked(made, one.result.task_id, at=2, plan=more))).check()
        assert three.outputs() == {"n": "sent Cy", "s": "sent Ann"}
        return one, two

    one, two = virtual_time(main())
    assert one.result.is_success
    assert two.source.counts["send"] == 3
    assert {record.event.call_key for record in two.records if isinstance(record.event, CallStarted)} == {
        record.event.call_key for record in one.records if isinstance(record.event, CallStarted)
    }


def test_a_fork_of_a_failed_task_goes_on_with_a_hint() -> None:
    answers = {
        "execution_plan": [plan(step("a", "read")), plan(step("b", "read"))],
        "evaluation": [verdict(30), verdict(90, "found")],
        "overall_reflection": [
            overall(False),
            overall(True, replanning_strategy={"type": "full_replan"}, reflection_text="as Ann says"),
        ],
    }

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(), answers)
        ran = (await made.run(None)).check()
        fork = await made.drive(await forked(made, ran.result.task_id, hint="look in the attic", by="Ann"))
        return ran, fork.check()

    first, fork = virtual_time(main())
    assert first.result.status == "failed"
    assert fork.result.final_output == "found"
    asked = [one.event.text for one in own(fork) if one.type == "llm_call_started"]
    assert all("a hint (Ann): look in the attic" in text for text in asked)


def test_whoever_plans_on_in_a_fork_is_told_what_the_other_task_has_done_since() -> None:
    answers = {
        "execution_plan": [
            plan(step("s", "send", parameters={"to": "Ann"})),
            plan(step("a", "read")),
        ],
        "evaluation": verdict(90),
    }

    async def main() -> Ran:
        made = await bench(tools(), answers)
        ran = (await made.run(None)).check()
        return (await made.drive(await forked(made, ran.result.task_id, at=2))).check()

    fork = virtual_time(main())
    (planned,) = [
        one.event.text for one in own(fork) if getattr(one.event, "schema_name", "") == "execution_plan"
    ]
    assert 'send({"to": "Ann"})' in planned or 'send({"to":"Ann"})' in planned
    assert fork.source.counts["send"] == 1


def test_a_failed_step_of_an_ended_task_is_tried_again_in_a_fork() -> None:
    made_of: list[int] = []

    def at_last(_: Any) -> str:
        made_of.append(1)
        return "done" if len(made_of) > 1 else 1 / 0  # type: ignore[return-value]

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(odd=FakeTool(output=at_last, **ONCE)))
        wanted = plan(
            step("a", "send", parameters={"to": "Ann"}), step("x", "odd", "a"), step("y", "read", "x")
        )
        ran = (await made.run(wanted)).check()
        with pytest.raises(InputError, match="step 'a' has not failed"):
            await forked(made, ran.result.task_id, retry=("a",))
        fork = await made.drive(await forked(made, ran.result.task_id, retry=("x",)))
        return ran, fork.check()

    first, fork = virtual_time(main())
    assert first.result.status == "failed"
    assert fork.result.is_success
    assert fork.statuses() == {"a": "succeeded", "x": "succeeded", "y": "succeeded"}
    assert fork.source.counts["send"] == 1


@pytest.mark.parametrize("hint", ["", "be strict"])
def test_a_fork_that_is_to_be_judged_by_a_model_is_where_the_steps_had_judged_before(hint: str) -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(), {"evaluation": verdict(95, "by the model")})
        ran = await made.run(SENDS)
        judged = ran.state.policy.model_copy(update={"evaluation": "model"})
        fork = await made.drive(await forked(made, ran.result.task_id, policy=judged, hint=hint))
        return ran, fork.check()

    ran, fork = virtual_time(main())
    assert ran.events("evaluation_completed", by="steps")
    assert fork.result.output == "by the model"
    assert fork.source.counts["send"] == 2, "nothing is made again"


def test_an_ended_task_is_judged_again_in_a_fork_without_anything_being_run() -> None:
    answers = {
        "execution_plan": plan(step("a", "read")),
        "evaluation": [verdict(30), verdict(90, "fine after all")],
        "overall_reflection": overall(False),
    }

    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools(), answers)
        ran = (await made.run(None)).check()
        fork = await made.drive(await forked(made, ran.result.task_id, judge=True, hint="be kind"))
        return ran, fork.check()

    first, fork = virtual_time(main())
    assert first.result.status == "failed"
    assert fork.result.final_output == "fine after all"
    assert {one.type for one in own(fork)} <= {
        "task_resumed", "llm_call_started", "llm_call_completed", "evaluation_completed", "round_completed",
        "task_completed",
    }  # fmt: skip


def test_a_fork_has_limits_of_its_own_and_another_policy() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        ran = (await made.run(SENDS, budget={"max_tool_calls": 2})).check()
        fork = await made.drive(
            await forked(
                made, ran.result.task_id, policy=Policy(evaluation="steps", budget=Budget(max_tool_calls=1))
            )
        )
        return ran, fork.check()

    first, fork = virtual_time(main())
    assert first.result.status == "failed"
    assert fork.result.is_success
    assert fork.state.policy.budget.max_tool_calls == 1
    assert fork.source.counts["send"] == 2


def test_a_cancelled_task_goes_on_in_a_fork() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id = await made.submit(SENDS)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(0.5)
        await made.service.cancel(task_id, by="Ann")
        await driving
        fork = await made.drive(await forked(made, task_id))
        return (await made.ran(task_id)).check(), fork.check()

    first, fork = virtual_time(main())
    assert first.result.status == "cancelled"
    assert fork.result.is_success


def test_a_fork_from_a_task_that_waits_has_its_own_answers() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench(tools())
        task_id = await made.submit(
            plan(step("s", "send", parameters={"to": "Ann"})), interactive=True, approval="destructive"
        )
        await made.drive(task_id)
        fork = await forked(made, task_id)
        assert (await made.drive(fork)).result.status == "waiting"
        await made.service.resolve_approval(fork, approved=True)
        done = (await made.drive(fork)).check()
        await made.service.resolve_approval(task_id, approved=True)
        return done, (await made.drive(task_id)).check()

    fork, first = virtual_time(main())
    assert fork.result.is_success
    assert first.result.is_success
    assert first.source.counts["send"] == 1


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"at": 0}, "has the events 1 to"),
        ({"at": 9_999}, r"\(number \d+ is its end\)"),
        ({"plan": {"steps": []}}, "has no steps"),
        ({"plan": SENDS, "judge": True}, "another plan takes the place"),
        ({"hint": " "}, "the hint is empty"),
        ({"task_id": "no id!"}, "is not a valid task id"),
        ({"retry": ("q",)}, "the plan has no step 'q'"),
        ({"at": 1, "judge": True}, "there is nothing to judge"),
    ],
)
def test_a_fork_that_cannot_be_is_refused(wanted: dict[str, Any], why: str) -> None:
    async def main() -> None:
        made = await bench(tools())
        ran = (await made.run(SENDS)).check()
        with pytest.raises(InputError, match=why):
            await forked(made, ran.result.task_id, **wanted)

    virtual_time(main())


def test_a_plan_that_does_not_pass_its_checks_ends_the_fork_and_calls_nothing() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        ran = (await made.run(SENDS)).check()
        wrong = plan(step("s", "nothing"))
        return (await made.drive(await forked(made, ran.result.task_id, plan=wrong))).check()

    fork = virtual_time(main())
    assert fork.result.status == "failed"
    assert fork.source.counts["send"] == 2


def test_a_fork_folds_from_its_log_to_what_its_driver_had() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        ran = (await made.run(SENDS)).check()
        return (await made.drive(await forked(made, ran.result.task_id, at=4))).check()

    fork = virtual_time(main())
    assert fork.driven is not None
    again = fold(fork.records)
    assert again.steps == fork.driven.steps
    assert again.took_effect == fork.driven.took_effect
    assert again.usage == fork.driven.usage
    assert again.keyed_by == fork.driven.keyed_by == fork.records[0].task_id or again.fork is not None
