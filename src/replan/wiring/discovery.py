"""Services whose instances are looked for, and this one as it is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replan.config import Settings
from replan.ports import ServiceState
from replan.wiring.addresses import model_endpoint, tool_endpoints

if TYPE_CHECKING:
    from replan.discovery.consul.registration import Registration
    from replan.discovery.discovered import Discovered


class Discovery(NamedTuple):
    """Services whose instances are looked for; None: they are where the settings say."""

    models: Discovered | None = None
    tools: Discovered | None = None

    def named(self) -> list[tuple[str, Discovered]]:
        """By what they are for."""
        return [
            (name, each)
            for name, each in (("model service", self.models), ("tool service", self.tools))
            if each is not None
        ]

    def start(self) -> None:
        """Look for them from now on, before somebody needs them."""
        for _, each in self.named():
            each.start()

    async def aclose(self) -> None:
        for _, each in self.named():
            await each.aclose()

    def states(self) -> list[tuple[str, ServiceState]]:
        return [(name, each.state()) for name, each in self.named()]


def discovery_of(settings: Settings) -> Discovery:
    """Those that the settings name. `ConfigError` for what names none; nothing is asked yet."""
    llm, tools = settings.llm, settings.tool_service
    models_found = tools_found = None
    if llm.service_name is not None:
        from replan.discovery.opening import discovered
        from replan.llm.address import base_url, over_grpc

        others = [url for each in (llm.fallback_endpoint, llm.endpoint) if (url := model_endpoint(llm, each))]
        models_found = discovered(
            settings,
            "llm",
            llm.service_name,
            scheme=llm.protocol,
            others=others,
            check=over_grpc if llm.protocol == "grpc" else base_url,
        )
    if tools.service_name is not None:
        from replan.discovery.opening import discovered
        from replan.tools.remote.client.transport import checked_url

        others = tool_endpoints(tools, tools.fallback_endpoint, tools.endpoint)
        tools_found = discovered(
            settings,
            "tool_service",
            tools.service_name,
            scheme=tools.protocol,
            others=[checked_url(url, tools.protocol) for url in others],
            check=lambda url: checked_url(url, tools.protocol),
        )
    return Discovery(models_found, tools_found)


def not_looked_for(settings: Settings) -> list[tuple[str, str]]:
    """Services that are named for Consul, which is not used, and that have no address either: section and name."""
    found = discovery_of(settings)
    sections = (
        ("llm", settings.llm.service_name, settings.llm.endpoint, found.models),
        ("tool_service", settings.tool_service.service_name, settings.tool_service.endpoint, found.tools),
    )
    return [
        (section, name)
        for section, name, endpoint, service in sections
        if name is not None and service is None and not endpoint
    ]


CONSUL_UNUSED = "is a name for Consul, which is not used"
USE_CONSUL = (
    "set [consul] enabled = true (and its host), or say where the service is "
    "(static:HOST:PORT, dns:HOST:PORT, srv:NAME, or an endpoint)"
)


def registration_of(settings: Settings, host: str, port: int, grpc_port: int | None) -> Registration | None:
    """How a service that listens there is registered, where the settings want that."""
    if not settings.consul.enabled:
        return None
    from replan.discovery.opening import registration_of

    return registration_of(settings, host, port, grpc_port)
