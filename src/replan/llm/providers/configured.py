"""What is configured of providers of models, and which of them are asked over the wire of OpenAI-compatible endpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from replan.errors import ConfigError
from replan.llm.ladder import Mode


@dataclass(frozen=True)
class Provider:
    """One provider. None is what its environment, or its library, says."""

    kind: str | None = None
    endpoint: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_version: str | None = None
    region: str | None = None
    structured: Mode | None = None
    streaming: bool | None = None


Providers = Mapping[str, Provider]

COMPATIBLE = "openai-compatible"
"""The kind of what speaks the chat completions of OpenAI, and of which nothing else is known."""
_SERVERS = {
    "ollama": ("OLLAMA_BASE_URL", "http://127.0.0.1:11434/v1"),
    "vllm": ("VLLM_BASE_URL", "http://127.0.0.1:8000/v1"),
    "llamacpp": ("LLAMACPP_BASE_URL", "http://127.0.0.1:8080/v1"),
    "lmstudio": ("LMSTUDIO_BASE_URL", "http://127.0.0.1:1234/v1"),
    COMPATIBLE: ("OPENAI_COMPATIBLE_BASE_URL", ""),
}
"""Servers that people run themselves: the variable that says where, and where they are by default."""
_ALIKE = {"openai", "openai-chat"}
"""Providers with an address of their own, whose wire is the same at another."""


@dataclass(frozen=True)
class Asked:
    """How a model by `provider:model` is asked."""

    name: str
    """As the library knows it; of an endpoint, as that does."""
    provider: Provider
    endpoint: str | None
    """An OpenAI-compatible one; None: the provider's library asks."""
    api_key: str | None = field(repr=False)


def asked_by(name: str, providers: Providers, api_key: str | None) -> Asked:
    """The model's provider as it is configured; `api_key` is for where the table has none. `ConfigError` for one without an address."""
    own, colon, model = name.partition(":")
    table = providers.get(own) if colon else None
    kind = (table.kind if table is not None else None) or own
    if table is not None and kind not in _SERVERS and table.kind is None and not known(own):
        kind = COMPATIBLE
    provider = replace(table or Provider(), kind=kind)
    key = provider.api_key or api_key
    if not colon or not model or (kind not in _SERVERS and not (kind in _ALIKE and provider.endpoint)):
        return Asked(f"{kind}:{model}" if colon else name, provider, None, key)
    variable, usual = _SERVERS.get(kind, ("", ""))
    endpoint = provider.endpoint or os.environ.get(variable) or usual
    if not endpoint:
        raise ConfigError(f"[llm.providers.{own}] endpoint is not set: where does {model!r} answer?")
    return Asked(model, provider, endpoint, key or _key_of(kind))


def known(provider: str) -> bool:
    """Whether the library has a provider of this name."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ImportError:
        pass  # it is known, and its package is missing
    except ValueError:
        return False
    return True


def _key_of(kind: str) -> str | None:
    """A server's own variable; never another provider's."""
    return os.environ.get(f"{kind.upper().replace('-', '_')}_API_KEY") if kind in _SERVERS else None
