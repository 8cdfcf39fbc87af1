"""The registries of services, asked whether they are there and what they list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from replan.cli.doctor.findings import Finding
from replan.cli.terminal.words import counted

if TYPE_CHECKING:
    from replan.config import Settings
    from replan.ports import Endpoints, ServiceState

_SHOWN = 5


def services(settings: Settings) -> Iterator[Finding]:
    """A finding for each service that is looked for, and one for the registry in which this one is registered."""
    import asyncio

    from replan.wiring import discovery_of
    from replan.wiring.discovery import CONSUL_UNUSED, USE_CONSUL, not_looked_for

    for section, wanted in not_looked_for(settings):
        elsewhere = section == "llm" and ":" in (settings.llm.default_model or "")  # at a provider
        weight: Literal["note", "problem"] = "note" if elsewhere else "problem"
        yield Finding("registry", weight, f"[{section}] service_name {wanted!r} {CONSUL_UNUSED}", USE_CONSUL)
    for name, service in discovery_of(settings).named():
        state, known = asyncio.run(_looked(service))
        where = f"{name} {state.service} by {state.registry}"
        facts = {"service": state.service, "instances": state.instances}
        shown = ", ".join(known[: min(_SHOWN, state.instances)])
        if not state.problem:
            found = f"{where}: {counted(state.instances, 'instance')} ({shown})"
            yield Finding("registry", "ok", found, facts=facts)
        elif known:
            told = f"{where}: {state.problem}; asked are {', '.join(known[:_SHOWN])}"
            yield Finding("registry", "note", told, "mend what it says", facts)
        else:
            yield Finding("registry", "problem", f"{where}: {state.problem}", "mend what it says", facts)
    if settings.consul.enabled:
        yield asyncio.run(_registered(settings))


async def _looked(service: Endpoints) -> tuple[ServiceState, list[str]]:
    await service.begin()
    await service.aclose()
    return service.state(), list(service.known())


async def _registered(settings: Settings) -> Finding:
    from replan.discovery.consul.client import Consul
    from replan.discovery.consul.instances import ConsulRegistry
    from replan.discovery.opening import agent_of
    from replan.errors import RegistryUnavailable

    name = settings.consul.service_name
    registry = ConsulRegistry(Consul(agent_of(settings.consul)))
    try:
        look = await registry.look(name, None)
    except RegistryUnavailable as error:
        return Finding(
            "registry", "problem", f"{registry.name}: {error}", "start it, or correct [consul] host and port"
        )
    finally:
        await registry.aclose()
    facts = {"service": name, "instances": len(look.instances)}
    if not look.instances:
        return Finding(
            "registry",
            "note",
            f"{registry.name} lists no {name} that is well",
            "replan serve registers itself",
            facts,
        )
    listed = counted(len(look.instances), "instance")
    return Finding("registry", "ok", f"{registry.name} lists {listed} of {name}", facts=facts)
