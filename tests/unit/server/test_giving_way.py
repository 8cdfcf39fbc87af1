"""Which of the connections on which nothing is asked gives way."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from replan.server.giving_way import Waiting, network_of


class Line:
    """A connection as far as it counts here; its own transport."""

    def __init__(self, peer: str, *, asked: bool = False) -> None:
        self.peer, self.asked, self.closed = peer, asked, False
        self.transport = self

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_the_oldest_of_whoever_holds_the_most_gives_way() -> None:
    waiting, other = Waiting(), Line("10.0.0.2")
    waiting.add(other)
    many = [Line("10.0.0.1") for _ in range(5)]
    for one in many:
        waiting.add(one)
    waiting.add(many[0])  # it has been answered just now, and waits anew
    assert [waiting.make_room(9) for _ in range(4)] == [*many[1:]]
    assert (other.closed, many[0].closed) == (False, False)


def test_one_that_is_asked_something_or_is_closed_already_does_not_give_way() -> None:
    waiting = Waiting()
    busy, gone, free = Line("a", asked=True), Line("a"), Line("a")
    for one in (busy, gone, free):
        waiting.add(one)
    gone.close()
    assert waiting.make_room(9) is free
    assert not busy.closed
    assert waiting.make_room(9) is None
    waiting.forget(free)  # it is not there any more


@pytest.mark.parametrize("seed", range(20))
def test_whoever_holds_the_most_gives_way_whatever_has_come_and_gone(seed: int) -> None:
    chance, waiting, there = random.Random(seed), Waiting(), list[Line]()
    for _ in range(500):
        what = chance.random()
        if what < 0.5 or not there:
            there.append(Line(chance.choice("abcdefgh")))
            waiting.add(there[-1])
        elif what < 0.6:
            waiting.add(chance.choice(there))
        elif what < 0.75:
            waiting.forget(there.pop(chance.randrange(len(there))))
        else:
            held = Counter(one.peer for one in there)
            closed = waiting.make_room(1)
            assert isinstance(closed, Line)
            assert held[closed.peer] == max(held.values())
            there.remove(closed)
    for _ in range(len(there)):
        assert waiting.make_room(1) is not None
    assert waiting.make_room(1) is None


@pytest.mark.parametrize(
    ("host", "as_one"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2::3", network_of("2001:db8:1:2:ffff::1")),
        ("fe80::1%eth0", network_of("fe80::2")),
        ("a:b", "a:b"),
    ],
)
def test_addresses_of_one_network_count_together(host: str, as_one: str) -> None:
    assert network_of(host) == as_one


def test_networks_of_ipv6_are_told_apart() -> None:
    assert network_of("2001:db8:1:2::3") != network_of("2001:db8:1:3::3")
