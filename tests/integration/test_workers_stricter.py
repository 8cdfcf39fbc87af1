"""A task that was begun without workers, where nobody is asked, beside a worker whose configuration wants a person's yes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from workers_here import Here, ended, submitted

import workers as world
from replan.errors import InputError
from replan.testing import ScriptedEndpoint
from workers import SECS, step

pytestmark = pytest.mark.anyio

STRICT: dict[str, dict[str, Any]] = {
    "approval": {"approval": "destructive"},
    "rules": {"rules": {"do": {"requires_approval": True}}},
}


@pytest.mark.parametrize("how", STRICT)
async def test_such_a_worker_leaves_it_alone_and_says_what_to_do_and_another_goes_on(
    here: Here, how: str
) -> None:
    async with here.replan(kind="local", interactive=False) as gone:
        await submitted(gone, step("a", "hold"), step("b", "do", "a"), task_id="t")
        await here.arrives()
        await submitted(gone, step("a", "hold"), step("b", "nap", "a"), task_id="asked_nothing")
        await here.arrives()
    async with here.worker(spec={"takeover": 0.6, **STRICT[how]}) as worker:
        (await here.arrives()).let_go()
        assert (await ended(worker, "asked_nothing")).is_success
        await here.until("SELECT queue IS NOT NULL AS q FROM task WHERE task_id = 't'", "t\n")
        why = await worker.why_waiting("t")
        assert "the configuration of this worker wants a person's yes to calls of 'do'" in why
        assert "`replan tasks resume t --approve never`" in why
        (line,) = [one for one in await worker.waiting_lines() if one.why]
        assert "`replan tasks resume ID --approve never`" in line.why
        async with here.worker() as other:
            (await here.arrives()).let_go()
            assert (await ended(other, "t")).is_success
    assert here.done() == ["a", "a", "b"]


async def test_it_gives_back_one_that_it_was_given_by_what_its_log_said_before(here: Here) -> None:
    async with here.replan(kind="local", interactive=False) as gone:
        await submitted(gone, step("a", "hold"), step("b", "do", "a"), task_id="t")
        await here.arrives()
        store = gone.service.parts.store
        assert store is not None
    async with here.replan(interactive=False) as handing:
        await handing.hand_on("t")
    here.sql("UPDATE need SET needs = (needs::jsonb - 'unasked')::text")  # as an older release has it
    async with here.worker(spec={"takeover": 0.6, **STRICT["approval"]}) as worker:
        await here.until("SELECT refused IS NOT NULL AS r FROM task WHERE task_id = 't'", "t\n")
        assert "--approve never" in await worker.why_waiting("t")
        assert (await worker.summary("t")).status == "executing"
    assert here.done() == []


@pytest.mark.parametrize("how", STRICT)
async def test_one_that_was_submitted_for_workers_is_left_alone_too_where_nobody_is_asked(
    here: Here, how: str
) -> None:
    async with here.worker(spec=STRICT[how]) as worker:
        async with here.replan(interactive=False) as submitting:
            await submitted(submitting, step("a", "do"), task_id="t")
            await submitted(submitting, step("a", "nap"), task_id="asked_nothing")
        assert (await ended(worker, "asked_nothing")).is_success
        why = await worker.why_waiting("t")
        assert "the configuration of this worker wants a person's yes to calls of 'do'" in why
        async with here.worker():
            assert (await ended(worker, "t")).is_success
    assert here.done() == ["a"]


def as_an_older_release(here: Here) -> None:
    """What waits, as a release has it that does not say what a task may call unasked."""
    here.sql("UPDATE need SET needs = (needs::jsonb - 'unasked')::text")
    here.sql(
        "UPDATE event SET data = (data::jsonb #- '{settings,work,needs,unasked}' #- '{settings,work,tells_unasked}')::text WHERE seq = 1"
    )


@pytest.mark.parametrize("how", STRICT)
async def test_what_an_older_release_has_submitted_for_workers_is_left_alone_too(
    here: Here, how: str
) -> None:
    async with here.replan(interactive=False) as submitting:
        await submitted(submitting, step("a", "nap"), step("b", "do", "a"), task_id="t")
        await submitted(submitting, step("a", "nap"), task_id="asked_nothing")
        as_an_older_release(here)
        async with here.worker(spec={"takeover": 0.6, **STRICT[how]}) as worker:
            assert (await ended(worker, "asked_nothing")).is_success
            await here.until("SELECT refused IS NOT NULL AS r FROM task WHERE task_id = 't'", "t\n")
            assert "wants a person's yes to calls of 'do'" in await worker.why_waiting("t")
            assert (await worker.summary("t")).status == "queued", "nothing of it is begun there"
            async with here.worker():
                assert (await ended(submitting, "t")).is_success
    assert here.done() == ["b"]


async def test_one_whose_calls_all_wanted_a_yes_as_it_was_submitted_ends_as_it_was_begun(here: Here) -> None:
    async with here.replan(interactive=False, approval="destructive") as submitting:
        await submitted(submitting, step("a", "do"), task_id="t")
        async with here.worker(spec=STRICT["approval"]) as worker:
            assert not (await ended(worker, "t")).is_success, "nobody can be asked, as from its beginning"
    assert here.done() == []


async def test_a_program_that_goes_on_with_one_leaves_it_alone_and_says_what_to_do(here: Here) -> None:
    async with here.replan(kind="local", interactive=False) as gone:
        await submitted(gone, step("a", "hold"), step("b", "do", "a"), task_id="t")
        await here.arrives()
    async with here.replan(kind="local", interactive=False, **STRICT["approval"]) as strict:
        with pytest.raises(InputError, match="`replan tasks resume t --approve never` goes on"):
            await strict.resume("t")
    assert here.done() == []


async def test_a_program_that_goes_on_with_one_that_can_ask_asks(here: Here) -> None:
    async with here.replan(kind="local") as gone:
        await submitted(gone, step("a", "nap"), step("b", "hold", "a"), step("c", "do", "b"), task_id="t")
        await here.arrives()
    async with here.replan(kind="local", **STRICT["approval"]) as strict:
        going = asyncio.create_task(strict.resume("t"))
        (await here.arrives()).let_go()
        (asked,) = (await going).waiting_for
        assert "May 'do' be called" in asked.text
        assert here.done() == ["b"]


async def test_one_that_was_begun_with_as_much_to_ask_goes_on_as_it_was_begun(here: Here) -> None:
    async with here.replan(kind="local", interactive=False, approval="destructive") as gone:
        await submitted(gone, step("a", "hold"), step("b", "do", "a"), task_id="t")
        await here.arrives()
    async with here.worker(spec=STRICT["approval"]) as worker:
        (await here.arrives()).let_go()
        assert not (await ended(worker, "t")).is_success, "nobody can be asked, as from its beginning"
    assert here.done() == ["a"]


@pytest.mark.parametrize("how", STRICT)
async def test_what_a_later_plan_of_it_may_call_counts_where_its_own_only_reads(here: Here, how: str) -> None:
    def said(score: int) -> dict[str, Any]:
        sides = ("completeness", "correctness", "efficiency", "reliability")
        return {
            "overall_score": score, "is_successful": score > 80, "dimensions": dict.fromkeys(sides, score), "final_output": "done",
        }  # fmt: skip

    overall = {
        "problem_nature": "x", "should_replan": True, "reflection_text": "not done", "root_causes": ["not done"],
        "replanning_strategy": {"type": "full_replan"},
    }  # fmt: skip
    answers: dict[str, Any] = {
        "execution_plan": {"steps": [step("b", "do")]}, "evaluation": [said(20), said(95)], "overall_reflection": overall,
    }  # fmt: skip
    with ScriptedEndpoint(answers) as model:
        local = {**here.spec, "tools": ("hold", "do"), "kind": "local", "interactive": False}
        async with world.replan(local, endpoint=model.url) as gone:
            await gone.submit("do it", plan={"steps": [step("a", "hold")]}, task_id="t", evaluation="model")
            await here.arrives()
        strict = {**here.spec, "tools": ("hold", "do"), "takeover": 0.6, **STRICT[how]}
        async with at_work(strict, endpoint=model.url) as worker:
            await here.until("SELECT queue IS NOT NULL AS q FROM task WHERE task_id = 't'", "t\n")
            why = await worker.why_waiting("t")
            assert "the configuration of this worker wants a person's yes to calls of 'do'" in why
            async with at_work({**strict, "approval": "never", "rules": {}}, endpoint=model.url) as other:
                (await here.arrives()).let_go()
                assert (await ended(other, "t")).is_success
    assert here.done() == ["a", "b"]


@asynccontextmanager
async def at_work(spec: dict[str, Any], **options: Any) -> AsyncIterator[Any]:
    stop, ready = asyncio.Event(), asyncio.Event()
    async with world.replan(spec, **options) as replan:
        working = asyncio.create_task(replan.work(stop=stop, ready=ready.set))
        async with asyncio.timeout(SECS):
            await ready.wait()
        try:
            yield replan
        finally:
            stop.set()
            await working


@pytest.mark.parametrize("how", STRICT)
async def test_what_was_submitted_where_somebody_can_be_asked_waits_for_the_yes_that_a_worker_wants(
    here: Here, how: str
) -> None:
    async with here.worker(spec=STRICT[how]), here.replan() as submitting:
        await submitted(submitting, step("a", "nap"), step("b", "do", "a"), task_id="t")
        await here.until("SELECT status FROM task WHERE task_id = 't'", "waiting\n")
        (asked,) = (await submitting.result("t")).waiting_for
        assert "May 'do' be called" in asked.text
        assert here.done() == []
        await submitting.approve("t")
        assert (await ended(submitting, "t")).is_success
    assert here.done() == ["b"]


async def test_what_a_person_said_about_it_as_it_was_gone_on_with_counts_there_too(here: Here) -> None:
    async with here.replan(kind="local") as gone:
        await submitted(gone, step("a", "hold"), step("b", "do", "a"), task_id="t")
        await here.arrives()
    async with here.replan(kind="local") as again:
        await again.service.give_instead("t", {"approval": "never"})
        driving = asyncio.create_task(again.resume("t"))
        await here.arrives()
        driving.cancel()
    async with here.worker(spec={"takeover": 0.6, **STRICT["approval"]}) as worker:
        (await here.arrives()).let_go()
        assert (await ended(worker, "t")).is_success
    assert here.done() == ["a", "b"]


async def test_a_rule_that_a_task_was_begun_with_holds_where_the_worker_has_none(here: Here) -> None:
    async with here.worker(), here.replan(**STRICT["rules"]) as submitting:
        await submitted(submitting, step("a", "nap"), step("b", "do", "a"), task_id="t")
        await here.until("SELECT status FROM task WHERE task_id = 't'", "waiting\n")
        await submitting.fork("t", fork_id="f")
        await here.until("SELECT status FROM task WHERE task_id = 'f'", "waiting\n")
        assert here.done() == []
        await submitting.approve("t")
        assert (await ended(submitting, "t")).is_success
    assert here.done() == ["b"]


async def test_of_the_rules_that_a_task_was_begun_with_the_later_counts(here: Here) -> None:
    rules = {"*": {"requires_approval": True}, "do": {"requires_approval": False}}
    async with here.worker(), here.replan(rules=rules) as submitting:
        await submitted(submitting, step("a", "do"), task_id="t")
        assert (await ended(submitting, "t")).is_success
    assert here.done() == ["a"]
