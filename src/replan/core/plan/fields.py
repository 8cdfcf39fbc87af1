"""The fields of a plan, of its steps and of their actions, by whatever names; what is none of them is a fault.

It may be meant to stop, order or change what is done, so only what is known to speak to readers alone is left out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from replan.core.data.for_readers import FOR_READERS, NOTHING, as_word, folded
from replan.core.data.spellings import Spellings
from replan.core.data.taken_back import is_as_ever, says_no
from replan.core.plan.graph import Graph
from replan.core.plan.index import PlannedCall
from replan.core.types import JsonObject, Step

MOST_TOLD = 100
"""Faults of form that are told: nobody would read more, and they go back to the model."""

ACTION_FIELDS: dict[str, tuple[str, ...]] = {
    "action_id": ("id", "step_id"),
    "name": ("title",),
    "tool": ("tool_id", "tool_name"),
    "parameters": ("params", "arguments", "args", "input", "inputs"),
    "dependencies": ("depends_on", "needs", "after", "requires"),
    "repeat": (),
    "repeat_reason": ("repeat_because", "reason_for_repeat"),
}
STEP_FIELDS: dict[str, tuple[str, ...]] = {
    **{name: others for name, others in ACTION_FIELDS.items() if name != "action_id"},
    "step_id": ("id",),
    "expected_output": (),
    "actions": ("steps", "body", "sub_steps"),
    "when": ("condition", "if", "only_if", "run_if", "run_when"),
    "for_each": (),
    "timeout_secs": ("timeout", "timeout_seconds"),
    "estimated_secs": ("estimated_duration", "estimated_time", "duration"),
    "requires_approval": ("needs_approval", "approval", "approval_required", "require_approval"),
    "allow_failed_items": ("allow_item_failures", "skip_failed_items"),
    "instead_of": (
        "replaces",
        "in_place_of",
        "in_stead_of",
        "stands_for",
        "takes_place_of",
        "takes_the_place_of",
    ),
    "until": ("poll_until", "repeat_until", "wait_until", "retry_until"),
    "every_secs": ("poll_every_secs", "poll_interval_secs", "interval_secs"),
    "limit_secs": ("poll_limit_secs", "give_up_after_secs"),
}
DECLINING: dict[str, tuple[str, ...]] = {
    "cannot": ("cannot_because", "cannot_reason", "impossible", "impossible_because"),
    "ask_first": (
        "ask", "question", "questions", "clarification", "clarifications", "clarification_needed", "clarifying_question",
        "clarifying_questions",
    ),
}  # fmt: skip
"""What is said in place of steps."""
INSTEAD_OF_STEPS = tuple(name for own, others in DECLINING.items() for name in (own, *others))
"""What a plan without `steps` may have."""
PLAN_FIELDS: dict[str, tuple[str, ...]] = {
    "steps": (),
    "more": (),
    **DECLINING,
    "reasoning": (),
    "task_type": (),
    "workflow_id": (),
    "task_description": ("task",),
    "estimated_duration": ("estimated_secs", "estimated_time", "duration"),
    "plan_id": ("id",),
    "version": (),
}
_TOLD_ONCE = frozenset({
    "tool", "parameters", "dependencies", "when", "requires_approval", "steps", "more", "actions", "for_each", "repeat",
    "timeout_secs", "allow_failed_items", "instead_of", "until", "every_secs", "limit_secs",
})  # fmt: skip
"""Fields of which two values would be two meanings; of a guess of how long a step takes its own is taken."""
_MATTERS = _TOLD_ONCE | set(DECLINING)
"""Fields that change what is done: a name that only begins with _ may still mean one of them."""
_EMPTY: Mapping[str, tuple[Any, ...]] = {"steps": (None,)}
"""No steps are said by an empty list: it is not nothing."""

_OF_PLANS = frozenset(
    _name.replace("_", "")
    for _name in (
        *FOR_READERS,
        "objective",
        "overview",
        "assumptions",
        "total_steps",
        "step_count",
        "estimated_steps",
        "$schema",
        "plan_name",
        "task_id",
        "strategy",
        "approach",
        "context",
        "considerations",
        "constraints",
        "requirements",
        "risk",
        "risks",
        "tools",
        "tools_used",
        "required_tools",
        "metadata",
        "complexity",
        "priority",
        "language",
        "author",
        "created_at",
        "output",
        "final_output",
    )
)
_OF_STEPS = frozenset(
    _name.replace("_", "")
    for _name in (
        *FOR_READERS, "order", "index", "number", "step", "step_number", "step_name", "display_name", "priority", "phase", "group",
        "output", "outputs", "output_key", "result", "refs", "references", "source", "verification", "effect", "risk", "critical",
        "is_final", "output_variable", "output_name", "store_as", "side_effects", "reversible", "postconditions", "estimated_cost", "risk_level",
    )
)  # fmt: skip
_SAYS_NOTHING_AS: Mapping[str, frozenset[Any]] = {
    "status": frozenset({"pending", "planned", "todo", "notstarted", "ready", "new", "open", "waiting", "queued", "scheduled"}),
    "type": (_kinds := frozenset({
        "plan", "executionplan", "step", "task", "action", "operation", "tool", "tooluse", "toolcall", "function", "functioncall",
        "call", "api", "apicall", "command", "query", "read", "write",
    })),
    "kind": _kinds,
    "parallel": frozenset({True, "true", "yes"}),
    "onerror": (_stops := frozenset({"stop", "abort", "fail", "halt", "raise", "failtask"})),
    "onfailure": _stops,
}  # fmt: skip
"""Fields that say something to whoever runs it with any other value than these."""


def order_of(raw: JsonObject) -> float | None:
    """The place among the steps that a field of a step gives it (`order: 2`, `phase: "2 after look"`)."""
    for key, value in raw.items():
        if folded(key) in _ORDERS and not isinstance(value, bool):
            found = _NUMBER.search(str(value)[:40])
            if found is not None:
                return float(found.group())
    return None


_ORDERS = frozenset({"order", "phase"})
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?")


def named_of_plan(raw: JsonObject, faults: list[str]) -> JsonObject:
    """The fields of a plan by their own names."""
    return named(raw, PLAN_FIELDS, "the plan", faults)


def named(
    raw: JsonObject, fields: Mapping[str, tuple[str, ...]], where: str, faults: list[str]
) -> JsonObject:
    """The fields by their own names, however they are spelled; what says nothing to whoever runs the step is left out.

    Any other is a fault. What was meant by a near miss shows nonetheless.
    """
    if raw.keys() <= fields.keys():
        return raw
    own = {folded(name): name for name in fields}
    others = {folded(other): name for name, all_others in fields.items() for other in all_others}
    free = _OF_PLANS if fields is PLAN_FIELDS else _OF_STEPS
    found = Spellings(_TOLD_ONCE, _EMPTY)
    guessed: JsonObject = {}
    for key, value in raw.items():
        plain = folded(key)
        if key.startswith(("_", "x-")):
            bare = folded(key.lstrip("_").removeprefix("x-"))
            if own.get(bare, others.get(bare)) in _MATTERS:
                faults.append(
                    f"{where} has {key!r}, and what begins with _ or x- is left out: write {key.lstrip('_').removeprefix('x-')!r} if it is meant, "
                    "or call it otherwise"
                )
        elif (name := own.get(plain, others.get(plain))) is not None:
            if fault := found.take(name, key, value):
                faults.append(f"{where} has {fault}")
        elif _for_nobody(key, plain, value, free):
            continue
        elif len(faults) >= MOST_TOLD:
            faults.append("")  # it is counted only
        elif near := difflib.get_close_matches(plain[:80], own, 1, 0.8):
            faults.append(f"{where} has no field {key!r}; did you mean {own[near[0]]!r}?")
            guessed.setdefault(own[near[0]], value)
        else:
            faults.append(_unknown(key, plain, value, fields, where))
    return guessed | found.fields


def _for_nobody(key: str, plain: str, value: Any, free: frozenset[str]) -> bool:
    """True if whoever runs the step is told nothing by it."""
    if plain in free:
        return not says_no(key, value)
    return value in NOTHING or _says_nothing(plain, value) or is_as_ever(key, value)


def _says_nothing(plain: str, value: Any) -> bool:
    known = _SAYS_NOTHING_AS.get(plain)
    if known is None:
        return False
    return (as_word(value) if isinstance(value, str) else value is True and value) in known


def _unknown(key: str, plain: str, value: Any, fields: Mapping[str, tuple[str, ...]], where: str) -> str:
    if plain in _SAYS_NOTHING_AS:
        return f"{where} has {key!r}: {str(value)[:60]!r}, which is not read: leave it out, and leave out what is not to be done"
    if fields is ACTION_FIELDS and (of_steps := _of_steps(plain)):
        return f"{where} has no field {key!r}, which steps have: write {of_steps!r} on the step, or make a step of its own of the action"
    if fields is not PLAN_FIELDS:
        return f"{where} has no field {key!r}; there are: {', '.join(fields)}"
    if of_steps := _of_steps(plain):
        return f"the plan has no field {key!r}, which steps have: write {of_steps!r} on each step that it is meant for"
    return (
        f"the plan has no field {key!r}: leave it out, or put into `reasoning`, which nothing goes by, what is for readers; a plan that is "
        "not to be run has no steps, and says why in `cannot`"
    )


def _of_steps(plain: str) -> str:
    """The field of a step that has this name; empty if none has."""
    return next((n for n, names in STEP_FIELDS.items() if plain in (folded(n), *map(folded, names))), "")


_ROOM = 400_000
"""Steps that are looked at in one plan."""


def order_violations(
    steps: Sequence[Step], calls_of: Sequence[Sequence[PlannedCall]], graph: Graph
) -> Iterator[str]:
    """Each effect that does not wait for a step which has a lower number, with the first such step.

    Steps run by their dependencies alone: where the numbers only tell what these say, they are for readers.
    """
    numbered = [(step.order, step.step_id) for step in steps if step.order is not None]
    room = _ROOM
    for step, calls in zip(steps, calls_of, strict=True):
        if step.order is None or all(call.tool is None or call.tool.effect == "reads" for call in calls):
            continue
        lower = [(order, name) for order, name in numbered if order < step.order]
        before = set(graph.upstream(step.step_id)) if lower else set()
        room -= len(numbered) + len(before)
        if room < 0:
            return
        for order, name in lower:
            if name not in before:
                yield (
                    f"step {step.step_id!r} is number {step.order:g} by its `order` or `phase` and does not wait for step {name!r}, which is "
                    f"{order:g}: steps run by their `dependencies` alone; write {name!r} there if it has to be done before, else leave the numbers out"
                )
                break
