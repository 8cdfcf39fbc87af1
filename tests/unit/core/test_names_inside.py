"""Names inside filters, projections and `&…`: what may be a field of the items, or another step, is never quietly one of the two."""

from __future__ import annotations

from typing import Any

import pytest

from replan.core.kinds.read_workflow import read_workflow
from replan.core.kinds.written import Faulty
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Toolbox, check_plan
from replan.core.types import Action, JsonObject, Plan, Step, ToolSpec
from replan.core.waits.tools import WAIT_FOR_CONDITION


def rows_of(**fields: Any) -> JsonObject:
    item = {"type": "object", "properties": fields, "additionalProperties": False}
    return {"type": "array", "items": item}


TEXT = {"type": "string"}
NUMBER = {"type": "number"}
OPEN = ToolSpec(id="open", effect="reads", parameters={"type": "object"})
BILLS = ToolSpec(
    id="bills",
    effect="reads",
    parameters={"type": "object"},
    output_schema=rows_of(customer=TEXT, cents=NUMBER),
)
FORMS: JsonObject = {"anyOf": [{"$ref": "#/$defs/one"}, {"type": "null"}]}
FIELDS: JsonObject = {"item": {}, "who": {}, "metadata": {}}
ODD = ToolSpec(
    id="odd",
    effect="reads",
    parameters={"type": "object"},
    output_schema={
        "type": "array",
        "items": FORMS,
        "$defs": {"one": {"type": "object", "properties": FIELDS}},
    },
)
TOOLS = {tool.id: tool for tool in (OPEN, BILLS, ODD, WAIT_FOR_CONDITION)}
BEFORE = (
    Step(step_id="r", tool="open"),
    Step(step_id="b", tool="bills"),
    Step(step_id="o", tool="odd"),
    Step(step_id="who", tool="open"),
    Step(step_id="both", actions=(Action(action_id="act", tool="open"),)),
)


def violations(step: Step) -> list[str]:
    plan = Plan(plan_id="p", steps=(*BEFORE, step))
    toolbox = Toolbox(TOOLS.get, lambda _: ())
    return list(check_plan(plan, toolbox, metadata={"who": "Ada"}, limits=PlanLimits()).violations)


def shown(x: str, **more: Any) -> Step:
    return Step(step_id="x", tool="open", parameters={"x": x}, **more)


EACH = {"for_each": '["A", "B"]'}


@pytest.mark.parametrize(
    ("path", "more", "said"),
    [
        ("r.output[?customer == who]", {}, "or step 'who'"),
        ("r.output[?customer == who.status]", {}, "or step 'who'"),
        ("r.output[?b == who]", {}, "or step"),
        ("r.output[?customer == who.name]", {}, "or step 'who'; the field is written @.who"),
        ("r.output[?customer != who.rows[0].name]", {}, "or step 'who'"),
        ("r.output[?whom.output]", {}, "or a step; the field is written @.whom"),
        ("r.output[?length(who) > `5`]", {}, "or step 'who'"),
        ("r.output[?metadata.who == 'x']", {}, "or the task's metadata"),
        ("r.output[?customer == metadata.name]", {}, "or the task's metadata"),
        ("r.output[?item == 'x']", EACH, "in braces: ${item}"),
        ("r.output[?item.sku == 'x' && cents == `5`]", EACH, "or the item of `for_each`"),
        ("r.output[?contains(item.tags, 'x')]", EACH, "or the item of `for_each`"),
        ("r.output[?index > `5`]", EACH, "or the index of `for_each`"),
        ("b.output[?customer == who.status]", {}, "(they have: customer, cents), or step 'who'"),
        ("r.output[?customer == 'for ${who.output}']", {}, "stands in quotes"),
    ],
)
@pytest.mark.parametrize("form", ["${%s}", "${= length(%s) }", "all: {{%s}}"])
def test_what_may_be_a_field_as_well_is_told_with_the_plan(
    path: str, more: dict[str, Any], said: str, form: str
) -> None:
    found = violations(shown(form % path, **more))
    assert found, path
    assert said in found[0], found
    assert "merge_by" in found[0]


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("r.output[?@.who == 'x']", {}),
        ("r.output[*].who", {}),
        ("r.output[*].who.output", {}),
        ("o.output[?who == 'x']", {}),
        ("r.output[?who == 'x' && b > `5`]", {}),  # a step would be the same for all items
        ("r.output[?who == who.output]", {}),
        ("r.output[?who == ${who.output} && 'x' != b].b", {}),
        ("o.output[?metadata.name == 'x']", {}),
        ("o.output[?item.sku == 'x']", EACH),
        ("sort_by(o.output, &who)[0].item", EACH),
        ("r.output[?item == 'x']", {}),  # there is no item here
        ("r.output[?x == 'x' && task.done]", {}),
        ("r.output[?template == '{{name}}']", {}),
        ("b.output[?customer == 'who.output'].cents | [0]", {}),
        ("b.output | length(@)", {}),
    ],
)
def test_a_field_stays_a_field(path: str, more: dict[str, Any]) -> None:
    assert violations(shown(f"${{{path}}}", **more)) == []


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("length(r.output[?customer == who]) > `0`", "or step 'who'"),
        ("b.output[?customer == who.status]", "they have: customer, cents"),
        ("${= length(r.output[?customer == who]) > 0 }", "or step 'who'"),
        ("'${who.output}' == 'x'", "without braces"),
        ("r.output[?customer == ${item.name}]", "not at 'item'"),
        ("r.output[?customer == ${act.output}]", "'act' is an action"),
        ("r.output[?customer == ${nobody.output}]", "'nobody' is not a step"),
        ("r.output[?customer == ${= 1 + 2 }]", "is no reference"),
    ],
)
def test_the_same_of_conditions(when: str, said: str) -> None:
    found = violations(Step(step_id="x", tool="open", when=when))
    assert found, when
    assert said in found[0]


