"""What stands in for a model where none is given: it answers over HTTP, from nothing but what it is asked.

`python -m examples.connected` starts it; with `--endpoint URL --model NAME` another one is asked in its place.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from replan.core.types import JsonObject
from replan.testing import ScriptedEndpoint


def endpoint() -> ScriptedEndpoint:
    answers: dict[str, Callable[[JsonObject], JsonObject]] = {
        "execution_plan": _plan,
        "workflow_slots": _slots,
        "step_reflection": _remedy,
        "evaluation": _verdict,
    }
    return ScriptedEndpoint(answers)


def _text(body: JsonObject) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def _plan(body: JsonObject) -> JsonObject:
    """A workflow that is offered does what is asked for."""
    return {"steps": [], "workflow_id": _found(r"- (rhine-report)\(", body)}


def _slots(body: JsonObject) -> JsonObject:
    """Both stand in the task's own words."""
    station = _found(r"how high the Rhine stands in (\w+)", body)
    return {"slots": {"station": station, "to": _found(r"Tell (\S+@\S+)", body)}}


def _remedy(body: JsonObject) -> JsonObject:
    """The known name that is most like the one that was refused."""
    refused = _found(r"station '(\w+)' is not known", body)
    known = _found(r"known stations: ([\w, ]+)", body).split(", ")
    (meant,) = difflib.get_close_matches(refused, known, n=1)
    return {
        "root_cause_category": "parameter_error",
        "root_cause": f"the gauge that the task calls {refused} is known as {meant}",
        "is_recoverable": True,
        "confidence": 0.9,
        "analysis": "The tool has listed the names that it knows.",
        "suggested_action": {"type": "retry_with_params", "data": {"station": meant}},
    }


def _verdict(body: JsonObject) -> JsonObject:
    """Good where a note was sent that tells a level."""
    sent = re.search(r"The Rhine at \w+: [\d.]+ ft", _text(body))
    score = 95 if sent else 0
    dimensions = dict.fromkeys(("completeness", "correctness", "efficiency", "reliability"), score)
    return {
        "overall_score": score,
        "is_successful": sent is not None,
        "dimensions": dimensions,
        "final_output": sent[0] if sent else "no note was sent",
    }


def _found(pattern: str, body: JsonObject) -> str:
    found = re.search(pattern, _text(body))
    if found is None:
        raise ValueError(
            f"nothing like {pattern!r} in what was asked: this stand-in knows the example's task alone"
        )
    return found[1]
