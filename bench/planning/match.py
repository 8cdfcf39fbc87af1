"""Is this plan an expected one, whatever its steps are called and in whatever order they stand?

An expected step is `{id, tool, parameters, for_each?, after?}`. A parameter is a value, `{"any": [values]}` or
`{"contains": text or texts}`; references name expected ids. `after` lists steps that have to be done before.
Numbers are equal by value, texts without the space around them; all else is strict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from replan.core.plan.graph import Graph
from replan.core.references.refs import Reference, Segment, parse
from replan.core.types import JsonObject, Plan, Step


def is_right(plan: Plan, expected: Sequence[JsonObject]) -> bool:
    """True if the steps can be paired with the expected ones so that tools, parameters and order agree."""
    return len(plan.steps) == len(expected) and _pair(plan, expected, {})


def _pair(plan: Plan, expected: Sequence[JsonObject], named: dict[str, str]) -> bool:
    """`named`: step id → expected id, so far. An expected step stands after those that it refers to."""
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
        and step.when is None
        and _items(step.for_each, named) == _items(wanted.get("for_each"), {})
        and step.parameters.keys() == parameters.keys()
        and all(_same(plain(step.parameters[name], named), value) for name, value in parameters.items())
    )


def _items(for_each: str | None, named: Mapping[str, str]) -> str | None:
    """`${a.output[*]}` and `${a.output}` are the same items."""
    return None if for_each is None else str(plain(for_each, named)).replace("[*]}", "}")


def _in_order(plan: Plan, expected: Sequence[JsonObject], named: Mapping[str, str]) -> bool:
    graph = Graph.of(plan)
    step_of = {name: step_id for step_id, name in named.items()}
    return all(
        step_of[wanted["id"]] in graph.downstream([step_of[before]])
        for wanted in expected
        for before in wanted.get("after", ())
    )


def plain(value: Any, named: Mapping[str, str]) -> Any:
    """The value with each reference in one spelling and naming expected ids, texts without space around."""
    match value:
        case str():
            return "".join(_spelt(part, named) for part in parse(value)).strip()
        case list():
            return [plain(item, named) for item in value]
        case dict():
            return {key: plain(item, named) for key, item in value.items()}
        case _:
            return value


def _spelt(part: Segment, named: Mapping[str, str]) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Reference):
        return part.meaning(lambda ref: _spelt(ref, named))
    if part.problem:
        return part.raw
    head = named.get(part.head, part.head)
    of_word = part.head in ("item", "index", "metadata", "task")
    dot = "." if part.path and not part.path.startswith("[") else ""
    return f"${{{head}{'' if of_word else '.output'}{dot}{part.path}}}"


def _same(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and "any" in wanted:
        return any(same_json(value, plain(one, {})) for one in wanted["any"])
    if isinstance(wanted, dict) and "contains" in wanted:
        texts = wanted["contains"]
        texts = [texts] if isinstance(texts, str) else texts
        return isinstance(value, str) and all(plain(text, {}) in value for text in texts)
    return same_json(value, plain(wanted, {}))


def same_json(value: Any, other: Any) -> bool:
    """Equal as JSON: 5 is 5.0, and unlike in Python 1 is not true."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same_json(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same_json, value, other))
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
