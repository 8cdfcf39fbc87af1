"""What programs give as keyword arguments: the fields of the policy, checked and worded as the configuration is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypedDict

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from replan.config.keys import SECTIONS
from replan.config.sections import (
    Approval,
    BudgetSection,
    Count,
    Llm,
    Orchestrator,
    Reflection,
    Store,
    ToolService,
)
from replan.config.values import expected, found
from replan.core.limits.policy import Budget, OlderLimits, PlanLimits, Policy
from replan.core.types import JsonObject
from replan.errors import InputError


class Options(TypedDict, total=False):
    """How tasks are planned, run, judged and repaired: the names and bounds of `config.toml`."""

    budget: Budget | Mapping[str, Any]
    task_timeout_secs: float | None
    max_llm_calls: int | None
    max_tokens: int | None
    max_cost_usd: float | None
    max_tool_calls: int | None
    max_rounds: int | None
    limits: PlanLimits
    older: OlderLimits
    max_step_retries: int | None
    max_single_step_repairs: int | None
    max_task_replanning_attempts: int | None
    consecutive_failure_threshold: int | None
    max_reflection_rounds: int | None
    enable_step_level_reflection: bool
    enable_auto_reflection: bool
    trust_model_settlement: bool
    interactive: bool
    evaluation: Literal["model", "steps"]
    approval: Literal["never", "destructive", "all"]
    review_plan: bool
    approval_expires_secs: float | None
    success_threshold: float
    correctness_excellent: float
    enable_two_stage_planning: bool
    two_stage_tool_threshold: int
    tool_selection_threshold: float
    max_plan_corrections: int
    enable_parallel_execution: bool
    parallel_max_concurrent: int
    parallel_min_steps: int
    max_transient_retries: int
    max_output_bytes: int
    enable_streaming: bool
    output_schema: JsonObject | None


def _fields() -> dict[str, FieldInfo]:
    """What an option takes, as the section that configures the same says it."""
    known: dict[str, FieldInfo] = {}
    for section in (BudgetSection, Orchestrator, Reflection):
        known |= {name: field for name, field in section.model_fields.items() if name in Policy.model_fields}
    known |= BudgetSection.model_fields
    known |= {name: Reflection.model_fields[name] for name in OlderLimits.model_fields}
    known["task_timeout_secs"] = Orchestrator.model_fields["task_timeout_secs"]
    known["approval"] = Approval.model_fields["mode"]
    known["review_plan"] = Approval.model_fields["review_plan"]
    known["approval_expires_secs"] = Approval.model_fields["expires_secs"]
    known["max_transient_retries"] = ToolService.model_fields["max_retries"]
    known["max_output_bytes"] = Store.model_fields["max_output_bytes"]
    known["enable_streaming"] = Llm.model_fields["enable_streaming"]
    known["max_plan_corrections"] = FieldInfo.from_annotation(Count)
    known["interactive"] = FieldInfo.from_annotation(bool)
    return known


_FIELDS = _fields()
_BUDGET = frozenset(Budget.model_fields)
_OLDER = frozenset(OlderLimits.model_fields)


def policy_with(policy: Policy, given: Mapping[str, Any], *, beside: Iterable[str] = ()) -> Policy:
    """The policy with some options changed; `InputError` names what does not exist, or cannot be, and what would be right.

    `beside`: the names of the other arguments, which a misspelt one may mean.
    """
    if not given:
        return policy
    changes: dict[str, Any] = {}
    budget: dict[str, Any] = {}
    older: dict[str, Any] = {}
    for name, value in given.items():
        if name in _FIELDS:
            (budget if name in _BUDGET else older if name in _OLDER else changes)[name] = _checked(
                name, value
            )
        elif name == "budget":
            budget |= _budget(value)
        elif name in Policy.model_fields:
            changes[name] = value
        elif (section := _section_of(name)) is not None:
            raise InputError(
                f"{name!r} is not an option of Replan but a key of [{section}] in config.toml: give "
                f"settings=Settings.model_validate({{{section!r}: {{{name!r}: …}}}}) (replan.config.Settings)"
            )
        else:
            near = difflib.get_close_matches(name, [*Options.__annotations__, *beside], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if name in near:  # of one call, and not of all
                hint = " itself, but of its methods: give it to `run` or `submit`"
            raise InputError(f"{name!r} is not an option of Replan{hint}")
    if budget:
        changes["budget"] = policy.budget.model_copy(update=budget)
    if older:
        changes["older"] = changes.get("older", policy.older).model_copy(update=older)
    try:
        return Policy.model_validate({**policy.__dict__, **changes})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{place}: {first['msg'][:1].lower()}{first['msg'][1:]}, not {found(first['input'])}"
        ) from None


def _section_of(name: str) -> str | None:
    """The one section of the configuration that has this key."""
    found = [section for section, fields in SECTIONS.items() if name in fields.model_fields]
    return found[0] if len(found) == 1 else None


def _budget(value: Any) -> dict[str, Any]:
    if isinstance(value, Budget):
        return dict(value.__dict__)
    if not isinstance(value, Mapping):
        raise InputError(
            f"budget: expected a Budget or a mapping like {{'max_llm_calls': 20}}, found {found(value)}"
        )
    for name in value:
        if name not in _BUDGET:
            near = difflib.get_close_matches(str(name), sorted(_BUDGET), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(
                f"budget: {name!r} is not a limit{hint}; there are: {', '.join(sorted(_BUDGET))}"
            )
    return {name: _checked(name, each) for name, each in value.items()}


def _checked(name: str, value: Any) -> Any:
    if value is None and name in _BUDGET | _OLDER:
        return None
    try:
        return _adapter(name).validate_python(value, strict=True)
    except ValidationError:
        or_none = " or None" if name in _BUDGET | _OLDER else ""
        raise InputError(
            f"{name}: expected {expected(_FIELDS[name])}{or_none}, found {found(value)}"
        ) from None


@lru_cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = _FIELDS[name]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind)


# ── other arguments ───────────────────────────────────────────────────────────


def text_of(name: str, value: object) -> str:
    """The value, which has to be a text; `InputError` names the argument."""
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, found {found(value)}")
    return value


def mapping(name: str, value: object, example: Mapping[str, Any]) -> JsonObject:
    """The value as a dict of its own; `InputError` names the argument and shows an example."""
    if not isinstance(value, Mapping):
        hint = "; read a file with json.load" if isinstance(value, str | PurePath) else ""
        raise InputError(f"{name}: expected a mapping like {dict(example)}, found {found(value)}{hint}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{name}: expected names that are texts, found {found(key)} as a name")
    return dict(value)


def listed(tools: Any) -> tuple[Any, ...]:
    """The tools as they were given; `InputError` where one stands in place of the list."""
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        given = repr(tools) if isinstance(tools, str) else getattr(tools, "__name__", '"tools.py"')
        raise InputError(f"tools: expected a list, found {found(tools)}; write tools=[{given}]")
    return tuple(tools)
