"""What an operation needs to be let in, and how given credentials are put into a request.

Values are given by the names of the document's security schemes. Nothing here ever puts one into a message.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote

from replan.core.secrets import secrets_of_headers
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.tools.names import nearest
from replan.tools.openapi.documents.document import Document, Unusable
from replan.tools.openapi.documents.operations import Operation

Value = str | Mapping[str, Any]
"""A key or token; or `{username, password}`; or `{client_id, client_secret, scopes?, token_url?}`."""


class ClientCredentials(NamedTuple):
    """What a token is asked for with (RFC 6749 §4.4)."""

    scheme: str
    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...]
    more: tuple[tuple[str, str], ...] = ()
    """Further fields of the request for a token, such as `audience`."""
    in_body: bool = False
    """The client's secret goes into the form instead of a Basic header."""


@dataclass
class Credentials:
    """One way in: what goes into headers, query and cookies, and whose tokens are asked for."""

    headers: dict[str, str] = field(default_factory=dict)
    query: list[tuple[str, str]] = field(default_factory=list)
    cookies: list[tuple[str, str]] = field(default_factory=list)
    clients: tuple[ClientCredentials, ...] = ()

    def secrets(self) -> list[str]:
        """The texts that must not be shown."""
        found = [text for _, text in (*secrets_of_headers(self.headers), *self.query, *self.cookies)]
        found += [client.client_secret for client in self.clients]
        return [text for text in dict.fromkeys(found) if len(text) >= 4]


def check_names(document: Document, auth: Mapping[str, Value]) -> None:
    """`InputError` for a value whose scheme the document does not have."""
    known = _schemes(document)
    for name in auth:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            has = ", ".join(known) or "none: use headers={…}"
            raise InputError(
                f"{document.place} has no security scheme {name!r}{hint} (security schemes that it has: {has})"
            )


def credentials_of(
    document: Document,
    operation: Operation,
    auth: Mapping[str, Value],
    headers: Mapping[str, str],
    base_url: str,
    variable: Callable[[str], str] | None = None,
) -> Credentials:
    """The first way in for which everything is given, else none where that is allowed.

    Raises `Unusable`, which says what would be needed, and in which `variable` of the environment it is looked for.

    `headers`: those that are sent anyway; a scheme whose header is among them is met.
    """
    ways = operation.value.get("security", document.root.get("security"))
    if not isinstance(ways, list) or not ways:
        return Credentials()
    sent = {name.lower() for name in headers}
    missing: list[str] = []
    for way in ways:
        if not isinstance(way, dict) or not way:
            continue
        made, needed = Credentials(), []
        for name, scopes in way.items():
            if lacks := _add(made, document, name, scopes, auth, sent, base_url, variable):
                needed.append(lacks)
        if not needed:
            return made
        missing.append(" and ".join(needed))
    if {} in ways:
        return Credentials()
    raise Unusable(
        f"it needs {', or '.join(dict.fromkeys(missing)) or 'a security scheme that is not described'}"
    )


def _schemes(document: Document) -> JsonObject:
    components = document.root.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    return schemes if isinstance(schemes, dict) else {}


def _add(
    made: Credentials,
    document: Document,
    name: str,
    scopes: Any,
    auth: Mapping[str, Value],
    sent: set[str],
    base_url: str,
    variable: Callable[[str], str] | None,
) -> str | None:
    """Put one scheme's value in its place; what is lacking, in words, if it cannot be."""
    scheme = document.follow(_schemes(document).get(name)).value
    if not isinstance(scheme, dict):
        return f"the security scheme {name!r}, which the document does not have"
    kind, value = scheme.get("type"), auth.get(name)
    shown = f"{name!r} ({variable(name)} in the environment)" if variable and value is None else repr(name)
    if kind == "apiKey":
        return _add_key(made, scheme, shown, value, sent)
    if kind == "http":
        return _add_http(made, str(scheme.get("scheme", "")).lower(), shown, value, sent)
    if kind in ("oauth2", "openIdConnect"):
        if value is None:
            return (
                None
                if "authorization" in sent
                else f"the access token of {_shown_token(scheme, name, variable)}"
            )
        if isinstance(value, str):
            made.headers["Authorization"] = f"Bearer {value}"
            return None
        client = _client(scheme, name, value, scopes, base_url)
        if isinstance(client, str):
            return client
        made.clients = (*made.clients, client)
        return None
    return f"the security scheme {name!r} of type {kind!r}, which is not supported"


