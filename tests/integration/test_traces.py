"""Traces of tasks, as a collector gets them."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from replan import Replan, ToolContext, tool
from replan.config import Settings
from replan.core.trace import parent_of, span_of, trace_of, traceparent
from replan.errors import ConfigError
from replan.run.access.callers import LOCAL
from replan.run.access.requests import SubmitOptions, SubmitRequest
from replan.run.access.use_cases import UseCases
from replan.testing import ScriptedModel

pytestmark = pytest.mark.anyio
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Collector:
    url: str
    spans: list[Any] = field(default_factory=list)

    def named(self, name: str) -> Any:
        (found,) = [one for one in self.spans if one.name == name]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    """What takes OTLP over HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            assert self.path == "/v1/traces"
            for one in ExportTraceServiceRequest.FromString(body).resource_spans:
                made.spans.extend(span for scope in one.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


SEEN: list[str] = []


@tool(effect="reads")
def look(at: str, ctx: ToolContext) -> str:
    SEEN.append(ctx.traceparent)
    return f"seen {at}"


@tool(effect="reads")
def broken() -> str:
    raise ValueError("it is broken")


def settings(url: str, **more: Any) -> Settings:
    return Settings.model_validate({"tracing": {"otlp_endpoint": url, **more}})


def told(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


YES = {
    "is_successful": True, "overall_score": 95, "reasoning": "done", "final_output": "done",
    "dimensions": {"completeness": 95, "correctness": 95, "efficiency": 95, "reliability": 95},
}  # fmt: skip
PLAN = {"steps": [{"step_id": "a", "tool": "look", "parameters": {"at": "rain"}}]}


async def run(tmp_path: Path, given: Settings) -> str:
    model = ScriptedModel({"execution_plan": PLAN, "evaluation": YES})
    async with Replan(model, [look, broken], db=tmp_path / "tasks.db", settings=given) as replan:
        return (await replan.run("Look")).task_id


async def test_a_task_is_one_trace_whose_spans_hang_together(tmp_path: Path, collector: Collector) -> None:
    SEEN.clear()
    task_id = await run(tmp_path, settings(collector.url))
    assert {one.trace_id.hex() for one in collector.spans} == {trace_of(task_id)}
    by_id = {one.span_id: one for one in collector.spans}
    assert len(by_id) == len(collector.spans)

    def line(span: Any) -> list[str]:
        above = by_id.get(span.parent_span_id)
        return [span.name, *([] if above is None else line(above))]

    call = collector.named("execute_tool look")
    assert line(call) == ["execute_tool look", "step a", "round 1", "invoke_agent replan"]
    chats = [one for one in collector.spans if one.name == "chat scripted"]
    assert [line(one)[1:] for one in chats] == [["round 1", "invoke_agent replan"]] * 2
    task = collector.named("invoke_agent replan")
    assert not task.parent_span_id
    assert told(task)["gen_ai.operation.name"] == "invoke_agent"
    assert told(task)["replan.task.status"] == "succeeded"
    assert told(call)["gen_ai.tool.name"] == "look"
    assert [traceparent(call.trace_id.hex(), call.span_id.hex())] == SEEN
    for span in collector.spans:
        above = by_id.get(span.parent_span_id)
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if above is not None:
            assert above.start_time_unix_nano <= span.start_time_unix_nano
            assert span.end_time_unix_nano <= above.end_time_unix_nano


async def test_content_is_told_only_if_it_is_wanted(tmp_path: Path, collector: Collector) -> None:
    await run(tmp_path, settings(collector.url))
    assert not any("seen rain" in str(told(one)) for one in collector.spans)
    await run(tmp_path / "again", settings(collector.url, include_content=True))
    shown = [told(one) for one in collector.spans if one.name == "execute_tool look"][-1]
    assert shown["gen_ai.tool.call.arguments"] == '{"at":"rain"}'
    assert shown["gen_ai.tool.call.result"] == '"seen rain"'


async def test_a_failure_is_an_error_of_its_kind(tmp_path: Path, collector: Collector) -> None:
    plan = {"steps": [{"step_id": "b", "tool": "broken", "parameters": {}}]}
    async with Replan(tools=[broken], db=tmp_path / "t.db", settings=settings(collector.url)) as replan:
        await replan.run("Break", plan=plan, evaluation="steps")
    for name in ("execute_tool broken", "step b", "invoke_agent replan"):
        span = collector.named(name)
        assert span.status.code == 2
        assert told(span)["error.type"]
    assert "it is broken" in collector.named("step b").status.message


async def test_a_task_is_in_the_trace_of_whoever_has_submitted_it(
    tmp_path: Path, collector: Collector
) -> None:
    SEEN.clear()
    async with Replan(tools=[look], db=tmp_path / "t.db", settings=settings(collector.url)) as replan:
        cases = UseCases(replan.service, replan.serving())
        options = SubmitOptions(plan=PLAN, evaluation="steps")
        request = SubmitRequest(task_description="Look", task_id="mine", options=options)
        made = await cases.submit(LOCAL._replace(traceparent=CALLER), request)
        await replan.wait(made.task_id)
        again = await cases.submit(LOCAL, request)  # in no trace, and still the same request
        assert not again.new
    _, trace, span, _ = CALLER.split("-")
    assert {one.trace_id.hex() for one in collector.spans} == {trace}
    assert collector.named("invoke_agent replan").parent_span_id.hex() == span
    assert SEEN[0].split("-")[1] == trace


async def test_a_collector_that_is_away_costs_no_task(tmp_path: Path) -> None:
    assert await run(tmp_path, settings("http://127.0.0.1:9"))


async def test_an_address_that_is_none_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\[tracing\] otlp_endpoint: 'localhost:4317' is no address"):
        await run(tmp_path, settings("localhost:4317"))


@pytest.mark.parametrize(
    "header",
    [
        None, 5, "", "x", CALLER[:-1], CALLER.upper(), CALLER.replace("00-", "ff-", 1), f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{'a' * 32}-{'0' * 16}-01", f"{CALLER}-more\n", "00-" + "a" * 600,
    ],
)  # fmt: skip
def test_what_is_no_trace_context_is_none(header: Any) -> None:
    assert parent_of(header) is None
    assert trace_of("t", header) == trace_of("t")


@given(st.text(), st.text(), st.integers(1, 9))
def test_ids_can_be_read_by_everybody(task_id: str, key: str, attempt: int) -> None:
    parent = parent_of(traceparent(trace_of(task_id), span_of(key, attempt)))
    assert parent is not None
    assert (parent.trace, parent.span) == (trace_of(task_id), span_of(key, attempt))
