from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.failures.signature import normalized, signature
from replan.core.types import Fault, ToolSpec

SAME = [
    pytest.param("no user 17", "no user 9_812", id="numbers"),
    pytest.param("timeout after 3.5 s", "timeout after 12 s", id="seconds"),
    pytest.param(
        "job 3f2a9c1e-0000-4000-8000-123456789abc failed", "job 8b1d7e2f-1111-4111-9111-abcdefabcdef failed", id="UUIDs"
    ),
    pytest.param("order ord_8f3k2 is gone", "order ord_77ab1 is gone", id="ids"),
    pytest.param("at 2026-01-02T03:04:05Z it broke", "at 2027-11-12T13:14:15+02:00 it broke", id="times"),
    pytest.param("cannot read /srv/data/a.csv", "cannot read /home/x/y/b.csv", id="paths"),
    pytest.param("see https://a.example/x?y=1", "see http://b.example/", id="addresses"),
    pytest.param("there is no city 'Roma'", 'there is no city "Oslo"', id="quoted values"),
    pytest.param("No   such\nthing", "no such thing", id="case and white space"),
]  # fmt: skip
OTHER = [
    pytest.param("no such user", "no such order", id="other words"),
    pytest.param("'city' is required", "'day' is required", id="names of parameters"),
    pytest.param(
        "the value of `limit` is too large", "the value of `offset` is too large", id="names in backticks"
    ),
]
NAMES = ("city", "day", "limit", "offset")


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_differs_from_case_to_case_is_folded(one: str, other: str) -> None:
    assert normalized(one, NAMES) == normalized(other, NAMES)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_tells_one_error_from_another_stays(one: str, other: str) -> None:
    assert normalized(one, NAMES) != normalized(other, NAMES)


def test_what_the_call_was_made_with_is_folded_even_where_it_is_not_quoted() -> None:
    assert normalized("there is no Rome here", (), ["Rome"]) == normalized(
        "there is no Oslo here", (), ["Oslo"]
    )


def test_the_tool_and_the_codes_category_are_part_of_it() -> None:
    fault = Fault(category="parameter_error", kind="tool", message="no")
    other = fault.model_copy(update={"category": "tool_error"})
    assert len({signature("a", fault), signature("b", fault), signature("a", other)}) == 3


def test_fields_of_the_schemas_are_names() -> None:
    tool = ToolSpec(
        id="t",
        parameters={"type": "object", "properties": {"a": {"type": "object", "properties": {"deep": {}}}}},
        output_schema={"type": "object", "properties": {"out": {}}},
    )
    says = [
        Fault(category="unknown", kind="tool", message=f"'{name}' is wrong")
        for name in ("deep", "out", "x", "y")
    ]
    signs = [signature("t", fault, tool) for fault in says]
    assert len(set(signs)) == 3, "'x' and 'y' are values"


@given(st.text(max_size=3_000), st.lists(st.text(max_size=30), max_size=5))
def test_any_message_has_one_form_which_is_its_own(message: str, values: list[str]) -> None:
    once = normalized(message, NAMES, values)
    assert once == normalized(message, NAMES, values)
    assert len(once) <= 4_000


@given(st.integers(), st.integers())
def test_numbers_never_tell_errors_apart(one: int, other: int) -> None:
    assert normalized(f"step {one} of the job broke") == normalized(f"step {other} of the job broke")
