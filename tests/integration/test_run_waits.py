"""Steps that wait: for a time, for a condition over what a tool reads, for somebody outside; nothing is held meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given as each
from hypothesis import settings
from hypothesis import strategies as st
from run_tasks import Bench, FakeTool, Ran, action, bench, plan, step, verdict

from replan.core.events import Record, TaskSubmitted
from replan.core.tools.rules import ToolRules
from replan.core.types import JsonObject
from replan.errors import InputError, TaskEnded
from replan.run.service.forking import Forking
from replan.testing import MemoryStore, ScriptedModel, VirtualClock, virtual_time

STATUS: JsonObject = {"type": "object", "properties": {"job": {"type": "string"}}, "required": ["job"]}


def job(done_after: int, **more: Any) -> FakeTool:
    """A tool that reads the state of a job, which is done at so many readings."""
    seen: list[Any] = []

    def read(parameters: JsonObject) -> JsonObject:
        seen.append(parameters)
        return {
            "status": "done" if len(seen) >= done_after else "running",
            "readings": len(seen),
            **parameters,
        }

    return FakeTool(output=read, parameters=STATUS, **more)


def until_done(**more: Any) -> JsonObject:
    return {"tool": "job", "parameters": {"job": "7"}, "condition": "output.status == 'done'", **more}


TIMER = plan(
    step("begin", "note"),
    step("pause", "wait_for_time", "begin", parameters={"seconds": 3600}),
    step("end", "note", "pause", parameters={"since": "${pause.output.until}"}),
)


def test_a_step_may_say_until_when_its_tool_is_asked_again() -> None:
    polled = step("ready", "job", parameters={"job": "7"}, until="output.status == 'done'", every_secs=1)
    after = step("end", "note", "ready", parameters={"since": "${ready.output.readings}"})

    async def main() -> Ran:
        made = await bench({"note": FakeTool(), "job": job(3, effect="reads")})
        task_id = await made.submit(plan(polled, after))
        ran = await made.drive(task_id)
        while ran.result.status == "waiting":
            ran = await made.drive_on(task_id)
        return ran.check()

    ran = virtual_time(main())
    assert ran.outputs()["ready"] == {"status": "done", "readings": 3, "job": "7"}


NEEDED = step("needed", "needed")


@pytest.mark.parametrize(
    "condition",
    [
        "${output.status == 'done'}",
        "not output.status == 'running'",
        "output.readings >= ${needed.output.count}",
    ],
)
@pytest.mark.parametrize("how", ["until", "wait"])
def test_its_condition_is_read_as_any_other_and_may_refer_to_other_steps(how: str, condition: str) -> None:
    asked = {"until": condition} if how == "until" else {}
    ready = step("ready", "job", parameters={"job": "7"}, **asked)
    if how == "wait":
        ready = step("ready", "wait_for_condition", parameters=until_done(condition=condition))

    async def main() -> Ran:
        made = await bench({"job": job(3, effect="reads"), "needed": FakeTool({"count": 3})})
        return (await made.drive_on(await made.submit(plan(NEEDED, ready)))).check()

    assert virtual_time(main()).outputs()["ready"]["readings"] == 3


@pytest.mark.parametrize(
    "condition", ["output.status == ${needed.output.said}", "output.status == '${needed.output.said}'"]
)
def test_what_an_earlier_step_has_read_is_compared_with_and_is_no_part_of_the_condition(
    condition: str,
) -> None:
    waits = step("ready", "wait_for_condition", parameters=until_done(condition=condition, limit_secs=60))
    said = FakeTool({"said": "x' || 'a' == 'a"})

    async def main() -> Ran:
        made = await bench({"job": job(100, effect="reads"), "needed": said})
        return (await made.drive_on(await made.submit(plan(NEEDED, waits)))).check()

    ran = virtual_time(main())
    assert ran.statuses()["ready"] == "failed"
    assert "the condition did not hold in" in str(ran.result.steps[1].error)


@pytest.mark.parametrize(
    "condition", ["output.status == ${needed.output} )", "other.output == ${needed.output}"]
)
def test_a_condition_with_references_is_checked_with_the_plan(condition: str) -> None:
    async def main() -> Ran:
        made = await bench({"job": job(1, effect="reads"), "needed": FakeTool("x")})
        waits = step("ready", "wait_for_condition", parameters=until_done(condition=condition))
        return (await made.drive_on(await made.submit(plan(NEEDED, waits)))).check()

    ran = virtual_time(main())
    assert ran.result.failure is not None
    assert "step 'ready': condition: " in ran.result.failure.reason
    assert not ran.events("call_started")


def test_a_timer_lets_go_of_the_task_and_goes_on_when_it_is_due() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench({"note": FakeTool()})
        task_id = await made.submit(TIMER)
        return await made.drive(task_id), (await made.drive_on(task_id)).check()

    first, ran = virtual_time(main())
    assert first.result.status == "waiting"
    (waits,) = first.result.waiting_for
    assert (waits.kind, waits.id) == ("time", "")
    assert first.statuses() == {"begin": "succeeded", "pause": "running", "end": "pending"}
    assert [one.status for one in first.result.steps] == ["succeeded", "waiting", "pending"]
    assert ran.result.is_success
    assert ran.times("step_completed")["pause"] == 3600
    assert len(ran.events("wait_started")) == len(ran.events("task_waiting")) == 1
    assert ran.result.total_duration_secs < 1, "time in which nobody drives the task does not count"


def test_a_wait_longer_than_the_time_limit_of_the_task_does_not_use_it_up() -> None:
    async def main() -> Ran:
        made = await bench({"note": FakeTool(delay_secs=5)})
        return (await made.drive_on(await made.submit(TIMER, budget={"task_timeout_secs": 20}))).check()

    assert virtual_time(main()).result.is_success


def test_a_drive_that_comes_too_early_changes_nothing() -> None:
    async def main() -> tuple[list[str], Ran]:
        made = await bench({"note": FakeTool()})
        task_id = await made.submit(TIMER)
        before = await made.drive(task_id)
        again = await made.drive(task_id)
        assert before.types() == again.types()
        return again.types(), (await made.drive_on(task_id)).check()

    types, ran = virtual_time(main())
    assert types[-1] == "task_waiting"
    assert ran.result.is_success


def test_other_steps_go_on_beside_a_wait_and_a_wait_ends_beside_them() -> None:
    wanted = plan(
        step("pause", "wait_for_time", parameters={"seconds": 30}),
        step("long", "slow"),
        step("after", "note", "pause"),
    )

    async def main() -> Ran:
        made = await bench({"slow": FakeTool(delay_secs=100), "note": FakeTool()})
        return (await made.drive(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert "task_waiting" not in ran.types(), "nobody lets go of a task that does something"
    assert ran.times("step_completed") == {"pause": 30, "after": 30, "long": 100}


def test_a_short_wait_is_sat_out() -> None:
    async def main() -> Ran:
        made = await bench({})
        wanted = plan(step("pause", "wait_for_time", parameters={"seconds": 0.5}))
        return (await made.drive(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert "task_waiting" not in ran.types()
    assert ran.times("step_completed") == {"pause": 0.5}


@pytest.mark.parametrize(
    ("given", "secs"),
    [
        ({"until": "2001-09-09T02:46:40Z"}, 3600),
        ({"until": "2001-09-09T04:46:40", "zone": "Europe/Berlin"}, 3600),
        ({"until": "1999-01-01"}, 0),
        ({"seconds": 0}, 0),
    ],
)
def test_a_point_in_time_is_read_in_its_zone_and_one_that_is_past_is_over(
    given: JsonObject, secs: float
) -> None:
    async def main() -> Ran:
        made = await bench({})  # the clock begins at 2001-09-09T01:46:40Z
        return (
            await made.drive_on(await made.submit(plan(step("pause", "wait_for_time", parameters=given))))
        ).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.times("step_completed") == {"pause": secs}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, "give seconds or until"),
        ({"seconds": 5, "until": "2030-01-01"}, "give seconds or until"),
        ({"seconds": -1}, "seconds"),
        ({"until": "${begin.output}"}, "is not a date or time"),
        ({"until": "2001-09-10", "zone": "Mars/Base"}, "no time zone"),
        ({"until": "2041-01-01"}, "days away"),
    ],
)
def test_a_time_that_is_none_is_refused_with_what_would_be_right(given: JsonObject, wrong: str) -> None:
    async def main() -> Ran:
        made = await bench({"note": FakeTool(output="soon")})
        wanted = plan(step("begin", "note"), step("pause", "wait_for_time", "begin", parameters=given))
        return (await made.drive_on(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert ran.result.failure is not None
    assert wrong in repr(ran.result.failure) or wrong in repr(ran.result.steps)


# ── until a condition holds ──


def test_a_condition_is_looked_at_with_growing_pauses_until_it_holds() -> None:
    wanted = plan(
        step("ready", "wait_for_condition", parameters=until_done(every_secs=10)),
        step("use", "note", parameters={"n": "${ready.output.readings}"}),
    )

    async def main() -> Ran:
        made = await bench({"job": job(4), "note": FakeTool(output=lambda given: given["n"])})
        return (await made.drive_on(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert ran.outputs() == {"ready": {"status": "done", "readings": 4, "job": "7"}, "use": 4}
    readings = ran.events("call_started", tool_id="job")
    assert [call.call_key.rpartition(".")[2] for call in readings] == ["r1", "r2", "r3", "r4"]
    assert ran.times("step_completed")["ready"] == 10 + 15 + 22.5
    assert len(ran.events("task_waiting")) == 3, "nobody holds the task between two readings"
    assert ran.result.usage.tool_calls == 4 + 1 + 1


def test_a_condition_that_holds_at_once_waits_for_nothing() -> None:
    async def main() -> Ran:
        made = await bench({"job": job(1)})
        return (
            await made.drive(
                await made.submit(plan(step("ready", "wait_for_condition", parameters=until_done())))
            )
        ).check()

    ran = virtual_time(main())
    assert ran.result.is_success
    assert ran.times("step_completed") == {"ready": 0}


def test_a_condition_that_never_holds_fails_at_its_limit_with_what_was_seen() -> None:
    wanted = plan(step("ready", "wait_for_condition", parameters=until_done(every_secs=30, limit_secs=100)))

    async def main() -> Ran:
        made = await bench({"job": job(99)})
        return (await made.drive_on(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert ran.result.status == "failed"
    assert ran.times("step_failed") == {"ready": 100}
    assert "did not hold in 4 readings within 100 s" in str(ran.result.steps[0].error)


@pytest.mark.parametrize(("limit", "takes", "ends"), [(300, 100_000, 300), (3, 100_000, 10), (100, 45, 110)])
def test_a_reading_that_hangs_ends_with_its_wait_or_soon_after(limit: int, takes: int, ends: int) -> None:
    """The last look, at the limit, is no longer than ten seconds."""

    async def main() -> Ran:
        made = await bench({"job": job(1_000, delay_secs=takes)})
        steps = [step("w", "wait_for_condition", parameters=until_done(every_secs=55, limit_secs=limit))]
        task_id = await made.submit(plan(*steps), budget={"task_timeout_secs": 50_000})
        ran = await made.drive(task_id)
        while ran.result.status == "waiting":
            ran = await made.drive_on(task_id)
        return ran.check()

    ran = virtual_time(main())
    (failed,) = [one for one in ran.events("call_failed") if one.tool_id == "wait_for_condition"]
    assert (failed.error.kind, f"within {limit} s" in failed.error.message) == ("limit", True)
    assert ends <= ran.records[-1].ts - ran.records[0].ts <= ends + 2


def test_readings_that_fail_in_passing_are_no_answer_and_others_end_the_wait() -> None:
    away = [ConnectionRefusedError("not up yet")] * 8
    passing = plan(step("ready", "wait_for_condition", parameters=until_done(every_secs=100)))

    async def main(tool: FakeTool) -> Ran:
        made = await bench({"job": tool})
        return (await made.drive_on(await made.submit(passing))).check()

    ran = virtual_time(main(job(1, fail=away)))
    assert ran.result.is_success, ran.result.failure
    failed = virtual_time(main(job(1, fail=["no such job"] * 9)))
    assert failed.result.status == "failed"
    assert failed.source.counts["job"] == 3, "what is waited for may not be there yet, but not for ever"
    assert "no such job" in str(failed.result.steps[0].error)


def test_a_condition_that_cannot_be_computed_yet_does_not_hold_yet() -> None:
    answers = iter([{}, {"n": None}, {"n": 3}])
    wanted = plan(
        step(
            "ready",
            "wait_for_condition",
            parameters={"tool": "job", "parameters": {"job": "7"}, "condition": "output.n > `2`"},
        )
    )

    async def main() -> Ran:
        made = await bench({"job": FakeTool(output=lambda _: next(answers), parameters=STATUS)})
        return (await made.drive_on(await made.submit(wanted))).check()

    assert virtual_time(main()).outputs() == {"ready": {"n": 3}}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (until_done(tool="jbo"), "does not exist"),
        (until_done(tool="pay"), "only a tool that reads"),
        (until_done(tool="asked"), "only a tool that reads"),
        (until_done(tool="wait_for_time"), "only a tool that reads"),
        (until_done(tool="${begin.output}"), "write the id of the tool itself"),
        (until_done(parameters={}), "job"),
        (until_done(condition="output.status = 'done'"), "condition"),
        (until_done(condition="status == 'done'"), "what was read is `output`"),
        (until_done(every_secs=0), "every_secs"),
    ],
)
def test_a_wait_for_what_cannot_be_asked_again_and_again_is_no_plan(given: JsonObject, wrong: str) -> None:
    async def main() -> Ran:
        tools = {
            "job": job(1),
            "pay": FakeTool(effect="once"),
            "asked": FakeTool(spec={"requires_approval": True}),
            "begin": FakeTool(),
        }
        made = await bench(tools)
        wanted = plan(step("begin", "begin"), step("ready", "wait_for_condition", "begin", parameters=given))
        return (await made.drive_on(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert ran.source.calls == [], "no unchecked plan is run"
    (rejected,) = ran.events("plan_rejected")
    assert any(wrong in one for one in rejected.violations), rejected.violations


def test_each_item_and_each_action_waits_by_itself_and_a_place_is_free_meanwhile() -> None:
    listed = plan(
        step("each", "wait_for_time", for_each="[10, 30, 20]", parameters={"seconds": "${item}"}),
        step(
            "both",
            actions=[
                action("pause", "wait_for_time", seconds=40),
                action("work", "note"),
            ],
        ),
        step("beside", "note"),
    )

    async def main() -> Ran:
        made = await bench({"note": FakeTool()})
        return (await made.drive_on(await made.submit(listed, parallel_max_concurrent=1))).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.failure
    assert ran.times("step_completed") == {"beside": 0, "each": 30, "both": 40}
    assert [one["until"] for one in ran.outputs()["each"]] == [
        f"2001-09-09T01:{at}Z" for at in ("46:50", "47:10", "47:00")
    ]
    assert set(ran.outputs()["both"]) == {"pause", "work"}


def test_waits_that_say_the_same_are_each_their_own() -> None:
    wanted = plan(
        step("a", "wait_for_time", parameters={"seconds": 60}),
        step("b", "wait_for_time", "a", parameters={"seconds": 60}),
    )

    async def main() -> Ran:
        made = await bench({})
        return (await made.drive_on(await made.submit(wanted))).check()

    assert virtual_time(main()).times("step_completed") == {"a": 60, "b": 120}


# ── until somebody outside says so ──

CALLBACK = plan(
    step("hook", "create_callback"),
    step(
        "start",
        "note",
        "hook",
        parameters={"token": "${hook.output.token}", "task": "${hook.output.task_id}"},
    ),
    step("done", "wait_for_callback", "start", parameters={"token": "${hook.output.token}"}),
    step("use", "note", "done", parameters={"n": "${done.output.n}"}),
)


async def waiting_for_callback(wanted: JsonObject = CALLBACK, **more: Any) -> tuple[Bench, str, str]:
    made = await bench({"note": FakeTool(output=lambda given: given)})
    task_id = await made.submit(wanted, **more)
    first = await made.drive(task_id)
    assert first.result.status == "waiting"
    (waits,) = [one for one in first.result.waiting_for if one.kind == "callback"]
    return made, task_id, waits.id


def test_a_callback_gives_the_step_what_came_with_it() -> None:
    async def main() -> Ran:
        made, task_id, token = await waiting_for_callback()
        await asyncio.sleep(100_000)
        assert await made.service.signal(task_id, token, {"n": 7}, by="the bank")
        return (await made.drive(task_id)).check()

    ran = virtual_time(main())
    assert ran.outputs()["done"] == {"n": 7}
    assert ran.outputs()["use"] == {"n": 7}
    start = ran.outputs()["start"]
    assert start["task"] == ran.state.task_id
    assert start["token"].startswith("cb_")


def test_a_callback_that_comes_before_the_step_waits_is_kept() -> None:
    early = plan(
        step("hook", "create_callback"),
        step("slow", "slow", "hook"),
        step("done", "wait_for_callback", "slow", parameters={"token": "${hook.output.token}"}),
    )

    async def main() -> Ran:
        made = await bench({"slow": FakeTool(delay_secs=50)})
        task_id = await made.submit(early)
        driving = asyncio.create_task(made.service.drive(task_id))
        await asyncio.sleep(10)
        token = (await made.ran(task_id)).outputs()["hook"]["token"]
        await made.service.signal(task_id, token, "early")
        await driving
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.outputs()["done"] == "early"
    assert "task_waiting" not in ran.types()


def test_the_first_word_of_a_callback_counts_and_the_same_again_is_no_error() -> None:
    async def main() -> Ran:
        made, task_id, token = await waiting_for_callback()
        assert await made.service.signal(task_id, token, {"n": 1})
        assert not await made.service.signal(task_id, token, {"n": 1})
        with pytest.raises(InputError, match="the first word counts"):
            await made.service.signal(task_id, token, {"n": 2})
        with pytest.raises(InputError, match="no callback 'cb_other'"):
            await made.service.signal(task_id, "cb_other")
        ran = (await made.drive(task_id)).check()
        assert not await made.service.signal(task_id, token, {"n": 1}), "as it is delivered once more"
        with pytest.raises(TaskEnded):
            await made.service.signal(task_id, "cb_other", {"n": 1})
        return ran

    ran = virtual_time(main())
    assert ran.outputs()["done"] == {"n": 1}
    assert len(ran.events("callback_received")) == 1


def test_a_fork_that_waits_by_the_token_of_the_other_task_is_told_with_it() -> None:
    async def main() -> tuple[Ran, Ran, Ran]:
        made, task_id, token = await waiting_for_callback()
        fork, _ = await made.service.fork(task_id, Forking())
        second, _ = await made.service.fork(fork, Forking())
        await made.service.cancel(task_id)
        assert await made.service.signal(task_id, token, {"n": 1})
        return await made.ran(task_id), await made.drive(fork), await made.drive(second)

    origin, fork, second = virtual_time(main())
    assert origin.result.status == "cancelled"
    assert fork.check().outputs()["done"] == second.check().outputs()["done"] == {"n": 1}


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (float("nan"), "data cannot be kept as JSON"),
        ("\ud800", "data cannot be kept as JSON"),
        ({"n": object()}, "data cannot be kept as JSON"),
        ("x" * 10_000_000, "at most"),
    ],
)
def test_what_a_callback_brings_has_to_be_json_of_some_size(data: Any, wrong: str) -> None:
    async def main() -> None:
        made, task_id, token = await waiting_for_callback()
        with pytest.raises(InputError, match=wrong):
            await made.service.signal(task_id, token, data)

    virtual_time(main())


def test_a_key_that_a_callback_brings_is_not_kept() -> None:
    async def main() -> Ran:
        made, task_id, token = await waiting_for_callback()
        made.parts.secrets.add_all([("api_key", "sk-very-secret-key")])
        await made.service.signal(task_id, token, {"n": "sk-very-secret-key"})
        return (await made.drive(task_id)).check()

    assert "sk-very-secret-key" not in repr(virtual_time(main()).records)


def test_a_callback_wakes_a_task_that_waits_for_a_limit_too_and_the_limit_fails_it() -> None:
    limited = plan(
        step("hook", "create_callback"),
        step(
            "done",
            "wait_for_callback",
            "hook",
            parameters={"token": "${hook.output.token}", "limit_secs": 500},
        ),
    )

    async def main(said_after: float | None) -> Ran:
        made, task_id, token = await waiting_for_callback(limited)
        driving = asyncio.create_task(made.drive_on(task_id))
        if said_after is not None:
            await asyncio.sleep(said_after)
            await made.service.signal(task_id, token, "ok")
        return (await driving).check()

    heard = virtual_time(main(200))
    assert heard.outputs()["done"] == "ok"
    assert 200 <= heard.times("step_completed")["done"] < 201
    missed = virtual_time(main(None))
    assert missed.times("step_failed") == {"done": 500}
    assert "nobody has used the callback within 500 s" in str(missed.result.steps[1].error)


def test_a_token_that_the_task_has_not_given_out_fails_the_step() -> None:
    async def main() -> Ran:
        made = await bench({})
        wanted = plan(step("done", "wait_for_callback", parameters={"token": "cb_guess"}))
        return (await made.drive(await made.submit(wanted))).check()

    ran = virtual_time(main())
    assert "has no callback 'cb_guess'" in str(ran.result.steps[0].error)


# ── people and the end meanwhile ──


@pytest.mark.parametrize("wanted", [TIMER, CALLBACK])
def test_a_task_that_waits_is_cancelled_at_once(wanted: JsonObject) -> None:
    async def main() -> Ran:
        made = await bench({"note": FakeTool(output=lambda given: given)})
        task_id = await made.submit(wanted)
        sleeping = asyncio.create_task(made.drive_on(task_id))
        await asyncio.sleep(5)
        await made.service.cancel(task_id, reason="no longer wanted")
        await sleeping
        return (await made.ran(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.status == "cancelled"
    assert ran.records[-1].ts - ran.records[0].ts < 10


def test_a_task_that_waits_for_a_person_and_a_time_asks_first_and_waits_then() -> None:
    wanted = plan(
        step("pay", "pay"),
        step("pause", "wait_for_time", parameters={"seconds": 1000}),
        step("end", "note", "pay", "pause"),
    )

    async def main() -> tuple[Ran, Ran]:
        made = await bench({"pay": FakeTool(effect="once"), "note": FakeTool()})
        task_id = await made.submit(wanted, interactive=True, approval="destructive")
        first = await made.drive_on(task_id)
        await asyncio.sleep(50)
        await made.service.resolve_approval(task_id, approved=True)
        return first, (await made.drive_on(task_id)).check()

    first, ran = virtual_time(main())
    assert {one.kind for one in first.result.waiting_for} == {"approval", "time"}
    assert ran.result.is_success
    assert 50 <= ran.times("step_completed")["pay"] < 51
    assert ran.times("step_completed")["pause"] == 1000


@settings(max_examples=25, deadline=None, derandomize=True)
@each(
    secs=st.lists(st.integers(0, 50), min_size=1, max_size=5),
    stops=st.lists(st.integers(1, 40), max_size=6),
    places=st.integers(1, 3),
)
def test_waits_end_when_they_are_due_however_often_their_driver_is_killed(
    secs: list[int], stops: list[int], places: int
) -> None:
    wanted = plan(
        step("each", "wait_for_time", for_each=str(secs), parameters={"seconds": "${item}"}),
        step("poll", "wait_for_condition", parameters=until_done(every_secs=5)),
        step("note", "note", "each", "poll"),
    )

    async def main() -> Ran:
        made = await bench({"job": job(3), "note": FakeTool(effect="once")})
        task_id = await made.submit(wanted, parallel_max_concurrent=places)
        for secs_until in stops:
            driving = asyncio.create_task(made.drive_on(task_id))
            await asyncio.sleep(secs_until)
            driving.cancel()
            await asyncio.wait({driving})
        ran = await made.ran(task_id)
        return (ran if ran.state.ended else await made.drive_on(task_id)).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.failure
    assert ran.source.counts["note"] == 1
    assert 3 <= ran.source.counts["job"] <= 3 + len(stops), "a reading that was cut off is made again"
    assert ran.times("step_completed")["each"] == max(secs)
    assert ran.times("step_completed")["poll"] <= 5 + 7.5


def test_a_clock_that_is_set_back_makes_a_wait_no_longer_than_it_was_to_be() -> None:
    class Clock(VirtualClock):
        off = 0.0

        def now(self) -> float:
            return super().now() + self.off

    async def main(wanted: JsonObject) -> tuple[float, Ran]:
        clock = Clock()
        made = await bench({}, clock=clock)
        task_id = await made.submit(plan(step("pause", "wait_for_time", parameters=wanted)))
        await made.drive(task_id)
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(100)
        clock.off = -100_000.0
        ran = (await made.drive_on(task_id)).check()
        return asyncio.get_running_loop().time() - begun, ran

    took, ran = virtual_time(main({"seconds": 1000}))
    assert ran.result.is_success
    assert took == pytest.approx(1100, abs=1)
    took, _ = virtual_time(main({"until": "2001-09-09T02:46:40Z"}))
    assert took == pytest.approx(103_600, abs=31), "a point in time stays what it is"


def test_a_clock_that_is_set_forward_ends_a_wait_within_half_a_minute() -> None:
    class Clock(VirtualClock):
        off = 0.0

        def now(self) -> float:
            return super().now() + self.off

    async def main() -> float:
        clock = Clock()
        made = await bench({"note": FakeTool()}, clock=clock)
        task_id = await made.submit(TIMER)
        driving = asyncio.create_task(made.drive_on(task_id))
        await asyncio.sleep(100)
        clock.off = 5000.0
        (await driving).check()
        return asyncio.get_running_loop().time()

    async def whole() -> float:
        begun = asyncio.get_running_loop().time()
        return await main() - begun

    assert virtual_time(whole()) <= 131


def test_a_task_that_was_due_long_ago_goes_on_at_once() -> None:
    async def main() -> Ran:
        made = await bench({"note": FakeTool()})
        task_id = await made.submit(TIMER)
        await made.drive(task_id)
        await asyncio.sleep(1_000_000)
        return (await made.drive(task_id)).check()

    assert virtual_time(main()).times("step_completed")["pause"] == 1_000_000


def test_a_wait_that_failed_is_recovered_as_any_other_step_is() -> None:
    longer = {
        "root_cause_category": "parameter_error",
        "is_recoverable": True,
        "confidence": 90,
        "suggested_action": {"type": "retry_with_params", "data": {"limit_secs": 500}},
    }

    async def main() -> Ran:
        wanted = plan(
            step("ready", "wait_for_condition", parameters=until_done(every_secs=40, limit_secs=50))
        )
        answers = {"execution_plan": wanted, "step_reflection": longer, "evaluation": verdict()}
        made = await bench({"job": job(5)}, answers)
        return (await made.drive_on(await made.submit())).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.failure
    assert [one.action.type for one in ran.events("step_reflected")] == ["retry_with_params"]
    assert len(ran.events("wait_started")) == 2


def test_a_plan_made_anew_does_without_a_wait_or_goes_on_with_it() -> None:
    first = plan(
        step("a", "wait_for_time", parameters={"seconds": 1000}),
        step("b", "wait_for_time", parameters={"seconds": 2000}),
        step("bad", "bad"),
    )
    second = plan(step("c", "wait_for_time", parameters={"seconds": 2000}), step("end", "note", "c"))
    gives_up = {
        "root_cause_category": "tool_error",
        "is_recoverable": True,
        "confidence": 90,
        "suggested_action": {"type": "replan", "data": {"advice": "without bad"}},
    }

    async def main() -> Ran:
        answers = {"execution_plan": [first, second], "step_reflection": gives_up, "evaluation": verdict()}
        made = await bench({"bad": FakeTool(fail=["broken"] * 9), "note": FakeTool()}, answers)
        return (await made.drive_on(await made.submit())).check()

    ran = virtual_time(main())
    assert ran.result.is_success, ran.result.failure
    assert ran.times("step_completed")["c"] == 2000, "what the plan left out does not stand in its way"
    assert ran.result.steps[0].step_id == "a"
    assert ran.result.steps[0].calls[0].status == "failed"


def test_a_planner_is_told_of_the_waits_and_a_small_one_is_not() -> None:
    async def main(model: ScriptedModel) -> Any:
        made = await bench({"note": FakeTool()}, model=model)
        return (await made.drive(await made.submit())).check()

    answers = {"execution_plan": plan(step("n", "note")), "evaluation": verdict()}
    standard, small = ScriptedModel(answers), ScriptedModel(answers, style="small")
    for model in (standard, small):
        assert virtual_time(main(model)).result.is_success
    asked, briefly = (
        next(one for one in model.requests if one.schema_name == "execution_plan")
        for model in (standard, small)
    )
    assert "wait_for_callback" in repr(asked)
    assert "wait_for" not in repr(briefly)


def test_a_user_may_deny_the_waits_or_have_a_tool_of_that_name() -> None:
    async def main(rules: ToolRules | None, tools: dict[str, Any]) -> Ran:
        made = await bench(tools, rules=rules)
        wanted = plan(step("pause", "wait_for_time", parameters={"seconds": 5}))
        return (await made.drive_on(await made.submit(wanted))).check()

    denied = virtual_time(main(ToolRules(deny=("wait_for_*",)), {"note": FakeTool()}))
    assert "the tool 'wait_for_time' does not exist" in denied.events("plan_rejected")[0].violations[0]
    own = virtual_time(main(None, {"wait_for_time": FakeTool(output="mine")}))
    assert own.outputs() == {"pause": "mine"}


def test_a_task_that_is_paused_as_it_waits_goes_on_with_its_wait_when_it_is_resumed() -> None:
    async def main() -> tuple[Ran, Ran]:
        made = await bench({"note": FakeTool()})
        task_id = await made.submit(TIMER)
        driving = asyncio.create_task(made.drive_on(task_id))
        await asyncio.sleep(100)
        await made.service.pause(task_id, by="Ann")
        paused = await driving
        await made.service.unpause(task_id)
        return paused, (await made.drive_on(task_id)).check()

    paused, ran = virtual_time(main())
    assert paused.result.status == "waiting"
    assert paused.statuses()["end"] == "pending", "due meanwhile, and still it stands"
    assert ran.result.is_success
    assert len(ran.events("wait_started")) == 1


def test_wherever_the_log_of_a_task_that_waits_is_cut_off_it_goes_on_from_there() -> None:
    wanted = plan(
        step("hook", "create_callback"),
        step("pause", "wait_for_time", parameters={"seconds": 30}),
        step("poll", "wait_for_condition", parameters=until_done(every_secs=20)),
        step(
            "said",
            "wait_for_callback",
            "pause",
            parameters={"token": "${hook.output.token}", "limit_secs": 500},
        ),
        step("note", "note", "poll", "said", parameters={"n": "${said.output}"}),
    )

    async def whole() -> tuple[str, Ran]:
        made = await bench({"job": job(3), "note": FakeTool(effect="once")})
        task_id = await made.submit(wanted)
        driving = asyncio.create_task(made.drive_on(task_id))
        await asyncio.sleep(40)
        token = (await made.ran(task_id)).outputs()["hook"]["token"]
        await made.service.signal(task_id, token, 7)
        return token, (await driving).check()

    async def from_there(records: list[Record]) -> tuple[Ran, int]:
        store = MemoryStore()
        task_id, submitted = records[0].task_id, records[0].event
        assert isinstance(submitted, TaskSubmitted)
        await store.create(task_id, submitted, records[0].ts)
        claim = await store.claim(task_id)
        for record in records[1:]:
            if record.event.signal:
                await store.signal(task_id, record.event, record.ts)
            else:
                await store.append(claim, [record.event], ts=record.ts, round=record.round)
        await store.release(claim)
        begun = sum(
            getattr(one.event, "tool_id", "") == "note" for one in records if one.type == "call_started"
        )
        made = await bench(
            {"job": job(3), "note": FakeTool(effect="once")}, store=store, clock=VirtualClock(records[-1].ts)
        )
        driving = asyncio.create_task(made.drive_on(task_id))
        await asyncio.sleep(100)
        ran = await made.ran(task_id)
        if not ran.state.ended and not ran.state.callbacks:
            await made.service.signal(task_id, ran.outputs()["hook"]["token"], 7)
        return (await driving).check(), begun

    token, ran = virtual_time(whole())
    assert ran.result.is_success
    assert token
    for cut in range(1, len(ran.records)):
        again, begun = virtual_time(from_there(ran.records[:cut]))
        if begun and ran.records[cut - 1].type == "call_started":
            assert again.result.failure is not None
            assert again.result.failure.kind == "outcome_unknown", "the effect was under way"
        else:
            assert again.result.is_success, (cut, again.result.failure)
            assert again.outputs()["said"] == 7
        assert again.source.counts["note"] + begun == 1, cut
