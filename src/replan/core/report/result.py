"""What a task came to: a reading of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, cast

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import TypeVar

from replan.core.calls.origins import Origin
from replan.core.report.failure import FailureReport, reported
from replan.core.types import Failure, Plan, Usage
from replan.errors import TaskFailure, UserInterventionRequired

if TYPE_CHECKING:
    from replan.core.drawing.graph import Times
    from replan.core.drawing.shown import TaskDrawing


class CallResult(BaseModel):
    """One call that a step made."""

    model_config = ConfigDict(frozen=True)

    tool: str
    parameters: dict[str, Any] = {}
    """As called, secrets masked; empty where an earlier call's output was used again."""
    status: str
    action_id: str | None = None
    item: int | None = None
    """Of a `for_each`: which item, counted from 1."""
    plan_version: int = 1
    """The plan that it was made under."""
    attempts: int = 1
    reused: bool = False
    effect: str = "once"
    output: Any = None
    """Where the step's own output does not hold it."""
    error: str | None = None


_MARKS = {"succeeded": "✓", "failed": "✗", "skipped": "–", "waiting": "?"}


class StepResult(BaseModel):
    """One step: of the last plan, or of an earlier one that has left it out."""

    model_config = ConfigDict(frozen=True)

    step_id: str
    name: str
    tool: str
    status: str
    output: Any = None
    error: str | None = None
    reason: str | None = None
    """Why it was skipped."""
    attempts: int = 0
    reused: bool = False
    duration_secs: float = 0.0
    plan_version: int = 1
    """The plan that brought it, as it is."""
    removed_by: int | None = None
    """The plan that left it out; None: it is in the last plan."""
    replaced_by: str | None = None
    """The step of a later plan that took its place, if it had not succeeded."""
    repeat_reason: str = ""
    """Why the plan means its effect once more."""
    failed_items: tuple[int, ...] = ()
    """Items of a `for_each` that have no output, counted from 1."""
    calls: tuple[CallResult, ...] = ()
    """Every call that it made, also in an earlier form; the latest last."""


