"""What a diagnosis says of a call of which nobody knows whether it took effect."""

from __future__ import annotations

import json
from typing import Any

from replan.core.data.taken_back import Beside, said_beside
from replan.core.types import JsonObject
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import named, text, truth

_SETTLEMENT_FIELDS = {
    "happened": ("did_happen", "effect_happened", "took_effect", "took_place"),
    "output": ("result",),
    "evidence": ("quote", "proof", "reason"),
}
HAPPENED = ("happened", *_SETTLEMENT_FIELDS["happened"])
_OF_SETTLEMENTS = (
    "type",
    *_SETTLEMENT_FIELDS,
    *(name for names in _SETTLEMENT_FIELDS.values() for name in names),
)


def beside_settlement(data: JsonObject) -> Beside:
    """What is said beside its own fields and may say otherwise."""
    return said_beside(data, _OF_SETTLEMENTS, yes=happened_in(data) is not False)


def happened_in(data: JsonObject) -> bool | None:
    """Whether it says that it has happened."""
    return truth(named(data, _SETTLEMENT_FIELDS).get("happened"))


def read_settlement(data: JsonObject) -> JsonObject:
    """Its fields by their own names; `Violations` where it does not say all of it, or says two things."""
    found = named(data, _SETTLEMENT_FIELDS, ("happened", "output"))
    happened, evidence = truth(found.get("happened")), _quoted(found.get("evidence"))
    problems: list[str] = []
    if happened is None:
        problems.append("suggested_action.data of settle_outcome has to say `happened`: true or false")
    if not evidence:
        problems.append("suggested_action.data of settle_outcome has to quote the reading as `evidence`")
    if problems:
        raise Violations(problems)
    told: JsonObject = {"happened": happened, "evidence": evidence}
    return told | ({"output": found["output"]} if found.get("output") is not None else {})


def _quoted(evidence: Any) -> str:
    """The quotation as a text; what is given as an object is the JSON that a reading shows."""
    parts = evidence if isinstance(evidence, list) else [evidence]
    if any(isinstance(one, dict) and one for one in parts):
        return json.dumps(evidence, ensure_ascii=False)
    return text(evidence)
