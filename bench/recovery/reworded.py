"""Reworded arguments: one call that always fails, in other words each time; the guard has to see that it is one.

The model never gives in: it proposes the next wording after every failure, writes the step anew with another one, and
makes another plan with another one, for ever. What ends it is code alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from bench.recovery.nonsense import reflection
from bench.recovery.scripted import again, ran, verdict
from replan.core.types import JsonObject
from replan.testing import FakeTool

MOST_CALLS = 12
"""Calls after which one and the same failure has to have been given up."""
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"what": {"type": "string"}, "note": {"type": "string"}, "n": {"type": "number"}},
    "required": ["what"],
}

Wording = Callable[[int], JsonObject]
WORDINGS: dict[str, Wording] = {
    "capitals and spaces": lambda n: {"what": " " * (n % 7) + ("Rome" if n % 2 else "ROME") + " " * (n // 7)},
    "dates": lambda n: {
        "what": ("2031-05-{:02d}", "{}.5.2031", "5/{}/2031", "May {}, 2031")[n % 4].format(n % 28 + 1)
    },
    "synonyms": lambda n: {"what": f"the {('big', 'large', 'great', 'huge')[n % 4]} one, try {n}"},
    "numbers": lambda n: {"what": "five", "n": 5 + n / 1000},
    "an optional parameter": lambda n: {"what": "Rome", "note": f"please, for the {n}th time"},
    "ids": lambda n: {"what": f"ORD-{n:05d}"},
}
ERRORS: dict[str, Callable[[JsonObject, int], str]] = {
    "the same text": lambda p, n: "what: not known here",
    "the value in it": lambda p, n: f"what: there is no {p['what']!r} here",
    "an id and a time in it": lambda p, n: (
        f"request 7f3e{n:04x} at 12:{n % 60:02d}:01 failed: what is not known"
    ),
}


@dataclass(frozen=True)
class Reworded:
    """What became of one wording with one way in which the error is told."""

    wording: str
    error: str
    calls: int
    model_calls: int
    rounds: int
    ended: str

    @property
    def seen(self) -> bool:
        """The guard saw that it is one failure."""
        return self.calls <= MOST_CALLS and self.ended == "user_intervention_required"


def reworded() -> list[Reworded]:
    return [reword(wording, error) for wording in WORDINGS for error in ERRORS]


def reword(wording: str, error: str) -> Reworded:
    tries, ids, calls = count(), count(1), count()

    def fails(parameters: JsonObject) -> Any:
        raise ValueError(ERRORS[error](parameters, next(calls)))

    def words() -> JsonObject:
        return WORDINGS[wording](next(tries))

    answers = {
        "execution_plan": lambda _: {
            "steps": [{"step_id": f"step_{next(ids)}", "tool": "look", "parameters": words()}]
        },
        "step_reflection": lambda _: reflection("parameter_error", "retry_with_params", words()),
        "step_repair": lambda _: {"tool": "look", "parameters": words()},
        "overall_reflection": again("full_replan"),
        "evaluation": verdict(False, None, "nothing was found"),
    }
    result, model, source = ran({"look": FakeTool(output=fails, parameters=_SCHEMA)}, answers)
    ended = result.failure.kind if result.failure is not None else result.status
    return Reworded(wording, error, source.counts["look"], len(model.requests), result.rounds, ended)


def told(found: list[Reworded]) -> Iterator[str]:
    yield f"reworded arguments: one failing call in other words for ever; the bar: at most {MOST_CALLS} calls, ended by the guard"
    yield f"{'wording':24}{'the error has':26}{'calls':>7}{'models':>8}{'rounds':>8}  ended"
    for one in found:
        mark = "" if one.seen else "  NOT SEEN"
        yield f"{one.wording:24}{one.error:26}{one.calls:7}{one.model_calls:8}{one.rounds:8}  {one.ended}{mark}"
    yield f"seen: {sum(one.seen for one in found)} of {len(found)}"