class WaitingFor(BaseModel):
    """What a task waits for: a person who is to agree to a call or to say something, somebody outside, or a time."""

    model_config = ConfigDict(frozen=True)

    kind: str
    """`approval`, `review` (may the plan be carried out), `outcome` (did a call take effect), `intervention` (what is needed for the task to go on), `question` (what a step
    asks; see `answer_schema`); or `key` (the model
    refuses its key, or `secrets` of the request have to be given again) and `model` (it cannot be reached), where nothing is to be answered, and the task is resumed; `callback`
    (somebody outside uses its token, the `id`), `time` (it goes on by itself, see `until`), `pause` (a person has paused it, and
    resumes it)."""
    id: str
    """Of the approval or the question; the token of a callback; empty where nothing is to be answered."""
    text: str
    """What is asked, alone."""
    background: str = ""
    """How it came to it, and what is advised."""
    step_id: str | None = None
    tool_id: str | None = None
    parameters: dict[str, Any] | None = None
    """Of the call to be agreed to, secrets masked, large values cut."""
    hidden: dict[str, str] = {}
    """Of those that are not shown as they are: a mark, which is another for another value."""
    item: int | None = None
    """Which item of a `for_each` the call is for, from 1."""
    origin: dict[str, tuple[Origin, ...]] = Field(default={}, exclude_if=lambda value: not value)
    """Of a call to be agreed to: where each parameter comes from."""
    item_value: Any = None
    """That item, secrets masked, a large one cut."""
    until: float | None = None
    """Of a time: when, in Unix seconds."""
    answer_schema: dict[str, Any] = Field(default={}, exclude_if=lambda value: not value)
    """Of a step's question: what the answer has to fit (JSON Schema)."""
    secrets: tuple[str, ...] = ()
    """Names of what was given with the request and is kept nowhere: the task is resumed with it."""
    plan_version: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a review: which plan it is about."""
    expires: float | None = Field(default=None, exclude_if=lambda value: value is None)
    """Unix seconds: nobody is waited for any longer, and no answer is no refusal."""


class _PlanBeside:
    """The plan that a result came of, and when its steps were at work: for drawings. A result is the same with it and without."""

    def __init__(self, plan: Plan, times: Times) -> None:
        self.plan = plan
        self.times = times

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, _PlanBeside)

    def __hash__(self) -> int:
        return 0


T = TypeVar("T", default=Any)


class TaskResult(BaseModel, Generic[T]):
    """The result object: what `replan run --json` prints and the service answers.

    `T`: what `.output` is, where `Replan.run` was given an `output_type`.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str
    status: str
    is_success: bool
    final_score: float | None = None
    total_rounds: int = 0
    final_output: Any = None
    total_duration_secs: float = 0.0
    """Time in which somebody drove the task."""
    failure: FailureReport | None = None
    shortfall: tuple[str, ...] = ()
    """What is missing of a task that succeeded, being done in substance."""
    waiting_for: tuple[WaitingFor, ...] = ()
    """What a waiting task waits for."""
    ask: tuple[WaitingFor, ...] = ()
    """What steps have asked (`ask_user`) and nobody has answered: there was nobody to be asked, or it took too long."""
    usage: Usage = Usage()
    steps: tuple[StepResult, ...] = ()
    _plan: _PlanBeside | None = PrivateAttr(default=None)

    @field_validator("failure", mode="before")
    @classmethod
    def _in_parts(cls, failure: Any) -> Any:
        plain = isinstance(failure, Failure) and not isinstance(failure, FailureReport)
        return reported(failure) if plain else failure

    def goes_with(self, plan: Plan, times: Times) -> None:
        """Its steps are those of this plan, and were at work from when to when."""
        self._plan = _PlanBeside(plan, times)

    def drawing(self) -> TaskDrawing | None:
        """Its plan as a graph, with how each step stands and the critical path; None for a result that came as JSON."""
        if self._plan is None:
            return None
        from replan.core.drawing.graph import LeftOut, Stands, TaskGraph
        from replan.core.drawing.shown import TaskDrawing

        plan, several = self._plan.plan, self._plan.plan.version > 1
        stands = {
            step.step_id: Stands(
                step.status, step.duration_secs or None, step.attempts, step.plan_version if several else 0,
                step.error or step.reason or "",
            )
            for step in self.steps
            if step.removed_by is None
        }  # fmt: skip
        gone = tuple(
            LeftOut(step.step_id, step.status, step.removed_by)
            for step in self.steps
            if step.removed_by is not None
        )
        return TaskDrawing(
            TaskGraph.of_steps(
                plan, stands, self._plan.times, task_id=self.task_id, status=self.status, left_out=gone
            )
        )

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        from html import escape

        from replan.core.html import short, table, text_html

        score = "" if self.final_score is None else f", score {self.final_score:g}"
        used = self.usage
        head = (
            f"<p><b>{escape(self.status)}</b>{score}, {self.total_rounds} "
            f"{'round' if self.total_rounds == 1 else 'rounds'}, {used.llm_calls} model calls, {used.tool_calls} tool calls, "
            f"{used.input_tokens + used.output_tokens} tokens, {self.total_duration_secs:.1f} s "
            f"<code>{escape(self.task_id)}</code></p>"
        )
        answer = (
            f"<p>{text_html(self.final_output)}</p>" if self.is_success else f"<p>{escape(self.reason)}</p>"
        )
        rows = [
            (
                f"{_MARKS.get(step.status, '')} {step.step_id}",
                step.name,
                step.tool,
                step.status,
                f"{step.duration_secs:.2f} s",
                step.error or step.reason or ("" if step.output is None else short(step.output)),
            )
            for step in self.steps
        ]
        drawing = self.drawing()
        picture = "" if drawing is None else drawing._repr_html_()
        return head + answer + picture + table(("step", "name", "tool", "status", "time", "output"), rows)

    def raise_for_failure(self) -> Self:
        """This result, if the task succeeded; else `UserInterventionRequired` where a person can mend it, or
        `TaskFailure`."""
        if self.is_success:
            return self
        reason = self.reason
        advice = self.failure.advice if self.failure is not None else ()
        if self.failure is not None and self.failure.kind == "user_intervention_required":
            raise UserInterventionRequired(reason, advice=advice)
        raise TaskFailure(reason, advice=advice)

    @property
    def output(self) -> T:
        """The answer. None where the task did not succeed: look at `succeeded`, or call `raise_for_failure`."""
        return cast("T", self.final_output)

    @property
    def reason(self) -> str:
        """Why the task did not succeed, or what it waits for, in a sentence; empty if it did."""
        if self.is_success:
            return ""
        if self.failure is not None:
            return self.failure.reason
        waits = f": {self.waiting_for[0].text}" if self.waiting_for else ""
        return f"the task is {self.status}{waits}"

    @property
    def succeeded(self) -> bool:
        return self.is_success

    @property
    def score(self) -> float | None:
        return self.final_score

    @property
    def rounds(self) -> int:
        return self.total_rounds
