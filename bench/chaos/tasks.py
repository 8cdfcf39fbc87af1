"""What is done in the chaos: tools with effects outside, and plans of them."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from bench.chaos.outside import ask

LARGE = 300_000
FROZEN_SECS = 6.0
"""The longest that a worker stays frozen."""


def tools(folder: Path) -> list[Any]:
    from replan import tool
    from replan.tools.functions.context import current

    async def done(what: str) -> bool | None:
        """Whether the outside has it."""
        return True if await ask(folder, look=what, task=current().task_id) else None

    @tool(effect="once")
    async def put(what: str) -> str:
        """Have an effect. Whether it was had only a person can find out."""
        return str(await ask(folder, what=what, task=current().task_id))

    @tool(effect="once", honours_key=True)
    async def put_by_key(what: str) -> str:
        """Have an effect that the outside has once for a key."""
        return str(await ask(folder, what=what, task=current().task_id, key=current().key))

    @tool(effect="once", verify=done, verify_after_secs=FROZEN_SECS + 1.5)
    async def put_seen(what: str) -> str:
        """Have an effect that code can look for."""
        return str(await ask(folder, what=what, task=current().task_id))

    @tool(effect="once", requires_approval=True)
    async def put_agreed(what: str) -> str:
        """Have an effect that a person has to agree to."""
        return str(await ask(folder, what=what, task=current().task_id))

    @tool(effect="repeatable")
    async def nap(what: str, secs: float) -> str:
        """Take a while."""
        await asyncio.sleep(secs)
        return what

    @tool(effect="reads")
    async def big(what: str) -> str:
        """Give something that is kept apart from the log."""
        return what * LARGE

    @tool(effect="once")
    async def put_size(what: str, of: str) -> str:
        """Have an effect that is about something large."""
        if len(of) != LARGE:
            raise ValueError(f"{len(of):,} characters came, not {LARGE:,}")
        return str(await ask(folder, what=what, task=current().task_id))

    return [put, put_by_key, put_seen, put_agreed, nap, big, put_size]


def some_tools(folder: Path) -> list[Any]:
    """Those of a worker that leaves tasks of some shapes to others."""
    return [one for one in tools(folder) if one.__name__ not in ("put_agreed", "put_size")]


def plan_for(chance: random.Random) -> dict[str, Any]:
    """A plan of one of six shapes. Every `put…` has its step's name as what it does."""
    steps: list[dict[str, Any]] = []

    def step(name: str, tool: str, *needs: str, **parameters: Any) -> str:
        steps.append(
            {"step_id": name, "tool": tool, "parameters": {"what": name, **parameters}, "dependencies": needs}
        )
        return name

    def nap(name: str, *needs: str) -> str:
        return step(name, "nap", *needs, secs=round(chance.uniform(0.01, 0.2), 3))

    shape = chance.choice(["chain", "wide", "kinds", "agreed", "large", "waits"])
    if shape == "chain":
        step("d", "put", step("c", "put", nap("b", step("a", "put"))))
    elif shape == "wide":
        naps = [nap(f"n{n}", step("a", "put")) if not n else nap(f"n{n}", "a") for n in range(4)]
        step("z", "put", *naps)
    elif shape == "kinds":
        step("z", "put", step("k", "put_by_key"), nap("n", step("v", "put_seen")))
    elif shape == "waits":
        secs = round(chance.uniform(0.2, 4.0), 2)
        wait = {"step_id": "w", "tool": "wait_for_time", "parameters": {"seconds": secs}}
        step("a", "put")
        steps.append({**wait, "dependencies": ["a"]})
        step("z", "put", "w")
    elif shape == "large":
        step("z", "put_size", step("b", "big", step("a", "put")), of="${b.output}")
    else:
        step("z", "put", step("g", "put_agreed", nap("n", step("a", "put"))))
    return {"steps": steps}


def effects_of(plan: dict[str, Any]) -> list[str]:
    return [step["step_id"] for step in plan["steps"] if step["tool"].startswith("put")]
