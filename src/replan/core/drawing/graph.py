"""What is drawn of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from replan.core.drawing.critical import Span, critical_path
from replan.core.plan.graph import Graph
from replan.core.state.task import ENDED, State, StepState
from replan.core.types import Plan, Step

SIGNS = {
    "pending": "·",
    "ready": "◌",
    "running": "▶",
    "waiting": "‖",
    "succeeded": "✓",
    "failed": "✗",
    "skipped": "–",
}


class Node(NamedTuple):
    """One step."""

    step_id: str
    name: str
    tool: str
    needs: tuple[str, ...]
    how: str = ""
    """For each of a list, under a condition."""
    status: str = ""
    """Empty: it is a plan alone, of which nobody knows how it goes."""
    secs: float | None = None
    """How long it was at work, or has been by now."""
    tries: int = 0
    version: int = 0
    """The version of the plan that brought it; 0: there is one version only."""
    note: str = ""
    """Why it failed or was left out."""


class Stands(NamedTuple):
    """How a step stands."""

    status: str
    secs: float | None = None
    tries: int = 0
    version: int = 0
    note: str = ""


Times = Mapping[str, tuple[float | None, float | None]]
"""When steps were started, and when they have ended."""


class LeftOut(NamedTuple):
    """A step that a later version of the plan has left out."""

    step_id: str
    status: str
    by: int


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """The steps of one version of the plan, in plan order."""

    nodes: tuple[Node, ...]
    task_id: str = ""
    status: str = ""
    version: int = 1
    versions: int = 1
    critical: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @classmethod
    def of_plan(cls, plan: Plan, *, task_id: str = "", status: str = "", versions: int = 1) -> TaskGraph:
        """A plan alone, or a version that is not the latest."""
        nodes = tuple(node_of(step) for step in plan.steps)
        return cls(nodes, task_id, status, plan.version, max(versions, plan.version))

    @classmethod
    def of(cls, state: State, now: float, statuses: Mapping[str, str] | None = None) -> TaskGraph:
        """The latest plan, and how it goes. `statuses`: of steps of which more is known than the state's own."""
        plan, said = state.plan, statuses or {}
        if plan is None:
            return cls((), state.task_id, state.status)
        over = state.status in ENDED
        until = state.last_ts if over or state.status == "waiting" else now
        spans = {step.step_id: _span(step, state.steps.get(step.step_id)) for step in plan.steps}
        return cls(
            tuple(
                _stands(step, state.steps.get(step.step_id), said, until, several=plan.version > 1)
                for step in plan.steps
            ),
            state.task_id,
            state.status,
            plan.version,
            plan.version,
            critical_path(state.graph(), spans, until, over=over),
            tuple(LeftOut(one.step.step_id, one.status, one.gone) for one in state.left_out),
        )

    @classmethod
    def of_steps(
        cls,
        plan: Plan,
        stands: Mapping[str, Stands],
        times: Times,
        *,
        task_id: str,
        status: str,
        left_out: tuple[LeftOut, ...] = (),
    ) -> TaskGraph:
        """A plan of which nothing goes on."""
        nodes, spans = [], {}
        for step in plan.steps:
            how = stands.get(step.step_id, Stands("pending"))
            nodes.append(node_of(step)._replace(**how._asdict()))
            spans[step.step_id] = Span(
                tool_of(step), *times.get(step.step_id, (None, None)), how.status == "skipped"
            )
        moments = [at for pair in times.values() for at in pair if at is not None]
        path = critical_path(Graph.of(plan), spans, max(moments, default=0.0), over=status in ENDED)
        return cls(tuple(nodes), task_id, status, plan.version, plan.version, path, left_out)

    def with_statuses(self, statuses: Mapping[str, str]) -> TaskGraph:
        """The same, with how each step stands."""
        nodes = tuple(node._replace(status=statuses.get(node.step_id, node.status)) for node in self.nodes)
        return replace(self, nodes=nodes)

    def edges(self) -> list[tuple[str, str]]:
        """From what has to end to what waits for it."""
        ids = {node.step_id for node in self.nodes}
        return [(before, node.step_id) for node in self.nodes for before in node.needs if before in ids]

    def graph(self) -> Graph:
        ids = {node.step_id for node in self.nodes}
        return Graph.from_needs(
            {node.step_id: tuple(need for need in node.needs if need in ids) for node in self.nodes}
        )

    def critical_edges(self) -> set[tuple[str, str]]:
        return set(zip(self.critical, self.critical[1:], strict=False))


def tool_of(step: Step) -> str:
    """The tools that it calls."""
    return step.tool or ", ".join(dict.fromkeys(action.tool for action in step.actions))


def node_of(step: Step) -> Node:
    """It, as a plan has it."""
    how = [text for given, text in ((step.for_each, "for each"), (step.when, "if …")) if given]
    name = step.name if step.name != step.step_id else ""
    return Node(step.step_id, name, tool_of(step), step.dependencies, " · ".join(how))


def _span(step: Step, known: StepState | None) -> Span:
    if known is None:
        return Span(tool_of(step))
    return Span(tool_of(step), known.started, known.ended, known.status == "skipped")


def _stands(
    step: Step, known: StepState | None, said: Mapping[str, str], until: float, *, several: bool
) -> Node:
    node = node_of(step)
    if known is None:
        return node._replace(status="pending")
    secs = known.secs
    if secs is None and known.started is not None:
        secs = max(until - known.started - known.idle, 0.0)
    note = known.fault.message if known.fault is not None and known.status == "failed" else ""
    if known.skip is not None and known.status == "skipped":
        note = known.skip.reason
    return node._replace(
        status=said.get(step.step_id, known.status),
        secs=secs,
        tries=max((call.attempt for call in known.calls.values()), default=0),
        version=known.born if several else 0,
        note=note,
    )
