"""The service over gRPC: its calls, its refusals, and a client that knows nothing but the protocol."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc_health")
pytest.importorskip("grpc_reflection")

import grpc
import grpc.aio
from access_world import ASKED, FAILS, SECS
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_world import METHODS, Grpc, serving, task
from pydantic import BaseModel
from run_tasks import plan, step

from replan.core.report import result
from replan.core.types import Failure, Usage
from replan.errors import InputError, NotSignedIn, TooMany
from replan.run.access import requests, views
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.grpc.calls import SAID, UNARY
from replan.server.grpc.messages import SERVICE, pb
from replan.server.grpc.proto import generate
from replan.server.grpc.serving import serving_grpc
from replan.server.telemetry.metrics import Metrics
from replan.testing import FakeTool

pytestmark = pytest.mark.anyio
HOW_TO = Path(__file__).parents[2] / "docs/how-to/grpc.md"
HOLDS = plan(step("a", "hold"))


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Grpc]:
    async with serving(tmp_path) as made:
        yield made


async def submitted(there: Grpc, wanted: Any = None, **more: Any) -> str:
    return str((await there.call("SubmitTask", **fields(task(wanted, **more)))).task_id)


def fields(message: Any) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}


async def waiting(there: Grpc, wanted: Any = ASKED) -> Any:
    """What a task waits for, as the service tells it."""
    task_id = await submitted(there, wanted)
    await there.there.waits(task_id)
    page = await there.call("ListWaiting", task_id=task_id)
    return page.items[0]


# ── the protocol ──


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    made = generate.generate(tmp_path)
    committed = generate.FOLDER / "replan/v1/replan_pb2.py"
    assert made.read_text(encoding="utf-8") == committed.read_text(encoding="utf-8"), "run: make proto"


def test_each_call_of_the_protocol_is_answered_and_has_the_types_that_it_says() -> None:
    streams = {name for name, one in METHODS.items() if one.server_streaming}

    assert streams == {"ExecuteTask", "WatchTask", "GetArtifact", "Converse"}
    assert set(UNARY) == set(METHODS) - streams
    for name, call in UNARY.items():
        assert METHODS[name].input_type == call.takes.DESCRIPTOR, name
        assert METHODS[name].output_type == call.gives.DESCRIPTOR, name
    assert set(SAID.values()) <= set(UNARY)


@pytest.mark.parametrize(
    ("message", "model", "apart"),
    [
        ("Submitted", views.Submitted, ""),
        ("Preview", views.Preview, ""),
        ("Task", views.TaskView, ""),
        ("TaskRow", views.TaskRow, ""),
        ("Waiting", views.WaitingTask, ""),
        ("WaitingFor", result.WaitingFor, ""),
        ("TaskResult", result.TaskResult, ""),
        ("StepResult", result.StepResult, ""),
        ("CallResult", result.CallResult, ""),
        ("Failure", Failure, ""),
        ("Usage", Usage, ""),
        ("Plan", views.PlanView, ""),
        ("Step", views.StepView, ""),
        ("OutputPiece", views.OutputPiece, ""),
        ("Tool", views.ToolView, "stats"),
        ("ToolStats", views.ToolStatsView, ""),
        ("Options", requests.SubmitOptions, ""),
        ("SubmitTaskRequest", requests.SubmitRequest, "idempotency_key dry_run"),
        ("ForkTaskRequest", requests.ForkRequest, "fork_id"),
        ("AnswerApprovalRequest", requests.ApprovalAnswer, "task_id approval_id"),
        ("ReviewPlanRequest", requests.PlanReview, "task_id version"),
        ("AnswerQuestionRequest", requests.QuestionAnswer, "task_id question_id"),
        ("SettleStepRequest", requests.SettleRequest, "task_id step_id"),
        ("PauseTaskRequest", requests.PauseRequest, "task_id"),
        ("GiveHintRequest", requests.HintRequest, "task_id"),
        ("JudgeTaskRequest", requests.JudgeRequest, "task_id"),
        ("SendSignalRequest", requests.SignalRequest, "task_id"),
        ("ReasonRequest", requests.ReasonRequest, "task_id"),
    ],
)
def test_a_message_has_the_fields_of_what_it_stands_for(
    message: str, model: type[BaseModel], apart: str
) -> None:
    found = {field.name.removesuffix("_json") for field in getattr(pb, message).DESCRIPTOR.fields}

    assert found - set(apart.split()) == set(model.model_fields) - set(apart.split()), (
        "change the .proto: make proto"
    )


# ── what is done ──


async def test_a_task_is_carried_out_on_one_call_and_its_result_read_on_another(there: Grpc) -> None:
    call = there.call("ExecuteTask", task=task())
    events = [event async for event in call]
    named = dict(await call.initial_metadata())["replan-task-id"]
    done = await there.call("GetResult", task_id=named)

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.task_id for event in events} == {named}
    assert (events[0].type, events[-1].type) == ("task_submitted", "task_completed")
    assert json.loads(events[0].data_json)["description"] == "do it"
    assert (done.is_success, json.loads(done.final_output_json), done.usage.tool_calls) == (True, "seen", 1)
    assert [(one.step_id, json.loads(one.output_json)) for one in done.steps] == [("a", "seen")]


async def test_a_task_follows_another_one(there: Grpc) -> None:
    first = await submitted(there)
    await there.there.done(first)
    again = plan(step("b", "pay", when="previous.a.output == 'seen'", parameters={"amount": 3}))
    context = {"previous_task_id": first, "session_id": "s"}
    done = await there.there.done(await submitted(there, again, context=context))
    assert done.final_output == "paid"
    unfinished = (await waiting(there)).task_id
    refused = await there.refused(
        there.call("SubmitTask", **fields(task(again, context={"previous_task_id": unfinished})))
    )
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "TASK_NOT_DONE")


async def test_the_same_key_is_the_same_task_and_another_body_is_refused(there: Grpc) -> None:
    first = await there.call("SubmitTask", **fields(task(idempotency_key="k")))
    second = await there.call("SubmitTask", **fields(task(idempotency_key="k")))
    other = await there.refused(there.call("SubmitTask", **fields(task(FAILS, idempotency_key="k"))))

    assert (first.new, second.new, first.task_id) == (True, False, second.task_id)
    assert (other.code, other.reason) == ("ALREADY_EXISTS", "TASK_EXISTS")


async def test_a_call_is_agreed_to_with_the_hash_of_what_was_shown_and_with_nothing_else(there: Grpc) -> None:
    one = await waiting(there)
    approval = {"task_id": one.task_id, "approval_id": one.waiting_for.id, "approved": True}
    without = await there.refused(there.call("AnswerApproval", **approval))
    wrong = await there.refused(there.call("AnswerApproval", **approval, hash="0" * 32))
    await there.call("AnswerApproval", **approval, hash=one.hash)
    done = await there.call("GetResult", task_id=one.task_id, wait_secs=SECS)
    late = await there.refused(there.call("AnswerApproval", **approval, hash=one.hash))

    assert json.loads(one.waiting_for.parameters_json) == {"amount": 7}
    assert (without.code, "hash" in without.message) == ("INVALID_ARGUMENT", True)
    assert (wrong.code, wrong.reason) == ("FAILED_PRECONDITION", "ANSWERED_BEFORE")
    assert (done.is_success, late.code) == (True, "FAILED_PRECONDITION")


async def test_a_running_task_is_paused_resumed_told_something_and_cancelled(there: Grpc) -> None:
    task_id = await submitted(there, HOLDS)
    await asyncio.wait_for(there.there.source.entered.wait(), SECS)
    early = await there.refused(there.call("GetResult", task_id=task_id))
    await there.call("GiveHint", task_id=task_id, text="use the other one")
    await there.call("PauseTask", task_id=task_id, reason="lunch")
    await there.call("ResumeTask", task_id=task_id)
    shown = await there.call("CancelTask", task_id=task_id, reason="enough")
    there.there.source.let_go.set()
    done = await there.call("GetResult", task_id=task_id, wait_secs=SECS)
    page = await there.call("ListEvents", task_id=task_id, limit=500)

    assert (early.code, early.reason) == ("FAILED_PRECONDITION", "TASK_NOT_DONE")
    assert (shown.task_id, done.status) == (task_id, "cancelled")
    types = [event.type for event in page.items]
    assert {"hint_given", "pause_requested", "cancel_requested"} <= set(types)


async def test_what_is_known_of_a_task_is_read_by_calls_of_its_own(there: Grpc) -> None:
    task_id = await submitted(there)
    await there.call("GetResult", task_id=task_id, wait_secs=SECS)
    shown = await there.call("GetTask", task_id=task_id)
    rows = await there.call("ListTasks", status=["succeeded"], limit=1)
    plans = await there.call("ListPlans", task_id=task_id)
    one = await there.call("GetPlan", task_id=task_id, version=1)
    found = await there.call("GetStep", task_id=task_id, step_id="a")
    piece = await there.call("GetOutput", task_id=task_id, step_id="a")
    tools = await there.call("ListTools")
    stats = await there.call("GetToolStats", tool_id="look")
    preview = await there.call("PreviewTask", **fields(task(ASKED)))
    fork = await there.call("ForkTask", task_id=task_id, hint="again")

    assert (shown.status, shown.progress, shown.done_steps) == ("succeeded", 1.0, 1)
    assert [row.task_id for row in rows.items] == [task_id]
    assert not rows.HasField("next_cursor")
    assert (len(plans.items), one) == (1, plans.items[0])
    assert json.loads(found.planned_json)["tool"] == "look"
    assert (json.loads(piece.text), piece.total) == ("seen", 6)
    assert {"look", "pay"} <= {tool.id for tool in tools.items}
    assert (stats.calls, stats.success_rate) == (1, 1.0)
    assert (list(preview.approvals), preview.tool_calls) == (["a"], 1)
    assert fork.task_id not in ("", task_id)


async def test_pages_of_tasks_follow_each_other_without_a_gap(there: Grpc) -> None:
    ids = [await submitted(there) for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await there.call("ListTasks", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [row.task_id for row in page.items]
        if not page.HasField("next_cursor"):
            break
        cursor = page.next_cursor

    assert seen == ids[::-1]


async def test_a_large_output_comes_in_pieces_as_it_is_kept(tmp_path: Path) -> None:
    large = "ö" * 400_000
    async with serving(tmp_path, tools={"look": FakeTool(output=large)}) as there:
        task_id = await submitted(there)
        await there.call("GetResult", task_id=task_id, wait_secs=SECS)
        piece = await there.call("GetOutput", task_id=task_id, step_id="a")
        assert piece.HasField("artifact_id")
        pieces = [
            one async for one in there.call("GetArtifact", task_id=task_id, artifact_id=piece.artifact_id)
        ]
        light = await there.call("ListEvents", task_id=task_id, limit=500, view=pb.LIGHT)

    assert json.loads(b"".join(one.data for one in pieces)) == large
    assert (pieces[0].media_type, pieces[0].size) == ("application/json", 800_002)
    assert not any(one.media_type for one in pieces[1:])
    assert max(len(event.data_json) for event in light.items) < 10_000


async def test_a_page_of_large_events_fits_into_what_clients_take_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    chain = plan(step("s0", "look"), *(step(f"s{n}", "look", f"s{n - 1}") for n in range(1, 12)))
    async with serving(tmp_path, tools={"look": FakeTool(output="x" * 200_000)}) as there:
        task_id = await submitted(there, chain)
        await there.call("GetResult", task_id=task_id, wait_secs=SECS)
        seen: list[int] = []
        pages = 0
        while (
            page := await there.call("ListEvents", task_id=task_id, limit=500, after=seen[-1] if seen else 0)
        ).items:
            seen += [event.seq for event in page.items]
            pages += 1
        stored = [record.seq for record in await there.there.replan.history(task_id)]

    assert seen == stored
    assert pages > 1


async def test_a_large_request_is_read_as_a_small_one_is(there: Grpc) -> None:
    metadata = {"rows": [{"n": n, "text": "ü" * 20} for n in range(5_000)]}
    made = await there.call("SubmitTask", **fields(task(metadata_json=json.dumps(metadata))))
    wrong = await there.refused(
        there.call("SubmitTask", **fields(task(metadata_json=json.dumps(metadata)[:-1])))
    )

    assert made.new
    assert "metadata_json: is no JSON" in wrong.message


# ── refusals ──


@pytest.mark.parametrize(
    ("name", "given", "code", "words"),
    [
        ("GetTask", {"task_id": "nöne"}, "NOT_FOUND", "there is no task 'nöne'"),
        ("GetTask", {}, "INVALID_ARGUMENT", "task_id: is missing"),
        ("GetTask", {"task_id": "a/../b\x00"}, "NOT_FOUND", "there is no task"),
        ("WatchTask", {"task_id": "none"}, "NOT_FOUND", "there is no task 'none'"),
        ("SubmitTask", {}, "INVALID_ARGUMENT", "task_description"),
        ("SubmitTask", {"task_description": "x", "metadata_json": "{"}, "INVALID_ARGUMENT", "metadata_json"),
        ("SubmitTask", {"task_description": "x", "metadata_json": "[]"}, "INVALID_ARGUMENT", "metadata"),
        ("SubmitTask", {"task_description": "x", "metadata_json": "[" * 9000}, "INVALID_ARGUMENT", "nested"),
        ("SubmitTask", {"task_description": "x", "context": {"more_json": "7"}}, "INVALID_ARGUMENT", "object"),
        ("SubmitTask", {"task_description": "x", "options": {"max_rounds": -1}}, "INVALID_ARGUMENT", "options.max_rounds"),
        ("SubmitTask", {"task_description": "x", "options": {"evaluation": "dice"}}, "INVALID_ARGUMENT", "'model' or 'steps'"),
        ("PreviewTask", {"task_description": "x", "idempotency_key": "k"}, "INVALID_ARGUMENT", "a preview stores none"),
        ("ExecuteTask", {}, "INVALID_ARGUMENT", "task_description"),
        ("ListTasks", {"limit": -1}, "INVALID_ARGUMENT", "limit"),
        ("ListEvents", {"task_id": "none", "after": -1}, "INVALID_ARGUMENT", "after"),
        ("WatchTask", {"task_id": "none", "view": 7}, "INVALID_ARGUMENT", "LIGHT (1)"),
        ("GetResult", {"task_id": "none", "wait_secs": float("nan")}, "INVALID_ARGUMENT", "wait_secs"),
        ("GetToolStats", {"tool_id": "loko"}, "NOT_FOUND", "there is no tool 'loko'"),
        ("SubmitTask", {"task_description": "x", "options": {"workflow": "weekly"}}, "INVALID_ARGUMENT", "no workflow 'weekly'"),
    ],
)  # fmt: skip
async def test_a_refusal_says_what_was_wrong_and_where(
    there: Grpc, name: str, given: dict[str, Any], code: str, words: str
) -> None:
    found = await there.refused(there.call(name, **given))

    assert (found.code, words in found.message) == (code, True), found
    assert found.reason


async def test_fields_that_do_not_fit_are_named_one_by_one(there: Grpc) -> None:
    options = {"approval": "maybe", "max_tokens": -5}
    found = await there.refused(there.call("SubmitTask", task_description="x", options=options))

    assert set(found.fields) == {"options.approval", "options.max_tokens"}
    assert found.reason == "INVALID_REQUEST"


async def test_a_long_refusal_still_reaches_the_caller(there: Grpc) -> None:
    found = await there.refused(there.call("GetToolStats", tool_id="ü" * 100_000))

    assert (found.code, found.message.startswith("there is no tool 'ü")) == ("NOT_FOUND", True)
    assert len(found.message) < 2000


async def test_what_fails_inside_tells_nothing_of_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(credentials: Credentials) -> Caller:
        raise ZeroDivisionError("the password is hunter2")

    async with serving(tmp_path, authenticate=broken) as there:
        found = [
            await there.refused(there.call("GetTask", task_id="x")),
            await there.refused(there.call("WatchTask", task_id="x")),
        ]

    for one in found:
        assert (one.code, one.reason) == ("INTERNAL", "INTERNAL")
        assert "hunter2" not in one.message
        assert "Error" not in one.message
    assert "hunter2" in caplog.text


async def test_a_call_is_counted_by_its_end_and_named_as_its_caller_named_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as there:
        there.here.metrics = metrics = Metrics(there.there.replan.serving().load)
        await there.call("ListTasks")
        call = there.call("GetTask", task_id="none", metadata=(("x-request-id", "mine-1"),))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        watched = there.call("ExecuteTask", task=task(HOLDS))
        await watched.read()
        watched.cancel()
        async with asyncio.timeout(SECS):
            while "CANCELLED" not in (text := metrics.text().decode()):
                await there.call("ListTools")
        there.there.source.let_go.set()

    trailing = dict(refused.value.trailing_metadata() or ())
    assert b"mine-1" in trailing["grpc-status-details-bin"]
    for line in (
        'replan_grpc_requests_total{code="OK",method="ListTasks"} 1.0',
        'replan_grpc_requests_total{code="NOT_FOUND",method="GetTask"} 1.0',
        'replan_grpc_requests_total{code="CANCELLED",method="ExecuteTask"} 1.0',
        'replan_grpc_request_duration_seconds_count{method="GetTask"} 1.0',
    ):
        assert line in text


async def test_who_calls_is_known_by_the_metadata_and_scopes_are_held_to(tmp_path: Path) -> None:
    seen: list[Credentials] = []

    async def known(credentials: Credentials) -> Caller:
        seen.append(credentials)
        if credentials.api_key == "busy":
            raise TooMany("too much at once", retry_after=2.5)
        if credentials.authorization != "Bearer good":
            raise NotSignedIn("the key or token is missing or not good")
        return Caller("key:ann", "red", frozenset({"run"}))

    async with serving(tmp_path, authenticate=known) as there:
        good = (("authorization", "Bearer good"),)
        nobody = await there.refused(there.call("ListTasks"))
        busy = await there.refused(there.call("ListTasks", metadata=(("x-api-key", "busy"),)))
        unread = await there.refused(there.call("ListTasks", metadata=good))
        call = there.call("ExecuteTask", task=task(), metadata=good)
        events = [event async for event in call]
        watched = await there.refused(there.call("WatchTask", task_id=events[0].task_id, metadata=good))

    assert (nobody.code, nobody.reason) == ("UNAUTHENTICATED", "NOT_SIGNED_IN")
    assert (busy.code, busy.retry_after) == ("RESOURCE_EXHAUSTED", 2.5)
    assert (unread.code, unread.reason) == ("PERMISSION_DENIED", "NOT_ALLOWED")
    assert events[-1].type == "task_completed", "whoever submits a task is told what becomes of it"
    assert watched.code == "PERMISSION_DENIED"
    assert json.loads(events[0].data_json)["by"] == "key:ann"
    assert seen[0].peer.startswith("ipv4:127.0.0.1")


# ── health, reflection, another client ──


async def test_health_and_reflection_are_there_without_a_key(tmp_path: Path) -> None:
    async def nobody(credentials: Credentials) -> Caller:
        raise NotSignedIn("no")

    async with serving(tmp_path, authenticate=nobody) as there:
        health = health_pb2_grpc.HealthStub(there.channel)
        whole = await health.Check(health_pb2.HealthCheckRequest())
        own = await health.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)
        services = reflection_pb2.ServerReflectionRequest(list_services="")
        answers = [
            one
            async for one in reflection_pb2_grpc.ServerReflectionStub(there.channel).ServerReflectionInfo(
                iter([asked, services])
            )
        ]

    assert whole.status == own.status == health_pb2.HealthCheckResponse.SERVING
    assert b"ExecuteTask" in answers[0].file_descriptor_response.file_descriptor_proto[0]
    assert SERVICE in {one.name for one in answers[1].list_services_response.service}


async def test_a_client_made_from_the_protocol_alone_does_a_task_from_end_to_end(
    there: Grpc, tmp_path: Path
) -> None:
    """As the how-to has it."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    folder = tmp_path / "client"
    folder.mkdir()
    source = generate.FOLDER / "replan/v1"
    made = protoc.main(
        ["protoc", f"-I{source}", f"--python_out={folder}", f"--grpc_python_out={folder}", "replan.proto"]
    )
    assert made == 0
    shown = re.search(r"^```py\n(.*?)^```", HOW_TO.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert shown is not None
    (folder / "client.py").write_text(shown.group(1), encoding="utf-8")

    run = [sys.executable, "client.py", there.address]
    process = await asyncio.create_subprocess_exec(
        *run, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)

    assert process.returncode == 0, err.decode()
    lines = out.decode().splitlines()
    assert lines[0] == "1 task_submitted"
    assert "May 'pay' be called in step 'a'? {\"amount\":7}" in lines
    assert lines[-1] == 'succeeded "paid"'


async def test_a_port_that_is_taken_is_named(there: Grpc) -> None:
    port = int(there.address.rpartition(":")[2])
    with pytest.raises(InputError, match=rf"gRPC cannot listen on 127\.0\.0\.1:{port}"):
        async with serving_grpc(there.here, "127.0.0.1", port):
            pass
