"""Where an OpenAI-compatible endpoint is, what it serves, and which key goes to it."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from replan.core.hosts import is_loopback, url_parts
from replan.core.secrets import url_without_secrets, usable_key
from replan.errors import ConfigError, InputError, ModelUnavailable
from replan.llm.faults import AnswerTooLarge, EndpointError, unreachable, wrong_key

_VERSIONED = re.compile(r"/v\d[\w.]*(/|$)")
_OPERATION = re.compile(r"/(chat/completions|completions|responses|models)/?$")


def base_url(endpoint: str) -> str:
    """The base URL that an endpoint's address means: `http://host:port` gets `/v1`, a longer path stays."""
    text = endpoint.strip()
    if "://" not in text:
        text = f"http://{text}"
    parts = url_parts(text)
    try:
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        port_ok = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        raise ConfigError(
            f"{url_without_secrets(endpoint)!r} is no endpoint: give the base URL of an OpenAI-compatible API, "
            "such as http://127.0.0.1:8000/v1"
        )
    path = _OPERATION.sub("", parts.path).rstrip("/")
    if not path:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_grpc(endpoint: str) -> bool:
    """Whether that is the address of a model service over gRPC."""
    return endpoint.strip().lower().startswith(("grpc://", "grpcs://"))


def over_grpc(endpoint: str) -> str:
    """The address of a model service, its scheme as gRPC has it: `host:port`, `http://…` and `grpc://…` are one."""
    text = re.sub(r"^http(s?)://", r"grpc\1://", endpoint.strip(), flags=re.IGNORECASE)
    parts = url_parts(text if "://" in text else f"grpc://{text}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("grpc", "grpcs") or not parts.hostname or not port or parts.username is not None:
        raise ConfigError(
            f"{url_without_secrets(endpoint)!r} is no model service over gRPC: give grpc://host:port, or grpcs://host:port with TLS"
        )
    return f"{parts.scheme}://{parts.netloc}"


def name_at(name: str) -> str:
    """The name of a model as an endpoint knows it: without the provider that speaks the endpoint's protocol."""
    return re.sub(r"^openai(-chat)?:", "", name)


def key_for(url: str, api_key: str | None) -> str:
    """The key to send. One from the environment goes only to where it belongs; none is a word without meaning."""
    if api_key:
        return api_key
    own = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    if urlsplit(url).netloc == urlsplit(own).netloc:
        return usable_key(os.environ.get("OPENAI_API_KEY"), "OPENAI_API_KEY") or "none"
    return "none"


def looks_unversioned(url: str) -> bool:
    """Whether the path names no API version, which is the usual slip."""
    return _VERSIONED.search(urlsplit(url).path) is None


def new_client(url: str) -> Any:
    """An HTTP client for the endpoint (`httpx2.AsyncClient`); nothing on this machine is asked through a proxy."""
    import httpx2

    from replan.llm.wire import LenientTransport

    try:
        transport = LenientTransport(url)
    except InputError as error:  # the environment's proxy or certificates
        raise ModelUnavailable(str(error), setup=True) from None
    return httpx2.AsyncClient(
        transport=transport,
        trust_env=not is_loopback(urlsplit(url).hostname or ""),
        timeout=httpx2.Timeout(600.0, connect=10.0),
        follow_redirects=True,
        max_redirects=_MOST_REDIRECTS,
    )


_MOST_REDIRECTS = 3
"""An endpoint that leads on and on is none."""


async def served_by(endpoint: str, api_key: str | None) -> list[str]:
    """The names of the models that an endpoint serves, asked for once and in the way in which a task asks it."""
    url = base_url(endpoint)
    async with new_client(url) as client:
        return await served_models(client, url, key_for(url, api_key))


async def served_models(client: Any, url: str, key: str) -> list[str]:
    """The names of the models that the endpoint serves."""
    import httpx2

    shown = url_without_secrets(url)
    try:
        answer = await client.get(f"{url}/models", headers={"Authorization": f"Bearer {key}"}, timeout=10.0)
    except httpx2.TransportError as error:
        raise EndpointError(unreachable(shown, error), transient=True) from error
    except AnswerTooLarge as error:
        raise EndpointError(
            f"{shown}/models does not list its models ({error}): name the model with --model or [llm] default_model"
        ) from error
    if answer.status_code in (401, 403):
        raise EndpointError(wrong_key(shown, answer.status_code), status=answer.status_code, setup=True)
    try:
        listed = answer.json()["data"] if answer.status_code == 200 else None
        names = [str(entry["id"]) for entry in listed] if listed is not None else []
    except (ValueError, KeyError, TypeError):
        names = []
    if not names:
        slip = f" (is it {shown}/v1?)" if looks_unversioned(url) else ""
        raise EndpointError(
            f"{shown}/models did not list its models (status {answer.status_code}){slip}: "
            "name the model with --model or [llm] default_model",
            status=answer.status_code,
            transient=answer.status_code >= 500,
        )
    return names
