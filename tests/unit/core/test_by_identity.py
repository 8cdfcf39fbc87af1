"""Made once a value, and let go when there are too many."""

from __future__ import annotations

from replan.core.memo import ByIdentity


def test_it_is_made_once_for_the_same_value_and_anew_for_an_equal_one() -> None:
    made: list[int] = []
    sizes = ByIdentity[int](lambda value: made.append(1) or len(value))
    one, equal = [1, 2], [1, 2]
    assert [sizes(one), sizes(one), sizes(equal)] == [2, 2, 2]
    assert len(made) == 2


def test_the_oldest_are_let_go() -> None:
    sizes = ByIdentity[int](len, most=10)
    values = [[n] for n in range(25)]
    for value in values:
        sizes(value)
    assert len(sizes) == 10
    again: list[object] = []
    seen = ByIdentity[int](lambda value: again.append(value) or len(value), most=2)
    for value in (values[0], values[1], values[2], values[1], values[0]):
        seen(value)
    assert again == [values[0], values[1], values[2], values[0]]
