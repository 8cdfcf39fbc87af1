"""Which proxy the environment names for a server."""

from __future__ import annotations

import pytest

from replan.connections import Transport, proxy_to
from replan.errors import InputError

NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "http://far.test", None),
        ({"http_proxy": "http://p:1"}, "http://far.test/x", "http://p:1"),
        ({"http_proxy": "p:1"}, "http://far.test", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://far.test", None),
        ({"https_proxy": "http://p:2", "all_proxy": "http://p:3"}, "https://far.test", "http://p:2"),
        ({"all_proxy": "http://p:3"}, "https://far.test", "http://p:3"),
        ({"all_proxy": "http://p:3", "no_proxy": "far.test"}, "https://far.test", None),
        ({"all_proxy": "http://p:3", "no_proxy": ".test"}, "https://far.test", None),
        ({"all_proxy": "http://p:3", "no_proxy": "*"}, "https://far.test", None),
        ({"all_proxy": "http://p:3", "no_proxy": "near.test"}, "https://far.test", "http://p:3"),
        ({"all_proxy": "http://p:3"}, "http://127.0.0.1:8000", None),
        ({"all_proxy": "http://p:3"}, "http://[::1]:8000", None),
        ({"all_proxy": "http://p:3"}, "http://localhost", None),
    ],
)
def test_the_environment_names_it(
    environment: dict[str, str], url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_to(url) == proxy


def test_one_that_cannot_be_used_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "ftp://me:secret@p:1")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(InputError, match=r"for far\.test cannot be used: its URL has to be http") as told:
        Transport("http://far.test")
    assert "secret" not in str(told.value)