def _shown_token(scheme: JsonObject, name: str, variable: Callable[[str], str] | None) -> str:
    if variable is None:
        return repr(name)
    wanted = variable(name)
    if _client_flow(scheme) is not None:
        wanted += f", or {wanted}_CLIENT_ID and {wanted}_CLIENT_SECRET,"
    return f"{name!r} ({wanted} in the environment)"


def _client_flow(scheme: JsonObject) -> JsonObject | None:
    flows = scheme.get("flows")
    flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
    return flow if isinstance(flow, dict) else None


def _add_key(made: Credentials, scheme: JsonObject, shown: str, value: Any, sent: set[str]) -> str | None:
    where, key = scheme.get("in"), str(scheme.get("name", ""))
    if value is None:
        return None if where == "header" and key.lower() in sent else f"the API key {shown}"
    if not isinstance(value, str):
        return f"the API key {shown} as a text"
    if where == "header":
        made.headers[key] = value
    elif where == "query":
        made.query.append((key, value))
    elif where == "cookie":
        made.cookies.append((key, value))
    else:
        return f"the API key {shown} in {where!r}, which is not a place for one"
    return None


def _add_http(made: Credentials, scheme: str, shown: str, value: Any, sent: set[str]) -> str | None:
    if scheme not in ("basic", "bearer"):
        return f"the security scheme {shown} (HTTP {scheme}), which is not supported"
    if value is None:
        what = "user:password" if scheme == "basic" else "token"
        return None if "authorization" in sent else f"the {what} of {shown}"
    if scheme == "bearer":
        if not isinstance(value, str):
            return f"the token of {shown} as a text"
        made.headers["Authorization"] = f"Bearer {value}"
        return None
    pair = _user_and_password(value)
    if pair is None:
        return f"the user:password of {shown} as a text, or as username and password"
    made.headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return None


def _user_and_password(value: Value) -> str | None:
    if isinstance(value, str):
        return value if ":" in value else f"{value}:"
    if {"username", "password"} <= set(value):
        return f"{value['username']}:{value['password']}"
    return None


def _client(
    scheme: JsonObject, name: str, value: Mapping[str, Any], scopes: Any, base_url: str
) -> ClientCredentials | str:
    from urllib.parse import urljoin

    if not value.get("client_id") or not value.get("client_secret"):
        return f"client_id and client_secret of {name!r}"
    url = value.get("token_url") or (_client_flow(scheme) or {}).get("tokenUrl")
    if not url:
        return f"a token_url for {name!r}, as the document has no client credentials flow for it"
    wanted: Sequence[Any] = value.get("scopes") or (scopes if isinstance(scopes, list) else ())
    if isinstance(wanted, str):
        wanted = wanted.split()
    named = {"client_id", "client_secret", "token_url", "scopes", "in_body"}
    return ClientCredentials(
        scheme=name,
        token_url=urljoin(base_url, str(url)),
        client_id=str(value["client_id"]),
        client_secret=str(value["client_secret"]),
        scopes=tuple(map(str, wanted)),
        more=tuple((key, str(text)) for key, text in value.items() if key not in named),
        in_body=value.get("in_body") is True,
    )


def with_query(query: str, more: Sequence[tuple[str, str]]) -> str:
    """The encoded query with further fields."""
    added = [f"{quote(key, safe='')}={quote(text, safe='')}" for key, text in more]
    return "&".join(each for each in (query, *added) if each)
