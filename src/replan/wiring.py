"""Settings in, running parts out: the only place that names concrete classes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from replan.config import Settings
from replan.config.sections import Llm, ToolService
from replan.core.begun import destinations
from replan.core.limits.prices import Price
from replan.core.secrets import KnownSecrets, secrets_of_url, url_without_secrets, usable_key
from replan.core.types import Role
from replan.engine.procrastinate.queue import Queue
from replan.errors import ConfigError, InputError, ReplanError
from replan.kinds.library import Library
from replan.ports import Consumer, Model, Priced, ServiceState, Store, ToolSource
from replan.tools.catalog.catalog import Catalog
from replan.tools.frameworks import gather
from replan.tools.functions.source import FunctionSource
from replan.tools.specs import load_sources, same_spec

if TYPE_CHECKING:
    from replan.discovery.consul.registration import Registration
    from replan.discovery.discovered import Discovered
    from replan.llm.pace import Limit
    from replan.llm.providers.configured import Provider
    from replan.projections.debug_log import DebugLog
    from replan.projections.traces import Traces

ROLES: tuple[Role, ...] = get_args(Role)
LOCAL = "local"


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, secs: float) -> None:
        await asyncio.sleep(secs)


class Ulids:
    """Ids that sort by the time they were made."""

    def new(self, prefix: str) -> str:
        from ulid import ULID

        return f"{prefix}_{str(ULID()).lower()}"


# ── store ─────────────────────────────────────────────────────────────────────


def default_database() -> Path:
    """The database in the user's state folder."""
    from platformdirs import user_state_path

    return user_state_path("replan") / "replan.db"


def open_store(db: str | Path | None, settings: Settings) -> Store:
    """The store that `db` (a path, `sqlite:///FILE` or `postgresql://…`) or the settings name."""
    from replan.store.sqlite import SqliteStore

    named = db if db is not None else settings.database_service.connection_string
    if isinstance(named, str) and is_postgres(named):
        from replan.store.postgres.opening import open_postgres

        return open_postgres(named, settings.database_service.max_connections)
    return SqliteStore(database_path(named), synchronous=settings.store.synchronous)


def queue_of(store: Store) -> Queue | None:
    """The workers' queue of this database, if it can have one; nothing is made."""
    shared = getattr(store, "shared", None)
    return None if shared is None else Queue(shared())


def need_queue(queue: Queue | None) -> Queue:
    """The same for whoever cannot do without."""
    if queue is None:
        raise ConfigError(
            "workers take tasks from a PostgreSQL database: give its address (--db postgresql://HOST/DATABASE, or "
            '[database_service] connection_string), or set [engine] kind = "local"'
        )
    return queue


def database(named: str | Path | None) -> str | Path:
    """What is named now, wherever the process goes to later: a SQLite file, or the address of a PostgreSQL database."""
    return named if isinstance(named, str) and is_postgres(named) else database_path(named)


def is_postgres(named: str) -> bool:
    """Whether that is the address of a PostgreSQL database."""
    return named.partition("://")[0] in ("postgresql", "postgres")


def database_path(named: str | Path | None) -> Path:
    """The SQLite file that a `--db` value or connection string names now, wherever the process goes to later."""
    return _database_path(named).absolute()


def _database_path(named: str | Path | None) -> Path:
    if named is None or named == "":
        return default_database()
    if isinstance(named, Path):
        return named
    kind, found, rest = named.partition("://")
    if not found and named.startswith("file:"):
        raise InputError(f"{named!r} is an address of SQLite's own; write sqlite:///FILE, or the path alone")
    if not found:
        return Path(named).expanduser()
    if kind == "sqlite":
        path = rest.removeprefix("/")
        if "?" in path:
            raise InputError(
                f"{named!r}: options are not taken; write sqlite:///FILE without what follows the ?"
            )
        if not path:
            raise InputError(
                f"{named!r} is not the address of a file; write sqlite:///FILE (four slashes for an absolute path)"
            )
        return Path(path).expanduser()
    raise InputError(
        f"{kind}:// is no database that Replan knows; use sqlite:///FILE or postgresql://HOST/DATABASE"
    )


# ── tools ─────────────────────────────────────────────────────────────────────


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
                _tool_endpoints(service, service.endpoint, service.fallback_endpoint)
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


