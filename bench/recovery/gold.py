"""The recorded plans of six public collections, as tasks whose right plan and outputs are known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.recovery.task import Wanted
from replan.core.ids import call_content
from replan.core.references.refs import has_references
from replan.core.types import JsonObject, ToolSpec

FOLDER = Path(__file__).parents[2].parent / "shared" / "cases"
COLLECTIONS = ("agentdojo", "bfcl", "cfb", "nestful", "nestools", "tau2")
EFFECTS = {"read": "reads", "write": "once"}


@dataclass(frozen=True)
class Gold:
    """One recorded task."""

    name: str
    collection: str
    text: str
    tools: tuple[ToolSpec, ...]
    steps: tuple[Wanted, ...]

    def spec(self, tool: str) -> ToolSpec:
        return next(spec for spec in self.tools if spec.id == tool)


def lines_of(name: str) -> list[JsonObject]:
    """The rows of one file of the shared cases."""
    file = FOLDER / f"{name}.jsonl"
    if not file.is_file():
        raise SystemExit(
            f"the shared cases are not beside the repository: no {file.name} in {FOLDER.parent.name}/{FOLDER.name}"
        )
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


WITH_PLACEHOLDERS = frozenset({"agentdojo-slack-1", "agentdojo-slack-6", "agentdojo-slack-20"})
"""Recorded plans whose values are placeholders themselves (`<summary>`): from a model they go back, as they should."""


@cache
def golds() -> dict[str, Gold]:
    """Every recorded plan that makes its calls as planned, with one output for one call."""
    found = {}
    for collection in COLLECTIONS:
        for case in lines_of(f"{collection}_public"):
            gold = _gold(collection, case)
            if gold.name in WITH_PLACEHOLDERS:
                continue
            if not case["expected"]["schema_violations"] and _answers_are_clear(gold):
                found[gold.name] = gold
    return found


def spec_of(tool: JsonObject, source: str = "main") -> ToolSpec:
    """A tool as Replan has it; what has no declared side effect has one."""
    return ToolSpec.model_validate(
        {
            "id": tool["id"],
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["parameters"],
            "effect": EFFECTS.get(tool.get("side_effect", ""), "once"),
            "source": source,
        }
    )


def _gold(collection: str, case: JsonObject) -> Gold:
    tools = tuple(spec_of(tool) for tool in case["tools"])
    resolved = case["expected"]["resolved_parameters"]
    effects = {tool.id for tool in tools if tool.effect != "reads"}
    seen: Counter[str] = Counter()
    steps = []
    for step in case["plan"]["steps"]:
        name = step["step_id"]
        content = call_content(step["tool"], resolved.get(name, {}))
        seen[content] += 1
        steps.append(
            Wanted(
                step_id=name,
                tool=step["tool"],
                parameters=step["parameters"],
                needs=tuple(step["dependencies"]),
                resolved=resolved.get(name, {}),
                output=case["tool_results"].get(name),
                repeat=False,
            )
        )
    twice = {content for content, n in seen.items() if n > 1}
    steps = [
        one
        if one.tool not in effects or call_content(one.tool, one.resolved) not in twice
        else Wanted(**{**one.__dict__, "repeat": True})
        for one in steps
    ]
    return Gold(case["id"], collection, case["task"], tools, tuple(steps))


def _answers_are_clear(gold: Gold) -> bool:
    outputs: dict[str, object] = {}
    return all(
        outputs.setdefault(call_content(one.tool, one.resolved), one.output) == one.output
        for one in gold.steps
    )


def constants(step: Wanted) -> list[str]:
    """Parameters of a step that hold no reference."""
    return [name for name, value in step.parameters.items() if not has_references({name: value})]


def order_only(steps: Sequence[Wanted]) -> list[tuple[Wanted, Wanted]]:
    """Pairs of which the second waits for the first without using its output, and by no other way."""
    by_id = {one.step_id: one for one in steps}
    used = {one.step_id: _named_in(one, by_id) for one in steps}
    above: dict[str, set[str]] = {}
    for one in steps:  # recorded plans are in order
        above[one.step_id] = set(one.needs).union(*(above.get(need, set()) for need in one.needs))
    return [
        (by_id[need], one)
        for one in steps
        for need in one.needs
        if need not in used[one.step_id]
        and not any(need in above.get(other, set()) for other in one.needs if other != need)
    ]


def _named_in(step: Wanted, by_id: dict[str, Wanted]) -> set[str]:
    text = json.dumps(step.parameters)
    return {
        name for name in by_id if any(f"{head}{name}{end}" in text for head in ("{{", "${") for end in ".}")
    }
