"""Plans that are held until a person has agreed to them: every one, before any step of it starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_tasks import Bench, FakeTool, Ran, bench, plan, step, verdict
from test_run_people import TO
from test_run_recovery import READS, reflection

from replan.core.plan.diff import changes_of
from replan.core.types import Plan
from replan.errors import AnsweredBefore, InputError, NoSuchPart, PlanInvalid, TaskEnded
from replan.run.service.forking import Forking
from replan.testing import virtual_time


def tools(**more: Any) -> dict[str, Any]:
    return {
        "send": FakeTool(output=lambda given: f"sent to {given['to']}", parameters=TO, effect="once"),
        "read": FakeTool(delay_secs=1, output="read", **READS),
        **more,
    }


def mail(whom: str, step_id: str = "s", *needs: str, **more: Any) -> dict[str, Any]:
    return step(step_id, "send", *needs, parameters={"to": whom}, **more)


READ = step("r", "read")
PLAN = plan(READ, mail("Ann", "s", "r"))


async def held(plans: Any = PLAN, answers: Any = None, **more: Any) -> tuple[Bench, str]:
    told = plans if isinstance(plans, list) else [plans]
    made = await bench(tools(), {"execution_plan": told, "evaluation": [verdict()] * 3, **(answers or {})})
    return made, await made.submit(review_plan=True, **more)


def test_nothing_of_a_plan_starts_before_a_person_has_agreed_to_it() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await held()
        first = await made.drive(task_id)
        assert not made.source.counts, "not even what only reads"
        await made.service.review(task_id, approved=True, by="Bob")
        return first, (await made.drive(task_id)).check()

    first, ran = virtual_time(main())
    assert first.result.status == "waiting"
    (one,) = first.result.waiting_for
    assert (one.kind, one.plan_version) == ("review", 1)
    assert "s: send (once)" in one.background
    assert "step_started" not in first.types()
    (asked,) = ran.events("plan_review_requested")
    assert asked.outlook.effects == ("s: send (once)",)
    assert asked.outlook.tool_calls == 2
    (said,) = ran.events("plan_reviewed")
    assert (said.approved, said.by, said.review_id) == (True, "Bob", asked.review_id)
    assert ran.result.is_success


def test_of_two_answers_one_counts_and_the_other_is_told_who_was_faster() -> None:
    async def main() -> Ran:
        made, task_id = await held()
        await made.drive(task_id)
        says = made.service.review
        both = await asyncio.gather(
            says(task_id, approved=True, by="Ann"),
            says(task_id, 1, approved=False, reason="no", by="Bob"),
            return_exceptions=True,
        )
        assert not isinstance(both[0], BaseException)
        assert isinstance(both[1], AnsweredBefore)
        assert "agreed to before by Ann" in str(both[1])
        ran = (await made.drive(task_id)).check()
        with pytest.raises(TaskEnded):
            await says(task_id, approved=True)
        return ran

    ran = virtual_time(main())
    assert ran.result.is_success
    assert len(ran.events("plan_reviewed")) == 1


def test_a_no_has_the_plan_made_anew_with_its_reason_and_the_new_one_is_held_too() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await held([PLAN, PLAN, plan(READ, mail("Eve", "s2", "r2") | {"dependencies": []})])
        await made.drive(task_id)
        await made.service.review(task_id, approved=False, reason="Ann is away, write to Eve", by="Bob")
        second = await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        return second, (await made.drive(task_id)).check()

    second, ran = virtual_time(main())
    assert second.result.status == "waiting"
    assert not second.events("step_started")
    (one,) = second.result.waiting_for
    assert (one.kind, one.plan_version) == ("review", 2)
    prompts = "\n".join(
        request.turns[0].text for request in ran.model.requests if "Eve" in request.turns[0].text
    )
    assert "Ann is away, write to Eve" in prompts
    (again,) = ran.events("plan_rejected")
    assert "the same as an earlier one" in again.violations[0], "what was rejected counts as tried"
    assert ran.result.is_success
    assert not ran.result.shortfall, "nothing of the plan that nobody agreed to is owed"
    assert [call.parameters["to"] for call in ran.events("call_started", tool_id="send")] == ["Eve"]


def test_nothing_is_owed_of_what_nobody_agreed_to() -> None:
    """By the steps alone a plan that was left out would be what is missing."""

    async def main() -> Ran:
        made, task_id = await held([PLAN, plan(step("other", "read"))], evaluation="steps")
        await made.drive(task_id)
        await made.service.review(task_id, approved=False, reason="do not write to anybody")
        await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.reason
    assert not ran.result.shortfall


@pytest.mark.parametrize("evaluation", ["model", "steps"])
def test_another_plan_is_carried_out_in_its_place(evaluation: str) -> None:
    async def main() -> Ran:
        made, task_id = await held(evaluation=evaluation)
        await made.drive(task_id)
        await made.service.review(
            task_id, approved=True, plan=plan(READ, mail("Eve", "s", "r")), reason="not to Ann", by="Bob"
        )
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    (updated,) = ran.events("plan_updated")
    assert (updated.strategy, updated.by, updated.reason) == ("review", "Bob", "not to Ann")
    assert updated.diff.words() == "s: parameters; 1 kept"
    assert [call.parameters["to"] for call in ran.events("call_started", tool_id="send")] == ["Eve"]
    assert len(ran.events("plan_review_requested")) == 1, "who gives a plan has agreed to it"


def test_a_step_that_a_person_takes_out_is_not_owed() -> None:
    async def main() -> Ran:
        made, task_id = await held(evaluation="steps")
        await made.drive(task_id)
        await made.service.review(task_id, approved=True, plan=plan(READ))
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.reason
    assert not ran.result.shortfall
    assert ran.source.counts == {"read": 1}


def test_all_that_is_wrong_with_a_plan_is_told_at_once_and_nothing_is_kept() -> None:
    async def main() -> tuple[Ran, list[str]]:
        made, task_id = await held()
        before = await made.drive(task_id)
        wrong = plan(step("a", "sned"), mail("Ann", "b", "nobody"), step("c", "send", parameters={"to": 7}))
        with pytest.raises(PlanInvalid) as told:
            await made.service.review(task_id, approved=True, plan=wrong)
        with pytest.raises(PlanInvalid, match="no steps"):
            await made.service.review(task_id, approved=True, plan=plan())
        with pytest.raises(InputError, match="with a yes"):
            await made.service.review(task_id, approved=False, plan=PLAN)
        after = await made.ran(task_id)
        assert after.types() == before.types()
        await made.service.review(task_id, approved=True)
        return (await made.drive(task_id)).check(), list(told.value.violations)

    ran, violations = virtual_time(main())
    text = "; ".join(violations)
    assert "sned" in text
    assert "nobody" in text
    assert "'c'" in text
    assert ran.result.is_success


def test_a_part_that_comes_later_is_held_and_what_is_done_stays_done() -> None:
    first = {**plan(READ), "more": "write to whoever it says"}
    then = plan(READ, mail("Ann", "s", "r"))

    async def main() -> tuple[Ran, Ran]:
        made, task_id = await held([first, then])
        await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        second = await made.drive(task_id)
        (one,) = second.result.waiting_for
        assert one.plan_version == 2
        changed = {**READ, "parameters": {"text": "other"}}
        with pytest.raises(PlanInvalid, match="has come to its end"):
            await made.service.review(task_id, approved=True, plan=plan(changed, mail("Eve", "s", "r")))
        await made.service.review(task_id, one.id, approved=True, plan=plan(READ, mail("Eve", "s", "r")))
        return second, (await made.drive(task_id)).check()

    second, ran = virtual_time(main())
    assert second.source.counts["read"] == 1
    assert second.events("plan_review_requested")[1].outlook.tool_calls == 1, "what is done is not counted"
    assert ran.result.is_success
    assert ran.source.counts == {"read": 1, "send": 1}


def test_a_plan_that_mends_is_held() -> None:
    async def main() -> tuple[Ran, Ran]:
        broken = FakeTool(output=RuntimeError("the ledger is closed"), **READS)
        answers = {
            "execution_plan": [plan(step("b", "broken"), mail("Ann", "s", "b")), plan(mail("Ann", "t"))],
            "step_reflection": [reflection("replan", "read no ledger")],
            "evaluation": verdict(),
        }
        made = await bench(tools(broken=broken), answers)
        task_id = await made.submit(review_plan=True)
        await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        second = await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        return second, (await made.drive(task_id)).check()

    second, ran = virtual_time(main())
    assert [one.plan_version for one in second.result.waiting_for] == [2]
    assert ran.result.is_success


def test_a_given_plan_is_held_and_a_no_ends_a_task_that_nobody_plans() -> None:
    async def main() -> Ran:
        made = await bench(tools())
        task_id = await made.submit(PLAN, review_plan=True)
        await made.drive(task_id)
        await made.service.review(task_id, approved=False, reason="not today", by="Bob")
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert "Bob has not agreed to the plan: not today" in ran.result.failure.reason
    assert not ran.source.counts


def test_a_restart_and_a_fork_hold_the_plan_too_each_for_itself() -> None:
    async def main() -> tuple[Ran, Ran]:
        made, task_id = await held()
        await made.drive(task_id)
        again = await made.drive(task_id)  # as after a restart
        assert again.types().count("plan_review_requested") == 1
        fork, _ = await made.service.fork(task_id, Forking(hint="quickly"))
        forked = await made.drive(fork)
        assert forked.result.status == "waiting"
        await made.service.review(task_id, approved=True)
        ran = (await made.drive(task_id)).check()
        still = await made.drive(fork)
        assert still.result.status == "waiting", "a yes is for one task"
        await made.service.review(fork, approved=True)
        return ran, (await made.drive(fork)).check()

    ran, forked = virtual_time(main())
    assert ran.result.is_success
    assert forked.result.is_success


def test_a_plan_given_with_a_fork_is_held() -> None:
    async def main() -> Ran:
        made, task_id = await held()
        await made.drive(task_id)
        await made.service.review(task_id, approved=True)
        (await made.drive(task_id)).check()
        fork, _ = await made.service.fork(task_id, Forking(at=3, plan=plan(mail("Eve", "e"))))
        return await made.drive(fork)

    ran = virtual_time(main())
    assert [one.kind for one in ran.result.waiting_for] == ["review"]
    assert ran.source.counts == {"read": 1, "send": 1}


def test_nobody_in_time_is_no_refusal() -> None:
    async def main() -> Ran:
        made, task_id = await held(approval_expires_secs=60.0)
        first = await made.drive(task_id)
        (one,) = first.result.waiting_for
        assert one.expires == pytest.approx(first.records[-1].ts + 60, abs=1)
        await asyncio.sleep(61)
        ran = (await made.drive(task_id)).check()
        with pytest.raises(TaskEnded):
            await made.service.review(task_id, approved=True)
        return ran

    ran = virtual_time(main())
    assert ran.types().count("plan_review_expired") == 1
    assert ran.result.failure is not None
    assert ran.result.failure.kind == "expired"
    assert "nobody has answered in time" in ran.result.failure.reason
    assert not ran.events("plan_reviewed")
    assert not ran.source.counts


def test_an_answer_from_before_the_end_counts() -> None:
    async def main() -> Ran:
        made, task_id = await held(approval_expires_secs=60.0)
        await made.drive(task_id)
        await asyncio.sleep(59)
        await made.service.review(task_id, approved=True)
        await asyncio.sleep(10)
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).result.is_success


def test_a_plan_without_a_step_needs_no_yes() -> None:
    ran = virtual_time(_answered_by_itself())
    assert ran.result.is_success
    assert not ran.events("plan_review_requested")


async def _answered_by_itself() -> Ran:
    made, task_id = await held(plan())
    return (await made.drive(task_id)).check()


def test_what_is_no_plan_that_waits_is_said() -> None:
    async def main() -> None:
        made, task_id = await held()
        with pytest.raises(NoSuchPart, match="no plan that waits"):
            await made.service.review(task_id, approved=True)
        await made.drive(task_id)
        with pytest.raises(NoSuchPart, match="plan 1 does"):
            await made.service.review(task_id, 7, approved=True)

    virtual_time(main())


def test_the_difference_of_two_plans_is_data() -> None:
    old = Plan.model_validate({"plan_id": "p", **plan(READ, mail("Ann", "s", "r"), step("gone", "read"))})
    new = Plan.model_validate(
        {"plan_id": "q", "version": 2, **plan(READ, mail("Eve", "s"), mail("Bob", "n"))}
    )
    found = changes_of(old, new)
    assert [one["step_id"] for one in found.added] == ["n"]
    assert [one["step_id"] for one in found.removed] == ["gone"]
    (changed,) = found.changed
    assert {one.name: (one.before, one.after) for one in changed.fields} == {
        "parameters.to": ("Ann", "Eve"),
        "dependencies": (["r"], []),
    }
    assert (found.before, found.kept) == (1, 1)
    assert found.lines()[:2] == ['+ n: send({"to": "Bob"})', "- gone: read"]