def _tool_endpoints(service: ToolService, *urls: str | None) -> list[str]:
    given = [url for url in urls if url]
    if "protocol" in service.model_fields_set and service.protocol == "grpc":
        # As the older service's file has it, where the protocol is said apart and the scheme says no more than "host".
        return [re.sub(r"^http(s?)://", r"grpc\1://", url, flags=re.IGNORECASE) for url in given]
    return given


def model_endpoint(llm: Llm, url: str | None) -> str | None:
    """An endpoint of models as it is asked: of a service over gRPC where the settings say so, whatever its scheme says."""
    if not url or llm.protocol != "grpc":
        return url
    from replan.llm.address import over_grpc

    return over_grpc(url)


def _is_source(tool: object) -> bool:
    return all(hasattr(tool, name) for name in ("name", "tools", "call", "aclose")) and not isinstance(
        tool, type
    )


# ── services that are looked for ──────────────────────────────────────────────


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

        others = _tool_endpoints(tools, tools.fallback_endpoint, tools.endpoint)
        tools_found = discovered(
            settings,
            "tool_service",
            tools.service_name,
            scheme=tools.protocol,
            others=[checked_url(url, tools.protocol) for url in others],
            check=lambda url: checked_url(url, tools.protocol),
        )
    return Discovery(models_found, tools_found)


def registration_of(settings: Settings, host: str, port: int, grpc_port: int | None) -> Registration | None:
    """How a service that listens there is registered, where the settings want that."""
    if not settings.consul.enabled:
        return None
    from replan.discovery.opening import registration_of

    return registration_of(settings, host, port, grpc_port)


# ── who is delivered audit records ────────────────────────────────────────────


def audit_consumers(settings: Settings, secrets: KnownSecrets) -> list[Consumer]:
    """Those that the settings name; `ConfigError` for what cannot be."""
    consumers: list[Consumer] = []
    if settings.kafka_service.enabled:
        consumers.append(kafka_audit(settings, secrets))
    if (file := settings.audit.file) is not None:
        from replan.projections.audit_file import AuditFile

        section = settings.audit
        most = int(section.file_max_mb * 1_000_000)
        path = Path(file).expanduser()
        consumers.append(AuditFile(path, max_bytes=most, keep=section.file_keep, masked=secrets.masked))
    return consumers


def kafka_audit(settings: Settings, secrets: KnownSecrets) -> Consumer:
    """The topic that the settings name, whether or not it is enabled."""
    from replan.projections.kafka import KafkaAudit

    return KafkaAudit(settings.kafka_service, masked=secrets.masked)


# ── scenes and workflows ──────────────────────────────────────────────────────


Paths = str | Path | Sequence[str | Path]
"""Files and folders."""


def open_kinds(settings: Settings, scenes: Paths = (), workflows: Paths = ()) -> Library:
    """The scenes and workflows of these files and folders, then of those that are configured; wherever the process goes to later."""
    section = settings.scenes
    return Library(
        [*_paths(scenes), *_paths(section.paths)],
        [*_paths(workflows), *_paths(section.workflows)],
        built_in=settings.orchestrator.enable_builtin_workflows,
    )


def _paths(given: Paths) -> list[Path]:
    several = [given] if isinstance(given, str | Path) else given
    return [Path(one).expanduser().absolute() for one in several]


# ── models ────────────────────────────────────────────────────────────────────

ModelChoice = str | Model | Mapping[Role, "str | Model"] | None


