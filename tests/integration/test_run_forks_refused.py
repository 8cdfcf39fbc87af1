"""A person's no in a fork, after one in the task that it comes from: each is asked for once, is kept, and is a yes nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from run_tasks import Bench, Ran, bench, plan, step, verdict
from test_run_consent import MARKED, tools
from test_run_forks import at_of
from test_run_recovery import overall, reflection

from replan.errors import InputError
from replan.run.service.forking import Forking
from replan.testing import virtual_time

PAY = step("a", "pay", parameters={"to": "Bob"})
OTHER = step("b", "pay", parameters={"to": "Carol"})


async def waiting(steps: Any = (PAY,), **answers: Any) -> tuple[Bench, str]:
    """A task that waits for a yes."""
    if answers:
        made = await bench(tools(MARKED), {"execution_plan": list(steps), "evaluation": verdict(), **answers})
        task_id = await made.submit(interactive=True)
    else:
        made = await bench(tools(MARKED))
        task_id = await made.submit(plan(*steps), interactive=True)
    await made.drive(task_id)
    return made, task_id


async def said_no(made: Bench, task_id: str) -> Ran:
    await made.service.resolve_approval(task_id, approved=False)
    return await made.drive(task_id)


async def forked(made: Bench, task_id: str, **wanted: Any) -> tuple[str, Ran]:
    fork, _ = await made.service.fork(task_id, Forking(**wanted))
    return fork, await made.drive(fork)


def asked(ran: Ran) -> int:
    return len(ran.events("approval_requested"))


def check_refused(ran: Ran) -> None:
    assert ran.source.counts["pay"] == 0
    assert not ran.result.is_success
    assert "approved" not in [one.status for one in ran.result.steps]


def test_both_say_no_to_the_same_request_each_in_its_own_task() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await waiting()
        fork, _ = await forked(made, task_id)
        before = await said_no(made, task_id)
        (open_,) = (await made.service.result(fork)).waiting_for
        assert open_.tool_id == "pay", "what was said in the other task is not said here"
        return before, await said_no(made, fork)

    before, fork = virtual_time(main())
    for ran in (before, fork):
        check_refused(ran)
        assert asked(ran) == 1
        assert ran.result.failure is not None
    with pytest.raises(StopIteration):
        next(iter(fork.result.waiting_for))


@pytest.mark.parametrize("at_end", [True, False])
def test_a_no_that_is_shared_is_kept_and_not_asked_again_when_a_fork_is_given_the_same_call(
    at_end: bool,
) -> None:
    async def main() -> Ran:
        made, task_id = await waiting()
        before = await said_no(made, task_id)
        at = None if at_end else at_of(before, "approval_resolved")
        _, ran = await forked(made, task_id, at=at, plan=plan({**PAY, "step_id": "again"}))
        return ran

    ran = virtual_time(main())
    check_refused(ran)
    assert ran.result.status == "failed"


def test_a_no_that_came_after_the_fork_point_is_none_of_the_fork() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await waiting()
        before = await said_no(made, task_id)
        fork, _ = await forked(made, task_id, at=at_of(before, "approval_requested"))
        (open_,) = (await made.service.result(fork)).waiting_for
        assert open_.tool_id == "pay"
        await made.service.resolve_approval(fork, approved=True)
        return before, await made.drive(fork)

    before, fork = virtual_time(main())
    assert before.result.status == "failed"
    assert fork.result.is_success, "it was asked, and a person has said yes there"
    assert fork.source.counts["pay"] == 1


def test_a_step_that_was_refused_is_not_tried_again_by_a_fork() -> None:
    async def main() -> None:
        made, task_id = await waiting()
        await said_no(made, task_id)
        with pytest.raises(InputError, match="a person has said no to its call"):
            await made.service.fork(task_id, Forking(retry=("a",)))

    virtual_time(main())


def test_a_second_no_to_another_effect_is_asked_for_once_and_kept() -> None:
    replans: dict[str, Any] = {
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
        "overall_reflection": [overall(True, "tools", replanning_strategy={"type": "full_replan"})] * 9,
    }

    async def main() -> tuple[Ran, Ran]:
        made, task_id = await waiting(
            [plan(PAY), plan(OTHER), plan(OTHER), plan(OTHER), plan(PAY)], **replans
        )
        first = await said_no(made, task_id)
        (open_,) = first.result.waiting_for
        assert open_.parameters == {"to": "Carol"}
        fork, _ = await forked(made, task_id)
        return first, await said_no(made, fork)

    _, ran = virtual_time(main())
    check_refused(ran)
    keys = [one.call_key for one in ran.events("approval_requested")]
    assert len(keys) == len(set(keys)) == 2, "nothing that a person has refused is asked for again"


def test_a_hint_in_a_fork_does_not_have_what_was_refused_asked_for_again() -> None:
    replans: dict[str, Any] = {
        "step_reflection": reflection("trigger_overall_reflection", {"summary": "no"}, "tool_error"),
        "overall_reflection": [overall(True, "tools", replanning_strategy={"type": "full_replan"})] * 30,
    }

    async def main() -> Ran:
        made, task_id = await waiting([plan(PAY)] * 30, **replans)
        await said_no(made, task_id)
        fork, ran = await forked(made, task_id, hint="think of Bob")
        for _ in range(5):
            if not ran.result.waiting_for:
                break
            assert all(one.kind != "approval" for one in ran.result.waiting_for)
            await made.service.answer(fork, "go on")
            ran = await made.drive(fork)
        return ran

    ran = virtual_time(main())
    check_refused(ran)
    assert asked(ran) == 1
