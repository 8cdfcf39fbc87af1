"""Where a judgement contradicts itself: decided here once, and put into words where it is told."""

from __future__ import annotations

from typing import Literal, TypeAlias

from replan.core.limits.policy import Policy
from replan.core.types import Evaluation

COMPLETE = 80.0
"""Completeness without which nothing is done."""

HALF_RIGHT = 50.0
"""Correctness below which nothing is a success, whatever the overall score."""

Contradiction: TypeAlias = Literal["left_out", "wrong", "parts_too_low", "score_too_low", "score_too_high"]
"""A yes with an effect that is not accounted for, with a wrong result, of which nothing is done or less than half is right, or with a
score that says no; a no with one that says yes."""


def contradiction(policy: Policy, evaluation: Evaluation) -> Contradiction | None:
    """What contradicts what in a judgement; None if nothing does."""
    enough = evaluation.overall_score >= policy.success_threshold
    if not evaluation.is_successful:
        return "score_too_high" if enough else None
    if any(one.missing for one in evaluation.left_out):
        return "left_out"
    if evaluation.wrong_results:
        return "wrong"
    if evaluation.dimensions.correctness < HALF_RIGHT or not evaluation.dimensions.completeness:
        return "parts_too_low"
    return None if enough or is_excellent(policy, evaluation) else "score_too_low"


def is_excellent(policy: Policy, evaluation: Evaluation) -> bool:
    """True if the answer is so right and complete that the overall score does not matter."""
    return (
        evaluation.dimensions.correctness >= policy.correctness_excellent
        and evaluation.dimensions.completeness >= COMPLETE
    )
