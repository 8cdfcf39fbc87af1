"""What cannot fit, as the schemas tell, is said with the plan: values that share nothing, items, constants, and what functions take."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.types import JsonObject, Plan, Step, ToolSpec


def listed(of: JsonObject) -> JsonObject:
    return {"type": "array", "items": of}


TEXT: JsonObject = {"type": "string"}
WHOLE: JsonObject = {"type": "integer"}
UNIT: JsonObject = {"type": "string", "enum": ["kg", "piece"]}
ROW: JsonObject = {
    "type": "object",
    "properties": {
        "id": TEXT, "qty": WHOLE, "unit": UNIT, "note": {"anyOf": [TEXT, {"type": "null"}]},
        "perhaps": {"anyOf": [UNIT, {"type": "null"}]}, "price": {"anyOf": [{"type": "number"}, TEXT]}, "any": {},
    },
}  # fmt: skip
OUTPUT: JsonObject = {
    "type": "object",
    "properties": {
        "rows": listed(ROW),
        "count": WHOLE,
        "unit": UNIT,
        "name": TEXT,
        "tags": listed(TEXT),
        "open": {},
    },
}
PARAMETERS: JsonObject = {
    "currency": {"enum": ["USD", "GBP"]},
    "maybe": {"anyOf": [{"const": "USD"}, {"type": "null"}]},
    "weight": {"enum": ["kg", "t"]},
    "whole": WHOLE,
    "numbers": listed(WHOLE),
    "texts": listed(TEXT),
    "few": {"type": "integer", "minimum": 3},
    "free": {},
}
GIVE = ToolSpec(id="give", effect="reads", output_schema=OUTPUT)
TAKE = ToolSpec(
    id="take",
    effect="once",
    parameters={"type": "object", "properties": PARAMETERS, "additionalProperties": False},
)
BOX = Toolbox(
    resolve={"give": GIVE, "take": TAKE}.get,
    nearest=lambda name: difflib.get_close_matches(name, ["give", "take"]),
)


def violations(**parameters: Any) -> list[str]:
    steps = (Step(step_id="o", tool="give"), Step(step_id="t", tool="take", parameters=parameters))
    checked = check_plan(Plan(plan_id="p", steps=steps), BOX, metadata={"unit": "kg"}, limits=PlanLimits())
    return list(checked.violations)


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("currency", "${o.output.unit}", "currency has to be one of 'USD', 'GBP', and ${o.output.unit} gives one of 'kg', 'piece'"),
        ("currency", "${o.output.rows[0].unit}", "gives one of 'kg', 'piece'"),
        ("maybe", "${o.output.unit}", "has to be one of 'USD', None"),
        ("currency", "${= 'EUR' }", "'EUR' is not one of"),
        ("currency", "${= true ? 'EUR' : 'CHF' }", "'EUR' is not one of"),
        ("whole", "${= 1 / 2 }", "0.5 is not of type"),
        ("few", "${= 1 + 1 }", "2 is less than the minimum of 3"),
        ("few", "${= 1 / 0 }", "divided by 0"),
        ("numbers", "${o.output.rows[*].id}", "each item of which is a whole number, and each item of what ${o.output.rows[*].id} gives is a text"),
        ("numbers", "${o.output.tags}", "gives is a text"),
        ("numbers", "${o.output.rows[?qty > `1`].unit}", "gives is a text"),
        ("texts", "${o.output.rows[*].qty}", "gives is a whole number"),
        ("free", "${= sum(o.output.rows[*].id) }", "sum() takes numbers, and each item of its list is a text"),
        ("free", "${= round(avg(o.output.tags) * 2, 1) }", "avg() takes numbers"),
        ("free", "${= 1 > 2 ? 1 : sum(o.output.tags) }", "sum() takes numbers"),
        ("free", "${= date(o.output.count) }", "date() takes a text or a date, and what it has is a number"),
        ("free", "${= number(o.output.rows) }", "number() takes a text or a number"),
        ("free", "${= length(o.output.count) }", "length() takes"),
        ("free", "${= 'Dear ' + text(o.output.rows) }", "text() takes"),
    ],
)  # fmt: skip
def test_what_cannot_fit_is_a_violation(name: str, given: str, why: str) -> None:
    found = violations(**{name: given})
    assert len(found) == 1, found
    assert why in found[0]
    assert "step 't'" in found[0]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("weight", "${o.output.unit}"),
        ("maybe", "${o.output.rows[0].perhaps}"),
        ("currency", "${o.output.name}"),
        ("currency", "${o.output.open}"),
        ("currency", "${= 'USD' }"),
        ("currency", "${= o.output.count > 1 ? 'USD' : 'EUR' }"),
        ("whole", "${= 4 / 2 }"),
        ("numbers", "${o.output.rows[*].qty}"),
        ("numbers", "${o.output.rows[*].price}"),
        ("numbers", "${o.output.rows[*].any}"),
        ("numbers", "${o.output.rows[*].to_number(id)}"),
        ("texts", "${o.output.rows[*].note}"),
        ("texts", "${o.output.tags | sort(@)}"),
        ("texts", "${= split(o.output.name, ',') }"),
        ("free", "${= sum(o.output.rows[*].qty) }"),
        ("free", "${= sum(o.output.rows[*].price) }"),
        ("free", "${= sum(o.output.open) }"),
        ("free", "${= date(o.output.name) }"),
        ("free", "${= text(o.output.count) + text(1 > 2) + text(date('2026-01-01')) }"),
        ("free", "${= length(o.output.tags) + length(o.output.name) }"),
        ("free", "${= contains(o.output.tags, 'a') }"),
    ],
)
def test_what_may_fit_is_none(name: str, given: str) -> None:
    assert violations(**{name: given}) == []
