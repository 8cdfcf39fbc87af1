"""Calls of two tools that do the same, and which of them are one effect; and which tools those are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replan.core.calls.told_alike import CallsTold, Told
from replan.core.secrets import lost
from replan.core.tools.families import families
from replan.core.types import ToolSpec
from thorough import examples


def tool(required: str, **optional: Any) -> ToolSpec:
    """A tool with these parameters; a default of None is none."""
    names = {name: {} for name in required.split()}
    defaults = {name: {} if value is None else {"default": value} for name, value in optional.items()}
    return ToolSpec(id="t", parameters={"properties": {**names, **defaults}, "required": [*names]})


@pytest.mark.parametrize(
    ("one", "its", "other", "others", "same"),
    [
        pytest.param("to", {"to": "Ann"}, "to", {"to": "Ann"}, True, id="the same"),
        pytest.param("to", {"to": "Ann"}, "to", {"to": "Bob"}, False, id="somebody else"),
        pytest.param("to n", {"to": "Ann", "n": 5}, "to n", {"to": "Ann", "n": 5.0}, True, id="one number"),
        pytest.param("to n", {"to": "Ann", "n": 5}, "to n", {"to": "Ann", "n": "5"}, True, id="a number as a text"),
        pytest.param("to note", {"to": "Ann", "note": "x"}, "to", {"to": "Ann"}, True, id="one more in one tool"),
        pytest.param("to", {"to": "Ann"}, "recipient", {"recipient": "Ann"}, True, id="another name"),
        pytest.param("to", {"to": "Ann"}, "recipient", {"recipient": "Bob"}, False, id="another name and value"),
        pytest.param("to n", {"to": "Ann", "n": 5}, "whom n", {"whom": "Bob", "n": 5}, False, id="only the amount is the same"),
        pytest.param("to n", {"to": "Ann", "n": 5}, "whom cents", {"whom": "Ann", "cents": 500}, True, id="another unit"),
        pytest.param("order", {"order": 7}, "number", {"number": 7}, True, id="numbers alone"),
        pytest.param("order", {"order": 7}, "number", {"number": 8}, False, id="other numbers"),
        pytest.param("order", {"order": 7}, "number", {"number": "7"}, True, id="a number and a text of it"),
        pytest.param("to session", {"to": "A", "session": "s1"}, "to session", {"to": "A", "session": "s2"}, True, id="for somebody else"),
        pytest.param("", {}, "", {}, True, id="nothing at all"),
        pytest.param("a to", {"a": "x", "to": "Ann"}, "a whom", {"a": "x", "whom": "Bob"}, False, id="from one account to two people"),
    ],
)  # fmt: skip
def test_what_both_are_told_tells_them_apart(
    one: str, its: dict[str, Any], other: str, others: dict[str, Any], *, same: bool
) -> None:
    mine, theirs = Told.of(tool(one), its), Told.of(tool(other), others)
    assert mine.is_like(theirs) == same
    assert theirs.is_like(mine) == same


@pytest.mark.parametrize(
    ("its", "others", "same"),
    [
        ({"to": "Ann"}, {"to": "Ann"}, True),
        ({"to": "Ann", "n": 100}, {"to": "Ann"}, True),
        ({"to": "Ann", "n": 500}, {"to": "Ann"}, False),
        ({"to": "Ann"}, {"to": "Ann", "n": 500}, True),
        ({"to": "Ann", "n": None}, {"to": "Ann"}, True),
    ],
)
def test_a_default_counts_where_the_other_is_given_a_value(its: Any, others: Any, *, same: bool) -> None:
    """Of two that both leave it to their defaults, nobody has chosen anything."""
    mine, theirs = Told.of(tool("to", n=500), its), Told.of(tool("to", n=100), others)
    assert mine.is_like(theirs) == same


def test_an_optional_parameter_may_be_what_the_other_tool_requires_by_another_name() -> None:
    mine = Told.of(tool("to n"), {"to": "Ann", "n": 5})
    assert not mine.is_like(Told.of(tool("n", whom=None), {"whom": "Bob", "n": 5}))
    assert mine.is_like(Told.of(tool("n", whom=None), {"whom": "Ann", "n": 5}))


def test_a_value_that_nobody_can_see_any_more_may_be_any() -> None:
    mine, hidden = Told.of(tool("to"), {"to": "DE1"}), Told.of(tool("to"), lost({"to": "***"}))
    assert mine.is_like(hidden)
    assert mine.is_like(Told.of(tool("whom"), lost({"whom": "***"})))
    calls = CallsTold()
    calls.learn(tool("to"), [lost({"to": "***"}), {"to": "DE2"}])
    assert [at for at, _ in calls.like(mine)] == [0]


def test_a_value_that_is_not_known_yet_is_the_same_as_none() -> None:
    mine = Told.of(tool("to n"), {"n": 5}, ["to"])
    assert not mine.is_like(Told.of(tool("to n"), {"to": "Ann", "n": 5}))
    assert mine.is_like(Told.of(tool("n"), {"n": 5}))


def test_calls_are_found_the_latest_first_however_many_there_are() -> None:
    calls = CallsTold()
    calls.learn(tool("to n"), [{"to": f"P{at % 500}", "n": 5} for at in range(2_000)])
    mine = Told.of(tool("to n"), {"to": "P7", "n": 5})
    assert [at for at, _ in calls.like(mine)] == [1507, 1007, 507, 7]
    calls.learn(tool("to n"), [{"to": "P7", "n": 5.0}])
    assert next(at for at, _ in calls.like(mine)) == 2_000
    calls.learn(tool("to n"), [{"to": "P7", "n": 6}])
    assert next(at for at, _ in calls.like(mine, {"n"})) == 2_001


@settings(max_examples=examples(100))
@given(
    made=st.lists(
        st.fixed_dictionaries({"whom": st.sampled_from("ABC"), "n": st.sampled_from([1, 2])}), max_size=30
    ),
    mine=st.fixed_dictionaries({"to": st.sampled_from(["A", "B", ""]), "n": st.sampled_from([1, 2])}),
    names=st.sampled_from(
        [("to n", "whom n"), ("to m", "whom n"), ("to", "whom n"), ("to n", "n"), ("m", "n"), ("", "whom")]
    ),
)
def test_what_is_found_is_what_is_alike(made: Any, mine: Any, names: tuple[str, str]) -> None:
    """However the two tools name what they require."""
    own, other = names
    values = {"to": mine["to"], "m": mine["n"], "n": mine["n"]}
    call = Told.of(tool(own), {name: values[name] for name in own.split()})
    theirs = [{name: one[name] for name in other.split()} for one in made]
    calls = CallsTold()
    calls.learn(tool(other), theirs)
    alike = [at for at, one in enumerate(theirs) if call.is_like(Told.of(tool(other), one))]
    assert [at for at, _ in calls.like(call)] == alike[::-1]


def test_a_family_is_who_is_declared_by_whom_in_either_direction_and_through_a_third() -> None:
    specs = [
        ToolSpec(id="pay", substitutes=("Wire", "quote")),
        ToolSpec(id="wire"),
        ToolSpec(id="sepa", substitutes=("wire",)),
        ToolSpec(id="quote", effect="reads"),
        ToolSpec(id="other", substitutes=("gone",)),
        ToolSpec(id="itself", substitutes=("itself",)),
        ToolSpec(id="looks", effect="reads", substitutes=("pay",)),
    ]
    ids = {spec.id: spec.id for spec in specs}
    assert families(specs, lambda name: ids.get(name.lower())) == {
        "pay": ("sepa", "wire"),
        "wire": ("pay", "sepa"),
        "sepa": ("pay", "wire"),
        "other": ("gone",),
        "gone": ("other",),
    }
