"""The models of pydantic-ai: by the name of a provider, or for an OpenAI-compatible address."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from replan.beside import beside
from replan.core.secrets import usable_key
from replan.errors import ConfigError, ModelUnavailable

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel


def require_library() -> None:
    try:
        import pydantic_ai.direct  # noqa: F401
    except ImportError as error:
        raise ModelUnavailable(
            f"asking models over the network needs an extra ({error.name} is missing): pip install 'replan[models]'",
            setup=True,
        ) from error


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


def of_provider(name: str, api_key: str | None) -> LibraryModel:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider, infer_provider_class

    provider, colon, model = name.partition(":")
    if not colon or not model:
        raise ConfigError(
            f"{name!r} is not a known model: write PROVIDER:MODEL, such as openai:gpt-5, "
            "or give the address of an OpenAI-compatible endpoint as well (--endpoint)"
        )

    def with_key(wanted: str) -> Any:
        made: Any = infer_provider_class(wanted)
        variable = f"{wanted.upper().replace('-', '_')}_API_KEY"
        found = os.environ.get(variable)
        # The library sends what it finds there as it is, line end and all.
        key = api_key or (usable_key(found, variable) if found and not found.isalnum() else None)
        return made(api_key=key) if key else infer_provider(wanted)

    try:
        infer_provider_class(provider)
        return infer_model(name, provider_factory=with_key)
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
        raise ConfigError(f"there is no model provider {provider!r} (in {name!r}){guess}") from error
    except (UserError, TypeError) as error:
        variables = sorted(set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*(?:KEY|TOKEN)\b", str(error))))
        needed = (
            f"set {' or '.join(variables)} in the environment, or [llm] api_key" if variables else str(error)
        )
        raise ModelUnavailable(f"model {name!r} cannot be used yet: {needed}", setup=True) from error


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
