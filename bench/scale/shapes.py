"""Plans of any size in three shapes, and the tool that their steps call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from replan import tool
from replan.core import events as e
from replan.core.types import Plan, Step

LAYER = 100
"""Steps in a layer of the layered shape."""


@tool
async def nothing(i: int, n: int) -> int:
    """Do nothing."""
    return i


def flat(count: int) -> list[list[int]]:
    """No step needs another."""
    return [[] for _ in range(count)]


def chain(count: int) -> list[list[int]]:
    """Each step needs the one before."""
    return [[n - 1] if n else [] for n in range(count)]


def layered(count: int) -> list[list[int]]:
    """Layers of a hundred; each step needs up to three of the layer before, the same ones every time."""
    chosen = random.Random(count)
    needs: list[list[int]] = []
    for n in range(count):
        begin = (n // LAYER - 1) * LAYER
        needs.append([] if begin < 0 else sorted(begin + chosen.randrange(LAYER) for _ in range(3)))
    return [sorted(set(wanted)) for wanted in needs]


SHAPES: dict[str, Callable[[int], list[list[int]]]] = {"flat": flat, "chain": chain, "layered": layered}


def plan_of(needs: list[list[int]]) -> dict[str, Any]:
    """The plan as a caller gives it; each step refers to the output of one that it needs."""
    return {
        "steps": [
            {
                "step_id": f"s{n}",
                "tool": "nothing",
                "parameters": {"i": f"${{s{wanted[0]}.output}}" if wanted and n % 2 else n, "n": n},
                "dependencies": [f"s{one}" for one in wanted],
            }
            for n, wanted in enumerate(needs)
        ]
    }


def events_of_steps(count: int, begin: int = 0) -> list[e.AnyEvent]:
    """What running `count` steps records: four events a step."""
    found: list[e.AnyEvent] = []
    for n in range(begin, begin + count):
        call: dict[str, Any] = {"call_key": f"call_{n:032x}.1", "step_id": f"s{n}", "tool_id": "nothing"}
        found += [
            e.StepStarted(step_id=f"s{n}"),
            e.CallStarted(**call, effect="once", parameters={"i": n, "n": n}),
            e.CallCompleted(**call, output=n, duration_secs=0.001),
            e.StepCompleted(step_id=f"s{n}"),
        ]
    return found


def events_of_task(count: int) -> list[e.AnyEvent]:
    """The log of a task of `count` flat steps, from its submission to before its judgement."""
    steps = tuple(Step(step_id=f"s{n}", tool="nothing", parameters={"i": n, "n": n}) for n in range(count))
    return [
        e.TaskSubmitted(description="nothing"),
        e.TaskStarted(driver="bench"),
        e.RoundStarted(round=1),
        e.PlanGenerated(plan=Plan(plan_id="plan_1", steps=steps)),
        e.ExecutionMode(mode="parallel", reason="bench"),
        *events_of_steps(count),
    ]
