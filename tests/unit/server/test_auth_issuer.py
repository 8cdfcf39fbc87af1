"""The issuer's keys: had once, had anew when they change, and not more often than has to be, whatever callers send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from issuer import Issuer, issuing, public, send

from replan.errors import Unavailable
from replan.server.auth.jwks import FLOOR_SECS, MOST_BYTES, OUTLIVE_SECS, IssuerKeys
from replan.server.auth.refused import Refused

KEEP = 600.0


class Time:
    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


@asynccontextmanager
async def keys_of(**more: Any) -> AsyncIterator[tuple[Issuer, IssuerKeys, Time]]:
    async with issuing() as issuer:
        time = Time()
        keys = IssuerKeys(issuer.url, ["RS256"], keep_secs=KEEP, monotonic=time, **more)
        try:
            yield issuer, keys, time
        finally:
            await keys.aclose()


async def has(keys: IssuerKeys, kid: str) -> bool:
    try:
        return bool(await keys.find(kid, "RS256"))
    except Refused:
        return False


def test_a_thousand_tokens_at_once_have_the_keys_fetched_once() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, _):
            assert all(await asyncio.gather(*(has(keys, "one") for _ in range(1_000))))
            assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]

    asyncio.run(main())


def test_a_new_key_is_found_when_a_token_names_it() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, time):
            assert await has(keys, "one")
            issuer.keys = [public("two")]
            time.at += FLOOR_SECS
            assert await has(keys, "two")
            assert not await has(keys, "one")

    asyncio.run(main())


def test_made_up_ids_have_it_asked_once_in_ten_seconds() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, time):
            for number in range(300):
                assert not await has(keys, f"made up {number}")
                time.at += 0.1
            assert issuer.asked.count("/keys") == 3

    asyncio.run(main())


def test_keys_are_asked_for_again_beside_the_requests_once_they_are_old() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, time):
            assert await has(keys, "one")
            issuer.keys = [public("one"), public("two")]
            time.at += KEEP + 1
            hold = asyncio.Event()

            async def late(writer: asyncio.StreamWriter, path: str) -> None:
                await hold.wait()
                where = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                await send(
                    writer, {"keys": issuer.keys} if path == "/keys" else where, head="connection: close\r\n"
                )

            issuer.instead = late
            assert await has(keys, "one")
            hold.set()
            assert await has(keys, "two")

    asyncio.run(main())


def test_a_key_that_is_gone_does_not_count_once_they_were_asked_for_again() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, time):
            assert await has(keys, "one")
            issuer.keys = [public("two")]
            time.at += KEEP + 1
            await has(keys, "two")
            assert not await has(keys, "one")

    asyncio.run(main())


def test_keys_outlive_their_issuer_for_an_hour() -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, time):
            assert await has(keys, "one")
            issuer.instead = refuse
            time.at += KEEP + OUTLIVE_SECS - 1
            assert await has(keys, "one")
            time.at += 2 + FLOOR_SECS
            with pytest.raises(Unavailable, match="503"):
                await keys.find("one", "RS256")
            issuer.instead = None
            time.at += FLOOR_SECS
            assert await has(keys, "one")

    asyncio.run(main())


async def refuse(writer: asyncio.StreamWriter, path: str) -> None:
    await send(writer, b"", "503 Service Unavailable")


async def never(writer: asyncio.StreamWriter, path: str) -> None:
    await asyncio.sleep(30)


async def drip(writer: asyncio.StreamWriter, path: str) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(1_000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def hang_up(writer: asyncio.StreamWriter, path: str) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")


async def flood(writer: asyncio.StreamWriter, path: str) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(100):
        writer.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
        await writer.drain()


async def no_json(writer: asyncio.StreamWriter, path: str) -> None:
    await send(writer, b"<html>")


async def not_text(writer: asyncio.StreamWriter, path: str) -> None:
    await send(writer, b"\xff\xfe")


async def deep(writer: asyncio.StreamWriter, path: str) -> None:
    await send(writer, b"[" * 100_000)


async def no_http(writer: asyncio.StreamWriter, path: str) -> None:
    writer.write(b"\x00\x01\x02\r\n\r\n")


async def elsewhere(writer: asyncio.StreamWriter, path: str) -> None:
    await send(writer, b"", "302 Found", "location: http://127.0.0.1:9/\r\n")


async def bomb(writer: asyncio.StreamWriter, path: str) -> None:
    import gzip

    await send(writer, gzip.compress(b" " * (MOST_BYTES * 40)), head="content-encoding: gzip\r\n")


@pytest.mark.parametrize(
    ("instead", "said"),
    [
        (refuse, "answers 503"), (never, "no answer within"), (drip, "no answer within"), (hang_up, "Protocol"), (flood, "more than"), (no_json, "no JSON"),
        (not_text, "no JSON"), (deep, "no JSON"), (no_http, "Protocol"), (elsewhere, "answers 302"), (bomb, "more than"),
    ],
)  # fmt: skip
def test_an_issuer_that_is_slow_dying_or_hostile_is_told_and_not_asked_again_at_once(
    instead: Any, said: str
) -> None:
    async def main() -> None:
        async with keys_of(fetch_secs=0.15 if instead in (never, drip) else 5.0) as (issuer, keys, time):
            issuer.instead = instead
            for _ in range(3):
                with pytest.raises(Unavailable, match=said) as caught:
                    await keys.find("one", "RS256")
                assert caught.value.retry_after == FLOOR_SECS
            assert len(issuer.asked) == 1
            with pytest.raises(Unavailable):
                await keys.check()
            issuer.instead = None
            time.at += FLOOR_SECS
            await keys.check()
            assert await has(keys, "one")

    asyncio.run(main())


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example"}, {"issuer": None}, {"jwks_uri": "http://evil.example/keys"}, {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None}, {"jwks_uri": 1}, {"jwks_uri": "//evil"},
    ],
)  # fmt: skip
def test_a_discovery_document_that_leads_elsewhere_is_not_followed(discovery: dict[str, Any]) -> None:
    async def main() -> None:
        async with keys_of() as (issuer, keys, _):
            issuer.discovery = discovery
            with pytest.raises(Unavailable, match="its discovery document"):
                await keys.find("one", "RS256")
            assert issuer.asked == ["/.well-known/openid-configuration"]

    asyncio.run(main())


def test_known_keys_are_found_at_once_while_made_up_ones_wait_for_a_slow_issuer() -> None:
    async def main() -> None:
        async with keys_of(fetch_secs=0.3) as (issuer, keys, time):
            assert await has(keys, "one")
            time.at += FLOOR_SECS
            issuer.instead = never
            made_up = [asyncio.create_task(has(keys, f"no {number}")) for number in range(50)]
            await asyncio.sleep(0)
            assert await has(keys, "one")
            assert not any(task.done() for task in made_up)
            for task in made_up:
                with pytest.raises(Unavailable):
                    await task
            assert len(issuer.asked) == 3

    asyncio.run(main())


def test_whoever_goes_away_while_the_issuer_is_asked_takes_no_other_along() -> None:
    async def main() -> None:
        async with keys_of() as (_, keys, _):
            first, second = (asyncio.create_task(has(keys, "one")) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            assert await second

    asyncio.run(main())


def test_keys_at_a_named_place_need_no_discovery() -> None:
    async def main() -> None:
        async with issuing() as issuer:
            keys = IssuerKeys("https://id.example", ["RS256"], jwks_url=f"{issuer.url}/keys")
            assert await has(keys, "one")
            assert issuer.asked == ["/keys"]
            await keys.aclose()

    asyncio.run(main())
