"""Other steps, the item and the metadata inside filters, projections and `&…`: references like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core.kinds.building import build
from replan.core.kinds.read_workflow import read_workflow
from replan.core.limits.policy import PlanLimits
from replan.core.plan.check import Checked, Toolbox, check_plan
from replan.core.plan.fingerprint import labels_of
from replan.core.plan.new_ids import with_free_ids
from replan.core.references.conditions import holds, roots
from replan.core.references.meter import PathError
from replan.core.references.refs import Reference, meaning, references, whole
from replan.core.references.resolve import resolve
from replan.core.types import Action, JsonObject, Plan, Step, ToolSpec
from replan.core.waits.tools import WAIT_FOR_CONDITION
from replan.errors import UnresolvedReference

ITEM: JsonObject = {"type": "object", "properties": {"customer": {"type": "string"}, "cents": {}}}
OPEN = ToolSpec(id="open", effect="reads", parameters={"type": "object"})
ROWS = OPEN.model_copy(update={"id": "rows", "output_schema": {"type": "array", "items": ITEM}})
TOOLS = {tool.id: tool for tool in (OPEN, ROWS, WAIT_FOR_CONDITION)}
BEFORE = (
    Step(step_id="r", tool="open"),
    Step(step_id="b", tool="rows"),
    Step(step_id="who", tool="open"),
    Step(step_id="step-4", tool="open"),
    Step(step_id="both", actions=(Action(action_id="act", tool="open"),)),
)
EACH = '["A"]'


def checked(step: Step, metadata: JsonObject | None = None) -> Checked:
    plan = Plan(plan_id="p", steps=(*BEFORE, step))
    toolbox = Toolbox(TOOLS.get, lambda _: ())
    known = {"who": "Ada"} if metadata is None else metadata
    return check_plan(plan, toolbox, metadata=known, limits=PlanLimits())


@pytest.mark.parametrize(
    ("path", "meant", "needs"),
    [
        ("r.output[?c == who.output]", "r.output[?c == ${who.output}]", "r who"),
        ("r.output[?c != who.output.name].cents", "r.output[?c != ${who.output.name}].cents", "r who"),
        ("r.output[?c == who.output.a[0].b].d", "r.output[?c == ${who.output.a[0].b}].d", "r who"),
        ("r.output[?contains(who.output[*].a, c)]", "r.output[?contains(${who.output}[*].a, c)]", "r who"),
        ("r.output[?c == who.output[0].a.b[-1]]", "r.output[?c == ${who.output[0].a.b[-1]}]", "r who"),
        ("r.output[?c == item.ids[0]]", "r.output[?c == ${item.ids[0]}]", "r"),
        ('r.output[?c == "step-4".output.id]', "r.output[?c == ${step-4.output.id}]", "r step-4"),
        ("b.output[?customer == who]", "b.output[?customer == ${who}]", "b who"),
        ("r.output[?c == item.id]", "r.output[?c == ${item.id}]", "r"),
        ("r.output[?c == item && d > index].x", "r.output[?c == ${item} && d > ${index}].x", "r"),
        ("r.output[?contains(item.ids, c)]", "r.output[?contains(${item.ids}, c)]", "r"),
        ("r.output[?contains(c, lower || item.id)]", "r.output[?contains(c, lower || ${item.id})]", "r"),
        ("r.output[?c == metadata.who]", "r.output[?c == ${metadata.who}]", "r"),
        ("r.output[?x == metadata.who]", "r.output[?x == ${metadata.who}]", "r"),  # called as the step itself
        ("b.output[?metadata.who == 'Ada']", "b.output[?${metadata.who} == 'Ada']", "b"),
        ("r.output[?c == task.description]", "r.output[?c == ${task.description}]", "r"),
        ("r.output[?c == act.output.id]", "r.output[?c == ${act.output.id}]", "r both"),
        ("r.output[?c == both.actions.act.output]", "r.output[?c == ${both.actions.act.output}]", "r both"),
        ("r.output[?a[?c == who.output]]", "r.output[?a[?c == ${who.output}]]", "r who"),
        ("item.lines[?c == who.output]", "item.lines[?c == ${who.output}]", "who"),
        ("r.output[?c == '${who.output}']", "r.output[?c == ${who.output}]", "r who"),
        ("r.output[?c == `${item.id}`]", "r.output[?c == ${item.id}]", "r"),
        ("r.output[?c == ${who.output || 'x'}]", "", "r who"),
        ("r.output[?c == {{item.id}}].x", "", "r"),
        ("r.output[?c == ${b.output[?d == ${item.id}].e | [0]}]", "", "r b"),
    ],
)
@pytest.mark.parametrize("form", ["${%s}", "${= length(%s) }", "all: ${%s}"])
def test_what_is_meant_of_the_plan_is_a_reference(path: str, meant: str, needs: str, form: str) -> None:
    step = Step(step_id="x", tool="open", parameters={"deep": [{"x": form % path}]}, for_each=EACH)
    found = checked(step)
    assert found.violations == ()
    made = found.plan.steps[-1]
    assert made.parameters == {"deep": [{"x": form % (meant or path)}]}
    assert made.dependencies == tuple(needs.split()) or set(made.dependencies) == set(needs.split())
    again = checked(made)
    assert (again.plan.steps[-1], again.violations) == (made, ())


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("r.output[*].{who: who.output}", "r.output[*].{who: ${who.output}}"),
        ("r.output[].[cents, who.output]", "r.output[].[cents, ${who.output}]"),
        ("r.output.*.{who: who.output}", "r.output | *.{who: ${who.output}}"),
        ("r.output[*].sort_by(a, &who.output)[0]", "r.output[*].sort_by(a, &${who.output})[0]"),
        ("length(r.output[?c == who.output])", "r.output | length(@[?c == ${who.output}])"),
        ("r.output || r.output", ""),
    ],
)
def test_the_same_where_expressions_have_none(path: str, meant: str) -> None:
    found = checked(Step(step_id="x", tool="open", parameters={"x": f"${{{path}}}"}))
    assert found.plan.steps[-1].parameters == {"x": f"${{{meant or path}}}"}
    assert found.violations == () or not meant


def test_lists_conditions_and_waits() -> None:
    found = checked(Step(step_id="x", tool="open", for_each="${b.output[?customer == who.output]}"))
    assert found.plan.steps[-1].for_each == "${b.output[?customer == ${who.output}]}"
    assert set(found.plan.steps[-1].dependencies) == {"b", "who"}
    for when in (
        "length(b.output[?customer == who.output]) > `0`",
        "${b.output}[?customer == ${who.output}]",
    ):
        step = checked(Step(step_id="x", tool="open", when=when)).plan.steps[-1]
        assert "== ${who.output}]" in (step.when or "")
        assert set(step.dependencies) == {"b", "who"}
        assert dict(roots(step.when or "")) == {"b": "output", "who": "output"}
    step = checked(
        Step(step_id="x", tool="open", when="${= length(b.output[?customer == who.output]) > 0 }")
    ).plan.steps[-1]
    assert step.when == "${= length(b.output[?customer == ${who.output}]) > 0 }"
    asked = {"tool": "open", "parameters": {}, "condition": "output.rows[?id == item.id && c == who.output]"}
    found = checked(Step(step_id="x", tool=WAIT_FOR_CONDITION.id, parameters=asked, for_each=EACH))
    assert found.violations == ()
    assert found.plan.steps[-1].parameters["condition"] == (
        "output.rows[?id == ${item.id} && c == ${who.output}]"
    )
    assert found.plan.steps[-1].dependencies == ("who",)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("r.output[?c == ${nobody.output}]", "'nobody' is not a step"),
        ("r.output[?c == ${x.output}]", "refers to its own step"),
        ("r.output[?c == ${metadata.nothing}]", "the metadata has no 'nothing'"),
        ("r.output[?c == ${b.output[0].nothing.x}]", ""),
        ("r.output[?c == ${env.HOME}]", "'env' is not a step"),
        ("r.output[?c == ${who}", "is no JMESPath"),
        ("r.output.${who.output}", "outside of filters"),
        ("r.output | [@, ${who.output}]", "outside of filters"),
        ("r.output[?c == ${= 1 + 2 }]", "no expression"),
        ("r.output[?" + " || ".join(["c == ${who.output}"] * 21) + "]", "more than 20 references"),
        ("r.output[?c == " * 21 + "`1`" + "]" * 21, ""),
    ],
)
def test_what_is_inside_is_checked_as_any_reference(path: str, said: str) -> None:
    found = checked(Step(step_id="x", tool="open", parameters={"x": f"${{{path}}}"}, for_each=EACH))
    assert any(said in text for text in found.violations) or not said


def test_a_reference_in_the_list_itself_has_no_item() -> None:
    for each in ("${r.output[?c == item.id]}", "${= merge_by(r.output[?c == ${index}], b.output, 'c') }"):
        found = checked(Step(step_id="x", tool="open", for_each=each))
        assert any("cannot refer to its own" in text for text in found.violations)


# ── what it comes to ──

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-3, 3)
    | st.text("a`'\"\\${}[]@&| é", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
LISTS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=4)
PATHS = (
    "[?a == %s]",
    "[?a != %s].b",
    "[?%s < a]",
    "[?contains(to_string(a), to_string(%s))]",
    "[*].{x: a, y: %s}",
    "[].[%s, b]",
    "[?a == (%s || b)]",
    "[?not_null(%s, a) == b]",
    "[?type(a) == type(%s)] | length(@)",
)


def outcome(text: str, values: dict[str, Any]) -> Any:
    try:
        return resolve(text, lambda ref: (values[ref.head], ref.head))
    except UnresolvedReference as error:
        return str(error).replace(text, "")


@settings(max_examples=300, deadline=None)
@given(LISTS, VALUES, st.sampled_from(PATHS))
def test_it_gives_what_the_literal_gives(rows: list[Any], value: Any, path: str) -> None:
    literal = (
        "`"
        + json.dumps(value).replace("`", "\\u0060").replace("${", "\\u0024{").replace("{{", "{\\u007b")
        + "`"
    )
    if "{{" in literal or ("}}" in literal and '"' not in literal):
        literal = literal.replace("}}", "} }")
    values = {"r": rows, "who": value}
    named = outcome("${r.output" + path % "${who.output}" + "}", values)
    written = outcome("${r.output" + path % literal + "}", values)
    assert str(named).split("}: ")[-1] == str(written).split("}: ")[-1]
    if not isinstance(named, str):
        assert json.dumps(named) == json.dumps(written)


def test_conditions_see_the_same_values() -> None:
    scope: JsonObject = {
        "r": {"status": "succeeded", "output": [{"a": 1}, {"a": 2}]},
        "who": {"status": "succeeded", "output": {"n": 2}},
        "left": {"status": "skipped"},
    }
    assert holds("length(r.output[?a == ${who.output.n}]) == `1`", scope)
    assert not holds("r.output[?a == ${who.output.n} && a == `1`]", scope)
    assert holds("${= length(r.output[?a < ${who.output.n}]) == 1 }", scope)
    for lacking in ("${who.output.m}", "${left.output}", "${none.output}"):
        with pytest.raises(PathError):
            holds(f"r.output[?a != {lacking}]", scope)


def test_what_is_not_there_is_an_error_and_never_null() -> None:
    found = outcome("${r.output[?a != ${who.output.m}]}", {"r": [{"a": 1}], "who": {}})
    assert "${who.output.m}" in found
    assert "there is no 'm'" in found


def test_it_is_compared_as_a_value_and_never_read() -> None:
    evil = "x'] || `true` || ['${who.output}"
    assert outcome("${r.output[?a == ${who.output}]}", {"r": [{"a": 1}, {"a": evil}], "who": evil}) == [
        {"a": evil}
    ]


# ── other forms, bounds, secrets ──


def test_references_meanings_and_ids_go_through_it() -> None:
    text = "${= 1 + length(r.output[?c == ${who.output[?d == ${item.id}]}]) }"
    assert [ref.head for ref in references(text)] == ["r", "who", "item"]
    one, same, other = (
        whole(f"${{r.output[?c == {inner}]}}")
        for inner in ("${who.output}", "{{ who.outputs }}", "${b.output}")
    )
    assert isinstance(one, Reference)
    assert isinstance(same, Reference)
    assert isinstance(other, Reference)
    assert meaning(one) == meaning(same) != meaning(other)
    step = Step(
        step_id="y",
        parameters={"x": "${r.output[?c == ${who.output} && d == ${r.output.n}]}"},
        when="r.output[?c == ${who.output}]",
        tool="open",
    )
    renamed = with_free_ids([BEFORE[0], BEFORE[2], step], {"r", "who"})
    assert renamed[2].parameters == {
        "x": "${step_1.output[?c == ${step_2.output} && d == ${step_1.output.n}]}"
    }
    assert renamed[2].when == "step_1.output[?c == ${step_2.output}]"
    both = [Plan(plan_id="p", steps=(BEFORE[0], BEFORE[2], step)), Plan(plan_id="p", steps=tuple(renamed))]
    first, second = (
        labels_of(plan.model_copy(update={"steps": tuple(_with_needs(one, plan) for one in plan.steps)}), {})
        for plan in both
    )
    assert [*first.values()][-1] == [*second.values()][-1]


def _with_needs(step: Step, plan: Plan) -> Step:
    ids = [one.step_id for one in plan.steps]
    needs = tuple(ref.head for ref in references(step.parameters) if ref.head in ids)
    return step.model_copy(update={"dependencies": tuple(dict.fromkeys(needs))})


def test_actions_are_renamed_in_paths_too() -> None:
    acts = (
        Action(action_id="a", tool="open"),
        Action(
            action_id="c",
            tool="open",
            parameters={"x": "${each.actions.a.output[?p == ${w.output} && q == ${a.output.n}]}"},
        ),
    )
    made = with_free_ids(
        [Step(step_id="w", tool="open"), Step(step_id="each", actions=acts)], {"a", "w", "each"}
    )
    assert made[1].actions[1].parameters == {
        "x": f"${{{made[1].step_id}.actions.{made[1].actions[0].action_id}.output[?p == ${{{made[0].step_id}.output}} "
        f"&& q == ${{{made[1].actions[0].action_id}.output.n}}]}}"
    }


def test_a_slot_in_a_path_is_a_literal_of_it() -> None:
    steps = [
        {"step_id": "r", "tool": "open", "parameters": {"about": "${slots.who}"}},
        {
            "step_id": "x",
            "tool": "open",
            "parameters": {
                "x": "${r.output[?c == ${slots.who}]}",
                "y": "n: ${= length(r.output[?c == ${slots.who}]) }",
            },
        },
    ]
    flow = read_workflow(
        {"id": "w", "description": "It.", "slots": {"who": {"type": "string"}}, "steps": steps}, "d"
    )
    for value in ("Ada", "a`]'} ${r.output} {{x}}"):
        made = build(flow, {"who": value})["steps"][1]["parameters"]
        values = {"r": [{"c": value}, {"c": "other"}]}
        assert outcome(made["x"], values) == [{"c": value}]
        assert outcome(made["y"], values) == "n: 1"
