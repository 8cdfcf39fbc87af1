"""Which names mean this machine."""

from __future__ import annotations

import pytest

from replan.core.hosts import is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"]
)
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "localhost.example", "mylocalhost", "10.0.0.1", "0.0.0.0", "::", "128.0.0.1"]
)
def test_another_machine(host: str) -> None:
    assert not is_loopback(host)
