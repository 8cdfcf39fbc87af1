"""What slots are filled with is data: whatever it is, the plan reads it as itself."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from replan.core.kinds.building import Unwritable, as_text, build
from replan.core.kinds.slots import filled, typed
from replan.core.kinds.workflow import Workflow
from replan.core.references.conditions import holds
from replan.core.references.refs import Reference, has_references, parse, references
from replan.core.references.resolve import resolve

SIGNS = st.text(st.sampled_from("${}s. `\\\"'l\n\t~é"), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | SIGNS,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(SIGNS, one, max_size=3),
    max_leaves=8,
)


def flow(**fields: Any) -> Workflow:
    step = {"step_id": "s", "tool": "t", **fields}
    return Workflow(workflow_id="w", description="d", slots={"a": {}, "b": {}}, steps=(step,))


def looked_up(ref: Reference) -> tuple[Any, str]:
    assert ref.head == "other"
    return "OTHER", "other"


@given(JSON)
def test_a_slot_that_stands_alone_keeps_its_value_and_refers_to_nothing(value: Any) -> None:
    (made,) = build(flow(parameters={"x": "${slots.a}"}), {"a": value})["steps"]
    assert list(references(made["parameters"])) == []
    assert resolve(made["parameters"], looked_up) == {"x": value}


@given(SIGNS, SIGNS, SIGNS)
def test_within_a_text_it_stands_as_it_is_beside_whatever_stands_there(a: str, b: str, between: str) -> None:
    plain = "".join(part for part in parse(between) if isinstance(part, str))
    assume(not plain.endswith("$"))  # `$${slots.b}` is how one writes that no slot is meant
    text = f"{{${{slots.a}}{as_text(plain)}${{slots.b}} ${{other}}!"
    try:
        (made,) = build(flow(parameters={"x": text}), {"a": a, "b": b})["steps"]
    except Unwritable:
        return  # it is refused, and never read as something else
    assert resolve(made["parameters"], looked_up) == {"x": f"{{{a}{plain}{b} OTHER!"}
    assert [ref.head for ref in references(made["parameters"])] == ["other"]


@given(JSON)
def test_in_a_condition_it_is_a_literal(value: Any) -> None:
    (made,) = build(flow(when="x.output == ${slots.a}"), {"a": value})["steps"]
    assert not has_references(made["when"])
    assert holds(made["when"], {"x": {"output": value, "status": "succeeded"}})


@given(st.lists(JSON, max_size=3))
def test_what_is_gone_through_is_the_list_itself(items: list[Any]) -> None:
    (made,) = build(flow(for_each="${slots.a}"), {"a": items})["steps"]
    assert resolve(made["for_each"], looked_up) == items


def test_a_part_of_a_slot_and_one_that_is_left_empty() -> None:
    parameters = {"x": "${slots.a.from}", "y": "${slots.b}", "z": ["${slots.b}", "${slots.a.to[0]}"]}
    workflow = flow(parameters=parameters).model_copy(update={"optional": ("b",)})
    (made,) = build(workflow, {"a": {"from": 1, "to": ["${q}"]}})["steps"]
    assert made["parameters"] == {"x": 1, "z": ["$${q}"]}


def test_values_are_typed_by_their_slots() -> None:
    assert typed({"type": "string"}, "5") == "5"
    assert typed({"type": "integer"}, "5") == 5
    assert typed({"type": "integer"}, "five") == "five"
    assert typed({"type": "array"}, '["a"]') == ["a"]
    assert typed({"type": ["string", "integer"]}, "5") == 5
    assert typed({"type": ["string", "null"]}, "x") == "x"
    assert typed({}, "true") is True


def test_null_is_nothing_unless_the_slot_takes_it_and_a_default_is_a_value_of_its_own() -> None:
    slots: dict[str, Any] = {
        "a": {"type": ["string", "null"]},
        "b": {"type": "array", "default": [1]},
        "c": {"type": "string"},
    }
    workflow = Workflow(workflow_id="w", description="d", slots=slots, steps=({"step_id": "s", "tool": "t"},))
    found = filled(workflow, {"a": None, "c": None})
    assert found.values == {"a": None, "b": [1]}
    assert found.missing == ("c",)
    found.values["b"].append(2)
    assert filled(workflow, {"a": None}).values["b"] == [1]
