"""Secrets in what people write to set things up: command lines, addresses, connection strings, headers, tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from replan.core.masked import MASK
from replan.core.secrets.names import WEB, is_secret_setting, looks_secret, secrets_of_url

_USER = re.compile(r"(?<=[\w+.-])://([^/?#\s:@]*)(?::([^/?#\s]*))?@")
_SCHEME = re.compile(r"(?<![\w+.-])[+.-]*+(\w[\w+.-]*+)$")
_LONGEST_SCHEME = 12
"""Characters before `://` that are looked at for one of `WEB`."""
_NAMED = re.compile(r"(?<![\w.-])([\w.-]++)=")
_FLAG = re.compile(r"(?<!\S)--?([A-Za-z][\w-]*)\s+(?!-)")
_HEADER = re.compile(r"(?<![\w-])([\w-]++): *+(?=[^\s/])")
_NOT_A_NAME = re.compile(r"[^A-Za-z_]*+")
"""What may stand before a name, without a blank between them."""
_LINE = re.compile(r"([^\"'\n]+)")
_VALUE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^&;\s\"']+)")
_OF_LIST = re.compile(r"([^;\"'\n]+)")
"""A value of `Server=h;Password=a b;User=u`, which goes as far as the next of them."""
_GOES_ON = re.compile(r"[^;\"'\n]{0,4000}+;\s*+[A-Za-z_][\w .-]{0,200}=")
_LOOKED_BACK = 4_000
_IN_JSON = re.compile(
    r"(?P<quote>\\{0,8}[\"'])(?P<name>[A-Za-z_][\w.-]*)(?P=quote)\s*:\s*"
    r"(?:(?P=quote)(?P<text>.*?)(?<!\\)(?P=quote)|(?P<number>[^\s,{}\[\]\\\"']+))",
    re.DOTALL,
)
"""`"name": "value"` in a text, also where the quotes are escaped."""
_WORD = re.compile(r"[^\s\"'=:,;&@/]+")
_URL = re.compile(r"(?<![\w+.-])[\w+.-]++://[^\s\"'<>]+")
_VARIABLE = re.compile(r"(?:(?i:bearer|basic|token) +)?\$\{\w+\}")
"""A text that only names where the secret is."""
_HOLDERS = re.compile(
    r"(?i)(env|headers?|.*(auth|authorization|cookie|credential|token|secret|password|passwd|pwd|passphrase|key)s?)"
)
"""Keys of tables in which nothing is shown, though not all of it need be secret."""


def text_without_secrets(text: str) -> str:
    """A command line, an address or a setting as it may be shown and kept."""
    return _marked(text, _spans(text))


def secrets_of_text(text: str) -> Iterator[tuple[str, str]]:
    """What such a text holds that nobody may see, each with the name that it stands under."""
    for start, end, name in _spans(text):
        yield name, text[start:end]
        yield name, text[start:end].rpartition(" ")[2]  # the token of `Bearer …`
    if "://" in text:
        for url in _URL.findall(text):
            yield from secrets_of_url(url.lstrip("+.-"))


def settings_without_secrets(value: Any) -> Any:
    """Settings of any depth as they may be shown."""
    return _walked(value, [], "", held=False, secret=False)


def secrets_of_settings(value: Any) -> list[tuple[str, Any]]:
    """What settings of any depth hold that nobody may see."""
    found: list[tuple[str, Any]] = []
    _walked(value, found, "", held=False, secret=False)
    return found


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Where the text holds secrets, in order, and what they are called."""
    found: list[tuple[int, int, str]] = []
    for match in _USER.finditer(text):
        if match[2] is not None:
            found.append((*match.span(2), "password"))
        elif _scheme_before(text, match.start()) in WEB:
            found.append((*match.span(1), "user"))
    for pattern, form in ((_NAMED, _VALUE), (_FLAG, _VALUE), (_HEADER, _LINE)):
        told = 0  # what stands in a value is a part of it
        for match in pattern.finditer(text):
            name = _NOT_A_NAME.sub("", match[1], count=1)
            if match.end() < told or not is_secret_setting(name):
                continue
            start = match.end(1) - len(name)
            if pattern is _NAMED and (_is_after_another(text, start) or _GOES_ON.match(text, match.end())):
                form = _OF_LIST
            value = form.match(text, match.end())
            if value is not None and value.lastindex is not None:
                found.append((*value.span(value.lastindex), name))
                told = value.end()
    found += [
        (*match.span("number" if match["text"] is None else "text"), match["name"])
        for match in _IN_JSON.finditer(text)
        if is_secret_setting(match["name"])
    ]
    found += [(*match.span(), "") for match in _WORD.finditer(text) if looks_secret(match[0])]
    if looks_secret(text):
        found.append((0, len(text), ""))
    kept: list[tuple[int, int, str]] = []
    for start, end, name in sorted(found, key=lambda span: (span[0], -span[1])):
        if start == end or _VARIABLE.fullmatch(text, start, end):
            continue
        if not kept or start >= kept[-1][1]:
            kept.append((start, end, name))
        elif end > kept[-1][1]:
            kept[-1] = (kept[-1][0], end, kept[-1][2])
    return kept


def _scheme_before(text: str, end: int) -> str:
    found = _SCHEME.search(text, max(0, end - _LONGEST_SCHEME), end)
    return found[1].lower() if found else "-"


def _is_after_another(text: str, start: int) -> bool:
    """True if what stands before is the end of another one of a list."""
    return text[max(0, start - _LOOKED_BACK) : start].rstrip()[-1:] == ";"


def _marked(text: str, spans: list[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, _ in spans:
        parts += (text[at:start], MASK)
        at = end
    return "".join([*parts, text[at:]])


def _walked(value: Any, found: list[tuple[str, Any]], name: str, *, held: bool, secret: bool) -> Any:
    """The value as it may be shown; its secrets go to `found`."""
    if isinstance(value, dict):
        return {
            key: _walked(
                item,
                found,
                str(key),
                held=held or _HOLDERS.fullmatch(str(key)) is not None,
                secret=secret or is_secret_setting(str(key)),
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [
            _walked(item, found, flag or name, held=held or bool(flag), secret=secret or bool(flag))
            for item, flag in zip(value, ["", *map(_secret_flag, value)], strict=False)
        ]
    if value is None or isinstance(value, bool):
        return value
    if held or secret:
        if isinstance(value, str) and _VARIABLE.fullmatch(value):
            return value
        found += [(name, value), (name, str(value).rpartition(" ")[2])] if secret else []
        return MASK
    if isinstance(value, str):
        if (inner := _opened(value)) is not None:
            told = _walked(inner, found, name, held=False, secret=False)
            return value if told == inner else json.dumps(told, ensure_ascii=False)
        found += secrets_of_text(value)
        return text_without_secrets(value)
    return value


def _opened(text: str) -> Any:
    """The object or list that a text is, as JSON; None if it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _secret_flag(item: Any) -> str:
    """The name of a flag such as `--token`: what comes next is the secret."""
    if not isinstance(item, str) or not item.startswith("-") or "=" in item:
        return ""
    name = item.lstrip("-")
    return name if is_secret_setting(name) else ""
