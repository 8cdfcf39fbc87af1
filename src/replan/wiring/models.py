"""A model for each role."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from replan.config import Settings
from replan.config.sections import Llm
from replan.core.begun import destinations
from replan.core.limits.prices import Price
from replan.core.secrets import KnownSecrets, secrets_of_url, url_without_secrets, usable_key
from replan.core.types import Role
from replan.errors import ConfigError, InputError, ReplanError
from replan.ports import Model, Priced
from replan.wiring.addresses import model_endpoint
from replan.wiring.discovery import CONSUL_UNUSED, USE_CONSUL, Discovery, discovery_of, not_looked_for

if TYPE_CHECKING:
    from replan.llm.pace import Limit
    from replan.llm.providers.configured import Provider


ROLES: tuple[Role, ...] = get_args(Role)
LOCAL = "local"
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
        if endpoint is None and ":" not in name:
            for section, service in not_looked_for(self._settings):
                if section == "llm":
                    raise ConfigError(f"[llm] service_name: {service!r} {CONSUL_UNUSED}: {USE_CONSUL}")
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
