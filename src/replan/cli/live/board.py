"""The steps of a plan as people see them, counted by status."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from replan.core.plan.graph import Graph
from replan.core.types import Plan

CLOSED = ("succeeded", "failed", "skipped")


@dataclass(slots=True)
class StepView:
    """One step, as shown."""

    step_id: str
    name: str = ""
    tool: str = ""
    needs: tuple[str, ...] = ()
    layer: int = 0
    status: str = "pending"
    started: float | None = None
    ended: float | None = None
    idle: float = 0.0
    """Seconds between the two in which nobody drove the task."""
    attempt: int = 0
    items: int | None = None
    items_done: int = 0
    reused: bool = False
    message: str = ""
    """The latest progress, retry, error or reason to skip."""
    progress: float | None = None
    """From 0 to 1, where the tool tells."""

    def secs(self, now: float) -> float | None:
        """How long it was at work, or has been by now; None: it was not started."""
        return None if self.started is None else (self.ended or now) - self.started - self.idle


@dataclass(slots=True)
class Board:
    """The steps of the latest plan; what is counted is kept up to date by `move`, in constant time."""

    plan_version: int = 0
    steps: dict[str, StepView] = field(default_factory=dict)
    layers: list[list[str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    running: dict[str, None] = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of steps that wait for something outside: what for, in words, by its id."""
    begun: float | None = None
    """When the first of them was started."""
    _who_waits: dict[str, str] = field(default_factory=dict)
    """The id of the step that waits for it."""

    def shown(self, step: StepView) -> str:
        """Its status, or that it waits for something outside."""
        return "waiting" if step.step_id in self.waiting and step.status not in CLOSED else step.status

    def waits_on(self, step_id: str, what: str, words: str) -> None:
        """It waits for that from now on."""
        if step_id in self.steps:
            self.waiting.setdefault(step_id, {})[what] = words
            self._who_waits[what] = step_id

    def is_there(self, what: str) -> None:
        """Nobody waits for that any longer."""
        waits = self.waiting.get(step_id := self._who_waits.pop(what, ""), {})
        waits.pop(what, None)
        if not waits:
            self.waiting.pop(step_id, None)

    @property
    def done(self) -> int:
        """Steps that have come to an end."""
        return sum(self.counts[status] for status in CLOSED)

    def waits_for(self, step: StepView) -> list[str]:
        """Which steps have to end before this one can start."""
        return [need for need in step.needs if (other := self.steps.get(need)) and other.status not in CLOSED]

    def take_plan(self, plan: Plan) -> None:
        """Show this plan; steps that it keeps stay as they are."""
        kept = self.steps
        self.plan_version = plan.version
        self.layers = Graph.of(plan).layers()
        layer_of = {step_id: number for number, layer in enumerate(self.layers, 1) for step_id in layer}
        self.steps = {}
        for step in plan.steps:
            view = kept.get(step.step_id) or StepView(step.step_id)
            view.name = step.name
            view.tool = step.tool or ", ".join(dict.fromkeys(action.tool for action in step.actions))
            view.needs = step.dependencies
            view.layer = layer_of.get(step.step_id, 0)
            self.steps[step.step_id] = view
        self.counts = Counter(step.status for step in self.steps.values())
        self.running = {name: None for name, step in self.steps.items() if step.status == "running"}
        self.failed = {name: None for name, step in self.steps.items() if step.status == "failed"}
        self.waiting = {name: waits for name, waits in self.waiting.items() if name in self.steps}
        starts = [step.started for step in self.steps.values() if step.started is not None]
        self.begun = min(starts, default=None)

    def move(self, step: StepView, status: str) -> None:
        """Give the step another status."""
        self.counts[step.status] -= 1
        self.counts[status] += 1
        self.running.pop(step.step_id, None)
        self.failed.pop(step.step_id, None)
        if status in CLOSED:
            self.waiting.pop(step.step_id, None)
        step.status = status
        if status == "running":
            self.running[step.step_id] = None
        elif status == "failed":
            self.failed[step.step_id] = None
