"""What a diagnosis says: of one failed step, and of a whole round (specification §6 to §8)."""

from __future__ import annotations

from typing import Any, Literal, get_args

from replan.core.types import Category, Frozen, JsonObject, StepId

ActionType = Literal[
    "retry_with_params",
    "retry_with_tool",
    "repair_step",
    "replan",
    "trigger_overall_reflection",
    "verify_outcome",
    "settle_outcome",
]
"""What may be done about a failed step. The last two are for calls of which nobody knows whether they took effect."""
ACTION_TYPES: tuple[ActionType, ...] = get_args(ActionType)
RETRIES: frozenset[ActionType] = frozenset({"retry_with_params", "retry_with_tool"})
"""Layer 1 of the ladder."""

StrategyType = Literal[
    "full_replan", "replan_from_step", "skip_steps", "add_remediation_steps", "adjust_dependencies"
]
STRATEGY_TYPES: tuple[StrategyType, ...] = get_args(StrategyType)
NEW_STEPS: frozenset[StrategyType] = frozenset({"full_replan", "replan_from_step", "add_remediation_steps"})
"""The strategies for which a planner writes new steps."""
ProblemNature = Literal["parameters", "tools", "decomposition", "external", "server"]
NATURES: tuple[ProblemNature, ...] = get_args(ProblemNature)


class SuggestedAction(Frozen):
    """One remedy and what it needs.

    `data` by type: `retry_with_params` parameter → value; `retry_with_tool` `{tool_id, parameters?}`;
    `repair_step` `{hint}`; `replan` `{advice}`; `trigger_overall_reflection` `{summary}`;
    `verify_outcome` `{tool_id, parameters}` of a reading tool; `settle_outcome` `{happened, output?, evidence}`.
    """

    type: ActionType
    data: JsonObject = {}

    def words(self) -> str:
        """The text that the data carry for a person or a planner; empty if they carry none."""
        for name in ("hint", "advice", "summary", "evidence"):
            text = self.data.get(name)
            if isinstance(text, str) and text.strip():
                return text.strip()
        return ""


class StepReflection(Frozen):
    """Why a step failed and what to do about it. `confidence` is 0 to 1."""

    root_cause_category: Category
    root_cause: str = ""
    is_recoverable: bool = True
    confidence: float = 0.5
    analysis: str = ""
    suggested_action: SuggestedAction
    alternative_solutions: tuple[str, ...] = ()
    improvement_suggestions: tuple[str, ...] = ()


class Adjustment(Frozen):
    """Dependencies to add to a step and to take from it."""

    step_id: StepId
    add: tuple[StepId, ...] = ()
    remove: tuple[StepId, ...] = ()


class Strategy(Frozen):
    """How the plan is to be made anew: a type and the fields of its row in specification §8."""

    type: StrategyType
    step_id: StepId | None = None
    """`replan_from_step`: the first step to be written anew; `add_remediation_steps`: the step that they help."""
    step_ids: tuple[StepId, ...] = ()
    reason: str = ""
    suggestions: tuple[str, ...] = ()
    adjustments: tuple[Adjustment, ...] = ()


class OverallReflection(Frozen):
    """The diagnosis of a round, and whether another one has a point."""

    reflection_id: str = ""
    problem_nature: ProblemNature
    should_replan: bool
    reflection_text: str = ""
    root_causes: tuple[str, ...] = ()
    incorrect_assumptions: tuple[str, ...] = ()
    alternative_approaches: tuple[str, ...] = ()
    optimization_suggestions: tuple[str, ...] = ()
    improvement_suggestions: tuple[str, ...] = ()
    lessons_learned: tuple[str, ...] = ()
    replanning_strategy: Strategy | None = None
    unread_strategy: str = ""
    """What is wrong with a strategy that could not be made out."""
    done_in_substance: bool = False
    """The task is done but for a shortfall that needs no further round."""
    ask: str = ""
    """What a person would have to say or do, where only a person can help."""
    final_output: str = ""
    """Where it ends here: what was reached of what the user asked for, in words for the user."""

    def guidance(self) -> JsonObject:
        """What the planner is told of it."""
        told: dict[str, Any] = {
            "root_causes": self.root_causes,
            "incorrect_assumptions": self.incorrect_assumptions,
            "alternative_approaches": self.alternative_approaches,
            "optimization_suggestions": self.optimization_suggestions,
            "lessons_learned": self.lessons_learned,
        }
        return {name: list(texts) for name, texts in told.items() if texts}
