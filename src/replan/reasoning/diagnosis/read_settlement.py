"""What a diagnosis says of a call of which nobody knows whether it took effect."""

from __future__ import annotations

from replan.core.data.taken_back import Beside, said_beside
from replan.core.types import JsonObject
from replan.reasoning.prompting.ask import Violations
from replan.reasoning.prompting.read_values import named, text, truth

_SETTLEMENT_FIELDS = {
    "happened": ("did_happen", "effect_happened", "took_effect", "took_place"),
    "output": ("result",),
    "evidence": ("quote", "proof", "reason"),
}
_OF_SETTLEMENTS = (
    "type",
    *_SETTLEMENT_FIELDS,
    *(name for names in _SETTLEMENT_FIELDS.values() for name in names),
)


def beside_settlement(data: JsonObject) -> Beside:
    """What is said beside its own fields and may say otherwise."""
    happened = truth(named(data, _SETTLEMENT_FIELDS).get("happened"))
    return said_beside(data, _OF_SETTLEMENTS, yes=happened is not False)


def read_settlement(data: JsonObject) -> JsonObject:
    """Its fields by their own names; `Violations` where it does not say all of it, or says two things."""
    found = named(data, _SETTLEMENT_FIELDS, ("happened", "output"))
    happened, evidence = truth(found.get("happened")), text(found.get("evidence"))
    problems = [
        f"suggested_action.data of settle_outcome has {no!r}, which says otherwise: choose another action if you cannot tell"
        for no in beside_settlement(data).denying
    ]
    if happened is None:
        problems.append("suggested_action.data of settle_outcome has to say `happened`: true or false")
    if not evidence:
        problems.append("suggested_action.data of settle_outcome has to quote the reading as `evidence`")
    if problems:
        raise Violations(problems)
    told: JsonObject = {"happened": happened, "evidence": evidence}
    return told | ({"output": found["output"]} if found.get("output") is not None else {})
