"""Which place in the plan has which number of a like call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cpu_time import cpu
from replan.core.calls.site import ONLY, Place, Slot
from replan.core.ids import call_base, call_key
from replan.core.state.ledger import Ledger, Occurrences

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
    assert ledger.is_first("k", "k.1", ("a", ONLY))
    assert ledger.is_first("k", "k.1", ("a", ONLY))
    assert not ledger.is_first("k", "k.1", ("b", ONLY))
    assert ledger.occurrence("k", ("a", ONLY)) == 1
    assert ledger.occurrence("k", ("b", ONLY)) == 2
    assert not ledger.is_first("k", "k.1", ("a", ONLY))  # they are counted from now on


@given(
    st.lists(
        st.tuples(st.sampled_from(["in", "share", "free", "out"]), st.integers(0, 3), st.integers(0, 3), st.sets(st.integers(0, 3))),
        max_size=40,
    )
)  # fmt: skip
def test_a_number_is_shared_where_all_who_have_it_are_done(
    moves: list[tuple[str, int, int, set[int]]],
) -> None:
    """As told by looking through all places each time."""
    like, held = Occurrences(), dict[Place, int]()
    for move, step, item, done in moves:
        place = (f"s{step}", Slot(None, item))
        if move == "in":
            like.occupy(place, item + 1)
            held[place] = item + 1
        elif move == "free":
            like.free({place[0]})
            held = {one: number for one, number in held.items() if one[0] != place[0]}
        elif move == "out":
            like.leave(place)
            held.pop(place, None)
        elif place not in held:
            names = {f"s{one}" for one in done} - {place[0]}
            wanted = [
                number
                for number in sorted(set(held.values()))
                if all(one[0] in names for one, theirs in held.items() if theirs == number)
            ]
            found = like.shared(place, lambda one, names=names: one[0] in names, place[0])
            assert found == (wanted[0] if wanted else None)
            held |= {place: found} if found is not None else {}
        assert like.places == held
        free = (f"s{step}", Slot("new", item))
        number = like.of(free)
        assert number not in held.values()
        assert number == min(set(range(1, len(held) + 2)) - set(held.values()))
        like.leave(free)


def test_thousands_of_like_items_of_a_later_plan_get_their_numbers() -> None:
    many = 3_000
    ledger = Ledger()
    for n in range(many):
        ledger.occurrence(BASE, ("one", Slot(None, n)))
    with cpu(6):
        numbers = [
            ledger.later_occurrence(BASE, ("two", Slot(None, n)), lambda place: place[0] == "one", "two")
            for n in range(2 * many)
        ]
    assert numbers == list(range(1, 2 * many + 1))
