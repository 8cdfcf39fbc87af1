"""Every kind that this release knows, in one union, and what stands for those that it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from replan.core.events.calls import (
    CallbackReceived,
    CallCompleted,
    CallFailed,
    CallStarted,
    OutcomeSettled,
    OutcomeUnknown,
    WaitStarted,
)
from replan.core.events.event import Event
from replan.core.events.forks import ForkMade, TaskForked
from replan.core.events.models import LlmCallCompleted, LlmCallStarted, LlmToken
from replan.core.events.people import (
    ApprovalExpired,
    ApprovalRequested,
    ApprovalResolved,
    CancelRequested,
    HintGiven,
    JudgementRequested,
    PauseRequested,
    QuestionAnswered,
    QuestionAsked,
    RequestTaken,
    ResumeRequested,
    RetryRequested,
)
from replan.core.events.planning import (
    PlanGenerated,
    PlanningStopped,
    PlanRejected,
    PlanUpdated,
    ReplanningStarted,
    ToolSelectionCompleted,
)
from replan.core.events.reviews import PlanReviewed, PlanReviewExpired, PlanReviewRequested
from replan.core.events.rounds import (
    EvaluationCompleted,
    OverallReflectionTriggered,
    ReflectionCompleted,
    RoundCompleted,
    RoundStarted,
)
from replan.core.events.steps import (
    StepCompleted,
    StepFailed,
    StepProgress,
    StepReady,
    StepReflected,
    StepRepaired,
    StepSkipped,
    StepStarted,
)
from replan.core.events.task import (
    BudgetWarning,
    ExecutionMode,
    PreviousTasksRead,
    ProgressUpdate,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
    TaskLeft,
    TaskResumed,
    TaskStarted,
    TaskSubmitted,
    TaskTimedOut,
    TaskWaiting,
    VersionsChanged,
)
from replan.core.types import JsonObject


class UnknownEvent(Event):
    """A kind that this release does not know: kept, shown, and without effect on the state."""

    if TYPE_CHECKING:
        type: Literal["unknown"]  # so that a comparison with a known kind narrows `AnyEvent` to that kind
    else:
        type: str
    data: JsonObject = {}


KnownEvent: TypeAlias = (
    TaskSubmitted
    | PreviousTasksRead
    | TaskForked
    | ForkMade
    | TaskStarted
    | TaskResumed
    | TaskLeft
    | RoundStarted
    | LlmCallStarted
    | LlmToken
    | LlmCallCompleted
    | ToolSelectionCompleted
    | PlanGenerated
    | PlanRejected
    | PlanUpdated
    | VersionsChanged
    | ExecutionMode
    | StepReady
    | StepStarted
    | CallStarted
    | CallCompleted
    | CallFailed
    | WaitStarted
    | CallbackReceived
    | OutcomeUnknown
    | OutcomeSettled
    | StepProgress
    | ProgressUpdate
    | StepCompleted
    | StepFailed
    | StepSkipped
    | StepReflected
    | StepRepaired
    | PlanReviewRequested
    | PlanReviewed
    | PlanReviewExpired
    | ApprovalRequested
    | ApprovalResolved
    | ApprovalExpired
    | QuestionAsked
    | QuestionAnswered
    | TaskWaiting
    | EvaluationCompleted
    | OverallReflectionTriggered
    | ReflectionCompleted
    | ReplanningStarted
    | PlanningStopped
    | RoundCompleted
    | BudgetWarning
    | CancelRequested
    | PauseRequested
    | ResumeRequested
    | HintGiven
    | RetryRequested
    | JudgementRequested
    | RequestTaken
    | TaskCompleted
    | TaskFailed
    | TaskCancelled
    | TaskTimedOut
)
AnyEvent: TypeAlias = KnownEvent | UnknownEvent
KINDS: dict[str, type[Event]] = {kind.model_fields["type"].default: kind for kind in get_args(KnownEvent)}
_TOLD = (
    LlmCallStarted,
    LlmToken,
    LlmCallCompleted,
    ExecutionMode,
    TaskLeft,
    PlanRejected,
    StepProgress,
    ProgressUpdate,
    BudgetWarning,
)
"""Kinds of which a task may lose one and still be what it is."""


def misread(event: AnyEvent) -> bool:
    """True for an event that cannot be read here, and without which the task would be another one.

    A newer release has written it, or it is damaged: a payment that was begun would be forgotten. A kind of which that
    cannot happen says so in its data: `"optional": true`.
    """
    if not isinstance(event, UnknownEvent):
        return False
    if event.type in KINDS:
        return KINDS[event.type] not in _TOLD
    return event.data.get("optional") is not True
