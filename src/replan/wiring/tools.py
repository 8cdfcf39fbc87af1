"""Tools: those that are given, and those that are configured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from replan.config import Settings
from replan.core.secrets import usable_key
from replan.errors import InputError
from replan.ports import ToolSource
from replan.tools.catalog.catalog import Catalog
from replan.tools.frameworks import gather
from replan.tools.functions.source import FunctionSource
from replan.tools.specs import load_sources, same_spec
from replan.wiring.addresses import tool_endpoints
from replan.wiring.discovery import Discovery, discovery_of

ToolLike = Callable[..., Any] | str | ToolSource | object
"""A function, a SPEC, a tool source, or a tool or toolset of another framework."""


def open_tools(
    tools: Sequence[ToolLike], settings: Settings | None = None, discovery: Discovery | None = None
) -> Catalog:
    """One catalog of everything: functions together, each SPEC and each source by itself, then what is configured.

    `discovery`: of the settings, where somebody else looks on.
    """
    functions: list[Callable[..., Any]] = []
    sources: list[ToolSource] = []
    foreign: list[object] = []
    named: set[str] = set()
    for tool in tools:
        if isinstance(tool, str):
            if (same := same_spec(tool)) not in named:
                named.add(same)
                sources += load_sources(tool)
        elif _is_source(tool):
            sources.append(tool)  # type: ignore[arg-type]
        else:
            foreign.append(tool)
    adopted, others = gather(foreign) if foreign else ([], [])
    for tool in others:
        if not callable(tool):
            raise InputError(
                f"{tool!r:.200} is not a tool: give functions, SPECs such as 'tools.py', tool sources, or tools of "
                "LangChain, Pydantic AI or the OpenAI Agents SDK"
            )
        functions.append(tool)
    if functions:
        sources.insert(0, FunctionSource(functions))
    sources += adopted
    if settings is None:
        return Catalog(sources)
    sources += configured_sources(settings, named, discovery)
    return Catalog(
        sources, rules=settings.tools.tool_rules(), list_timeout_secs=settings.tools.list_timeout_secs
    )


def configured_sources(
    settings: Settings, named: Collection[str] = (), discovery: Discovery | None = None
) -> list[ToolSource]:
    """The sources that the configuration names; `ConfigError` or `InputError` for what cannot be used.

    `named`: SPECs that were loaded already (`same_spec`): the same again would have every tool twice.
    """
    section = settings.tools
    specs = {same_spec(spec): spec for spec in section.sources}
    sources = [source for same, spec in specs.items() if same not in named for source in load_sources(spec)]
    if section.mcp_servers:
        from replan.tools.mcp import from_table

        sources += from_table(section.mcp_servers)
    for name, table in section.openapi.items():
        from replan.tools.openapi import from_table as openapi_from_table

        sources.append(openapi_from_table({"name": name, **table}))
    service = settings.tool_service
    found = (discovery or discovery_of(settings)).tools
    if found is not None or service.endpoint:
        from replan.tools.remote import RemoteSource

        sources.append(
            RemoteSource(
                tool_endpoints(service, service.endpoint, service.fallback_endpoint)
                if found is None
                else found,
                name="tool_service",
                protocol=service.protocol,
                token=usable_key(service.token, "[tool_service] token (APP_TOOL_SERVICE_TOKEN)"),
                connect_timeout_secs=service.connect_timeout_secs,
                timeout_secs=service.timeout_secs,
                max_retries=service.max_retries,
            )
        )
    return sources


def _is_source(tool: object) -> bool:
    return all(hasattr(tool, name) for name in ("name", "tools", "call", "aclose")) and not isinstance(
        tool, type
    )
