"""What is measured of one run."""

from __future__ import annotations

from dataclasses import dataclass

from bench.recovery.oracle import MODEL_SECS
from bench.recovery.task import Case
from bench.recovery.world import CALL_SECS
from replan.core.plan.graph import Graph


@dataclass(frozen=True)
class Row:
    """One case on one runner."""

    runner: str
    case: str
    group: str
    kind: str
    right: float
    """The probability with which the oracle was right."""
    ending: str
    """How it ends if everything is done right: `finished` or `reported`."""
    finished: bool
    reported: bool
    ended: str
    calls: int
    wasted: int
    duplicates: int
    lost: int
    model_calls: int
    secs: float
    critical_path: float | None
    """Of the right plan, with the model calls that it takes without any fault."""
    problem: str = ""
    """What broke, where the run did not come to its own end."""

    @property
    def right_end(self) -> bool:
        if self.kind == "timeout" and self.ended == "outcome_unknown":
            return True  # that it did not happen is a model's advice: without a person the doubt is told, and no call made
        return self.finished if self.ending == "finished" else self.reported


def critical_path(case: Case, models: int) -> float:
    """Seconds that the right plan takes when nothing goes wrong, with so many model calls in a row."""
    graph = Graph.from_needs({one.step_id: list(one.needs) for one in case.good})
    to_end = graph.distance_to_end(dict.fromkeys(graph.order, CALL_SECS))
    return max(to_end.values(), default=0.0) + models * MODEL_SECS
