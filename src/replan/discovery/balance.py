"""In which order the instances of a service are asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

Strategy = Literal["sticky", "round_robin", "random"]


class Place(NamedTuple):
    """An address, with what the registry says of its instance."""

    url: str
    weight: int = 1
    priority: int = 0


class Balance:
    """`sticky`: always the one that answered last, while it is there. `round_robin`: each in its turn. `random`: by weight.

    Those of a higher priority number come after all of a lower one. `rand` gives numbers from 0 up to 1.
    """

    def __init__(self, strategy: Strategy = "sticky", *, rand: Callable[[], float] = random.random) -> None:
        self._strategy = strategy
        self._rand = rand
        self._current = ""
        self._turn = -1

    def order(self, places: Sequence[Place]) -> list[str]:
        """All of them, the first to be asked first."""
        self._turn += 1
        ordered = sorted(places, key=lambda place: place.priority)
        found: list[str] = []
        for _, group in groupby(ordered, key=lambda place: place.priority):
            found += self._of(list(group))
        return found

    def answered(self, url: str) -> None:
        """The one that `sticky` stays with."""
        self._current = url

    def _of(self, places: list[Place]) -> list[str]:
        if self._strategy == "random":
            return self._shuffled(places)
        urls = [place.url for place in places]
        if self._strategy == "round_robin":
            start = self._turn % len(urls)
        elif self._current in urls:
            start = urls.index(self._current)
        else:  # not all processes the same one
            start = int(self._rand() * len(urls))
            if not self._current:
                self._current = urls[start]
        return urls[start:] + urls[:start]

    def _shuffled(self, places: list[Place]) -> list[str]:
        # Each gets a number that is the smaller the larger its weight (Efraimidis and Spirakis, 2006).
        drawn = {place.url: self._rand() ** (1.0 / max(1, place.weight)) for place in places}
        return sorted(drawn, key=lambda url: drawn[url], reverse=True)
