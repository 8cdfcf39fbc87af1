"""A model that says what the test tells it to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import pytest

from replan.core.reflection import ACTION_TYPES
from replan.core.types import Dimensions, Evaluation, Fault, Plan, Role, Step, ToolSpec
from replan.ports import ModelReply, ModelRequest
from replan.reasoning.prompting.prompts import Rendered
from replan.reasoning.prompting.recovery_view import FailureView, RoundView, TryView
from replan.reasoning.prompting.view import StepReport, TaskView


class Asked(NamedTuple):
    role: Role
    request: ModelRequest
    prompt: Rendered
    attempt: int


class Script:
    """A `Talk` that gives these answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Any, style: str = "standard") -> None:
        self.style = style
        self.asked: list[Asked] = []
        self._answers = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]

    async def ask(self, role: Role, request: ModelRequest, prompt: Rendered, attempt: int) -> ModelReply:
        self.asked.append(Asked(role, request, prompt, attempt))
        return ModelReply(text=self._answers[len(self.asked) - 1])


@pytest.fixture
def script() -> type[Script]:
    return Script


LABEL = ToolSpec(
    id="print_label",
    description="Print a label.",
    effect="once",
    parameters={
        "type": "object",
        "properties": {
            "size": {"enum": ["A4", "A5", "A6"]},
            "text": {"type": "string"},
            "pin": {"type": "string"},
        },
        "required": ["size", "text"],
    },
    secrets=("pin",),
)
STAMP = LABEL.model_copy(update={"id": "stamp", "aliases": ("Stamp It",), "description": "Stamp a text."})
QUEUE = ToolSpec(id="print_queue", description="What is being printed.", effect="reads")
TASK = TaskView(
    description="Label the parcel for Bodø",
    metadata={"team": "red", "pin": "***"},
    today="2031-02-03",
)
STEP = Step(
    step_id="step_2",
    name="the label",
    tool="print_label",
    parameters={"size": "A9", "text": "${step_1.output.name}", "pin": "hunter2-secret"},
    dependencies=("step_1",),
    expected_output="a printed label",
)


V = TypeVar("V", FailureView, RoundView)


def _with_people(view: V, people: tuple[str, ...]) -> V:
    return replace(view, task=view.task.model_copy(update={"people": people}))


@pytest.fixture
def failure_view() -> Callable[..., FailureView]:
    """A failed step; every field may be given otherwise."""

    def build(people: tuple[str, ...] = (), **changes: Any) -> FailureView:
        fields: dict[str, Any] = {
            "task": TASK,
            "step": STEP,
            "place": "item 3",
            "tool": LABEL,
            "parameters": {"size": "A9", "text": "Bodø", "pin": "***"},
            "fault": Fault(category="parameter_error", kind="http", message="size: unknown A9", status=422),
            "tools": [LABEL, STAMP, QUEUE],
            "substitutes": ["stamp"],
            "done": [StepReport("step_1", "the name", "lookup", output={"name": "Bodø"})],
            "tries": [
                TryView(
                    "print_label",
                    {"size": "A8"},
                    "parameter_error: size: unknown A8",
                    "retry with A9",
                    "so done",
                )
            ],
            "readings": [],
            "allowed": ACTION_TYPES[:5],
        }
        return _with_people(FailureView(**fields | changes), people)

    return build


@pytest.fixture
def round_view() -> Callable[..., RoundView]:
    """A round in which one step failed; every field may be given otherwise."""

    def build(people: tuple[str, ...] = (), **changes: Any) -> RoundView:
        fields: dict[str, Any] = {
            "task": TASK,
            "plan": Plan(
                plan_id="plan_1",
                version=3,
                steps=(Step(step_id="step_1", tool="lookup", parameters={"name": "parcel"}), STEP),
            ),
            "steps": [
                StepReport("step_1", "the name", "lookup", output={"name": "Bodø"}),
                StepReport(
                    "step_2", "the label", "print_label", status="failed", error="parameter_error: size"
                ),
            ],
            "evaluation": Evaluation(
                overall_score=41.5,
                is_successful=False,
                dimensions=Dimensions(completeness=37, correctness=90, efficiency=80, reliability=40),
                failures=("no label was printed",),
            ),
            "trigger": "the round was judged, and did not do",
            "history": ["round 1 (full_replan): the printer was offline"],
            "statistics": {"replans": "1", "steps failed": "2"},
            "budget": "7 of 20 model calls",
            "round": 2,
            "repeats": [],
        }
        return _with_people(RoundView(**fields | changes), people)

    return build
