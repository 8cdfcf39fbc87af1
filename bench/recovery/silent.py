"""Silent wrong answers: a tool that answers wrongly without an error, once or for good. Who notices?

An output schema where one is declared; else the judge, who here is an honest one that knows nothing but the prompt: it
refuses what is empty, what contradicts the parameters that are shown, and what is older than the date in the task. The
rest nobody notices: it is counted and told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Annotated, Any

from pydantic import BaseModel, Field

from bench.recovery.nonsense import reflection
from bench.recovery.scripted import again, ran_on, verdict
from replan.core.types import JsonObject
from replan.tools.functions.decorator import tool
from replan.tools.functions.source import FunctionSource

RIGHT: JsonObject = {"city": "Rome", "day": "2031-05-02", "degrees": 21}
WRONG: dict[str, Any] = {
    "another type": {**RIGHT, "degrees": "mild"},
    "a missing field": {"city": "Rome", "day": "2031-05-02"},
    "out of its range": {**RIGHT, "degrees": 2_100},
    "nothing": {},
    "an error as an answer": {"error": "backend failure"},
    "of something else": {**RIGHT, "city": "Oslo", "degrees": 4},
    "out of date": {**RIGHT, "day": "2029-01-01", "degrees": 9},
    "plausible": {**RIGHT, "degrees": 14},
}


class Weather(BaseModel):
    """What the tool declares to give."""

    city: str
    day: str
    degrees: Annotated[float, Field(ge=-60, le=60)]


ASKED = {"city": "Rome", "day": "2031-05-02"}


@dataclass(frozen=True)
class Silent:
    """What became of one wrong answer."""

    wrong: str
    declared: bool
    """The tool has an output schema."""
    lasting: bool
    noticed: str
    """`schema`, `judge` or `nobody`."""
    succeeded: bool
    right: bool
    """The task's answer is the right one."""


def silent() -> list[Silent]:
    return [
        _one(wrong, declared, lasting)
        for declared in (True, False)
        for lasting in (False, True)
        for wrong in WRONG
    ]


def _one(wrong: str, declared: bool, lasting: bool) -> Silent:
    calls, ids = count(), count(1)

    @tool(effect="reads", name="weather", volatile=True)
    def declares(city: str, day: str) -> Weather:
        """The weather of a day."""
        return WRONG[wrong] if next(calls) == 0 or lasting else RIGHT  # type: ignore[return-value]

    @tool(effect="reads", name="weather", volatile=True)
    def declares_nothing(city: str, day: str) -> Any:
        """The weather of a day."""
        return WRONG[wrong] if next(calls) == 0 or lasting else RIGHT

    def plan(request: Any) -> JsonObject:
        n = next(ids)
        step = {"step_id": f"step_{n}", "tool": "weather", "parameters": ASKED, "repeat": n > 1}
        return {"steps": [step]}

    refused = False

    def judge(request: Any) -> JsonObject:
        nonlocal refused
        output = _last_output(request.turns[0].text)
        why = _looks_wrong(output)
        refused = refused or bool(why)
        degrees = output.get("degrees")
        return verdict(
            not why,
            f"{degrees:g}" if isinstance(degrees, int | float) else str(degrees),
            *([why] if why else []),
        )

    result, model = ran_on(
        FunctionSource([declares if declared else declares_nothing]),
        {
            "execution_plan": plan,
            "step_reflection": reflection("tool_error", "replan", {"advice": "ask once more"}),
            "overall_reflection": again("full_replan"),
            "evaluation": judge,
        },
    )
    by_schema = any(one.schema_name == "step_reflection" for one in model.requests)
    noticed = "schema" if by_schema else "judge" if refused else "nobody"
    right = result.succeeded and result.output == str(RIGHT["degrees"])
    return Silent(wrong, declared, lasting, noticed, result.succeeded, right)


_OUTPUT = re.compile(r"^ +output: (.*)$", re.MULTILINE)


def _last_output(prompt: str) -> JsonObject:
    found = _OUTPUT.findall(prompt)
    value = json.loads(found[-1]) if found else {}
    return value if isinstance(value, dict) else {}


def _looks_wrong(output: JsonObject) -> str:
    """What an attentive reader of the prompt sees: no world knowledge, no second source."""
    if not output or "error" in output:
        return "there is no answer in the output"
    if not isinstance(output.get("degrees"), int | float):
        return "the output has no degrees"
    if not -90 <= output["degrees"] <= 60:
        return "no place is that warm"
    return "".join(
        f"it is about another {name}" for name, value in ASKED.items() if output.get(name) != value
    )


def told(found: list[Silent]) -> Iterator[str]:
    yield "silent wrong answers: who notices (schema: the declared output; judge: an honest one that knows only the prompt)"
    yield f"{'what is wrong':24}{'declared':>10}{'lasting':>9}{'noticed by':>12}{'the end':>26}"
    for one in found:
        end = "right" if one.right else "a wrong answer believed" if one.succeeded else "reported"
        yield (
            f"{one.wrong:24}{'yes' if one.declared else 'no':>10}{'yes' if one.lasting else 'no':>9}"
            f"{one.noticed:>12}{end:>26}"
        )
    for declared in (True, False):
        those = [one for one in found if one.declared == declared]
        shares = ", ".join(
            f"{who} {sum(one.noticed == who for one in those) / len(those):.0%}"
            for who in ("schema", "judge", "nobody")
        )
        believed = sum(one.succeeded and not one.right for one in those)
        yield f"{'with' if declared else 'without'} a declared output: noticed by {shares}; {believed} of {len(those)} wrong answers believed"
