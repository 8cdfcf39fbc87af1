"""Tools that fail in every way that recovery has to live with, and remember what they really did.

They never lie: an error that they report as clean means that nothing happened. So whatever happens twice here
is a fault of whoever called twice.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from replan.core.types import Effect, JsonObject, ToolSpec
from replan.errors import ToolCallError
from replan.ports import ToolCall

POOL = ("red", "green", "blue")
"""Values that are drawn again and again, so that like calls meet."""
GOOD = "good"
"""A text with which a tool that fails on some texts works."""

TEXTS: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["text"],
    "additionalProperties": False,
}
CHOICES: JsonObject = {
    "type": "object",
    "properties": {"text": {"enum": [*POOL, GOOD]}, "items": {"type": "array", "items": {"type": "string"}}},
    "required": ["text"],
}
NUMBERS: JsonObject = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "options": {"type": "object"}},
    "required": ["n"],
}
ANYTHING: JsonObject = {"type": "object", "properties": {}}
SCHEMAS = (TEXTS, TEXTS, CHOICES, NUMBERS, ANYTHING)

OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "text": {"type": "string"},
        "items": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["value", "text", "items"],
}

DOES = (
    *("works",) * 10,
    *("fails", "fails with news", "fails at random", "fails on some texts", "fails on some texts"),
    *("loses its answer", "loses some answers", "loses some answers", "fails after its effect"),
    *("times out", "is slow", "passes", "is busy", "is refused", "is forbidden", "says bad request"),
    *(
        "answers oddly",
        "answers at length",
        "answers another thing",
        "answers anew",
        "cancels itself",
        "exits",
    ),
)
ENDLESS = "hangs"


@dataclass(frozen=True)
class Trick:
    """What one tool does."""

    name: str
    does: str
    effect: Effect
    parameters: JsonObject
    secs: float = 0.0
    spec: JsonObject = field(default_factory=dict)


LOSES = ("loses its answer", "loses some answers", "loses some answers", "fails after its effect")


def tricks(rng: random.Random, *, doubtful: bool = False, inventive: bool = False) -> list[Trick]:
    """The tools of one case; some are mild, else hardly any task would come far.

    `doubtful`: of half of them nobody knows what they did, and the others mostly look. `inventive`: most fail, and
    never twice in the same words.
    """
    mild = rng.random() < 0.35
    made = []
    for at in range(rng.randint(1 + doubtful, 7)):
        does = "works" if mild and rng.random() < 0.7 else rng.choice(DOES)
        effect = rng.choice(("reads", "reads", "repeatable", "once", "once"))
        if doubtful and rng.random() < 0.9:
            effect, does = (
                ("once", rng.choice(LOSES))
                if at % 2
                else ("reads", rng.choice(["works", "works", "answers anew"]))
            )
        elif inventive and rng.random() < 0.9:
            does = rng.choice(["fails with news", "fails with news", "answers anew"])
        if rng.random() < 0.01 and not inventive:
            does = ENDLESS
        spec: JsonObject = {}
        if rng.random() < 0.3:
            spec["output_schema"] = OUTPUT
        if rng.random() < 0.15:
            spec["volatile"] = True
        if rng.random() < 0.15:
            spec["honours_key"] = True
        if rng.random() < 0.15 or does == "fails after its effect":
            spec["errors_are_clean"] = False
        if rng.random() < 0.2 or does == "is slow":
            spec["timeout_secs"] = rng.choice([2.0, 5.0])
        if rng.random() < 0.1:
            spec["output_params"] = ("value", "text")
        if rng.random() < 0.3:
            spec["source"] = rng.choice(["mill", "yard"])
        made.append(
            Trick(
                name=f"{rng.choice(['mill', 'yard', 'post'])}_{'abcdefg'[at]}",
                does=does,
                effect=effect,  # type: ignore[arg-type]
                parameters=rng.choice(SCHEMAS),
                secs=rng.choice([0.0, 0.0, 0.0, 0.5, 1.0, 3.0]),
                spec=spec,
            )
        )
    return made


class TrickySource:
    """A source of such tools. `made` lists the calls; `effects` counts what happened, by call key."""

    def __init__(self, made: Sequence[Trick], rng: random.Random) -> None:
        self.name = "tricky"
        self.tricks = {trick.name: trick for trick in made}
        self.made: list[ToolCall] = []
        self.effects: Counter[str] = Counter()
        self._tries: Counter[str] = Counter()
        self._rng = rng
        self.specs = [
            ToolSpec(
                **{
                    "id": trick.name,
                    "name": trick.name,
                    "description": f"The tool {trick.name}.",
                    "parameters": trick.parameters,
                    "effect": trick.effect,
                    "source": self.name,
                    **trick.spec,
                }
            )
            for trick in made
        ]

    async def tools(self) -> Sequence[ToolSpec]:
        return self.specs

    async def aclose(self) -> None:
        pass

    async def call(self, call: ToolCall) -> Any:
        trick = self.tricks[call.tool_id]
        self.made.append(call)
        self._tries[call.key] += 1
        await asyncio.sleep(trick.secs)
        return await self._do(trick, call)

    def _happens(self, trick: Trick, call: ToolCall) -> None:
        if trick.effect != "reads" and not (trick.spec.get("honours_key") and self.effects[call.key]):
            self.effects[call.key] += 1

    async def _do(self, trick: Trick, call: ToolCall) -> Any:
        rng, text = self._rng, str(call.parameters.get("text", call.parameters.get("n", "")))
        does = trick.does
        if does == "fails at random":
            does = rng.choice(["fails", "works"])
        elif does == "loses some answers":
            does = rng.choice(["loses its answer", "loses it on the way", "works"])
        match does:
            case "fails":
                raise ToolCallError("the wheel of the mill is broken")
            case "fails with news":
                raise RuntimeError(f"the {word(rng)} met a {word(rng)} and did not {word(rng)}")
            case "fails on some texts" if GOOD not in text:
                raise ValueError(f"text: there is no {text!r} here")
            case "loses its answer":
                self._happens(trick, call)
                raise ConnectionResetError("the connection was reset")
            case "loses it on the way":
                raise ConnectionResetError("the connection was reset")
            case "fails after its effect":
                self._happens(trick, call)
                raise RuntimeError("it broke at the end")
            case "times out":
                raise TimeoutError
            case "is slow":
                await asyncio.sleep(rng.choice([1.0, 60.0]))
            case "hangs":
                await asyncio.sleep(1e6)
            case "passes" if self._tries[call.key] <= 2:
                raise ConnectionRefusedError("nobody listens yet")
            case "is busy" if rng.random() < 0.7:
                raise ToolCallError(
                    "busy", kind="http", status=503, retry_after=rng.choice([None, 0.0, 2.0, 1000.0])
                )
            case "is refused":
                raise ConnectionRefusedError("nobody listens")
            case "is forbidden":
                raise ToolCallError("permission denied", kind="http", status=403)
            case "says bad request":
                raise ToolCallError(f"text {text!r} cannot be used", kind="http", status=400)
            case "cancels itself":
                raise asyncio.CancelledError
            case "exits":
                raise SystemExit(3)
        self._happens(trick, call)
        return self._output(does, call, text)

    def _output(self, does: str, call: ToolCall, text: str) -> Any:
        rng = self._rng
        if does == "answers oddly":
            return rng.choice(
                [
                    None,
                    "",
                    [],
                    {},
                    float("nan"),
                    {1: 2},
                    {"a", "b"},
                    object(),
                    b"\xff",
                    "\ud800",
                    _deep(300),
                    True,
                ]
            )
        if does == "answers at length":
            return {"value": 1, "text": word(rng) * 400, "items": list(POOL) * 100}
        if does == "answers another thing":
            return rng.choice(["only a text", 7, ["red", "green"], {"other": 1}])
        if does == "answers anew":
            return {"value": rng.randrange(10**6), "text": word(rng), "items": [word(rng)]}
        return {"value": len(text), "text": text or "nothing", "items": list(POOL[: 1 + len(text) % 3])}


def _deep(levels: int) -> Any:
    value: Any = "at the bottom"
    for _ in range(levels):
        value = [value]
    return value


def word(rng: random.Random) -> str:
    """A word that was not said before: letters only, as digits are folded where errors are compared."""
    return "".join(rng.choices("abcdefghiklmnoprstuvwz", k=9))
