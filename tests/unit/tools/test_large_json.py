"""What another process sends as JSON is read strictly, and beside the event loop where there is much of it."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.core.data.pieces import AT_ONCE
from replan.tools.large_json import parsed, taken

pytestmark = pytest.mark.anyio
SIZES = pytest.mark.parametrize("beside", ["", "x" * (AT_ONCE + 1)], ids=["small", "large"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@SIZES
@given(value=JSON)
def test_it_is_read_as_json_reads_it(value: object, beside: str) -> None:
    text = json.dumps([beside, value])
    assert parsed(text) == parsed(text.encode()) == parsed(text.encode("utf-16")) == [beside, value]


@SIZES
@pytest.mark.parametrize("wrong", ["NaN", "-Infinity", "{", "[" * 100_000, "[1,]", "'a'", "01", ""])
def test_what_is_none_is_refused(wrong: str, beside: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own, or ours
        parsed(json.dumps([beside])[:-1] + f", {wrong}]")


@SIZES
def test_a_text_may_speak_of_constants(beside: str) -> None:
    assert parsed(json.dumps([beside, "NaN", "Infinity"])) == [beside, "NaN", "Infinity"]


async def test_much_is_taken_in_another_thread_and_little_at_once() -> None:
    assert await taken(threading.get_ident, AT_ONCE + 1) != threading.get_ident()
    assert await taken(threading.get_ident, AT_ONCE) == threading.get_ident()


async def test_a_cancellation_meanwhile_comes_after_what_is_known() -> None:
    begun, go, known = threading.Event(), threading.Event(), []

    def work() -> int:
        begun.set()
        go.wait(10)
        return 7

    async def call() -> None:
        known.append(await taken(work, AT_ONCE + 1))
        await asyncio.sleep(0)

    task = asyncio.create_task(call())
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert known == [7]
