"""Streams end when their callers are known no more, at the cost of one look for each key, however many streams it has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from replan.errors import NotSignedIn, StoreBusy
from replan.run.access.callers import Caller
from replan.server.auth.credentials import Credentials
from replan.server.auth.staying import CHECK_SECS, Staying
from replan.testing import virtual_time


class Stream:
    left = False
    closed = False

    def leave(self) -> None:
        self.left = True

    @contextlib.contextmanager
    def opened(self) -> Iterator[Stream]:
        yield self
        self.closed = True


class Door:
    def __init__(self) -> None:
        self.looks: list[str] = []
        self.fails: dict[str, Exception] = {}

    async def __call__(self, credentials: Credentials) -> Caller:
        name = str(credentials.api_key)
        self.looks.append(name)
        if name in self.fails:
            raise self.fails[name]
        return Caller(name)


def test_only_streams_of_the_one_that_is_gone_end_and_within_the_time_of_a_look() -> None:
    async def main() -> None:
        door = Door()
        staying = Staying(door)
        ann, bob = [Stream() for _ in range(1_000)], Stream()
        with contextlib.ExitStack() as streams:
            for number, one in enumerate(ann):
                came = Credentials(None, "ann", f"192.0.2.{number % 250}", f"trace {number}")
                streams.enter_context(staying.while_known(came, one.opened()))
            streams.enter_context(staying.while_known(Credentials(None, "bob"), bob.opened()))
            await asyncio.sleep(CHECK_SECS * 1.5)
            assert sorted(door.looks) == ["ann", "bob"]
            door.fails = {"ann": NotSignedIn("revoked"), "bob": StoreBusy("busy")}
            await asyncio.sleep(CHECK_SECS)
            assert all(one.left for one in ann)
            assert not bob.left
            door.fails = {"bob": RuntimeError("a bug")}
            await asyncio.sleep(CHECK_SECS)
            assert not bob.left
            door.fails = {"bob": NotSignedIn("expired")}
            await asyncio.sleep(CHECK_SECS)
            assert bob.left
        assert bob.closed
        looks = len(door.looks)
        await asyncio.sleep(10 * CHECK_SECS)
        assert len(door.looks) == looks

    virtual_time(main())


def test_who_comes_back_is_looked_at_again() -> None:
    async def main() -> None:
        door = Door()
        staying = Staying(door)
        for _ in range(2):
            stream = Stream()
            with staying.while_known(Credentials(None, "ann"), stream.opened()):
                door.fails = {}
                await asyncio.sleep(CHECK_SECS * 1.5)
                assert not stream.left
                door.fails = {"ann": NotSignedIn("gone")}
                await asyncio.sleep(CHECK_SECS)
                assert stream.left

    virtual_time(main())


def test_a_wait_ends_with_who_waits_and_gives_what_it_waits_for_else() -> None:
    async def main() -> None:
        door, never = Door(), asyncio.Event()
        staying = Staying(door)

        async def soon() -> str:
            await asyncio.sleep(CHECK_SECS * 3)
            return "there"

        ann, bob = Credentials(None, "ann"), Credentials(None, "bob")
        gone = asyncio.create_task(staying.unless_gone(ann, never.wait()))
        stays = asyncio.create_task(staying.unless_gone(bob, soon()))
        await asyncio.sleep(CHECK_SECS * 1.5)
        door.fails = {"ann": NotSignedIn("revoked")}
        await asyncio.sleep(CHECK_SECS)
        assert gone.done()
        assert str(gone.exception()) == "revoked"
        assert await stays == "there"
        waits = asyncio.create_task(staying.unless_gone(bob, never.wait()))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait({waits})
        assert waits.cancelled()

    virtual_time(main())
