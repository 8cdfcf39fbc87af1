"""A task whose right plan is known, and what goes wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from bench.recovery.world import World
from replan.core.types import Category, JsonObject, ToolSpec


@dataclass(frozen=True)
class Wanted:
    """One call that the task is made of."""

    step_id: str
    tool: str
    parameters: JsonObject
    """As planned, with references to other steps."""
    needs: tuple[str, ...]
    resolved: JsonObject
    """As the call is made."""
    output: Any
    repeat: bool = False
    """The same effect as another step's, and meant."""

    def step(
        self, names: Mapping[str, str] | None = None, known: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """The step of a plan in which these steps have other names; `known`: what it may depend on."""
        names = names or {}
        needs = [names.get(need, need) for need in self.needs]
        step: dict[str, Any] = {
            "step_id": names.get(self.step_id, self.step_id),
            "tool": self.tool,
            "parameters": renamed(self.parameters, names),
            "dependencies": [need for need in needs if known is None or need in known],
        }
        return {**step, "repeat": True} if self.repeat else step


_HEAD = re.compile(r"(\{\{\s*|\$\{\s*)([A-Za-z_][A-Za-z0-9_-]*)")


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The value with its references to steps that are called otherwise."""
    if isinstance(value, str):
        return _HEAD.sub(lambda found: found[1] + names.get(found[2], found[2]), value)
    if isinstance(value, dict):
        return {key: renamed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, names) for inner in value]
    return value


# ── what mends it ─────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Parameters:
    """The same tool with the right parameters."""


@dataclass(frozen=True)
class Substitute:
    """Another tool with the same parameters."""

    tool: str


@dataclass(frozen=True)
class MissingSteps:
    """Steps that the plan does not have have to come first."""


@dataclass(frozen=True)
class Order:
    """Two steps have to change places: `after` waits for `first`, and not the other way round."""

    first: str
    after: str


@dataclass(frozen=True)
class Again:
    """The same call, later."""


@dataclass(frozen=True)
class LookUp:
    """A reading tells whether the call took effect; only then it may be made again, or counts as done."""


@dataclass(frozen=True)
class OtherSteps:
    """The failed step cannot be done, and others in its place do what it was for."""


@dataclass(frozen=True)
class Person:
    """Nothing within reach: a person has to do something."""


Remedy: TypeAlias = Parameters | Substitute | MissingSteps | Order | Again | LookUp | OtherSteps | Person
Ending = Literal["finished", "reported"]


@dataclass(frozen=True)
class Case:
    """One task and the one thing that goes wrong with it."""

    name: str
    group: str
    kind: str
    text: str
    tools: tuple[ToolSpec, ...]
    good: tuple[Wanted, ...]
    """The right plan, as it is after the recovery."""
    planned: tuple[JsonObject, ...]
    """The steps as they are planned first."""
    make_world: Callable[[], World]
    cause: Category
    remedy: Remedy
    ask: str = ""
    """What a person has to do, where nothing else helps."""
    forced: int = 1
    """Failed calls that nobody could have avoided."""

    @property
    def ending(self) -> Ending:
        """How the task ends if everything is done right."""
        return "reported" if isinstance(self.remedy, Person) else "finished"

    @property
    def by_id(self) -> dict[str, Wanted]:
        return {one.step_id: one for one in self.good}
