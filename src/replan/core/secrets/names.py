"""What is secret by its name or its looks: metadata that people give, and addresses."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from replan.core.masked import MASK

_PARAMETER_NAMES = frozenset(
    [
        "password",
        "passwd",
        "passphrase",
        "apikey",
        "secretkey",
        "clientsecret",
        "accesstoken",
        "authtoken",
        "privatekey",
    ]
)
_ENDINGS = (
    "password", "passwd", "passphrase", "pwd", "secret", "apikey", "accesskey", "privatekey", "secretkey",
    "token", "credential", "credentials", "authorization", "signature", "subscriptionkey",
    "passwort", "kennwort", "contraseña", "contrasena", "motdepasse", "senha", "пароль",
    "密码", "密碼", "口令", "密钥", "密鑰", "令牌", "パスワード", "비밀번호",
)  # fmt: skip
_SHORT_NAMES = frozenset(["pw", "pass", "tk", "tok", "pin", "auth", "bearer", "cookie", "jwt"])
_OF_PAGES = re.compile(
    r"(page|pages|paging|pagination|next|prev|previous|continuation|continue|cursor|sync|resume|skip|start|starting)token$"
)
"""Tokens that say where a list goes on."""
_SESSIONS = frozenset(
    ["session", "sessionid", "sess", "sid", "cookies", "connection", "connectionid", "conn", "csrf", "xsrf"]
)
_OFTEN_NONE = re.compile(r"(pin|auth|bearer|cookie|.*credentials?)$")
"""Names of secrets, and of much else: `auth: "basic"`, `cookie: "oatmeal"`."""
_SENTENCES = frozenset(["secret", "pass"])
"""Names under which words may stand as well: `secret: "Tom is the killer"`."""
_WORDS = re.compile(r"[^\W\d_]+(([.,;:!?]* +|['’-])[^\W\d_]+)*[.,!?]*")
_SETTING_NAMES = frozenset(
    ["key", "sig", "cookie", "cookies", "auth", "keys", "apikeys", "secrets", "passwords"]
)
"""Names that mean a secret in addresses, on command lines and in configurations, and often none elsewhere."""
_PLURAL = re.compile(
    r".*(?:(?P<word>password|passwd|passphrase|pwd)|(?P<some>secret|apikey|accesskey|privatekey|secretkey|subscriptionkey"
    r"|token))s$"
)
_MANY_TOKENS = re.compile(r".*(access|api|auth|bearer|refresh|session|id)tokens$")
"""Names of many secrets; what stands under `tokens` may be a count, and under `secrets` a sentence."""
_SECRET_LOOKS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|^(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)[-_]\S{8,}$|^sk-\S*?(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{16,}\S*$|^gh[pousr]_\w{20,}$|^github_pat_\w{20,}$"
    r"|^xox[abeprs]-\S{10,}$|^(?:AKIA|ASIA)[A-Z0-9]{16}$|^AIza[\w-]{30,}$|^glpat-\S{16,}$|^rpk_[0-9a-f]{16}_[0-9a-f]{64}$"
    r"|^eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*$|^(?:Bearer|Basic) \S{8,}$"
)
"""What keys and tokens of well-known kinds look like."""
_SETTING = re.compile(r"[^\W\d][\w.-]{0,80}")
"""A name before `=`."""
_SETTING_OF_LIST = re.compile(r"[^\W\d][\w.-]{0,80}(?: [\w.-]{1,80}){0,3}")
"""`User Id`."""
_WITH_PASSWORD = re.compile(r"[A-Za-z][\w+.-]*://[^\s/:@]*:[^\s/@]+@")


def _folded(name: str) -> str:
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFC", name.casefold()))


def is_secret_parameter(name: str) -> bool:
    """True for a name of a parameter that can mean nothing but a secret."""
    return _folded(name) in _PARAMETER_NAMES


def is_secret_name(name: str) -> bool:
    """True for a name under which people keep secrets (`api_key`, `githubToken`, `pw`)."""
    folded = _folded(name)
    return (folded in _SHORT_NAMES or folded.endswith(_ENDINGS)) and _OF_PAGES.search(folded) is None


def is_headers(name: str) -> bool:
    """True for a name under which a request's headers are given (`headers`, `http_headers`)."""
    return _folded(name) in ("header", "headers", "httpheaders", "requestheaders", "extraheaders")


def is_on_behalf(name: str) -> bool:
    """True for a name under which is said on whose behalf something is done: a secret, a session (`session_id`), a connection."""
    return _folded(name) in _SESSIONS or is_secret_name(name)


def _kept_under(name: str, value: Any) -> bool:
    """True if a value under the name of a secret is one: for some names only where it is no plain word."""
    folded = _folded(name)
    if (many := _PLURAL.match(folded)) and many["some"]:
        return (
            isinstance(value, str)
            and len(value.split()) == 1
            and not _WORDS.fullmatch(value)
            and not value.isdecimal()
        )
    if folded.endswith("signature"):
        return False
    if isinstance(value, str):
        if folded in _SENTENCES:
            return len(value.split()) < 2
        if _OFTEN_NONE.match(folded):
            return _WORDS.fullmatch(value) is None
    return True


def is_plain(text: str) -> bool:
    """True for plain words and numbers of them, as they stand in a sentence."""
    return _WORDS.fullmatch(text) is not None


def is_secret_setting(name: str) -> bool:
    """The same for queries of addresses, flags of commands and keys of configurations (`?key=`, `--key`)."""
    folded = _folded(name)
    many = _PLURAL.match(folded)
    return (
        folded in _SETTING_NAMES
        or is_secret_name(name)
        or (many is not None and many["some"] != "token")
        or _MANY_TOKENS.match(folded) is not None
    )


