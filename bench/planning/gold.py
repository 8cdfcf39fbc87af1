"""Plan the tasks of six public collections, and compare with the calls that their own plans make.

`tools`: the same tools are called as often. `right`: with the same parameters too, once references are filled in
with the recorded results; a parameter that has its default may be given or left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.planning.local import Measured
from bench.planning.match import plain, same_json
from bench.planning.plans import plan_one, read_lines
from replan.core.references.refs import Reference
from replan.core.references.resolve import resolve
from replan.core.types import JsonObject, Plan, Step, ToolSpec
from replan.errors import UnresolvedReference

FOLDER = Path(__file__).parents[2].parent / "shared" / "cases"
SOURCES = ("nestful", "nestools", "bfcl", "tau2", "cfb", "agentdojo")
MAX_TOOLS = 8


def sample(folder: Path, size: int, seed: int) -> Iterator[tuple[str, list[JsonObject]]]:
    """Of each source the same number of cases with at most `MAX_TOOLS` tools, about `size` in all."""
    for source in SOURCES:
        cases = [
            case for case in read_lines(folder / f"{source}_public.jsonl") if len(case["tools"]) <= MAX_TOOLS
        ]
        some = random.Random(f"{seed} {source}").sample(cases, min(len(cases), round(size / len(SOURCES))))
        yield source, some


def tools_of(case: JsonObject) -> list[ToolSpec]:
    """The case's tools; what is not said to read counts as an effect."""
    return [
        ToolSpec.model_validate({**tool, "effect": "reads" if tool.get("side_effect") == "read" else "once"})
        for tool in case["tools"]
    ]


def same_tools(plan: Plan, case: JsonObject) -> bool:
    """True if the plan calls the tools of the case's plan, each as often."""
    return Counter(step.tool for step in plan.steps) == Counter(
        step["tool"] for step in case["plan"]["steps"]
    )


def makes_the_calls(plan: Plan, case: JsonObject) -> bool:
    """True if the plan's calls, with recorded results in place of references, are those of the case's plan."""
    return same_tools(plan, case) and _pair(plan, case, case["plan"]["steps"], {}, _defaults(case))


def _pair(
    plan: Plan, case: JsonObject, left: Sequence[JsonObject], results: dict[str, Any], defaults: JsonObject
) -> bool:
    """`left`: recorded steps still to be found in the plan; `results`: what the plan's found steps give."""
    if not left:
        return True
    wanted, rest = left[0], left[1:]
    given = _plain(case["expected"]["resolved_parameters"][wanted["step_id"]], defaults[wanted["tool"]])
    result = case["tool_results"].get(wanted["step_id"])
    return any(
        _call(step, results, defaults, given)
        and _pair(plan, case, rest, {**results, step.step_id: result}, defaults)
        for step in plan.steps
        if step.tool == wanted["tool"] and step.step_id not in results
    )


def _call(step: Step, results: Mapping[str, Any], defaults: JsonObject, wanted: Any) -> bool:
    def lookup(reference: Reference) -> tuple[Any, str]:
        if reference.head not in results:
            raise UnresolvedReference(reference.raw, where="the plan", why="no such result")
        return results[reference.head], reference.head

    if step.for_each is not None:
        return False
    try:
        return same_json(_plain(resolve(step.parameters, lookup), defaults[step.tool]), wanted)
    except UnresolvedReference:
        return False


def _plain(parameters: JsonObject, defaults: JsonObject) -> Any:
    """Without what has its default, texts without space around."""
    told = {
        name: value
        for name, value in parameters.items()
        if name not in defaults or not same_json(value, defaults[name])
    }
    return plain(told, {})


def _defaults(case: JsonObject) -> JsonObject:
    return {
        tool["id"]: {
            name: schema["default"]
            for name, schema in tool["parameters"].get("properties", {}).items()
            if isinstance(schema, dict) and "default" in schema
        }
        for tool in case["tools"]
    }


async def gold(talk: Measured, folder: Path, size: int, seed: int, corrections: int, show: bool) -> None:
    """Plan a sample of each source; one line a case, and one a source."""
    totals: Counter[str] = Counter()
    cpu = talk.cpu
    lines: list[str] = []
    for source, cases in sample(folder, size, seed):
        counts: Counter[str] = Counter()
        began = talk.secs
        for case in cases:
            before = talk.secs
            plan, refused = await plan_one(talk, case["task"], tools_of(case), corrections)
            found = {
                "valid": plan is not None,
                "tools": plan is not None and same_tools(plan, case),
                "right": plan is not None and makes_the_calls(plan, case),
            }
            counts.update(name for name, holds in found.items() if holds)
            told = " ".join(f"{name}={holds!s:<5}" for name, holds in found.items())
            print(
                f"{case['id']:<28} {told} corrections={len(refused)} {talk.secs - before:5.1f} s", flush=True
            )
            if show:
                print("".join(f"    {text}\n" for text in (talk.texts[-1], *refused)), end="")
        totals.update(counts)
        totals["cases"] += len(cases)
        lines.append(_summary(source, counts, len(cases), talk.secs - began))
    mean = (talk.cpu - cpu) / max(1, totals["cases"])
    lines.append(_summary("all", totals, totals["cases"], talk.secs) + f" ({mean:.1f} s of CPU)")
    print("\n".join(lines))


def _summary(name: str, counts: Counter[str], cases: int, secs: float) -> str:
    told = ", ".join(f"{counts[each]}/{cases} {each}" for each in ("valid", "tools", "right"))
    return f"{name}: {told}, {secs / max(1, cases):.1f} s a plan"
