"""Made once a value, and let go when there are too many."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

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


def test_threads_may_ask_for_more_than_is_kept() -> None:
    sizes = ByIdentity[int](len, most=50)
    values = [[n] * (n % 7) for n in range(500)]

    def ask() -> None:
        for _ in range(20):
            assert all(sizes(value) == len(value) for value in values)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            for each in [pool.submit(ask) for _ in range(3)]:
                each.result()
    finally:
        sys.setswitchinterval(before)