def test_conditions_with_fields_of_the_items_pass() -> None:
    for when in ("o.output[?who == 'x']", "length(r.output[?@.who == 'x']) > `0`", "r.output[*].who"):
        assert violations(Step(step_id="x", tool="open", when=when)) == []


def test_for_each_looks_at_the_fields_of_its_list() -> None:
    found = violations(shown("${item.cents}", for_each="${b.output[?customer == who]}"))
    assert "step 'who'" not in found  # their fields are known
    assert violations(shown("${item.cents}", for_each="${b.output[?customer == item.x]}")) == [
        "step 'x': `for_each` cannot refer to its own item"
    ]
    assert violations(shown("${item.cents}", for_each="${b.output[?customer == 'x']}")) == []


def waits(condition: str, tool: str = "open") -> Step:
    given = {"tool": tool, "parameters": {}, "condition": condition}
    return Step(step_id="x", tool=WAIT_FOR_CONDITION.id, parameters=given, for_each='["A"]')


@pytest.mark.parametrize("name", ["who", "output.wanted", "metadata.name", "who.status"])
def test_what_a_wait_may_mean_as_a_field_is_told(name: str) -> None:
    found = violations(waits(f"output.rows[?id == {name}]"))
    assert found, name
    assert "the field is written @." in found[0]
    assert violations(waits("output.rows[?id == '${item}']")) == []
    assert violations(waits("output[?item.id == 'x' && who == 'y']", "odd")) == []


@pytest.mark.parametrize(
    "path",
    [
        "b.output[*].cent",
        "b.output[].cent",
        "b.output[1:].cent",
        "b.output[?cent > `5`]",
        "b.output[?customer == 'x'].cent",
        "b.output[?customer == Kern]",
        "b.output[?contains(custom, 'x')]",
        "b.output[?cents > `5`] | [0].cent",
        "b.output | [0].cent",
        "b.output[0].cent || 'none'",
        "max_by(b.output, &cent).customer",
        "max_by(b.output, &cents).custom",
        "sort_by(b.output, &cents)[0].custom",
        "map(&cent, b.output)",
        "b.output[*].{what: cent}",
        "b.output[*].cents[*].x",
    ],
)
def test_a_field_that_no_item_has_is_told_with_the_plan(path: str) -> None:
    for found in (violations(shown(f"${{{path}}}")), violations(Step(step_id="x", tool="open", when=path))):
        assert len(found) == 1, path
        assert " has no " in found[0], found
    right = (
        path.replace("custom,", "customer,").replace(".custom", ".customer").replace("customerer", "customer")
    )
    right = (
        right.replace("cents", "cent")
        .replace("cent", "cents")
        .replace("Kern", "'Kern'")
        .replace("cents[*].x", "cents")
    )
    assert violations(shown(f"${{{right}}}")) == [], right
    assert violations(Step(step_id="x", tool="open", when=right)) == [], right


def test_the_same_in_expressions_lists_and_waits() -> None:
    assert "it has: customer, cents" in violations(shown("${= sum(b.output[*].cent) }"))[0]
    assert "it has: customer, cents" in violations(shown("${item}", for_each="${b.output[?cent > `5`]}"))[0]
    lines = {"for_each": "${b.output[?cents > `5`]}"}
    assert "it has: customer, cents" in violations(shown("${item.cent || 'x'}", **lines))[0]
    assert violations(shown("${item.cents || 'x'}", **lines)) == []
    when = Step(step_id="x", tool="open", when="${= sum(b.output[*].cent) > 5 && b.output[0].cents > 2 }")
    assert "it has: customer, cents" in violations(when)[0]
    assert "it has: customer, cents" in violations(waits("output[?cent > `5`]", "bills"))[0]
    assert violations(waits("output[?cents > `5`]", "bills")) == []


@pytest.mark.parametrize(
    ("fields", "right"),
    [
        (
            {"parameters": {"x": "${r.output[?c == slots.who]}"}},
            {"parameters": {"x": "${r.output[?c == 'x']}", "y": "${slots.who}"}},
        ),
        (
            {"parameters": {"x": "${r.output[?c == '${slots.who}']}"}},
            {"parameters": {"x": "${r.output[*].slots.who}", "y": "${slots.who}"}},
        ),
        (
            {"parameters": {"x": "${= length(r.output[?c == slots.who]) }"}},
            {"parameters": {"x": "${= length(r.output[?c == ${slots.who}]) }"}},
        ),
        ({"when": "r.output[?c == slots.who]"}, {"when": "r.output[?c == ${slots.who}]"}),
    ],
)
def test_a_slot_in_a_path_stands_in_braces(fields: JsonObject, right: JsonObject) -> None:
    def read(more: JsonObject) -> None:
        first = {"step_id": "r", "tool": "open", "parameters": {"about": "${slots.who}"}}
        steps = [first, {"step_id": "x", "tool": "open", "parameters": {}} | more]
        read_workflow({"id": "w", "description": "Looks at it.", "slots": {"who": TEXT}, "steps": steps}, "d")

    with pytest.raises(Faulty, match="a slot is written"):
        read(fields)
    read(right)
