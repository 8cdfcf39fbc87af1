"""The same oracle for agents that are asked turn by turn which tools to call next.

It calls everything that can be called at once. Shown an error, it makes the right call with some probability, and
nonsense otherwise: the same kinds as for Replan, as far as a call or a text can be such.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bench.recovery import nonsense
from bench.recovery.row import Row, critical_path
from bench.recovery.task import Case, LookUp, Person
from bench.recovery.world import LOOK_UP, World
from replan.core.types import JsonObject, ToolSpec

MOST_TURNS = 80
Call = tuple[str, JsonObject]


@dataclass(frozen=True)
class Said:
    """A turn of the model: calls, or a last word."""

    calls: Sequence[Call] = ()
    text: str = ""


@dataclass(frozen=True)
class Exchange:
    """A call and what came of it, as the agent's model is shown it."""

    tool: str
    parameters: JsonObject
    text: str


class Agent(Protocol):
    """One run of a peer's agent."""

    async def run(self, text: str) -> str:
        """The last word; raises what the run breaks with."""
        ...

    async def record(self) -> str:
        """All that the peer's own record holds after the run, as a text."""
        ...


class Hands:
    """The tools of a case for an agent: what they give can be found again in the agent's record."""

    def __init__(self, case: Case, world: World) -> None:
        self.specs = case.tools
        self._world = world

    async def call(self, spec: ToolSpec, parameters: JsonObject) -> str:
        """The output as JSON text with the number of the call; a time limit is kept as an HTTP client keeps it."""
        made = await asyncio.wait_for(self._make(spec, parameters), spec.timeout_secs)
        return json.dumps({"call": token(made.number), "output": made.output})

    async def _make(self, spec: ToolSpec, parameters: JsonObject) -> Any:
        return await self._world.make(spec.id, parameters)


def token(number: int) -> str:
    return f"made-{number}-"


class AgentOracle:
    """What the model says, turn by turn."""

    def __init__(self, case: Case, world: World, right: float, seed: int) -> None:
        self._case = case
        self._world = world
        self._right = right
        self._draw = random.Random(f"{seed} {case.name} {right}")
        self._seen = 0
        self._failed = False
        self._doubt = False
        self._settled: set[str] = set()
        self.turns = 0

    def answer(self, history: Sequence[Exchange]) -> Said:
        self.turns += 1
        fresh = history[self._seen :]
        self._seen = len(history)
        failures = [one for one in fresh if _number(one) is None]
        if self.turns > MOST_TURNS:
            return Said(text="it goes on and on")
        if failures:
            self._failed = True
            self._doubt = self._doubt or isinstance(self._case.remedy, LookUp)
            if self._draw.random() >= self._right:
                return self._nonsense(failures[0])
        if self._doubt and any(one.tool == LOOK_UP and _number(one) for one in fresh):
            self._doubt = False
            self._settled |= {content for content, n in self._world.effects.items() if n}
        return self._go_on(history)

    def _go_on(self, history: Sequence[Exchange]) -> Said:
        if isinstance(self._case.remedy, Person) and (self._failed or not self._case.planned):
            return Said(text=self._case.ask)
        steps = self._right_steps() if self._failed else self._planned_steps()
        done = {self._content(one.tool, one.parameters) for one in history if _number(one)} | self._settled
        if self._doubt:
            return Said(calls=[(LOOK_UP, {"tool": tool}) for tool in self._tools_in_doubt(steps, done)])
        finished = {
            name for name, (tool, parameters, _) in steps.items() if self._content(tool, parameters) in done
        }
        ready = [
            (tool, parameters)
            for name, (tool, parameters, needs) in steps.items()
            if name not in finished and finished.issuperset(need for need in needs if need in steps)
        ]
        return Said(calls=ready) if ready else Said(text="done")

    def _tools_in_doubt(
        self, steps: dict[str, tuple[str, JsonObject, list[str]]], done: set[str]
    ) -> list[str]:
        asked = [made.tool for made in self._world.made if not made.delivered and made.tool != LOOK_UP]
        return list(dict.fromkeys(asked))[:1] or [next(iter(steps.values()))[0]]

    def _content(self, tool: str, parameters: JsonObject) -> str:
        return self._world.content(tool, parameters)

    def _right_steps(self) -> dict[str, tuple[str, JsonObject, list[str]]]:
        return {one.step_id: (one.tool, one.resolved, list(one.needs)) for one in self._case.good}

    def _planned_steps(self) -> dict[str, tuple[str, JsonObject, list[str]]]:
        """The first plan with its references filled in, as an agent fills them in from what it has read."""
        good = self._case.by_id
        steps = {}
        for step in self._case.planned:
            known = good.get(step["step_id"])
            parameters = {
                name: known.resolved.get(name, value)
                if known is not None and known.parameters.get(name) == value
                else value
                for name, value in step["parameters"].items()
            }
            steps[step["step_id"]] = (step["tool"], parameters, list(step["dependencies"]))
        return steps

    def _nonsense(self, about: Exchange) -> Said:
        tool, parameters = about.tool, about.parameters
        name = next(iter(parameters), "value")
        others = [spec.id for spec in self._case.tools if spec.id not in (tool, LOOK_UP)]
        match self._draw.choice(nonsense.KINDS):
            case "wrong remedy":
                return Said(calls=[(self._draw.choice(others) if others else tool, parameters)])
            case "placeholder":
                return Said(calls=[(tool, {**parameters, name: f"<{name}>"})])
            case "unknown tool":
                return Said(calls=[(nonsense.NO_TOOL, parameters)])
            case "the same again":
                return Said(calls=[(tool, parameters)])
            case "wrong value":
                return Said(calls=[(tool, {**parameters, **nonsense.wrong_values(parameters)})])
            case "prose":
                return Said(text=nonsense.PROSE)
            case _:
                return Said(text="")


def _number(one: Exchange) -> str | None:
    """The mark of a call that gave something."""
    try:
        told = json.loads(one.text)
    except ValueError:
        return None
    return str(told["call"]) if isinstance(told, dict) and "call" in told else None


async def measure(
    runner: str, case: Case, world: World, oracle: AgentOracle, agent: Agent, right: float
) -> Row:
    """Run the agent and count what the world saw of it."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    last, problem = "", ""
    try:
        last = await agent.run(case.text)
    except Exception as error:  # noqa: BLE001 - how a peer breaks is what is measured
        problem = f"{type(error).__name__}: {error}"[:200]
    secs = loop.time() - began
    record = await agent.record()
    finished = world.complete and not problem and case.ending == "finished"
    return Row(
        runner=runner,
        case=case.name,
        group=case.group,
        kind=case.kind,
        right=right,
        ending=case.ending,
        finished=finished,
        reported=bool(case.ask) and case.ask in last,
        ended=problem.split(":")[0] or "said its last word",
        calls=len(world.made),
        wasted=world.wasted(case.forced),
        duplicates=world.duplicates,
        lost=sum(token(made.number) not in record for made in world.delivered()),
        model_calls=oracle.turns,
        secs=round(secs, 3),
        critical_path=critical_path(case, models=2) if case.ending == "finished" else None,
        problem=problem,
    )
