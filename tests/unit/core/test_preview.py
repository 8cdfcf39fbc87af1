"""Large values in few words: bytes in texts are found, and near misses cost no more than reading them."""

from __future__ import annotations

import time

import pytest

from replan.core.data.preview import holds_binary, without_binary

BASE64 = "QUJD" * 500


@pytest.mark.parametrize(
    "head",
    [
        pytest.param("data:image/png;base64,", id="with a type"),
        pytest.param("data:;base64,", id="without a type"),
        pytest.param("data:image/svg+xml;charset=utf-8;base64,", id="with a parameter"),
    ],
)
def test_bytes_are_told_by_their_size(head: str) -> None:
    assert holds_binary(f'{{"icon": "{head}{BASE64}"}}'.encode())
    assert without_binary(f"an icon: {head}{BASE64}.") == f"an icon: {head}…(1,500 bytes)."


@pytest.mark.parametrize(
    "unit", ["a", "a/", "data:", "data:a/b;", '"data:', ";base64,", "data:a/b;base64,", ";a=b", "/", "."]
)
def test_a_near_miss_costs_no_more_than_reading_it(unit: str) -> None:
    text = '"data:' + unit * (400_000 // len(unit)) + '?;base64,"'
    before = time.process_time()
    assert not holds_binary(text.encode())
    assert without_binary(text) == text
    assert time.process_time() - before < 2.0
