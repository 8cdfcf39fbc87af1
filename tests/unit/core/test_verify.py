"""Declared verifiers: what they read, which records they find, and that each record settles one call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.claims import unclaimed
from replan.core.calls.verify import CannotTell, call_value, reading_parameters, records, secret_names
from replan.core.data.nothing import is_nothing
from replan.core.types import ToolSpec, Verifier

PAY = ToolSpec(
    id="pay",
    effect="once",
    parameters={
        "type": "object",
        "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}, "memo": {"default": "x"}},
    },
    secrets=("to",),
)


def declared(happened: str, **more: Any) -> Verifier:
    return Verifier(tool="payments", happened=happened, **more)


def found(verifier: Verifier, output: Any, key: str = "k.1", **parameters: Any) -> list[Any]:
    call = call_value(key, PAY, parameters)
    return [one.output for one in records(verifier, call, output)]


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(TEXTS, TEXTS, st.integers(-(10**12), 10**12))
def test_a_value_of_the_call_is_a_value_whatever_signs_it_has(to: str, other: str, cents: int) -> None:
    output = {"payments": [{"to": to, "cents": cents}, {"to": other + to, "cents": cents}]}
    verifier = declared("output.payments[?to == call.parameters.to && cents == ${call.parameters.cents}]")
    if not to.strip() and not cents:
        return  # a record of nothing
    assert found(verifier, output, to=to, cents=cents) == [{"to": to, "cents": cents}]


@given(
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.booleans(),
)
def test_as_many_like_calls_are_settled_as_there_are_records(
    happened: list[bool], answered: list[bool], alike: bool
) -> None:
    """Of like calls some have happened; of those some have answered by themselves, the others are in doubt."""
    book = [
        {"to": "Ada"} if alike else {"to": "Ada", "id": f"p-{number}"}
        for number, made in enumerate(happened)
        if made
    ]
    verifier = declared("output[?to == call.parameters.to]")
    known = [entry for entry, told in zip(book, answered, strict=False) if told]
    claims: list[str] = []
    for number in range(len(happened)):
        call = call_value(f"k.{number}", PAY, {"to": "Ada"})
        left = unclaimed(records(verifier, call, book), claims, known)
        if left:
            claims.append(left[0].record)
    assert len(claims) == len(book) - len(known)


def test_what_is_read_is_asked_with_values_of_the_call() -> None:
    verifier = declared(
        "output",
        parameters={"q": "${call.parameters.to}/{{call.key}}", "n": ["${call.parameters.cents}"], "m": "${call.parameters.memo}"},
    )  # fmt: skip
    call = call_value("k.7", PAY, {"to": "Ada", "cents": 5})
    assert reading_parameters(verifier, call) == {"q": "Ada/k.7", "n": [5], "m": "x"}
    assert secret_names(verifier, PAY) == ["q"]


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ("${call.parameters.pin}", True),
        ('${call.parameters."card-no"}', True),
        ('card ${ call . parameters . "card-no" } of ${call.key}', True),
        ("${call.parameters}", True),
        ("${call}", True),
        ("${call.parameters | to_string(@)}", True),
        ("${call.[key, parameters.pin]}", True),
        ({"q": ["${call.parameters.pin}"]}, True),
        ("${call.parameters.memo}", False),
        ("${call.key} of ${call.tool}", False),
        ("pin of the call", False),
        ("$${call.parameters.pin}", False),
    ],
)
def test_what_gets_a_secret_of_the_call_is_secret_in_the_reading(value: Any, secret: bool) -> None:
    tool = ToolSpec(id="pay", effect="once", secrets=("card-no", "pin"))
    found = secret_names(declared("output", parameters={"q": value, "n": 5}), tool)
    assert found == (["q"] if secret else [])


@pytest.mark.parametrize(
    ("happened", "output", "expected"),
    [
        ("output.payments", {"payments": [], "total": 0}, []),
        ("output", {"payments": [], "total": 0}, []),
        ("length(output.payments)", {"payments": []}, []),
        ("output.paid", {"paid": True, "id": 7}, [{"paid": True, "id": 7}]),
        ("output.paid", {"paid": False, "id": 7}, []),
        ("output.paid", None, []),
        ("output.ids", {"ids": [7, 8]}, [7, 8]),
        ("'call.key' == `\"call.key\"`", {"x": 1}, [{"x": 1}]),
        ("output.call.key == call.key", {"call": {"key": "k.1"}}, [{"call": {"key": "k.1"}}]),
    ],
)
def test_what_says_that_it_happened(happened: str, output: Any, expected: list[Any]) -> None:
    assert found(declared(happened), output, to="Ada") == expected


def test_what_cannot_be_computed_is_no_answer() -> None:
    with pytest.raises(CannotTell):
        found(declared("sum(output.texts) > `0`"), {"texts": ["a"]}, to="Ada")
    with pytest.raises(CannotTell):
        found(declared("output[?cents == call.parameters.cents]"), [{}], to="Ada")


@pytest.mark.parametrize(
    "output",
    [
        {"error": "rate limited, try again"},
        {"message": "internal error", "code": 500},
        {"data": []},
        {"payments": None},
        {},
        [],
        "<html>Service Unavailable</html>",
        "",
        "null",
        7,
    ],
)
@pytest.mark.parametrize(
    "happened", ["output.payments[?to == call.parameters.to]", "length(output.payments) > `0`", "output.payments[0].to == call.parameters.to"]
)  # fmt: skip
def test_a_reading_that_has_not_what_is_looked_at_is_no_no(happened: str, output: Any) -> None:
    with pytest.raises(CannotTell):
        found(declared(happened), output, to="Ada")


@pytest.mark.parametrize("error", ["busy", {"code": 5}, ["x"], 503])
def test_a_reading_that_says_that_it_has_failed_is_no_no(error: Any) -> None:
    with pytest.raises(CannotTell, match="'error'"):
        found(
            declared("output.payments[?to == call.parameters.to]"), {"error": error, "payments": []}, to="Ada"
        )
    answer = {"error": None, "errors": [], "payments": []}
    assert found(declared("output.payments[?to == call.parameters.to]"), answer, to="Ada") == []


def test_a_filter_over_a_field_that_no_record_has_is_no_no() -> None:
    for happened in ("output[?too == call.parameters.to]", "output[?to == parameters.to]"):
        with pytest.raises(CannotTell, match="the first has: to, cents"):
            found(declared(happened), [{"to": "Ada", "cents": 5}], to="Bob")
    assert found(declared("output[?to == call.parameters.to]"), [{"x": 1}, {"to": "Ada"}], to="Bob") == []


JSON = st.recursive(
    st.sampled_from([None, False, 0, "", 0.0, " "]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_an_envelope_around_nothing_is_nothing(value: Any) -> None:
    assert is_nothing(value)
    assert not is_nothing([value, "x"])
    assert not is_nothing({"a": value, "b": {"c": 1}})


@pytest.mark.parametrize(
    ("around", "field"),
    [
        ({"total": 5}, "total"),
        ({"next": {"date": "2026-12-01"}}, "next"),
        ({"warnings": ["field x is deprecated"]}, "warnings"),
        ({"page": {"has_more": True}}, "has_more"),
    ],
)
def test_a_field_that_looks_like_a_part_of_a_reading_is_passed_over_where_it_is_declared_to_say_nothing(
    around: dict[str, Any], field: str
) -> None:
    output = {"payments": [{"to": "Zed", "cents": 5}], **around}
    happened = "output.payments[?to == call.parameters.to]"
    with pytest.raises(CannotTell, match=f"by '{field}' that it is not the whole.*under regardless_of"):
        found(declared(happened), output, to="Ann")
    assert found(declared(happened, regardless_of=(field,)), output, to="Ann") == []
    with pytest.raises(CannotTell, match="not the whole"):
        found(declared(happened, regardless_of=("size",)), output, to="Ann")
