"""What the tools of a task act upon: it answers the right calls, counts effects, and makes trouble."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replan.core.ids import call_content
from replan.core.types import JsonObject, ToolSpec

CALL_SECS = 1.0
LOOK_UP = "list_effects"
"""The tool that tells what another tool has done here."""

LOOK_UP_SPEC = ToolSpec(
    id=LOOK_UP,
    description="What a tool has done so far: the parameters of each call of it that took effect.",
    parameters={"type": "object", "properties": {"tool": {"type": "string"}}, "required": ["tool"]},
    effect="reads",
    volatile=True,
    source="journal",
)


@dataclass
class Made:
    """One call that reached its tool."""

    number: int
    tool: str
    content: str
    """What was asked of whom, whichever of its stand-ins was asked."""
    parameters: JsonObject
    key: str = ""
    """The idempotency key that came with it, if any."""
    delivered: bool = False
    """Whoever called has got the output."""
    output: Any = None


class Trouble:
    """What goes wrong; by itself nothing does."""

    def before(self, made: Made, world: World) -> BaseException | None:
        """The error that the call meets before it has done anything."""
        return None

    def hangs(self, made: Made) -> float:
        """Seconds that pass before the call does anything."""
        return 0.0

    def after(self, made: Made, world: World) -> BaseException | None:
        """The error that the call ends with though it has done all it should."""
        return None


@dataclass
class World:
    """The state behind the tools of one run."""

    answers: Mapping[str, Any]
    """What is asked → what is answered. Everything else is refused."""
    wanted: Mapping[str, int]
    """What is asked → how often the task wants it."""
    specs: Mapping[str, ToolSpec]
    right: Sequence[tuple[str, JsonObject]]
    """The right calls, as they are asked."""
    trouble: Trouble = field(default_factory=Trouble)
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """Tools that do what another one does."""
    refusals: Mapping[str, BaseException] = field(default_factory=dict)
    """Wrong calls whose very error is known."""
    made: list[Made] = field(default_factory=list)
    succeeded: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)

    def content(self, tool: str, parameters: JsonObject) -> str:
        return call_content(self.stands_for.get(tool, tool), parameters)

    async def call(self, tool: str, parameters: JsonObject, key: str = "") -> Any:
        """What the tool gives; raises what it fails with."""
        return (await self.make(tool, parameters, key)).output

    async def make(self, tool: str, parameters: JsonObject, key: str = "") -> Made:
        """The call, made."""
        made = Made(len(self.made) + 1, tool, self.content(tool, parameters), parameters, key)
        self.made.append(made)
        error = self.trouble.before(made, self)
        await asyncio.sleep(CALL_SECS + self.trouble.hangs(made))
        if error is None and tool != LOOK_UP and made.content not in self.answers:
            error = self.refusals.get(made.content) or self._refusal(tool, parameters)
        if error is not None:
            raise error
        made.output = self._look_up(parameters) if tool == LOOK_UP else self.answers[made.content]
        if tool != LOOK_UP:
            self.succeeded[made.content] += 1
            if self.specs[tool].effect != "reads":
                self.effects[made.content] += 1
        if (error := self.trouble.after(made, self)) is not None:
            raise error
        made.delivered = True
        return made

    def _look_up(self, parameters: JsonObject) -> list[JsonObject]:
        """What has been done, with the key that each came with and what it gave: as services tell their requests."""
        about = parameters.get("tool")
        done: list[JsonObject] = []
        left = Counter(self.effects)
        for made in self.made:
            if made.tool == about and left[made.content] > 0:
                left[made.content] -= 1
                told = {} if made.output is None else {"gave": json.dumps(made.output, ensure_ascii=False)}
                done.append({**({"request": made.key} if made.key else {}), **made.parameters, **told})
        return done

    def _refusal(self, tool: str, parameters: JsonObject) -> BaseException:
        """What a tool says to a call that is not right: it names the parameter, as tools do."""
        known = self.specs.get(tool)
        names = list((known.parameters.get("properties") or {}) if known is not None else {})
        real = self.stands_for.get(tool, tool)
        wrong = (_difference(tool, parameters, right) for name, right in self.right if name == real)
        if (nearest := min(wrong, default=None, key=lambda found: found[0])) is not None:
            return nearest[1]
        return ValueError(f"invalid parameters ({', '.join(names)}): nothing is known of them")

    # ── what became of it ──

    @property
    def complete(self) -> bool:
        """Everything that the task wants has been done."""
        return all(
            self.succeeded[content] >= (n if self._has_effect(content) else 1)
            for content, n in self.wanted.items()
        )

    def _has_effect(self, content: str) -> bool:
        return self.specs[content.split("\x00", 1)[0]].effect != "reads"

    @property
    def duplicates(self) -> int:
        """Effects made oftener than the task wants them."""
        return sum(max(0, n - self.wanted.get(content, 0)) for content, n in self.effects.items())

    def wasted(self, forced: int) -> int:
        """Calls that brought nothing: failures that could be avoided, and repetitions."""
        useful = sum(min(n, self.wanted.get(content, 0)) for content, n in self.succeeded.items())
        readings = sum(made.tool == LOOK_UP for made in self.made)
        failed = len(self.made) - readings - sum(self.succeeded.values())
        return len(self.made) - readings - useful - min(forced, max(0, failed))

    def delivered(self) -> Iterable[Made]:
        """What was given to whoever called, and must not be lost."""
        return [made for made in self.made if made.delivered and made.tool != LOOK_UP]


def _difference(tool: str, given: JsonObject, right: JsonObject) -> tuple[int, BaseException]:
    """How many parameters differ from those of a right call, and what the tool says to the first of them."""
    missing = [name for name in right if name not in given]
    strange = [name for name in given if name not in right]
    wrong = [name for name in right if name in given and given[name] != right[name]]
    count = len(missing) + len(strange) + len(wrong)
    if missing:
        return count, TypeError(f"{tool}() missing 1 required argument: {missing[0]!r}")
    if strange:
        return count, TypeError(f"{tool}() got an unexpected argument: {strange[0]!r}")
    name = wrong[0] if wrong else ""
    return count, ValueError(f"invalid value of parameter {name!r}: nothing is known of it")
