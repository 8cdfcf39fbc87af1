"""By the settings: where services are looked for, and how this one is offered."""

from __future__ import annotations

import logging
import platform
import re
import socket
from collections.abc import Callable, Sequence

from replan.config import Settings
from replan.config.sections import Consul as ConsulSection
from replan.core.hosts import is_loopback
from replan.discovery.balance import Balance
from replan.discovery.consul.client import Agent, Consul, trusted
from replan.discovery.consul.instances import ConsulRegistry
from replan.discovery.consul.registration import Offer, Registration
from replan.discovery.discovered import Discovered
from replan.discovery.dns.registries import AddressRegistry, SrvRegistry
from replan.discovery.dns.resolver import problem_of_name
from replan.discovery.static import StaticRegistry
from replan.discovery.urls import problem_of
from replan.errors import ConfigError
from replan.ports import Instance, Registry

log = logging.getLogger("replan.discovery")
_FORMS = re.compile(r"(dns|srv|static):(?!//)(.*)", re.DOTALL)
_URL = re.compile(
    r"(?:([a-z]{1,10})://)?(\[[0-9A-Fa-f:.]{2,45}\]|[^\s/:\[\]@?#]{1,253}):([0-9]{1,5})(/[^\s?#]{0,500})?"
)
_DNS_PORT = 53


def discovered(
    settings: Settings,
    section: str,
    name: str,
    *,
    scheme: str,
    others: Sequence[str],
    check: Callable[[str], object],
) -> Discovered | None:
    """The service of that name; None: it is for Consul, which is not used. `ConfigError` for what names none. Nothing is asked yet.

    `scheme`: of instances whose registry says none; `others`: asked after them; `check` raises `InputError` for addresses that
    cannot be used.
    """
    registry = _registry(settings.consul, f"[{section}] service_name", name, scheme)
    if registry is None:
        return None
    shown = name.partition(":")[2].partition("@")[0] if _FORMS.fullmatch(name) else name
    return Discovered(
        registry,
        shown,
        scheme=scheme,
        balance=Balance(settings.consul.load_balance),
        others=others,
        check=check,
    )


def _registry(section: ConsulSection, key: str, name: str, scheme: str) -> Registry | None:
    """Where that service is looked for; None: a name for Consul, which is not used."""
    found = _FORMS.fullmatch(name)
    if found is None:
        if not section.enabled:
            return None
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", name) is None:
            raise ConfigError(f"{key}: {name!r} is no name of a service")
        port_key = "grpc_port" if scheme.startswith("grpc") else None
        return ConsulRegistry(
            Consul(agent_of(section)),
            tags=section.discover_tags,
            datacenter=section.datacenter,
            port_key=port_key,
        )
    kind, rest = found.groups()
    if kind == "static":
        return StaticRegistry([_instance(key, each.strip()) for each in rest.split(",")])
    if kind == "dns":
        instance = _instance(key, rest)
        if instance.scheme or instance.path:
            raise ConfigError(f"{key}: {name!r}: right is dns:HOST:PORT")
        return AddressRegistry(instance.host, instance.port)
    service, at, server = rest.partition("@")
    if problem := problem_of_name(service):
        raise ConfigError(f"{key}: {problem}; right is srv:_SERVICE._tcp.DOMAIN, or srv:NAME@SERVER:PORT")
    if not at:
        return SrvRegistry()
    asked = _instance(key, server if re.search(r":[0-9]+$", server) else f"{server}:{_DNS_PORT}")
    return SrvRegistry([(asked.host, asked.port)])


def _instance(key: str, text: str) -> Instance:
    found = _URL.fullmatch(text)
    if found is not None:
        scheme, host, port, path = found.groups()
        instance = Instance(host.strip("[]"), int(port), scheme or "", path or "")
        if not problem_of(instance):
            return instance
    raise ConfigError(
        f"{key}: {text[:200]!r} is no address: right is HOST:PORT, [ADDRESS]:PORT or SCHEME://HOST:PORT"
    )


def agent_of(section: ConsulSection) -> Agent:
    """The agent that the settings name; `ConfigError` where its certificates cannot be read."""
    agent = Agent(
        host=section.host or "127.0.0.1",
        port=section.port,
        token=section.token,
        tls=section.tls,
        ca_file=section.ca_file,
        cert_file=section.cert_file,
        key_file=section.key_file,
    )
    if agent.tls:
        trusted(agent)
    return agent


# ── the registration of this service ──────────────────────────────────────────


def registration_of(settings: Settings, host: str, port: int, grpc_port: int | None) -> Registration | None:
    """How a service that listens there is registered; None: it is not to be."""
    section = settings.consul
    if not section.enabled:
        return None
    consul = Consul(agent_of(section))
    offer = offer_of(section, host, port, grpc_port)
    if is_loopback(offer.address) and not is_loopback(consul.agent.host):
        log.warning(
            "%s is told that this service is at %s, where no other machine reaches it: set [server] host, and [consul] service_host",
            consul.name, offer.address,
        )  # fmt: skip
    return Registration(consul, offer)


def offer_of(section: ConsulSection, host: str, port: int, grpc_port: int | None) -> Offer:
    address = section.service_host if section.service_host is not None else _address(section, host)
    # Where the agent has no address of this machine, it is on it.
    asked = _bracketed(address or ("127.0.0.1" if _is_anywhere(host) else host))
    offered = section.service_port or port
    node = address or platform.node() or "nameless"
    own = offered == port
    return Offer(
        id=re.sub(r"[^A-Za-z0-9_.-]", "-", f"{section.service_name}-{node}-{offered}"),
        name=section.service_name,
        address=address,
        port=offered,
        grpc_port=grpc_port,
        check_url=section.health_check_url or f"http://{asked}:{offered}/ready",
        # Behind a port of somebody else the one of gRPC is not known to be reached.
        check_grpc=f"{asked}:{grpc_port}"
        if grpc_port is not None and own and not section.health_check_url
        else None,
        interval_secs=section.health_check_interval,
        timeout_secs=section.health_check_timeout,
        tags=tuple(dict.fromkeys(section.tags)),
    )


def _address(section: ConsulSection, host: str) -> str:
    """Where others reach what listens on `host`; empty: at the address of the agent's machine."""
    if not _is_anywhere(host):
        return host
    agent = section.host or "127.0.0.1"
    if is_loopback(agent):
        return ""
    try:  # nothing is sent: the system only says from where it would be
        with socket.socket(socket.AF_INET6 if ":" in agent else socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((agent, section.port))
            return str(asked.getsockname()[0])
    except OSError:
        return ""


def _is_anywhere(host: str) -> bool:
    return host in ("", "0.0.0.0", "::", "*")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
