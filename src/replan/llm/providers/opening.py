"""The models of pydantic-ai: by the name of a provider, or for an OpenAI-compatible address."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from replan.beside import beside
from replan.core.secrets import url_without_secrets, usable_key
from replan.errors import ConfigError, ModelUnavailable
from replan.llm import address
from replan.llm.address import is_grpc, over_grpc
from replan.llm.providers.configured import Provider

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel

    from replan.llm.grpc.client import GrpcModel


def require_library() -> None:
    try:
        import pydantic_ai.direct  # noqa: F401
    except ImportError as error:
        raise ModelUnavailable(
            f"asking models over the network needs an extra ({error.name} is missing): pip install 'replan[models]'",
            setup=True,
        ) from error


def of_grpc(name: str, endpoint: str, **options: Any) -> GrpcModel:
    """The model of a service over gRPC."""
    try:
        from replan.llm.grpc.client import GrpcModel
    except ImportError as error:
        raise ModelUnavailable(
            f"asking a model service over gRPC needs an extra ({error.name} is missing): pip install 'replan[remote]'",
            setup=True,
        ) from error
    return GrpcModel(name, over_grpc(endpoint), **options)


async def served_by(endpoint: str, api_key: str | None, ca_file: Path | None = None) -> list[str]:
    """The names of the models that an endpoint serves, asked for once and in the way in which a task asks it."""
    if not is_grpc(endpoint):
        require_library()
        return await address.served_by(endpoint, api_key)
    service = of_grpc("", endpoint, api_key=api_key, ca_file=ca_file)
    try:
        return await service.listed()
    finally:
        await service.aclose()


def shown(endpoint: str) -> str:
    """The address that is asked, without passwords. `ConfigError` for what is none."""
    return over_grpc(endpoint) if is_grpc(endpoint) else url_without_secrets(address.base_url(endpoint))


async def load_library(*, endpoint: bool) -> None:
    """Import the library beside the event loop: that takes seconds for the first model of a process."""
    if _DIRECT in sys.modules and (not endpoint or _OPENAI in sys.modules):
        return

    def load() -> None:
        require_library()
        if endpoint:
            import pydantic_ai.models.openai
            import pydantic_ai.providers.openai_compatible  # noqa: F401

    with contextlib.suppress(ImportError):  # told where the model is opened
        await beside(load)


_DIRECT, _OPENAI = "pydantic_ai.direct", "pydantic_ai.providers.openai_compatible"


def of_provider(name: str, api_key: str | None, configured: Provider | None = None) -> LibraryModel:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider, infer_provider_class

    provider, colon, model = name.partition(":")
    if not colon or not model:
        raise ConfigError(
            f"{name!r} is not a known model: write PROVIDER:MODEL, such as openai:gpt-5, "
            "or give the address of an OpenAI-compatible endpoint as well (--endpoint)"
        )

    configured = configured or Provider()

    def with_key(wanted: str) -> Any:
        made: Any = infer_provider_class(wanted)
        variable = f"{wanted.upper().replace('-', '_')}_API_KEY"
        found = os.environ.get(variable)
        # The library sends what it finds there as it is, line end and all.
        key = api_key or (usable_key(found, variable) if found and not found.isalnum() else None)
        options = _options(wanted, made, configured) | ({"api_key": key} if key else {})
        return made(**options) if options else infer_provider(wanted)

    try:
        infer_provider_class(provider)
        made = infer_model(name, provider_factory=with_key)
        return _as_we_ask(made)
    except ImportError as error:
        raise ModelUnavailable(
            f"the provider {provider!r} needs a package that is missing: pip install 'pydantic-ai-slim[{provider}]'",
            setup=True,
        ) from error
    except ValueError as error:
        near = difflib.get_close_matches(provider, providers(), n=3)
        guess = (
            f"; did you mean {' or '.join(near)}?" if near else f"; some are: {', '.join(providers()[:12])}"
        )
        own = f"; for a server of your own under that name give its address: [llm.providers.{provider}] endpoint"
        raise ConfigError(f"there is no model provider {provider!r} (in {name!r}){guess}{own}") from error
    except (UserError, TypeError) as error:
        variables = sorted(set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:KEY|TOKEN)\b", str(error))))
        needed = (
            f"set {' or '.join(variables)} in the environment, or [llm] api_key"
            if variables
            else f"{str(error).rstrip('.')}{_table_of(provider)}"
        )
        raise ModelUnavailable(f"model {name!r} cannot be used yet: {needed}", setup=True) from error


_NAMES = {
    "endpoint": ("base_url", "azure_endpoint", "api_base"),
    "api_version": ("api_version",),
    "region": ("region_name", "location"),
}
"""What a table of the configuration has, and what the providers call it."""


def _table_of(name: str) -> str:
    """What of a provider may stand in its table, for whoever lacks it."""
    from pydantic_ai.providers import infer_provider_class

    made: Any = infer_provider_class(name)
    taken = inspect.signature(made.__init__).parameters
    keys = [key for key, names in _NAMES.items() if any(one in taken for one in names)]
    return f"; in config.toml: [llm.providers.{name}] {', '.join(keys)}" if keys else ""


def _options(name: str, made: Any, configured: Provider) -> dict[str, Any]:
    """What is configured, by the names that this provider has for it."""
    taken = inspect.signature(made.__init__).parameters
    options: dict[str, Any] = {}
    for key, names in _NAMES.items():
        if (value := getattr(configured, key)) is None:
            continue
        own = next((one for one in names if one in taken), None)
        if own is None:
            raise ConfigError(f"the provider {name!r} takes no {key} ([llm.providers])")
        options[own] = value
    return options


def _as_we_ask(model: LibraryModel) -> LibraryModel:
    """Schemas go out as they are, and nobody tries again below us."""
    of_openai = any(base.__module__.startswith("pydantic_ai.models.openai") for base in type(model).__mro__)
    if of_openai and "json_schema_transformer" in model.profile:
        kind: Any = type(model)
        own = {"json_schema_transformer": None, "openai_chat_streaming_requires_finish_reason": True}
        return kind(model.model_name, provider=model.provider, profile=own)  # type: ignore[no-any-return]
    if model.system == "bedrock":
        events = getattr(model, "client", None)
        if events is not None:
            events.meta.events.unregister(
                "needs-retry.bedrock-runtime", unique_id="retry-config-bedrock-runtime"
            )
    return model


def only_strict(model: LibraryModel | None) -> bool:
    """Whether its JSON schemas allow no free-form objects, which parameters of tools are: it is asked by a tool call."""
    if model is None:
        return False
    return model.system == "anthropic" or (model.system == "bedrock" and "anthropic." in model.model_name)


def takes_sampling(model: LibraryModel | None) -> bool:
    """False where the library knows a model to take no temperature, as those do that think by themselves."""
    if model is None:
        return True
    profile: Any = model.profile
    if any(profile.get(f"{one}_disallows_sampling_settings", False) for one in ("anthropic", "bedrock")):
        return False
    return not (
        profile.get("openai_supports_reasoning", False)
        and (
            profile.get("thinking_enabled_by_default", False)
            or profile.get("thinking_always_enabled", False)
            or not profile.get("openai_supports_reasoning_effort_none", False)
        )
    )


def ignored_by(model: LibraryModel | None) -> frozenset[str]:
    """Settings of which the library would warn that this model does not know them."""
    return frozenset() if model is None else frozenset(map(str, model.unsupported_settings))


_KEPT = {"anthropic": "anthropic", "bedrock": "bedrock"}


def caching(model: LibraryModel | None, *, wanted: bool) -> dict[str, bool]:
    """What tells a provider to keep the instructions, which are the same in every prompt of a kind; others keep them by themselves."""
    prefix = _KEPT.get(model.system) if model is not None and wanted else None
    if prefix is None:
        return {}
    return {f"{prefix}_cache_instructions": True, f"{prefix}_cache_tool_definitions": True}


def providers() -> list[str]:
    from typing import get_args

    from pydantic_ai.models import KnownModelName

    names: Any = getattr(KnownModelName, "__value__", KnownModelName)
    return sorted({str(known).partition(":")[0] for known in get_args(names) if ":" in str(known)})


def of_endpoint(name: str, url: str, key: str, client: Any) -> LibraryModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    profile: Any = {
        "supports_json_schema_output": True,
        "supports_tools": True,
        # Else a stream that ends early passes for a whole answer.
        "openai_chat_streaming_requires_finish_reason": True,
        # Schemas go out as they are: a rewritten free-form object is an empty one to some servers.
        "json_schema_transformer": None,
        "openai_chat_supports_max_completion_tokens": urlsplit(url).hostname == "api.openai.com",
    }
    provider = OpenAICompatibleProvider("openai-compatible", base_url=url, api_key=key, http_client=client)
    return OpenAIChatModel(name, provider=provider, profile=profile)
