"""What anybody can make the log say is a few lines a minute."""

from __future__ import annotations

import asyncio
import logging

import pytest

from replan.server.seldom import Seldom

pytestmark = pytest.mark.anyio
log = logging.getLogger("replan.server.test")


async def test_a_few_are_told_by_themselves_and_the_rest_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, log.name)
    tell = Seldom(log, logging.INFO, "not let in", whole=2, every_secs=0.05)
    for number in range(500):
        tell("10.0.0.1" if number % 5 else f"2001:db8::{number + 1:x}", "no key")
    assert [one.message for one in caplog.records] == [
        "not let in: no key (from 2001:db8::1)",
        "not let in: no key (from 10.0.0.1)",
    ]
    async with asyncio.timeout(5):
        while len(caplog.records) < 3:  # noqa: ASYNC110  (the line comes by a timer)
            await asyncio.sleep(0.01)
    assert caplog.messages[-1] == "not let in: 498 more in 0.05 s, 399 of them from 10.0.0.1"


async def test_a_quiet_while_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, log.name)
    tell = Seldom(log, logging.INFO, "odd", every_secs=0.01)
    async with asyncio.timeout(5):
        while len(caplog.records) < 2:
            if tell.quiet:
                tell("a\nb", extra={"peer": "a"})
            await asyncio.sleep(0.01)
    assert caplog.messages == ["odd (from a b)"] * 2
    assert {getattr(one, "peer", "") for one in caplog.records} == {"a"}
