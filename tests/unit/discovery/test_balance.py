"""In which order instances are asked."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.discovery.balance import Balance, Place, Strategy
from replan.discovery.urls import problem_of, url_of
from replan.ports import Instance

places = st.lists(
    st.builds(Place, st.sampled_from("abcdefgh"), st.integers(1, 9), st.integers(0, 2)),
    max_size=8,
    unique_by=lambda place: place.url,
)


@given(places, st.sampled_from(["sticky", "round_robin", "random"]), st.integers(0, 5))
def test_every_one_is_there_once_and_lower_priorities_come_first(
    given_: list[Place], strategy: Strategy, turns: int
) -> None:
    balance = Balance(strategy)
    for _ in range(turns + 1):
        order = balance.order(given_)
    assert sorted(order) == sorted(place.url for place in given_)
    priority = {place.url: place.priority for place in given_}
    assert [priority[url] for url in order] == sorted(priority.values())


def test_sticky_stays_with_the_one_that_answered_last_while_it_is_there() -> None:
    balance = Balance("sticky", rand=lambda: 0.99)
    three = [Place("a"), Place("b"), Place("c")]
    assert balance.order(three) == ["c", "a", "b"]
    assert balance.order([Place("c"), *three[:2]]) == ["c", "a", "b"], "wherever it stands"
    balance.answered("a")
    assert [balance.order(three)[0] for _ in range(3)] == ["a"] * 3
    assert balance.order(three[1:]) == ["c", "b"]
    assert balance.order(three)[0] == "a", "it is back"


def test_round_robin_gives_each_its_turn() -> None:
    balance = Balance("round_robin")
    three = [Place("a"), Place("b"), Place("c")]
    assert [balance.order(three)[0] for _ in range(6)] == list("abcabc")


def test_random_goes_by_weight() -> None:
    balance = Balance("random", rand=random.Random(7).random)
    first = Counter(balance.order([Place("a", 1), Place("b", 3)])[0] for _ in range(4_000))
    assert 0.72 < first["b"] / 4_000 < 0.78


@pytest.mark.parametrize(
    ("instance", "url"),
    [
        (Instance("10.0.0.1", 80), "http://10.0.0.1:80"),
        (Instance("::1", 80), "http://[::1]:80"),
        (Instance("host_1.example.", 80), "http://host_1.example.:80"),
        (Instance("h", 443, "https", "/v1/"), "https://h:443/v1"),
    ],
)
def test_an_address_is_made_of_an_instance(instance: Instance, url: str) -> None:
    assert problem_of(instance) == ""
    assert url_of(instance, "http") == url


@pytest.mark.parametrize(
    "instance",
    [
        Instance("", 80),
        Instance("h", 0),
        Instance("h", 70_000),
        Instance("a b", 80),
        Instance("user:pw@h", 80),
        Instance("h/path", 80),
        Instance("0.0.0.0", 80),
        Instance("fe80::1%eth0", 80),
        Instance("h\nX-Evil: 1", 80),
        Instance("h", 80, "ja va", ""),
        Instance("h", 80, "http", "/a?b"),
        Instance("h", 80, "http", "no-slash"),
        Instance("x" * 400, 80),
    ],
)
def test_what_is_no_address_is_told(instance: Instance) -> None:
    assert problem_of(instance)
