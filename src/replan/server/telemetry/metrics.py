"""The metrics of the service: a reading of what the tasks of this process record, in the form of Prometheus.

Names follow https://prometheus.io/docs/practices/naming/: base units, `_total` for what only goes up. Labels are bounded: a name that comes
after so many is `other`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from replan.core import events as e
from replan.core.plain_calls import PlainEnd, PlainStart, Recorded
from replan.core.state.task import State
from replan.run.access.ports import Load

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_NAMES = 500
_CALL_SECS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TASK_SECS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_OVERHEAD_SECS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5)
_ROUNDS = (1, 2, 3, 4, 5, 8, 12, 20)
_NOT_REACHED = frozenset({"refused", "connection_lost", "unavailable"})
"""Faults that say that a tool's source was out of reach."""


class _Names:
    """The first so many values of a label; all others are one."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= MOST_NAMES:
            return "other"
        self._known.add(name)
        return name


class Metrics:
    """A `Tap`; `text()` is what `/metrics` answers."""

    def __init__(self, load: Callable[[], Load], watchers: Callable[[], int] = lambda: 0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each, which nobody reads
        self.registry = registry = CollectorRegistry()
        self._tools, self._models = _Names(), _Names()
        self.started = Counter("replan_tasks_started", "Tasks that were begun here.", registry=registry)
        self.ended = Counter(
            "replan_tasks_ended", "Tasks that have ended here.", ["status"], registry=registry
        )
        for status in ("succeeded", "failed", "cancelled", "timed_out"):
            self.ended.labels(status)  # a rate needs the zero before the first
        self.duration = Histogram(
            "replan_task_duration_seconds", "How long ended tasks were driven.", ["status"],
            buckets=_TASK_SECS, registry=registry,
        )  # fmt: skip
        self.rounds = Histogram(
            "replan_task_rounds", "Rounds of ended tasks.", buckets=_ROUNDS, registry=registry
        )
        self.reflections = Counter(
            "replan_reflections", "Reflections, by what they are about.", ["level"], registry=registry
        )
        self.reflected = Counter(
            "replan_tasks_reflected", "Ended tasks with a reflection.", registry=registry
        )
        self.replans = Counter(
            "replan_replannings", "Plans made anew, by strategy.", ["strategy"], registry=registry
        )
        self.tool_calls = Counter(
            "replan_tool_calls",
            "Calls of tools, every attempt by itself.",
            ["tool", "outcome"],
            registry=registry,
        )
        self.tool_secs = Histogram(
            "replan_tool_call_duration_seconds", "How long successful calls took.", ["tool"],
            buckets=_CALL_SECS, registry=registry,
        )  # fmt: skip
        self.unreachable = Counter(
            "replan_tool_connection_failures",
            "Calls whose source was out of reach.",
            ["tool"],
            registry=registry,
        )
        self.llm_calls = Counter(
            "replan_llm_calls", "Questions to models.", ["role", "model", "outcome"], registry=registry
        )
        self.llm_secs = Histogram(
            "replan_llm_call_duration_seconds", "How long models took to answer.", ["role", "model"],
            buckets=_CALL_SECS, registry=registry,
        )  # fmt: skip
        self.llm_tokens = Counter(
            "replan_llm_tokens",
            "Tokens asked and answered.",
            ["role", "model", "direction"],
            registry=registry,
        )
        self.llm_cost = Counter(
            "replan_llm_cost_usd", "What models cost, where their prices are known.", ["role", "model"],
            registry=registry,
        )  # fmt: skip
        self.events = Counter("replan_events", "Events in the log, by type.", ["type"], registry=registry)
        self.step_overhead = Histogram(
            "replan_step_overhead_seconds", "Of steps with one call: their time less that of the call.",
            buckets=_OVERHEAD_SECS, registry=registry,
        )  # fmt: skip
        self.requests = Counter(
            "replan_http_requests",
            "Requests to the HTTP API.",
            ["method", "route", "status"],
            registry=registry,
        )
        self.request_secs = Histogram(
            "replan_http_request_duration_seconds", "How long they took, streams left out.", ["method", "route"],
            buckets=_CALL_SECS, registry=registry,
        )  # fmt: skip
        self.calls = Counter(
            "replan_grpc_requests", "Calls of the gRPC API.", ["method", "code"], registry=registry
        )
        self.call_secs = Histogram(
            "replan_grpc_request_duration_seconds", "How long they took, streams left out.", ["method"],
            buckets=_CALL_SECS, registry=registry,
        )  # fmt: skip
        watching = Gauge("replan_watchers", "Open streams of events.", registry=registry)
        watching.set_function(watchers)
        running = Gauge("replan_tasks_running", "Tasks that are driven here now.", registry=registry)
        running.set_function(lambda: load().running)
        queued = Gauge("replan_tasks_queued", "Tasks that wait for a place here.", registry=registry)
        queued.set_function(lambda: load().queued)
        oldest = Gauge(
            "replan_task_oldest_seconds", "How long the task that is driven here for the longest has been at it.",
            registry=registry,
        )  # fmt: skip
        oldest.set_function(self._oldest)
        self._counted = lru_cache(maxsize=256)(lambda kind: self.events.labels(kind))
        self._requested = lru_cache(maxsize=1_024)(
            lambda method, route, status: self.requests.labels(method, route, str(status))
        )
        self._took = lru_cache(maxsize=256)(self.request_secs.labels)
        self._reflecting: set[str] = set()
        """Tasks under way that were reflected on."""
        self._begun: dict[str, float] = {}
        """Tasks that are driven here, and since when."""

    def _oldest(self) -> float:
        return max(0.0, time.time() - min(self._begun.values())) if self._begun else 0.0

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def answered(self, method: str, route: str, status: int, secs: float, *, streamed: bool) -> None:
        """A call of the HTTP API. `route`: as it is declared, which names no task."""
        self._requested(method, route, status).inc()
        if not streamed:
            self._took(method, route).observe(secs)

    def called(self, method: str, code: str, secs: float, *, streamed: bool) -> None:
        """A call of the gRPC API."""
        self.calls.labels(method, code).inc()
        if not streamed:
            self.call_secs.labels(method).observe(secs)

    # ── Tap ──

    def landed(self, state: State, events: Sequence[Recorded], ts: float) -> None:
        took: dict[str, float] = {}
        for event in events:
            if isinstance(event, PlainStart):
                self._counted("step_started").inc()
                self._counted("call_started").inc()
            elif isinstance(event, PlainEnd):
                self._counted("call_completed").inc()
                self._counted("step_completed").inc()
                self._made(event.tool_id, event.duration_secs)
                self._step(state, event.step_id, event.duration_secs)
            else:
                self._counted(event.type).inc()
                self._event(state, event, ts)
                if isinstance(event, e.CallCompleted):
                    took[event.step_id] = event.duration_secs
                elif isinstance(event, e.StepCompleted) and event.step_id in took:
                    self._step(state, event.step_id, took[event.step_id])

    def _event(self, state: State, event: e.AnyEvent, ts: float) -> None:
        match event:
            case e.CallCompleted():
                if event.reused or event.of_task:
                    self.tool_calls.labels(self._tools(event.tool_id), "reused").inc()
                else:
                    self._made(event.tool_id, event.duration_secs)
            case e.CallFailed():
                tool = self._tools(event.tool_id)
                self.tool_calls.labels(tool, "failed").inc()
                if event.error.kind in _NOT_REACHED:
                    self.unreachable.labels(tool).inc()
            case e.OutcomeUnknown():
                self.tool_calls.labels(self._tools(event.tool_id), "unknown").inc()
            case e.LlmCallCompleted():
                self._asked(event)
            case e.StepReflected():
                self._reflected(state, "step")
            case e.ReflectionCompleted():
                self._reflected(state, "overall")
            case e.ReplanningStarted() if not event.continues:
                self.replans.labels(event.strategy.type).inc()
            case e.TaskStarted():
                self.started.inc()
                self._begun[state.task_id] = ts
            case e.TaskResumed():
                self._begun[state.task_id] = ts
            case e.TaskWaiting():
                self._begun.pop(state.task_id, None)
            case e.TaskCompleted() | e.TaskFailed() | e.TaskCancelled() | e.TaskTimedOut():
                self._ended(state, event.type.removeprefix("task_"))
            case _:
                pass

    def _made(self, tool_id: str, secs: float) -> None:
        tool = self._tools(tool_id)
        self.tool_calls.labels(tool, "succeeded").inc()
        self.tool_secs.labels(tool).observe(secs)

    def _step(self, state: State, step_id: str, secs: float) -> None:
        step = state.steps.get(step_id)
        if step is not None and step.secs is not None and step.plain_call() is not None:
            self.step_overhead.observe(max(0.0, step.secs - secs))

    def _asked(self, event: e.LlmCallCompleted) -> None:
        role, model = event.role, self._models(event.model)
        self.llm_calls.labels(role, model, "failed" if event.error else "succeeded").inc()
        self.llm_secs.labels(role, model).observe(event.duration_secs)
        self.llm_tokens.labels(role, model, "input").inc(event.usage.input_tokens)
        self.llm_tokens.labels(role, model, "output").inc(event.usage.output_tokens)
        if event.usage.cost_usd:
            self.llm_cost.labels(role, model).inc(event.usage.cost_usd)

    def _reflected(self, state: State, level: str) -> None:
        self.reflections.labels(level).inc()
        self._reflecting.add(state.task_id)
        if len(self._reflecting) > 10_000:  # tasks that went elsewhere
            self._reflecting.pop()

    def _ended(self, state: State, status: str) -> None:
        status = "succeeded" if status == "completed" else status
        self._begun.pop(state.task_id, None)
        self.ended.labels(status).inc()
        self.duration.labels(status).observe(state.active_secs)
        self.rounds.observe(state.round)
        if state.task_id in self._reflecting:
            self._reflecting.discard(state.task_id)
            self.reflected.inc()
