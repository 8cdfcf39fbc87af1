"""What an oracle says when it does not know: the ways in which models are wrong about a failure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.recovery.inject import spoilt
from replan.core.types import JsonObject

Written = dict[str, Any] | str
PROSE = (
    "I am sorry about that. Something seems to have gone wrong, and I would try to look at it more closely."
)
NO_TOOL = "do_what_i_mean"
KINDS = ("wrong remedy", "placeholder", "unknown tool", "the same again", "wrong value", "prose", "empty")
"""`wrong value` passes every check of form: only the tool can refuse it."""


def reflection(category: str, kind: str, data: JsonObject, *, recoverable: bool | None = None) -> JsonObject:
    """An answer of `step_reflection`."""
    outside = category in ("server_error", "external_error")
    return {
        "root_cause_category": category,
        "root_cause": "as the error says",
        "is_recoverable": not outside if recoverable is None else recoverable,
        "confidence": 0.9,
        "suggested_action": {"type": kind, "data": data},
    }


def of_step(draw: random.Random, called: JsonObject) -> Written:
    """Nonsense about a failed call with these parameters."""
    name = next(iter(called), "value")
    wrong = wrong_values(called)
    answers: Mapping[str, Callable[[], Written]] = {
        "wrong remedy": lambda: reflection("server_error", "retry_with_params", {name: "other"}),
        "placeholder": lambda: reflection("parameter_error", "retry_with_params", {name: f"<{name}>"}),
        "unknown tool": lambda: reflection("tool_error", "retry_with_tool", {"tool_id": NO_TOOL}),
        "the same again": lambda: reflection("parameter_error", "retry_with_params", dict(called)),
        "wrong value": lambda: reflection("parameter_error", "retry_with_params", wrong),
        "prose": lambda: PROSE,
        "empty": lambda: "",
    }
    return answers[draw.choice(KINDS)]()


def of_doubt(draw: random.Random, reading: str) -> Written:
    """Nonsense about a call in doubt, of which this has been read: also a lie that quotes it."""
    return draw.choice(
        [
            reflection("unknown", "retry_with_params", {"again": True}),
            reflection("unknown", "settle_outcome", {"happened": False, "evidence": reading or "it said so"}),
            reflection("unknown", "verify_outcome", {"tool_id": NO_TOOL, "parameters": {}}),
            reflection("unknown", "verify_outcome", {"tool_id": "<a tool>"}),
            PROSE,
            "",
        ]
    )


def of_repair(draw: random.Random, step: JsonObject) -> Written:
    """Nonsense in place of a step written anew."""
    return draw.choice(_steps(step))


def of_plan(draw: random.Random, steps: Sequence[JsonObject]) -> Written:
    """Nonsense in place of new steps."""
    if not steps:
        return draw.choice([PROSE, ""])
    first = draw.choice(_steps(dict(steps[0])))
    return first if isinstance(first, str) else {"steps": [first, *steps[1:]]}


def _steps(step: JsonObject) -> list[Written]:
    parameters = step.get("parameters", {})
    name = next(iter(parameters), "value")
    return [
        {**step, "tool": NO_TOOL},
        {**step, "parameters": {**parameters, name: f"<{name}>"}},
        dict(step),
        {**step, "parameters": {**parameters, **wrong_values(parameters)}},
        {**step, "dependencies": [step.get("step_id", ""), "step_999"]},
        PROSE,
        "",
    ]


def of_round(draw: random.Random, step_ids: Sequence[str]) -> Written:
    """Nonsense about a round."""
    some = list(step_ids[:1]) or ["step_1"]

    def on(strategy: JsonObject, nature: str = "tools") -> JsonObject:
        return {"problem_nature": nature, "should_replan": True, "replanning_strategy": strategy}

    return draw.choice(
        [
            {"problem_nature": "external", "should_replan": False, "replanning_strategy": None},
            on({"type": "full_replan"}, "server"),
            on({"type": "replan_from_step", "step_id": "step_999"}),
            on({"type": "skip_steps", "step_ids": some}),
            on({"type": "adjust_dependencies", "adjustments": []}),
            {"problem_nature": "tools", "should_replan": False, "done_in_substance": True},
            PROSE,
            "",
        ]
    )


def wrong_values(parameters: JsonObject) -> JsonObject:
    """One value changed to another of its type; something else where none can be."""
    for name, value in parameters.items():
        if (wrong := spoilt(value)) is not None:
            return {name: wrong}
    return {"value": "other"}
