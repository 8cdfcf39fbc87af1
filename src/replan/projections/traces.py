"""Traces of tasks, for OpenTelemetry: one trace a task, across processes, in the conventions for generative AI.

A span is made once it is over, of what the log says of it, and its ids of the task's (`core.trace`): whichever process drives the task, the spans fit
together, and those of tools, which are given a `traceparent`, hang below the call that made them.
https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from pydantic_core import to_json

from replan import __version__
from replan.config import Settings
from replan.core import events as e
from replan.core.plain_calls import Recorded, spelled_out
from replan.core.state.progress import CallState, StepState
from replan.core.state.task import State
from replan.core.trace import Parent, span_of, trace_of
from replan.core.types import StepId
from replan.errors import ConfigError

_SCOPE = InstrumentationScope("replan", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_EXPORT_SECS = 5
_LAST_SECS = 1.0
"""How long the end of the process waits for a collector."""
_MOST_TASKS = 10_000
_MOST_CHARS = 20_000
"""Of a text that is content."""


class Processor(Protocol):
    """What takes spans that are over: a `SpanProcessor` of the SDK."""

    def on_end(self, span: ReadableSpan) -> None: ...
    def shutdown(self) -> None: ...


def traces_of(settings: Settings) -> Traces | None:
    """What exports traces, if `[tracing] otlp_endpoint` is set."""
    section = settings.tracing
    if section.otlp_endpoint is None:
        return None
    url = section.otlp_endpoint.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"[tracing] otlp_endpoint: {url!r} is no address of OTLP over HTTP: give one as http://localhost:4318"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    url = url if url.endswith("/v1/traces") else f"{url}/v1/traces"
    exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECS)
    return Traces(BatchSpanProcessor(exporter), include_content=section.include_content)


class Traces:
    """Told of what tasks record (`run.session.dependencies.Tap`)."""

    def __init__(self, processor: Processor, *, include_content: bool = False) -> None:
        self._processor = processor
        self._content = include_content
        self._began: dict[str, float] = {}
        """When the round of each task began that is driven here."""
        self._resource = Resource.create({"service.name": "replan", "service.version": __version__})

    def close(self) -> None:
        """Export what is left, if the collector takes it soon."""
        ending = threading.Thread(target=self._processor.shutdown, name="replan-traces-end", daemon=True)
        ending.start()
        ending.join(_LAST_SECS)

    def landed(self, state: State, events: Sequence[Recorded], ts: float) -> None:
        for event in spelled_out(events):
            for span in self._spans(state, event, ts):
                self._processor.on_end(span)

    def _spans(self, state: State, event: e.AnyEvent, ts: float) -> Iterator[ReadableSpan]:
        match event:
            case e.RoundStarted():
                self._began[state.task_id] = ts
                if len(self._began) > _MOST_TASKS:
                    del self._began[next(iter(self._began))]
            case e.LlmCallCompleted():
                yield self._question(state, event, ts)
            case e.CallCompleted() if not event.reused and not event.of_task:
                yield self._call(state, event, ts, event.duration_secs)
            case e.CallFailed():
                yield self._call(state, event, ts, None, event.error.message, event.error.kind)
            case e.OutcomeUnknown():
                yield self._call(state, event, ts, None, event.reason, "outcome_unknown")
            case e.StepCompleted():
                yield self._step(state, event.step_id, ts)
            case e.StepFailed():
                yield self._step(state, event.step_id, ts, event.error.message, event.error.kind)
            case e.RoundCompleted():
                yield self._round(state, event.round, ts)
            case e.TaskCompleted():
                yield from self._last_round(state, ts)
                yield self._task(state, ts)
            case e.TaskFailed() | e.TaskCancelled() | e.TaskTimedOut():
                yield from self._last_round(state, ts)
                yield self._task(state, ts, event.failure.reason, event.failure.kind)
            case _:
                return

    # ── kinds of spans ──

    def _task(self, state: State, ts: float, error: str = "", kind: str = "") -> ReadableSpan:
        usage, parent = state.usage, _above(state)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "replan",
            "gen_ai.conversation.id": str(state.submitted.context.get("session_id") or "")
            if state.submitted
            else "",
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "replan.task.status": state.status,
            "replan.task.rounds": state.round,
            "replan.task.active_secs": state.active_secs,
            "replan.llm_calls": usage.llm_calls,
            "replan.tool_calls": usage.tool_calls,
            "replan.cost_usd": usage.cost_usd,
        }
        if self._content and state.submitted is not None:
            attributes["gen_ai.input.messages"] = _text([{"role": "user", "content": state.description}])
        kind_of = SpanKind.SERVER if parent is not None else SpanKind.INTERNAL
        return self._made(
            state,
            "invoke_agent replan",
            span_of(state.task_id),
            parent,
            state.created,
            ts,
            attributes,
            error,
            kind,
            kind_of,
        )

    def _last_round(self, state: State, ts: float) -> Iterator[ReadableSpan]:
        """One that nothing has completed."""
        if state.task_id in self._began and state.round:
            yield self._round(state, state.round, ts)

    def _round(self, state: State, number: int, ts: float) -> ReadableSpan:
        began = self._began.pop(state.task_id, None)
        if began is None:  # elsewhere
            began = min((one.started for one in state.steps.values() if one.started is not None), default=ts)
        attributes = {"replan.round": number, "replan.plan.version": state.plans}
        return self._made(
            state, f"round {number}", _of_round(state, number), _task_span(state), began, ts, attributes
        )

    def _step(
        self, state: State, step_id: StepId, ts: float, error: str = "", kind: str = ""
    ) -> ReadableSpan:
        step = state.steps.get(step_id)
        began = step.started if step is not None and step.started is not None else ts
        attributes: dict[str, Any] = {"replan.step.id": step_id}
        if step is not None:
            attributes |= {"replan.step.name": step.step.name, "gen_ai.tool.name": step.step.tool}
        above = _of_round(state, state.round)
        return self._made(
            state, f"step {step_id}", _of_step(state, step_id), above, began, ts, attributes, error, kind
        )

    def _call(
        self, state: State, event: Any, ts: float, secs: float | None, error: str = "", kind: str = ""
    ) -> ReadableSpan:
        call = _call_of(state, event)
        began = ts - secs if secs is not None else call.started if call is not None else ts
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool_id,
            "gen_ai.tool.call.id": event.call_key,
            "replan.call.attempt": event.attempt,
            "replan.step.id": event.step_id,
        }
        if call is not None:
            attributes["replan.call.effect"] = call.effect
            if self._content:
                attributes["gen_ai.tool.call.arguments"] = _text(call.parameters)
        if self._content and isinstance(event, e.CallCompleted) and event.artifact is None:
            attributes["gen_ai.tool.call.result"] = _text(event.output)
        above = _of_step(state, event.step_id)
        span = span_of(event.call_key, event.attempt)  # what the tool was told
        return self._made(
            state,
            f"execute_tool {event.tool_id}",
            span,
            above,
            began,
            ts,
            attributes,
            error,
            kind,
            SpanKind.CLIENT,
        )

    def _question(self, state: State, event: e.LlmCallCompleted, ts: float) -> ReadableSpan:
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": event.model,
            "gen_ai.usage.input_tokens": event.usage.input_tokens,
            "gen_ai.usage.output_tokens": event.usage.output_tokens,
            "replan.llm.role": event.role,
            "replan.llm.requests": event.usage.llm_calls,
            "replan.cost_usd": event.usage.cost_usd,
        }
        if event.endpoint:
            attributes["server.address"] = event.endpoint
        if self._content:
            attributes["gen_ai.output.messages"] = _text([{"role": "assistant", "content": event.text}])
        above = _of_round(state, state.round) if state.round else _task_span(state)
        return self._made(
            state, f"chat {event.model}", span_of(state.task_id, event.call_id), above, ts - event.duration_secs, ts,
            attributes, event.error or "", "model" if event.error else "", SpanKind.CLIENT,
        )  # fmt: skip

    def _made(
        self,
        state: State,
        name: str,
        span: str,
        above: str | Parent | None,
        began: float,
        ended: float,
        attributes: Mapping[str, Any],
        error: str = "",
        kind: str = "",
        kind_of: SpanKind = SpanKind.INTERNAL,
    ) -> ReadableSpan:
        trace = int(state.trace or trace_of(state.task_id), 16)
        upper = above.span if isinstance(above, Parent) else above
        remote = isinstance(above, Parent)
        return ReadableSpan(
            name=name,
            context=SpanContext(trace, int(span, 16), is_remote=False, trace_flags=_SAMPLED),
            parent=None
            if upper is None
            else SpanContext(trace, int(upper, 16), is_remote=remote, trace_flags=_SAMPLED),
            resource=self._resource,
            attributes={
                "replan.task.id": state.task_id,
                **{key: value for key, value in attributes.items() if value not in ("", None)},
                **({"error.type": kind} if kind else {}),
            },
            kind=kind_of,
            status=Status(StatusCode.ERROR, error[:1000]) if error else Status(StatusCode.UNSET),
            start_time=_nanos(min(began, ended)),
            end_time=_nanos(ended),
            instrumentation_scope=_SCOPE,
        )


def _above(state: State) -> Parent | None:
    """The span of whoever has submitted the task."""
    return state.caller if state.trace else None


def _task_span(state: State) -> str:
    return span_of(state.task_id)


def _of_round(state: State, number: int) -> str:
    return span_of(state.task_id, "round", number)


def _of_step(state: State, step_id: StepId) -> str:
    step: StepState | None = state.steps.get(step_id)
    return span_of(state.task_id, "step", step_id, step.meant if step is not None else 1, state.round)


def _call_of(state: State, event: Any) -> CallState | None:
    step = state.steps.get(event.step_id)
    return (
        next((one for one in step.every_call() if one.key == event.call_key), None)
        if step is not None
        else None
    )


def _text(value: Any) -> str:
    text = to_json(value, inf_nan_mode="constants").decode()
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}…"


def _nanos(secs: float) -> int:
    return int(secs * 1_000_000_000)
