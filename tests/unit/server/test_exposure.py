"""A service that asks nobody who they are is for this machine only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replan.config.sections import Server, Settings
from replan.errors import ConfigError
from replan.server.auth.exposure import Hosts, asking_who_calls, check_exposure, page_fits


def server(**keys: Any) -> Settings:
    return Settings(server=Server(**keys))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.7", "example.com", "*", "127.0.0.1.example.com"]
)
def test_it_does_not_start_for_other_machines_without_auth_and_says_what_to_set(host: str) -> None:
    with pytest.raises(ConfigError, match=r'\[server\] auth = "keys" \(APP_SERVER_AUTH=keys\)'):
        check_exposure(asking_who_calls(server(host=host, auth="off")))


def test_where_others_may_call_and_nothing_is_said_keys_are_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = asking_who_calls(server(host="0.0.0.0"))
    check_exposure(asked)
    assert asked.server.auth == "keys"
    assert "callers need a key" in caplog.text
    assert asking_who_calls(server(host="127.0.0.1")).server.auth == "off"
    assert asking_who_calls(server(host="0.0.0.0", auth="oidc")).server.auth == "oidc"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "::1"])
def test_on_loopback_it_starts_without(host: str) -> None:
    check_exposure(server(host=host))


@pytest.mark.parametrize("auth", ["keys", "oidc", "keys+oidc"])
def test_with_auth_it_starts_anywhere(auth: str) -> None:
    check_exposure(server(host="0.0.0.0", auth=auth, cors_origins=("*",)))


def test_pages_of_any_origin_need_auth() -> None:
    with pytest.raises(ConfigError, match="name the origins"):
        check_exposure(server(cors_origins=("https://app.example", "*")))
    check_exposure(server(cors_origins=("https://app.example",)))


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "[::1]", "LOCALHOST:1", "localhost."],
)
def test_without_auth_it_answers_to_names_of_this_machine(host: str) -> None:
    assert Hosts.of(Server()).fit(host)


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:8080", "localhost.evil.example", "localhost@evil.example", "evil.example#localhost",
        "127.0.0.1.nip.io", "[::1", "[::1]evil", "10.0.0.1", "localhost:port/evil",
    ],
)  # fmt: skip
def test_and_to_no_other(host: str | None) -> None:
    assert not Hosts.of(Server()).fit(host)


def test_names_below_one() -> None:
    hosts = Hosts.of(Server(auth="keys", allowed_hosts=("*.example.com", "api.test")))
    assert all(map(hosts.fit, ("a.example.com", "b.a.EXAMPLE.com:443", "api.test")))
    assert not any(map(hosts.fit, ("example.com", "badexample.com", "localhost")))


def test_with_auth_any_name_will_do_unless_some_are_named() -> None:
    assert Hosts.of(Server(auth="keys")).fit("anything.example")


@given(st.text(max_size=40))
def test_no_header_makes_it_fall_over(host: str) -> None:
    assert Hosts.of(Server()).fit(host) in (True, False)


OWN = "127.0.0.1:8080"


@pytest.mark.parametrize(
    "origin", [None, "http://127.0.0.1:8080", "https://127.0.0.1:8080", "https://app.example"]
)
def test_without_auth_its_own_pages_and_those_that_are_named_may_call(origin: str | None) -> None:
    assert page_fits(origin, OWN, Server(cors_origins=("https://app.example",)))


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", "http://localhost:8080", "http://127.0.0.1:3000", "http://127.0.0.1", "https://evil.example", "http://127.0.0.1:8080.evil.example",
        "http://127.0.0.1:8080@evil", "https://app.example.evil", "file://", "*",
    ],
)  # fmt: skip
def test_and_no_other(origin: str) -> None:
    assert not page_fits(origin, OWN, Server(cors_origins=("https://app.example",)))
    assert not page_fits("http://None", None, Server())


def test_where_keys_are_asked_for_pages_are_not() -> None:
    assert page_fits("https://evil.example", OWN, Server(auth="keys"))
