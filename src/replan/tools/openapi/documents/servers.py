"""Where an operation's requests go: the server of the operation, of its path, or of the document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from replan.errors import InputError
from replan.tools.openapi.documents.dialect import plain_text
from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.operations import Operation

_VARIABLE = re.compile(r"\{([^{}]+)\}")


def base_url_of(
    document: Document, operation: Operation, *, server: str | None, variables: Mapping[str, str]
) -> str:
    """The URL before the path, without a slash at its end. Raises `Unusable`.

    `server` replaces every server that the document names.
    """
    if server is not None:
        return _absolute(document, server)
    for holder in (operation.value, operation.item, document.root):
        servers = holder.get("servers")
        if isinstance(servers, list) and servers and isinstance(servers[0], dict):
            return _absolute(document, _filled(servers[0], variables))
    return _absolute(document, "/")


def check_server(server: str | None) -> None:
    """`InputError` for a server that is no URL."""
    if server is None or server.startswith("/"):
        return
    try:
        parts = urlsplit(server)
        right = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        right = False
    if not right or "@" in urlsplit(server).netloc or urlsplit(server).query:
        raise InputError(
            f"server: {server.rpartition('@')[2]!r} is not an address of a server; right is one such as https://api.example.org/v1 "
            "(credentials go into auth)"
        )


def _filled(server: Mapping[str, Any], given: Mapping[str, str]) -> str:
    known = server.get("variables")
    variables: Mapping[str, Any] = known if isinstance(known, dict) else {}

    def value(found: re.Match[str]) -> str:
        name = found[1]
        said = variables.get(name)
        allowed = said.get("enum") if isinstance(said, dict) else None
        text = given.get(name, said.get("default") if isinstance(said, dict) else None)
        if text is None:
            raise Unusable(
                f"the server has a variable {{{name}}} without a value; say it in server_variables"
            )
        said = plain_text(text)
        if isinstance(allowed, list) and allowed and said not in map(plain_text, allowed):
            options = ", ".join(map(plain_text, allowed))
            raise Unusable(f"the server variable {name!r} is {said!r}; it can be one of: {options}")
        return said

    return _VARIABLE.sub(value, plain_text(server.get("url", "/")))


def _absolute(document: Document, url: str) -> str:
    if document.url is not None:
        url = urljoin(document.url, url)
    elif url.startswith("//"):
        url = f"https:{url}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Unusable(f"the server {url[:100]!r} is not a URL") from None
    if not parts.scheme and not parts.netloc:
        raise Unusable("the document does not say on which server it is; say it: server=https://…")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unusable(f"the server {url[:100]!r} is not an http or https address")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
