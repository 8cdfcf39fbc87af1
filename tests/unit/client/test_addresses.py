"""Which service is meant, and with which key."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from replan.client import Client
from replan.client.connection import address_of, key_of, quoted
from replan.errors import InputError


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/api/v1"),
        ("https://replan.example/api/v1/", "https://replan.example/api/v1"),
        ("https://example.org/tools/replan", "https://example.org/tools/replan/api/v1"),
        ("http://[::1]:8080", "http://[::1]:8080/api/v1"),
    ],
)
def test_an_address_is_taken_with_and_without_its_path(given: str, found: str) -> None:
    assert address_of(given) == found


@pytest.mark.parametrize(
    "given",
    ["", "localhost:8080", "ftp://x", "http://", "http://u:p@x", "http://x/?a=1", "http://x/#a", "unix:/x"],
)
def test_what_is_no_address_is_refused_with_what_would_be_one(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REPLAN_SERVER", raising=False)
    with pytest.raises(InputError, match=r"address|REPLAN_SERVER|REPLAN_API_KEY"):
        address_of(given)


def test_the_environment_says_which_service_and_key_where_nobody_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPLAN_SERVER", "http://h:1")
    monkeypatch.setenv("REPLAN_API_KEY", "rpk_1")
    assert address_of(None) == "http://h:1/api/v1"
    assert key_of(None)() == "rpk_1"
    (tmp_path / "key").write_text("rpk_2\n")
    monkeypatch.setenv("REPLAN_API_KEY", f"file:{tmp_path / 'key'}")
    assert key_of(None)() == "rpk_2"
    assert key_of(SecretStr("rpk_3"))() == "rpk_3"
    assert key_of("env:REPLAN_SERVER")() == "http://h:1"
    keys = iter(["a", "b"])
    moving = key_of(lambda: next(keys))
    assert (moving(), moving()) == ("a", "b")
    monkeypatch.delenv("REPLAN_API_KEY")
    assert key_of(None)() is None


@pytest.mark.parametrize("key", ["a\nb: c", "ключ", "a\0"])
def test_a_key_that_cannot_be_a_header_is_refused_unshown(key: str) -> None:
    with pytest.raises(InputError) as told:
        key_of(key)
    assert key not in str(told.value)


def test_headers_that_can_be_none_are_refused() -> None:
    with pytest.raises(InputError, match="x-a"):
        Client("http://h", headers={"x-a": "b\nc: d"})


def test_an_id_is_one_part_of_a_path() -> None:
    assert quoted("a/../b?c") == "a%2F..%2Fb%3Fc"
    for odd in ("", ".", ".."):
        with pytest.raises(InputError):
            quoted(odd)