def secret_places(value: Any, names: Iterable[str] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Where in a caller's value secrets are: under such names, at those places or names, or by what they look like."""
    yield from _places(value, (), frozenset(names), (), False)


def _places(
    value: Any, path: tuple[str, ...], names: frozenset[str], under: tuple[str, ...], secret: bool
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """`under`: the names on the way that may mean a secret; `secret`: one of them was given as one."""
    if isinstance(value, dict):
        for key, item in value.items():
            named = is_secret_name(str(key)) or _PLURAL.match(_folded(str(key)))
            within = (*under, str(key)) if named else under
            yield from _places(item, (*path, str(key)), names, within, secret or key in names)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _places(item, (*path, str(at)), names, under, secret)
    elif is_reference(value) or value is None or isinstance(value, bool):
        return
    elif (
        secret
        or ".".join(path) in names
        or any(_kept_under(name, value) for name in under)
        or looks_secret(value)
        or (isinstance(value, str) and (_WITH_PASSWORD.match(value) or any(secrets_within(value))))
    ):
        yield path, value


_LONGEST_SETTINGS = 20_000


def secrets_within(text: str) -> Iterator[tuple[str, Any]]:
    """The secrets of a text that is settings from one end to the other: an address with a query, `Server=h;Password=…`,
    `host=h password=…`, lines of an environment, a JSON object. Not of one that only quotes some."""
    if not 8 < len(text) < _LONGEST_SETTINGS or not ("=" in text or text.lstrip()[:1] in ("{", "[")):
        return
    if text.lstrip()[:1] in ("{", "["):
        try:
            found = list(secret_places(json.loads(text)))
        except (ValueError, RecursionError):
            return
        for path, secret in found:
            yield next((part for part in reversed(path) if not part.isdigit()), ""), secret
        return
    for name, value in _pairs(text.strip()):
        if is_secret_name(name) and value and _kept_under(name, value):
            yield name, value


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """The settings, if the text is nothing else."""
    if "://" in text and not any(map(str.isspace, text)):
        try:
            return parse_qsl(urlsplit(text).query)
        except ValueError:
            return ()
    if ";" in text:
        parts = [part.strip() for part in text.split(";")]
    elif "\n" in text:
        lines = map(str.strip, text.splitlines())
        parts = [line.removeprefix("export ") for line in lines if not line.startswith("#")]
    else:
        parts = text.split()
    named = [part.partition("=") for part in parts if part]
    form = _SETTING_OF_LIST if ";" in text else _SETTING
    if not all(equals and form.fullmatch(name) and value[:1] != " " for name, equals, value in named):
        return ()
    return [(name, value.strip("\"'")) for name, _, value in named]


def looks_secret(value: Any) -> bool:
    """True for what keys and tokens of well-known kinds look like."""
    return isinstance(value, str) and 8 < len(value) < 20_000 and _SECRET_LOOKS.search(value) is not None


def with_places(value: Any, given: Mapping[str, Any], path: str = "") -> Any:
    """The value with what is `given` put in, each at its place (`auth.token`)."""
    if path in given:
        return given[path]
    dot = f"{path}." if path else ""
    if isinstance(value, dict):
        return {key: with_places(item, given, f"{dot}{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [with_places(item, given, f"{dot}{at}") for at, item in enumerate(value)]
    return value


_PLAIN_HEADERS = frozenset(
    ["accept", "accept-encoding", "accept-language", "content-type", "prefer", "user-agent"]
)


def secrets_of_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The values of headers, and the tokens in them; but of those that never hold one."""
    for name, value in headers.items():
        if name.lower() not in _PLAIN_HEADERS:
            yield name, value
            scheme, blank, token = value.partition(" ")
            if blank:
                yield name, token
            if scheme.lower() == "basic":
                with contextlib.suppress(ValueError):
                    pair = base64.b64decode(token, validate=True).decode("utf-8", "replace")
                    yield name, pair
                    yield name, pair.partition(":")[2]


_IN_PATH = re.compile(r";([^;/=]+)=([^;/]*)")
WEB = frozenset(["", "http", "https", "ws", "wss", "grpc", "grpcs"])
"""Where a user without a password is a token; elsewhere it is a user."""


def secrets_of_url(url: str) -> Iterator[tuple[str, str]]:
    """What an address holds that is nobody's business: user and password together, and secret query parameters."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
    except ValueError:
        return
    if parts.password:
        yield "password", unquote(parts.password)
        yield "", f"{unquote(parts.username or '')}:{unquote(parts.password)}"
    elif parts.username and parts.scheme in WEB:  # a token by itself, as some servers want it
        yield "user", unquote(parts.username)
    for name, value in (*parse_qsl(parts.query), *_IN_PATH.findall(parts.path)):
        if is_secret_setting(name):
            yield name, unquote(value)


def url_without_secrets(url: str) -> str:
    """The address as it may be shown and kept: no user, no password, no secret query parameter."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
    except ValueError:
        return MASK
    place = parts.netloc.rpartition("@")[2]
    path = _IN_PATH.sub(
        lambda found: f";{found[1]}={MASK}" if is_secret_setting(found[1]) else found[0], parts.path
    )
    query = "&".join(
        f"{part.partition('=')[0]}={MASK}" if is_secret_setting(part.partition("=")[0]) else part
        for part in parts.query.split("&")
        if part
    )
    shown = urlunsplit((parts.scheme, place, path, query, ""))
    return shown if "://" in url else shown.removeprefix("//")


def is_reference(value: Any) -> bool:
    from replan.core.references.refs import whole  # loads JMESPath, which a tool is written without

    return isinstance(value, str) and whole(value) is not None
