"""A registry that fails in a way that nobody foresaw."""

from __future__ import annotations

import asyncio

from replan.discovery.balance import Balance
from replan.discovery.discovered import Discovered
from replan.ports import Instance, Look
from replan.testing import virtual_time


class Odd:
    name = "odd"

    def __init__(self) -> None:
        self.looks = 0

    async def look(self, service: str, mark: object) -> Look:
        self.looks += 1
        if self.looks == 1:
            raise ZeroDivisionError("of its own")
        return Look((Instance("h", 1),), True)

    async def aclose(self) -> None:
        pass


def test_it_is_said_and_looked_again() -> None:
    async def main() -> None:
        found = Discovered(Odd(), "s", scheme="http", balance=Balance())
        await found.begin()
        assert found.state().problem == "ZeroDivisionError: of its own"
        await asyncio.sleep(5)
        assert list(found.known()) == ["http://h:1"]
        await found.aclose()

    virtual_time(main())