class Models(Mapping[Role, Model]):
    """A model for each role, opened when it is first asked for; one model for roles that name the same."""

    def __init__(
        self,
        settings: Settings,
        *,
        model: ModelChoice = None,
        endpoint: str | None = None,
        api_key: str | None = None,
        record: Path | None = None,
        replay: Path | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._found = None if endpoint else (discovery or discovery_of(settings)).models
        given = usable_key(api_key, "api_key")
        self.has_own_key = given is not None
        """A key was given by hand: who goes on later does not find it in the configuration."""
        self.key = given or usable_key(settings.llm.api_key, "[llm] api_key (APP_LLM_API_KEY)")
        self._record = record
        self.replay = replay
        self.secrets = KnownSecrets()
        """Keys, and passwords in addresses."""
        self.secrets.add(self.key, "api_key")
        own = settings.llm.providers
        for name, each in own.items():
            self.secrets.add(usable_key(each.api_key, f"[llm.providers.{name}] api_key"), "api_key")
        for url in (
            endpoint,
            settings.llm.endpoint,
            settings.llm.fallback_endpoint,
            *(each.endpoint for each in own.values()),
        ):
            self.secrets.add_all(secrets_of_url(url or ""))
        self._choices = self._chosen(model)
        self._open: dict[object, Model] = {}

    def __iter__(self) -> Iterator[Role]:
        return iter(ROLES)

    def __len__(self) -> int:
        return len(ROLES)

    def __getitem__(self, role: Role) -> Model:
        choice = self._choices[role]
        key: object = choice if isinstance(choice, str) else id(choice)
        if self.replay is not None:
            key = self.replay
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = self._made(choice)
        return found

    async def load(self, roles: Iterable[Role]) -> None:
        """Import what the models of these roles are asked with, beside the event loop; they are opened as ever."""
        named = [choice for role in roles if isinstance(choice := self._choices[role], str)]
        if self.replay is None and any(name.partition(":")[0] != LOCAL for name in named):
            from replan.llm.providers.opening import load_library

            await load_library(endpoint=self._at_address)

    @property
    def endpoint(self) -> str | None:
        """Where models are asked, without password or key, for a process that takes a task up later."""
        base = self._base()
        return None if base is None else url_without_secrets(base)

    @property
    def endpoint_has_password(self) -> bool:
        """The address alone will not do for that process."""
        return any(True for _ in secrets_of_url(self._base() or ""))

    def named(self) -> dict[str, str]:
        """The choice of each role in words, for a process that takes a task up later."""
        return {
            role: choice if isinstance(choice, str) else choice.name for role, choice in self._choices.items()
        }

    def unnamed(self) -> tuple[str, ...]:
        """Those that only this process has, as they are objects that it was given."""
        return tuple({name.name: None for name in self._choices.values() if not isinstance(name, str)})

    def destinations(self) -> frozenset[str]:
        """Whom the key is told."""
        named = [choice for choice in self._choices.values() if isinstance(choice, str)]
        if self.replay is not None or not named:
            return frozenset()
        return destinations(
            self._base(),
            named,
            None if self._endpoint else self._settings.llm.fallback_endpoint,
            None if self._found is None else self._settings.llm.service_name,
        )

    def check_prices(self) -> None:
        """`ConfigError` for a model that nobody knows the price of: a limit in dollars would not bind it."""
        for role in self:
            model = self[role]
            if isinstance(model, Priced) and model.price() is not None:
                continue
            unknown = f"max_cost_usd is set, and the price of {model.name} ({role}) is not known: give it, in dollars for a million tokens"
            if not isinstance(named := self._choices[role], str):
                raise InputError(
                    f"{unknown}, by a method `price()` of the model: replan.ports.Price(input=…, output=…)"
                )
            raise ConfigError(
                f"{unknown}, as [llm.prices.{json.dumps(named or '*')}] with input = … and output = … in config.toml"
            )

    async def aclose(self) -> None:
        opened, self._open = list(self._open.values()), {}
        async with contextlib.AsyncExitStack() as closing:  # each, whatever becomes of the others
            for model in opened:
                closing.push_async_callback(_closed, model)

    def _chosen(self, model: ModelChoice) -> dict[Role, str | Model]:
        for each in model.values() if isinstance(model, Mapping) else () if model is None else (model,):
            if not isinstance(each, str) and not hasattr(each, "ask"):
                raise InputError(
                    "model: expected a text like 'openai:gpt-4.1' or 'local', a model object, or one of these a role, "
                    f"found {each!r:.100}"
                )
        llm = self._settings.llm
        default: str | Model = llm.default_model or ("" if self._at_address else LOCAL)
        chosen: dict[Role, str | Model] = {}
        for role in ROLES:
            own = getattr(llm, f"{role}_model")
            chosen[role] = own or default
            if isinstance(model, Mapping):
                chosen[role] = model.get(role, chosen[role])
            elif model is not None:
                chosen[role] = model
        if isinstance(model, Mapping):
            for name in model:
                if name not in ROLES:
                    raise ConfigError(f"{name!r} is no role of a model; there are: {', '.join(ROLES)}")
        return chosen

    @property
    def _at_address(self) -> bool:
        """Models are asked at an address, not at a provider's."""
        return self._found is not None or self._base() is not None

    def _base(self) -> str | None:
        return self._endpoint or self._settings.llm.endpoint

    def _made(self, choice: str | Model) -> Model:
        if self.replay is not None:
            from replan.llm.recorder import ReplayModel

            return ReplayModel(self.replay)
        made = self._opened(choice) if isinstance(choice, str) else choice
        if self._record is not None:
            from replan.llm.recorder import RecordingModel

            return RecordingModel(made, self._record)
        return made

    def _opened(self, name: str) -> Model:
        llm = self._settings.llm
        if name == LOCAL or name.startswith(f"{LOCAL}:"):
            from replan.llm.local.model import LocalModel
            from replan.llm.local.weights import DEFAULT

            return LocalModel(name.partition(":")[2] or llm.local_model or DEFAULT)
        from replan.llm.provider import open_model
        from replan.llm.several import open_several

        self.secrets.add_all(_keys_of_environment())
        options: dict[str, Any] = {
            "api_key": self.key,
            "timeout_secs": llm.timeout_secs,
            "max_retries": llm.max_retries,
            "temperature": llm.temperature,
            "top_p": llm.top_p,
            "streaming": llm.enable_streaming,
            "prices": {model: Price(**each.model_dump()) for model, each in llm.prices.items()},
            "limits": _limits(llm),
            "thinking": llm.thinking,
            "prompt_caching": llm.prompt_caching,
            "ca_file": Path(llm.ca_file).expanduser() if llm.ca_file else None,
        }
        others, options["providers"] = self._others(name), providers_of(llm)
        if self._found is not None:
            return open_several(name, self._found, others=others, **options)
        endpoint = self._base()  # it takes every name as it is, whatever the name looks like
        endpoint = model_endpoint(llm, endpoint)
        fallback = model_endpoint(llm, llm.fallback_endpoint)
        if endpoint is not None and self._endpoint is None and fallback:
            return open_several(name, [endpoint, fallback], others=others, **options)
        if others:
            return open_several(name, [endpoint], others=others, **options)
        return open_model(name, endpoint=endpoint, **options)

    def _others(self, name: str) -> list[tuple[str, str | None]]:
        """The models that stand in for this one, and the key for each: that of the configuration goes to its own provider alone."""
        here = "" if self._at_address else name.partition(":")[0]
        found: list[tuple[str, str | None]] = []
        for other in self._settings.llm.fallback_models:
            provider, colon, model = other.partition(":")
            if not colon or not model or provider == LOCAL:
                raise ConfigError(
                    f"[llm] fallback_models: {other!r} is no model of a provider; write PROVIDER:MODEL"
                )
            if other != name:
                found.append((other, self.key if provider == here else None))
        return found


def providers_of(llm: Llm) -> dict[str, Provider]:
    """The providers as they are configured."""
    from replan.llm.providers.configured import Provider

    found: dict[str, Provider] = {}
    for name, table in llm.providers.items():
        key = usable_key(table.api_key, f"[llm.providers.{name}] api_key")
        found[name] = Provider(**{**table.model_dump(), "api_key": key})
    return found


def _limits(llm: Llm) -> dict[str, Limit]:
    from replan.llm.pace import Limit

    return {
        name: Limit(each.requests_per_minute, each.tokens_per_minute) for name, each in llm.limits.items()
    }


async def _closed(model: Model) -> None:
    with contextlib.suppress(ReplanError):
        await model.aclose()


def _keys_of_environment() -> Iterator[tuple[str, str]]:
    """The keys that providers look for by themselves."""
    for name, value in os.environ.items():
        if name.endswith(("_API_KEY", "_ACCESS_KEY", "_SESSION_TOKEN")) or name == "HF_TOKEN":
            yield name, value.strip()


def driver_name(*, shared: bool) -> str:
    """Who drives, for the log: no path, and a host name only where several hosts can share the log."""
    process = f"process {os.getpid()}"
    return f"{process} on {platform.node() or 'a nameless host'}" if shared else process


def debug_log_of(settings: Settings) -> DebugLog | None:
    """What writes down what tasks do for developers, where that is wanted."""
    if not settings.debug.save_debug_log:
        return None
    from replan.projections.debug_log import DebugLog

    return DebugLog(Path(settings.debug.debug_log_file))


def traces_of(settings: Settings) -> Traces | None:
    """What exports traces of tasks, where `[tracing] otlp_endpoint` says whereto."""
    if settings.tracing.otlp_endpoint is None:
        return None
    try:
        from replan.projections.traces import traces_of
    except ImportError as error:
        raise ConfigError(
            f"[tracing] otlp_endpoint needs more packages ({error.name} is not here): pip install 'replan[tracing]'"
        ) from None
    return traces_of(settings)
