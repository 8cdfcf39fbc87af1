"""What a memory of keys forgets, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from replan.tools.remote.keys import Keys

pytestmark = pytest.mark.anyio


async def test_a_key_outlives_an_answer_that_there_is_no_room_for(tmp_path: Path) -> None:
    for path in (None, tmp_path / "keys.db"):
        keys = Keys(path, max_bytes=10)
        await keys.open()
        for name in ("first", "second", "third"):
            assert (await keys.begin(name, name)).state == "new"
            await keys.answer(name, b"o12345")
        known = [(await keys.begin(name, name)).state for name in ("first", "second", "third")]
        assert known == ["begun", "begun", "answered"]
        assert (await keys.begin("first", "another call")).state == "other"
        await keys.aclose()


async def test_keys_are_forgotten_after_their_time_and_not_before(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    keys = Keys(tmp_path / "keys.db", ttl_secs=100.0, now=lambda: clock[0])
    await keys.open()
    await keys.begin("begun", "call")
    await keys.begin("answered", "call")
    await keys.answer("answered", b"o1")
    clock[0] += 99.0
    assert (await keys.begin("begun", "call")).state == "begun"
    assert (await keys.begin("answered", "call")).answer == b"o1"
    clock[0] -= 5_000.0  # somebody sets the clock back
    assert (await keys.begin("answered", "call")).answer == b"o1"
    clock[0] += 5_200.0
    assert (await keys.begin("begun", "call")).state == "new"
    await keys.aclose()
