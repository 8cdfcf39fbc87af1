"""What is known of a service, whatever its registry says and however quickly: in virtual time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replan.discovery.balance import Balance
from replan.discovery.discovered import Discovered
from replan.discovery.told import QUIET_SECS
from replan.errors import RegistryUnavailable
from replan.ports import Instance, Look
from replan.testing import virtual_time


class Whimsical:
    """A registry that says what it is told to: how long it takes, and ports, or None where it does not say."""

    name = "whim"

    def __init__(self, turns: list[tuple[float, tuple[int, ...] | None]]) -> None:
        self.turns = turns
        self.looks = 0
        self.latest: tuple[int, ...] = ()

    async def look(self, service: str, mark: object) -> Look:
        self.looks += 1
        secs, ports = self.turns[(self.looks - 1) % len(self.turns)]
        await asyncio.sleep(secs)
        if ports is None:
            raise RegistryUnavailable("not now")
        self.latest = ports or self.latest
        return Look(tuple(Instance("h", port) for port in ports), True)

    async def aclose(self) -> None:
        pass


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def looked_for(registry: Any, log: logging.Logger) -> Discovered:
    return Discovered(registry, "s", scheme="http", balance=Balance("round_robin"), log_=log)


turns = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, 0.5, 30.0, 500.0]),
        st.none() | st.lists(st.integers(1, 4), max_size=3, unique=True).map(tuple),
    ),
    min_size=1,
    max_size=6,
)


@given(turns)
def test_what_is_known_is_the_latest_list_that_named_somebody_and_nobody_is_flooded(
    said: list[tuple[float, tuple[int, ...] | None]],
) -> None:
    registry, lines, log = Whimsical(said), Lines(), logging.Logger("of the test")
    log.addHandler(lines)
    secs = 600

    async def main() -> None:
        found = looked_for(registry, log)
        changes = 0

        def changed() -> None:
            nonlocal changes
            changes += 1

        found.watch(changed)
        await found.begin()
        for _ in range(secs):
            await asyncio.sleep(1)
            assert {url.rpartition(":")[2] for url in found.known()} == {
                str(port) for port in registry.latest
            }
            assert sorted(found.order()) == sorted(found.known())
        state = found.state()
        assert state.changes == changes
        assert state.instances == len(registry.latest)
        await found.aclose()

    virtual_time(main())
    assert registry.looks <= secs / 0.1 + 1
    assert len(lines.texts) <= 2 + secs / QUIET_SECS


def test_the_last_line_says_how_it_stands() -> None:
    # Well, away, and well again within a minute: the first change is told at once, the last one when the minute is over.
    registry = Whimsical([(0, (1,)), (1, None), (1, (1,)), (10_000, (1,))])
    lines, log = Lines(), logging.Logger("of the test")
    log.addHandler(lines)

    async def main() -> None:
        found = looked_for(registry, log)
        await found.begin()
        await asyncio.sleep(30)
        assert len(lines.texts) == 1
        await asyncio.sleep(50)
        assert len(lines.texts) == 2
        await found.aclose()

    virtual_time(main())
    assert "not now" in lines.texts[0]
    assert "s: 1 instance by whim" in lines.texts[1]
