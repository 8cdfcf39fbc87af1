"""Where services are looked for, and how this one is registered, by the settings."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import pytest

from replan.config import Settings
from replan.discovery.consul.client import Agent
from replan.discovery.discovered import LONGEST_LOOK_SECS
from replan.discovery.opening import discovered, offer_of, registration_of
from replan.errors import ConfigError
from replan.ports import ServiceState
from replan.testing import virtual_time


def found(name: str, *, scheme: str = "http", **consul: Any) -> Any:
    settings = Settings.model_validate({"consul": consul})
    return discovered(settings, "llm", name, scheme=scheme, others=[], check=lambda url: None)


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("static:10.0.0.1:80", "the list in the configuration"),
        ("dns:llm.internal:8000", "DNS (llm.internal)"),
        ("srv:_llm._tcp.example", "DNS"),
        ("srv:llm.service.consul@127.0.0.1:8600", "DNS at 127.0.0.1:8600"),
        ("srv:llm.service.consul@127.0.0.1", "DNS at 127.0.0.1:53"),
    ],
)
def test_a_form_of_name_says_which_registry_is_asked(name: str, registry: str) -> None:
    assert found(name).state().registry == registry


def test_a_plain_name_is_for_consul_where_that_is_used() -> None:
    assert found("llm-service") is None
    state = found("llm-service", enabled=True, host="::1", port=8501, tls=True).state()
    assert (state.service, state.registry) == ("llm-service", "Consul at https://[::1]:8501")


def test_a_written_list_is_taken_as_it_is() -> None:
    async def known() -> list[str]:
        service = found("static:10.0.0.1:80, https://h.example:443/v1 ,[::1]:8000")
        await service.begin()
        await service.aclose()
        return sorted(service.known())

    assert asyncio.run(known()) == ["http://10.0.0.1:80", "http://[::1]:8000", "https://h.example:443/v1"]


def test_a_written_list_has_no_news_and_is_no_registry_that_does_not_answer() -> None:
    async def main() -> list[ServiceState]:
        service = found("static:h:80")
        await service.begin()
        states = []
        for _ in range(5):
            states.append(service.state())
            await asyncio.sleep(LONGEST_LOOK_SECS)
        await service.aclose()
        return states

    states = virtual_time(main())
    assert {(state.instances, state.problem, state.failures) for state in states} == {(1, "", 0)}


@pytest.mark.parametrize(
    "name",
    [
        "static:",
        "static:10.0.0.1",
        "static:a:80,,b:80",
        "static:http://user:pw@h:80",
        "static:h:99999",
        "dns:h",
        "dns:https://h:80",
        "srv:",
        "srv:a..b",
        "srv:" + "x" * 300,
        "srv:name@not a server:53",
    ],
)
def test_what_names_no_service_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\[llm\] service_name"):
        found(name)


@pytest.mark.parametrize("name", ["a b", "a/b", "x" * 300, "http://h:80"])
def test_what_is_no_name_in_consul_is_told(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\[llm\] service_name"):
        found(name, enabled=True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"host": "a b"}, "host"),
        ({"token": "a b"}, "token"),
        ({"token": "a\nb"}, "token"),
        ({"ca_file": "x"}, "tls = true"),
        ({"tls": True, "key_file": "x"}, "cert_file"),
    ],
)
def test_an_agent_that_cannot_be_asked_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        Agent(**options)
    assert "a b" not in str(error.value) or "host" in options


@pytest.mark.parametrize("name", ["ca_file", "cert_file"])
def test_a_certificate_that_cannot_be_read_is_told_at_the_start(name: str, tmp_path: Any) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(ConfigError, match=rf"\[consul\] {name}"):
        found("llm", enabled=True, tls=True, **{name: str(tmp_path / "none.pem")})


def offer(listens: str = "127.0.0.1", **consul: Any) -> Any:
    section = Settings.model_validate({"consul": {"enabled": True, **consul}}).consul
    return offer_of(section, listens, 8080, 50051)


def test_what_is_registered() -> None:
    made = offer("10.0.0.5", tags=["blue", "blue"])
    assert made.as_json() == {
        "ID": "task-orchestration-service-10.0.0.5-8080",
        "Name": "task-orchestration-service",
        "Address": "10.0.0.5",
        "Port": 8080,
        "Tags": ["blue"],
        "Meta": {"grpc_port": "50051"},
        "Checks": [
            {
                "CheckID": f"{made.id}:{kind}", "Name": name, key: value, "Interval": "10s", "Timeout": "5s",
                "Status": "passing", "DeregisterCriticalServiceAfter": "600s",
            }
            for kind, name, key, value in (
                ("http", "HTTP", "HTTP", "http://10.0.0.5:8080/ready"), ("grpc", "gRPC", "GRPC", "10.0.0.5:50051"),
            )
        ],
    }  # fmt: skip


def test_what_listens_everywhere_beside_its_agent_has_the_address_of_that_machine() -> None:
    made = offer("0.0.0.0")
    assert (made.address, made.check_url) == ("", "http://127.0.0.1:8080/ready")


def test_what_listens_everywhere_is_where_the_agent_is_reached_from() -> None:
    assert offer("0.0.0.0", host="127.0.0.2").address == ""
    found = offer("0.0.0.0", host="10.255.255.1").address  # none on a machine without a network
    assert not found or not ipaddress.ip_address(found).is_unspecified


def test_another_address_and_check_are_taken_as_they_are() -> None:
    made = offer(service_host="fd00::1", service_port=80, health_check_url="http://h/x")
    assert (made.address, made.port, made.check_url, made.check_grpc) == ("fd00::1", 80, "http://h/x", None)
    proxied = offer(service_host="fd00::1", service_port=80)
    assert (proxied.check_url, proxied.check_grpc) == ("http://[fd00::1]:80/ready", None)


def test_nothing_is_registered_unless_that_is_wanted() -> None:
    assert registration_of(Settings(), "127.0.0.1", 1, 2) is None
