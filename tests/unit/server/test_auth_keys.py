"""API keys: whose they are, until when, and how soon a revoked one is nobody's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keys_in_memory import KeysInMemory

from replan.errors import NotSignedIn, StoreBusy
from replan.ports import StoredKey
from replan.run.access.callers import Caller
from replan.server.auth.authenticator import KnownCallers
from replan.server.auth.credentials import Credentials
from replan.server.auth.keys import MOST_REMEMBERED, KeyCheck, digest_of, new_key
from replan.server.auth.refused import Refused
from replan.testing import VirtualClock, virtual_time

START = 1_000_000_000.0


def stored(key_id: str, digest: str, **more: Any) -> StoredKey:
    return StoredKey(key_id, "acme", "ci", digest, ("read", "run"), START)._replace(**more)


def checked(work: Callable[[KeyCheck, KeysInMemory, str], Awaitable[Any]], **more: Any) -> Any:
    """What the work comes to with a good key in the store."""

    async def main() -> Any:
        keys, made = KeysInMemory(), new_key()
        await keys.add_key(stored(made.key_id, made.digest, **more))
        check = KeyCheck(keys, VirtualClock())
        try:
            return await work(check, keys, made.text)
        finally:
            await check.aclose()

    return virtual_time(main())


async def why(check: KeyCheck, text: str) -> str:
    with pytest.raises(Refused) as caught:
        await check.caller(text)
    return caught.value.why


def test_a_key_has_256_random_bits_and_its_digest_is_all_that_is_kept() -> None:
    one, other = new_key(), new_key()
    assert re.fullmatch(r"rpk_[0-9a-f]{16}_[0-9a-f]{64}", one.text)
    assert one.text != other.text
    secret = one.text.rpartition("_")[2]
    assert one.digest == digest_of(secret)
    assert secret not in one.digest


def test_a_good_key_is_of_its_tenant_with_its_scopes_and_name() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> Caller:
        return await check.caller(text)

    caller = checked(work)
    assert caller.who == "key:ci"
    assert caller.tenant == "acme"
    assert caller.scopes == {"read", "run"}
    assert re.fullmatch("[0-9a-f]{16}", caller.key_id)


def test_scopes_of_a_later_release_are_passed_over() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> Caller:
        return await check.caller(text)

    assert checked(work, scopes=("read", "fly")).scopes == {"read"}


def test_another_secret_another_id_and_no_key_at_all_are_refused() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        other = new_key().text
        assert await why(check, text[:-64] + other[-64:]) == "wrong secret"
        assert await why(check, other) == "no such key"
        for odd in (
            "",
            "rpk_",
            text[:-1],
            text + "0",
            text.upper(),
            text + "\n",
            " " + text,
            text.replace("rpk", "rpx"),
        ):
            assert await why(check, odd) == "not in the form of a key"

    checked(work)


@given(st.text(max_size=120))
def test_no_text_is_a_key_by_chance(text: str) -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, good: str) -> None:
        await why(check, text)
        await why(check, f"rpk_{text}")

    checked(work)


def test_a_key_is_good_until_the_second_it_expires() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        await check.caller(text)
        await asyncio.sleep(9.9)
        await check.caller(text)
        await asyncio.sleep(0.1)
        assert await why(check, text) == "expired"

    checked(work, expires=START + 10)


def test_an_expired_key_is_refused_though_the_store_was_asked_before() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        await check.caller(text)
        await asyncio.sleep(1.0)
        assert await why(check, text) == "expired"
        assert len(keys.asked) == 1

    checked(work, expires=START + 1)


def test_a_thousand_requests_at_once_are_one_query_and_a_revocation_is_seen_within_five_seconds() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        await asyncio.gather(*(check.caller(text) for _ in range(1_000)))
        assert len(keys.asked) == 1
        await keys.revoke_key(keys.asked[0], START)
        await asyncio.sleep(5.0)
        assert await why(check, text) == "revoked"
        assert len(keys.asked) == 2

    checked(work)


def test_a_key_that_was_deleted_is_forgotten() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        await check.caller(text)
        keys.by_id.clear()
        await asyncio.sleep(5.0)
        assert await why(check, text) == "no such key"

    checked(work)


def test_where_the_store_does_not_answer_nobody_is_let_in_and_nobody_is_told_the_key_is_bad() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        keys.fails = StoreBusy("busy")
        with pytest.raises(StoreBusy):
            await check.caller(text)
        keys.fails = None
        await check.caller(text)

    checked(work)


def test_whoever_goes_away_while_the_store_is_asked_takes_no_other_along() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        first = asyncio.create_task(check.caller(text))
        second = asyncio.create_task(check.caller(text))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).who == "key:ci"

    checked(work)


def test_guessed_ids_push_no_good_key_out() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        await check.caller(text)
        for number in range(MOST_REMEMBERED + 10):
            await why(check, f"rpk_{number:016x}_{'0' * 64}")
        asked = len(keys.asked)
        await check.caller(text)
        assert len(keys.asked) == asked

    checked(work)


def test_its_last_use_is_noted_once_a_minute() -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> list[float]:
        for _ in range(100):
            await check.caller(text)
            await asyncio.sleep(1.3)
        return [round(ts - START) for _, ts in keys.used]

    assert checked(work) == [0, 61, 122]


# ── in which header ──

NAMES = st.sampled_from([b"authorization", b"Authorization", b"x-api-key", b"X-API-KEY", b"cookie"])


@given(
    st.lists(
        st.tuples(NAMES, st.binary(max_size=60) | st.just(b"Bearer ") | st.just(b"Bearer rpk_")), max_size=4
    )
)
def test_nothing_that_is_sent_makes_it_fall_over(sent: list[tuple[bytes, bytes]]) -> None:
    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        with pytest.raises(NotSignedIn):
            await KnownCallers(check, None)(Credentials.of(sent, "192.0.2.1"))

    checked(work)


def test_what_a_call_came_with_is_not_told_by_accident() -> None:
    assert "rpk_" not in repr(Credentials("Bearer rpk_x", "rpk_y", "192.0.2.1"))


def test_a_header_that_is_sent_twice_is_neither_of_both() -> None:
    assert Credentials.of([("X-Api-Key", "a"), (b"x-api-key", b"b")], "").api_key == "a, b"


def test_either_header_will_do_and_all_that_is_not_good_is_told_alike(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "replan.auth")

    async def work(check: KeyCheck, keys: KeysInMemory, text: str) -> None:
        known = KnownCallers(check, None)
        for good in (
            Credentials(f"Bearer {text}"), Credentials(f"bearer   {text} "), Credentials(None, text),
            Credentials("Basic dXNlcjpwYXNz", text),
        ):  # fmt: skip
            assert (await known(good)).tenant == "acme"
        wrong = new_key().text
        said = set()
        for bad in (
            Credentials(), Credentials(""), Credentials("Bearer"), Credentials("Bearer "), Credentials(text), Credentials(f"Basic {text}"),
            Credentials(f"Bearer {text}, Bearer {text}"), Credentials(f"Bearer {text}", text), Credentials(None, ""), Credentials(None, f"Bearer {text}"),
            Credentials(f"Bearer\t{text}"), Credentials(f"Bearer {text}\n"), Credentials(f"Bearer {wrong}"), Credentials(None, wrong), Credentials("Bearer a.b.c"),
            Credentials(f"Bearer {text[:-64]}{'0' * 64}"), Credentials("Bearer " + "a" * 50_000), Credentials("Bearer rpk_" + "é" * 81), Credentials("\0"),
        ):  # fmt: skip
            with pytest.raises(NotSignedIn) as caught:
                await known(bad)
            said.add(str(caught.value))
        assert len(said) == 1
        assert "Bearer" in said.pop()
        await keys.revoke_key(keys.asked[0], START)
        await asyncio.sleep(5)
        with pytest.raises(NotSignedIn):
            await known(Credentials(None, text, "192.0.2.1:999"))
        assert text[-64:] not in caplog.text
        assert caplog.records[-1].message == "not signed in: revoked (from 192.0.2.1:999)"
        assert caplog.records[-1].key_id == text[4:20]  # type: ignore[attr-defined]
        assert caplog.records[-1].peer == "192.0.2.1:999"  # type: ignore[attr-defined]

    checked(work)
