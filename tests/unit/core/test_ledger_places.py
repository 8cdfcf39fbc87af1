"""Which place in the plan has which number of a like call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replan.core.calls.site import ONLY
from replan.core.ids import call_base, call_key
from replan.core.state.ledger import Ledger

BASE = call_base("task_1", "send", {"to": "Ann"})
A, B, C = ("a", ONLY), ("b", ONLY), ("c", ONLY)


def test_a_call_that_is_left_frees_its_number() -> None:
    ledger = Ledger()
    assert [ledger.occurrence(BASE, place) for place in (A, B)] == [1, 2]
    ledger.vacate(call_key(BASE, 1), A)
    assert ledger.occurrence(BASE, C) == 1, "the one who makes this very call has its key"
    assert ledger.occurrence(BASE, A) == 3


def test_the_only_place_that_leaves_is_forgotten() -> None:
    ledger = Ledger()
    ledger.occurrence(BASE, A)
    ledger.vacate(call_key(BASE, 1), B)
    assert ledger.occurrence(BASE, B) == 2, "who was not there has nothing to leave"
    ledger.vacate(call_key(BASE, 1), A)
    ledger.vacate(call_key(BASE, 2), B)
    assert ledger.occurrence(BASE, C) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=40))
def test_no_two_places_have_one_number(moves: list[tuple[bool, int]]) -> None:
    ledger, held = Ledger(), {}
    for enters, n in moves:
        place = (f"s{n}", ONLY)
        if enters:
            held[place] = ledger.occurrence(BASE, place)
        elif place in held:
            ledger.vacate(call_key(BASE, held.pop(place)), place)
        assert len(set(held.values())) == len(held)


def test_a_place_is_first_as_long_as_nobody_else_makes_the_call_or_has_made_it() -> None:
    ledger = Ledger()
    assert ledger.is_first("k", ("a", ONLY))
    assert ledger.is_first("k", ("a", ONLY))
    assert not ledger.is_first("k", ("b", ONLY))
    assert ledger.occurrence("k", ("a", ONLY)) == 1
    assert ledger.occurrence("k", ("b", ONLY)) == 2
    assert not ledger.is_first("k", ("a", ONLY))  # they are counted from now on
