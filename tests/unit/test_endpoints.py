"""What is kept for addresses that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.endpoints import GONE_SECS, Fixed, Kept
from replan.errors import StoreError

pytestmark = pytest.mark.anyio


class Changing(Fixed):
    """Addresses that the test sets."""

    def __init__(self, *urls: str) -> None:
        super().__init__(urls)
        self.urls: Sequence[str] = urls
        self.said: list[str] = []
        self.is_closed = False

    def order(self) -> Sequence[str]:
        return self.urls

    def known(self) -> Sequence[str]:
        return sorted(self.urls)

    def answered(self, url: str) -> None:
        self.said.append(url)

    async def aclose(self) -> None:
        self.is_closed = True


class Connection:
    def __init__(self, url: str) -> None:
        self.url = url
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1
        if self.url == "broken":
            raise StoreError("it cannot be closed")


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kept(*urls: str) -> tuple[Changing, Kept[Connection], Time]:
    endpoints, time = Changing(*urls), Time()
    return endpoints, Kept(endpoints, Connection, Connection.aclose, now=time), time


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_one_that_is_gone_for_long_is_closed_and_one_that_is_back_before_is_the_same() -> None:
    endpoints, found, time = kept("a", "b")
    a, b = found.order()
    endpoints.urls = ["b"]
    assert found.order() == [b]
    assert found.recent() == [b, a]
    time.now = GONE_SECS - 1
    endpoints.urls = ["b", "a"]
    assert found.order() == [b, a]
    assert found.known() == [a, b]
    endpoints.urls = ["b"]
    found.order()
    time.now += GONE_SECS
    found.order()
    await settled()
    assert (a.closed, b.closed) == (1, 0)
    assert found.recent() == [b]
    await found.aclose()
    assert b.closed == 1
    assert endpoints.is_closed


async def test_one_that_is_used_is_not_closed_before_its_user_has_ended() -> None:
    endpoints, found, time = kept("a")
    (a,) = found.order()
    with found.using(a):
        endpoints.urls = ["b"]
        found.order()
        time.now = GONE_SECS * 3
        found.order()
        await settled()
        assert not a.closed
        found.answered(a)
    found.order()
    await settled()
    assert a.closed == 1
    found.answered(a)
    assert endpoints.said == ["a"], "nobody is told of one that is no more"


async def test_each_is_closed_whatever_becomes_of_another() -> None:
    _, found, _ = kept("a", "broken", "c")
    made = found.order()
    with pytest.raises(StoreError):
        await found.aclose()
    assert [one.closed for one in made] == [1, 1, 1]
    assert found.order() != made, "they are made anew"


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.integers(0, 90)), max_size=30))
def test_who_is_listed_is_open_and_nobody_is_closed_twice(turns: list[tuple[set[str], int]]) -> None:
    async def main() -> None:
        endpoints, found, time = kept()
        seen: dict[int, Connection] = {}
        for urls, secs in turns:
            endpoints.urls = sorted(urls)
            time.now += secs
            order = found.order()
            await settled()
            seen |= {id(one): one for one in order}
            assert [one.url for one in order] == sorted(urls)
            assert not any(one.closed for one in order)
        await found.aclose()
        assert all(one.closed == 1 for one in seen.values())

    asyncio.run(main())


def test_fixed_addresses_are_each_there_once() -> None:
    changed: Callable[[], None] = lambda: None  # noqa: E731
    fixed = Fixed(["a", "b", "a"], "service")
    fixed.watch(changed)
    assert fixed.order() == fixed.known() == ("a", "b")
    assert fixed.state().instances == 2
