"""Is this plan the expected one, whatever its steps are called and in whatever order they stand?

An expected step is `{id, tool, parameters, after?}`. A parameter is a value, `{"any": [values]}` or
`{"contains": text}`; references name expected ids. `after` lists steps that have to be done before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from replan.core.graph import Graph
from replan.core.types import JsonObject, Plan, Step

_HEAD = re.compile(r"\$\{\s*([A-Za-z_][A-Za-z0-9_-]*)\.outputs?")


def is_right(plan: Plan, expected: Sequence[JsonObject]) -> bool:
    """True if the steps can be paired with the expected ones so that tools, parameters and order agree."""
    return len(plan.steps) == len(expected) and _pair(plan, expected, {})


def _pair(plan: Plan, expected: Sequence[JsonObject], named: dict[str, str]) -> bool:
    """`named`: step id → expected id, so far."""
    if len(named) == len(expected):
        return _in_order(plan, expected, named)
    wanted = expected[len(named)]
    return any(
        _fits(step, wanted, named) and _pair(plan, expected, {**named, step.step_id: wanted["id"]})
        for step in plan.steps
        if step.step_id not in named
    )


def _fits(step: Step, wanted: JsonObject, named: Mapping[str, str]) -> bool:
    parameters = wanted["parameters"]
    return (
        step.tool == wanted["tool"]
        and step.parameters.keys() == parameters.keys()
        and all(_same(_renamed(step.parameters[name], named), value) for name, value in parameters.items())
    )


def _in_order(plan: Plan, expected: Sequence[JsonObject], named: Mapping[str, str]) -> bool:
    graph = Graph.of(plan)
    step_of = {name: step_id for step_id, name in named.items()}
    return all(
        step_of[wanted["id"]] in graph.downstream([step_of[before]])
        for wanted in expected
        for before in wanted.get("after", ())
    )


def _renamed(value: Any, named: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _HEAD.sub(lambda found: "${" + named.get(found[1], found[1]) + ".output", value)
    return value


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and "any" in wanted:
        return value in wanted["any"]
    if isinstance(wanted, dict) and "contains" in wanted:
        return isinstance(value, str) and wanted["contains"] in value
    return bool(value == wanted)
