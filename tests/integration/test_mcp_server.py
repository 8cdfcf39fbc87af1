"""Tasks as tools of an MCP client: run and waited for, asked about, and refused in words that help."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

pytest.importorskip("mcp")
pytest.importorskip("starlette")

import mcp_types as types
from access_world import ASKED, FAILS, PLAIN, SECS
from mcp import MCPError
from mcp_world import ERAS, Mcp, accept, offering
from run_tasks import plan, step

from replan.core.types import JsonObject
from replan.errors import ToolCallError
from replan.run.access.callers import LOCAL, Caller
from replan.run.access.requests import ApprovalAnswer
from replan.server.mcp.catalogue import FOR_PEOPLE, OFFERED
from replan.server.mcp.outcomes import MOST_ANSWER_BYTES
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio
HOLDS = plan(step("a", "hold"))
TWO = plan(
    step("a", "pay", parameters={"amount": 7}, requires_approval=True),
    step("b", "pay", "a", parameters={"amount": 8}, requires_approval=True),
)
eras = pytest.mark.parametrize("era", ERAS)


def wanted(steps: JsonObject = PLAIN, **more: Any) -> JsonObject:
    return {"task": "do it", "options": {"plan": steps, "evaluation": "steps"}, **more}


async def resolved(there: Mcp, task_id: str) -> list[Any]:
    return [one.event for one in await there.there.replan.history(task_id) if one.type == "approval_resolved"]


async def test_a_task_that_was_run_is_told_also_where_a_key_has_taken_too_little_of_large_answers(
    tmp_path: Path,
) -> None:
    async with offering(tmp_path) as there:
        there.here.turns.untaken(LOCAL, 300 * 2**20)
        done = await there.call("run_task", **wanted())
        for name in ("get_step", "get_output"):
            told = await there.refused(name, task_id=done["task_id"], step_id="a")
            assert "not taken yet" in told, name
    assert done["is_success"]


# ── what is offered ──


async def test_each_tool_says_what_it_takes_and_gives_and_what_it_does_to_tasks(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        tools = (await there.client.list_tools()).tools

    assert {tool.name for tool in tools} == set(OFFERED)
    for tool in tools:
        assert tool.description
        assert tool.annotations is not None
        assert tool.output_schema is not None
        jsonschema_rs.meta.validate(tool.input_schema)
        jsonschema_rs.meta.validate(tool.output_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema["type"] == "object"
        assert not (tool.annotations.read_only_hint and tool.annotations.destructive_hint)
    reads = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
    assert {"get_task", "waiting", "list_tools"} <= reads
    assert not reads & {"run_task", "approve", "cancel"}


async def test_what_tools_take_is_told_in_few_words_and_with_its_bounds(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        tools = {tool.name: tool for tool in (await there.client.list_tools()).tools}

    takes = {name: tool.input_schema for name, tool in tools.items()}
    assert sum(len(json.dumps(schema)) for schema in takes.values()) < 16_000, (
        "a model reads them in each conversation"
    )
    assert takes["list_tasks"]["properties"]["limit"] == {
        "type": "integer", "minimum": 1, "maximum": 100, "default": 20,
    }  # fmt: skip
    rounds = takes["run_task"]["$defs"]["SubmitOptions"]["properties"]["max_rounds"]
    assert (rounds["minimum"], rounds["type"]) == (0, "integer")
    assert takes["run_task"]["required"] == ["task"]


async def test_a_caller_is_offered_what_its_scopes_allow_and_refused_the_rest(tmp_path: Path) -> None:
    async with offering(tmp_path, caller=Caller("key:eve", scopes=frozenset({"read"}))) as there:
        names = {tool.name for tool in (await there.client.list_tools()).tools}
        refused = await there.refused("submit_task", **wanted())

    assert names == {name for name, one in OFFERED.items() if one.scope == "read"}
    assert "scope 'run'" in refused


async def test_where_no_model_may_speak_for_a_person_there_is_no_tool_for_it(tmp_path: Path) -> None:
    async with offering(tmp_path, for_people=False) as there:
        names = {tool.name for tool in (await there.client.list_tools()).tools}
        refused = await there.refused("approve", task_id="x", approval_id="y", approved=True)

    assert names == set(OFFERED) - FOR_PEOPLE
    assert "there is no tool 'approve'" in refused


# ── run and waited for ──


@eras
async def test_a_task_is_run_and_its_progress_only_rises(tmp_path: Path, era: str) -> None:
    chain = plan(step("a", "hold"), step("b", "look", "a"), step("c", "look", "b"))
    async with offering(tmp_path, era=era) as there:
        call = asyncio.create_task(there.call("run_task", **wanted(chain)))
        await asyncio.wait_for(there.there.source.entered.wait(), SECS)
        await asyncio.wait_for(there.heard.wait(), SECS)
        there.there.source.let_go.set()
        done = await call

    assert (done["ended"], done["is_success"], done["final_output"], done["next"]) == (True, True, "seen", "")
    assert (done["done_steps"], done["total_steps"]) == (3, 3)
    numbers = [one.progress for one in there.told]
    assert numbers == sorted(set(numbers))
    assert all(one.total is None or one.progress <= one.total for one in there.told)
    assert "c: done (3 of 3 steps)" in [one.message for one in there.told]


async def test_a_task_follows_another_one(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        first = await there.call("run_task", **wanted(), session_id="s")
        again = plan(step("b", "pay", when="previous.a.output == 'seen'", parameters={"amount": 3}))
        done = await there.call(
            "run_task", **wanted(again), previous_task_id=first["task_id"], session_id="s"
        )
        listed = await there.call("list_tasks", session_id="s")
    assert done["final_output"] == "paid"
    assert [one["task_id"] for one in listed["items"]] == [done["task_id"], first["task_id"]]


@eras
async def test_a_task_that_takes_longer_than_its_call_goes_on_and_is_waited_for(
    tmp_path: Path, era: str
) -> None:
    async with offering(tmp_path, era=era) as there:
        left = await there.call("run_task", **wanted(HOLDS), wait_secs=0)
        still = await there.call("wait_task", task_id=left["task_id"], wait_secs=0.05)
        waited = asyncio.create_task(there.call("wait_task", task_id=left["task_id"], wait_secs=SECS))
        there.there.source.let_go.set()
        done = await waited
        again = await there.call("get_result", task_id=left["task_id"])

    assert (left["ended"], still["ended"]) == (False, False)
    assert f"`wait_task` with task_id '{left['task_id']}'" in left["next"]
    assert "do not begin it again" in left["next"]
    assert (done["is_success"], done) == (True, again)


async def test_a_call_that_is_made_again_with_its_key_is_the_same_task(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        first = await there.call("run_task", **wanted(idempotency_key="once"))
        second = await there.call("run_task", **wanted(idempotency_key="once"))
        other = await there.refused("run_task", **wanted(FAILS, idempotency_key="once"))

    assert first["task_id"] == second["task_id"]
    assert "choose another key" in other


async def test_a_task_without_success_says_why_and_what_could_be_done(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        failed = await there.call("run_task", **wanted(FAILS))

    assert (failed["ended"], failed["is_success"]) == (True, False)
    assert "no such invoice" in json.dumps(failed["failure"])
    assert "fork_task" in failed["next"]


async def test_a_call_that_is_cancelled_leaves_its_task_running(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        call = asyncio.create_task(there.call("run_task", **wanted(HOLDS, idempotency_key="k")))
        await asyncio.wait_for(there.there.source.entered.wait(), SECS)
        call.cancel()
        await asyncio.wait({call})
        there.there.source.let_go.set()
        done = await there.call("run_task", **wanted(HOLDS, idempotency_key="k"))

    assert done["is_success"]


async def test_an_answer_that_no_model_could_read_is_cut_and_said_to_be(tmp_path: Path) -> None:
    async with offering(tmp_path, tools={"look": FakeTool(output="ö" * 200_000)}) as there:
        done = await there.call("run_task", **wanted())
        piece = await there.call("get_output", task_id=done["task_id"], step_id="a")

    assert done["is_success"]
    assert len(done["final_output"].encode()) <= MOST_ANSWER_BYTES
    assert "400,002 bytes" in done["next"]
    assert (piece["total"], piece["next_offset"] > 0) == (400_002, True)


# ── what waits for a person ──


@eras
async def test_a_yes_by_form_is_for_the_call_that_the_form_has_shown(tmp_path: Path, era: str) -> None:
    async with offering(
        tmp_path, era=era, says=lambda _: accept(approve=True), caller=Caller("ann")
    ) as there:
        done = await there.call("run_task", **wanted(TWO))
        yes = await resolved(there, done["task_id"])

    assert done["is_success"]
    assert [one.message.count("Call: ") for one in there.asked] == [1, 1]
    assert '"amount": 7' in there.asked[0].message
    assert '"amount": 8' in there.asked[1].message
    assert [(one.approved, one.by) for one in yes] == [(True, "ann")] * 2


@eras
async def test_a_no_by_form_is_a_no_with_its_reason(tmp_path: Path, era: str) -> None:
    says = lambda _: accept(approve=False, reason="too much")  # noqa: E731
    async with offering(tmp_path, era=era, says=says) as there:
        done = await there.call("run_task", **wanted(ASKED), wait_secs=2)
        (no,) = await resolved(there, done["task_id"])

    assert (no.approved, no.reason) == (False, "too much")
    assert there.there.source.counts["pay"] == 0


@eras
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_form_that_is_put_away_says_nothing_and_the_call_still_waits(
    tmp_path: Path, era: str, action: Any
) -> None:
    async with offering(tmp_path, era=era, says=lambda _: types.ElicitResult(action=action)) as there:
        left = await there.call("run_task", **wanted(ASKED))
        (one,) = left["waiting"]
        await there.call(
            "approve",
            task_id=left["task_id"],
            approval_id=one["waiting_for"]["id"],
            approved=True,
            hash=one["hash"],
        )
        done = await there.call("wait_task", task_id=left["task_id"])

    assert len(there.asked) == 1
    assert (left["ended"], left["status"]) == (False, "waiting")
    assert "`approve`" in left["next"]
    assert done["is_success"]


@eras
async def test_a_client_without_forms_is_told_what_to_show_and_a_yes_needs_its_hash(
    tmp_path: Path, era: str
) -> None:
    async with offering(tmp_path, era=era) as there:
        left = await there.call("run_task", **wanted(ASKED))
        page = await there.call("waiting")
        (one,) = page["items"]
        answer = {"task_id": left["task_id"], "approval_id": one["waiting_for"]["id"], "approved": True}
        without = await there.refused("approve", **answer)
        wrong = await there.refused("approve", **answer, hash="0" * 32)
        await there.call("approve", **answer, hash=one["hash"])
        done = await there.call("wait_task", task_id=left["task_id"])

    assert left["waiting"] == [one]
    assert one["waiting_for"]["parameters"] == {"amount": 7}
    assert "hash" in without
    assert "look at it again" in wrong
    assert done["is_success"]


async def test_no_text_of_others_looks_like_what_a_form_says_of_the_call(tmp_path: Path) -> None:
    fake = "pay\nTool: look\nParameters: {}\nCall: " + "0" * 32
    async with offering(tmp_path, says=lambda _: accept(approve=False)) as there:
        await there.call("run_task", **{**wanted(ASKED, wait_secs=1), "task": fake})

    lines = there.asked[0].message.splitlines()
    assert [line for line in lines if line.startswith("Tool: ")] == ["Tool: pay"]
    assert len([line for line in lines if line.startswith("Call: ")]) == 1
    assert lines[-1].startswith('Task: "pay\\nTool: look')


async def test_a_tool_that_reports_all_the_time_floods_no_client(tmp_path: Path) -> None:
    chatty = FakeTool(output="seen", progress=[f"line {number}" for number in range(500)])
    async with offering(tmp_path, tools={"look": chatty}) as there:
        call = asyncio.create_task(
            there.call("run_task", **wanted(plan(step("h", "hold"), step("a", "look", "h"))))
        )
        await asyncio.wait_for(there.heard.wait(), SECS)
        there.there.source.let_go.set()
        done = await call

    assert done["is_success"]
    assert len([one for one in there.told if "line" in str(one.message)]) < 50


async def test_a_form_is_taken_back_when_somebody_else_has_answered(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def says() -> types.ElicitResult:
        try:
            await there.call_elsewhere()  # type: ignore[attr-defined]
            await asyncio.sleep(SECS)
        finally:
            gone.set()
        raise AssertionError("it was not taken back")

    async with offering(tmp_path, says=lambda _: says()) as there:

        async def elsewhere() -> None:
            (one,) = (await there.here.use_cases.waiting(Caller("bob"))).items
            yes = ApprovalAnswer(approved=True, hash=one.hash)
            await there.here.use_cases.approve(Caller("bob"), one.task_id, one.waiting_for.id, yes)

        there.call_elsewhere = elsewhere  # type: ignore[attr-defined]
        done = await there.call("run_task", **wanted(ASKED))
        (yes,) = await resolved(there, done["task_id"])

    assert (done["is_success"], yes.by) == (True, "bob")


@eras
async def test_a_call_in_doubt_is_asked_about_by_form(tmp_path: Path, era: str) -> None:
    lost = FakeTool(fail=[ToolCallError("the line broke", happened="unknown")], effect="once", output="paid")
    says = lambda _: accept(answer="no")  # noqa: E731
    async with offering(tmp_path, era=era, says=says, tools={"pay": lost}) as there:
        done = await there.call("run_task", **wanted(plan(step("a", "pay", parameters={"amount": 7}))))

    assert there.asked[0].requested_schema["properties"]["answer"]["enum"] == ["yes", "no", "cannot tell"]
    assert done["is_success"], "it did not happen, so it was made"
    assert there.there.source.counts["pay"] == 2


async def test_whoever_may_not_approve_is_not_asked(tmp_path: Path) -> None:
    eve = Caller("key:eve", scopes=frozenset({"read", "run"}))
    async with offering(tmp_path, says=lambda _: accept(approve=True), caller=eve) as there:
        left = await there.call("run_task", **wanted(ASKED))

    assert (there.asked, left["status"]) == ([], "waiting")


@pytest.mark.parametrize(
    "state", ["", "x", "{}", '{"task_id": "t"}', "[1]", '{"task_id": "none", "in_vain": 7}']
)
async def test_a_round_that_no_server_has_begun_is_refused(tmp_path: Path, state: str) -> None:
    async with offering(tmp_path, era=ERAS[1]) as there:
        with pytest.raises(MCPError, match="requestState"):
            await there.client.session.call_tool("run_task", wanted(), request_state=state)


async def test_a_round_about_the_task_of_somebody_else_finds_no_task(tmp_path: Path) -> None:
    async with offering(tmp_path, era=ERAS[1], caller=Caller("key:eve", "red")) as there:
        mine = await there.there.submit(ASKED)
        await there.there.waits(mine.task_id)
        state = json.dumps({"task_id": mine.task_id, "in_vain": []})
        result = await there.client.session.call_tool("run_task", wanted(), request_state=state)
        listed = await there.call("list_tasks")

    assert isinstance(result, types.CallToolResult)
    assert result.is_error
    assert "there is no task" in str(result.content)
    assert listed["items"] == [], "nor was one begun"


# ── everything else ──


@eras
async def test_a_task_is_looked_at_and_stepped_into_by_tools(tmp_path: Path, era: str) -> None:
    async with offering(tmp_path, era=era) as there:
        preview = await there.call("preview_task", **wanted(ASKED))
        made = await there.call("submit_task", **wanted(HOLDS, session_id="s", metadata={"a": 1}))
        task = {"task_id": made["task_id"]}
        await asyncio.wait_for(there.there.source.entered.wait(), SECS)
        await there.call("hint", **task, text="quick")
        await there.call("pause", **task, reason="lunch")
        await there.call("resume", **task)
        listed = await there.call("list_tasks", session_id="s", status=["executing", "waiting"])
        retried = await there.refused("retry_step", **task, step_id="a")
        settled = await there.refused("settle_step", **task, step_id="a", happened=True)
        answered = await there.refused("answer", **task, question_id="q", text="yes")
        judged = await there.refused("judge_again", **task)
        cancelled = await there.call("cancel", **task, reason="enough")
        there.there.source.let_go.set()
        done = await there.call("wait_task", **task)
        shown = await there.call("get_task", **task)
        found = await there.call("get_step", **task, step_id="a")
        events = await there.call("get_events", **task, limit=3.0)
        rest = await there.call("get_events", **task, after=events["next_after"], limit=100)
        fork = await there.call("fork_task", task_id=made["task_id"], fork_id="other", hint="otherwise")
        tools = await there.call("list_tools")

    assert preview["approvals"] == ["a"]
    assert [row["task_id"] for row in listed["items"]] == [made["task_id"]]
    assert all((retried, settled, answered, judged))
    assert (cancelled["task_id"], done["status"], shown["status"]) == (
        made["task_id"], "cancelled", "cancelled",
    )  # fmt: skip
    assert found["planned"]["tool"] == "hold"
    assert [one["seq"] for one in events["items"] + rest["items"]] == list(range(1, rest["next_after"] + 1))
    assert fork["task_id"] == "other"
    assert {"look", "pay", "hold"} <= {tool["id"] for tool in tools["items"]}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("get_task", {"task_id": "none"}, "there is no task 'none'"),
        ("get_task", {}, "task_id: Field required"),
        ("get_task", {"task": "x"}, "it takes task_id"),
        ("get_tsk", {"task_id": "x"}, "did you mean get_task"),
        ("frobnicate", {}, "there are run_task"),
        ("run_task", {"task": ""}, "task: "),
        ("run_task", {"task": "x", "wait_secs": -1}, "wait_secs"),
        ("run_task", {"task": "x", "options": {"max_rounds": "many"}}, "options.max_rounds"),
        ("wait_task", {"task_id": "none"}, "there is no task 'none'"),
        ("get_result", {"task_id": "a/../b"}, "there is no task"),
        ("get_step", {"task_id": "none", "step_id": "a"}, "there is no task"),
    ],
)
async def test_a_refusal_says_what_was_wrong_and_what_would_be_right(
    tmp_path: Path, name: str, arguments: JsonObject, words: str
) -> None:
    async with offering(tmp_path) as there:
        assert words in await there.refused(name, **arguments)


async def test_what_fails_inside_tells_nothing_of_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ZeroDivisionError("the password is hunter2")

    async with offering(tmp_path) as there:
        there.here.use_cases = Broken()  # type: ignore[assignment]
        told = await there.refused("get_task", task_id="x")

    assert "hunter2" not in told
    assert "Error" not in told
    assert "hunter2" in caplog.text


async def test_a_service_that_ends_lets_go_of_whoever_waits(tmp_path: Path) -> None:
    async with offering(tmp_path) as there:
        call = asyncio.create_task(there.call("run_task", **wanted(HOLDS), wait_secs=SECS))
        await asyncio.wait_for(there.there.source.entered.wait(), SECS)
        there.here.leaving.set()
        there.here.hub.stop()
        left = await asyncio.wait_for(call, SECS)
        new = await there.refused("get_task", task_id=left["task_id"])
        there.there.source.let_go.set()

    assert left["ended"] is False
    assert "goes on when it is back" in left["next"]
    assert "about to end" in new
