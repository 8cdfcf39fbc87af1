"""Secrets in what people say in their own words: a hint, a reason, an answer.

Only what can hardly be anything else: a key of a known kind, a password in an address, a value right behind the name of a secret that is
no plain word. A sentence about a password is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from replan.core.masked import MASK
from replan.core.secrets.names import (
    is_plain,
    is_secret_name,
    looks_secret,
    secrets_of_url,
    url_without_secrets,
)

_LONGEST = 100_000
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_SCHEME = re.compile(r"(?i)\b(?:bearer|basic)\s+([^\s\"',;]{8,})")
_URL = re.compile(r"[A-Za-z][\w+.-]{1,20}://[^\s\"'<>]+")
_WORD = re.compile(r"[^\s\"'=:,;&@/()]{9,}")
_NAMED = re.compile(
    r"(?<![\w.-])([\"']?)([^\W\d][\w.-]{1,60})[\"']?\s{0,3}([=:：]|\bis\b)\s{0,3}(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\"',;]+))"
)
_ENDS = ".!?)"


class _Span(NamedTuple):
    start: int
    end: int
    instead: str
    name: str = ""
    """That it was said under."""


def without_secrets_said(text: str) -> str:
    """The text as it may be kept."""
    return _with(text, _spans(text))


def secrets_said(value: Any) -> Iterator[tuple[str, Any]]:
    """What is taken out of a text, or of the texts in a value, each with its name: where what was said goes on as it is."""
    if isinstance(value, str):
        yield from _of_text(value)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_said(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _of_text(name)
            if isinstance(item, str) and is_secret_name(name):
                yield name, item
            else:
                yield from secrets_said(item)


def _of_text(text: str) -> Iterator[tuple[str, Any]]:
    for span in _kept_apart(_spans(text)):
        said = text[span.start : span.end]
        if span.instead == MASK:
            yield span.name, said
        elif span.instead != said:
            yield from secrets_of_url(said)


def _spans(text: str) -> list[_Span]:
    if len(text) < 8 or len(text) > _LONGEST:
        return []
    spans = [_Span(*one.span(), MASK) for one in _KEY.finditer(text)]
    spans += [
        _Span(*url.span(), _shown(url[0])) for url in _URL.finditer(text) if "@" in url[0] or "?" in url[0]
    ]
    spans += [_Span(*one.span(1), MASK) for one in _SCHEME.finditer(text) if not is_plain(one[1])]
    spans += [_Span(*one.span(), MASK) for one in _WORD.finditer(text) if looks_secret(one[0])]
    for named in _NAMED.finditer(text):
        if not is_secret_name(named[2]):
            continue
        at = next(group for group in (4, 5, 6) if named[group])
        value = named[at].rstrip(_ENDS) if at == 6 else named[at]
        start = named.start(at)
        if named[3] == "=" or (named[1] and at != 6) or _is_no_word(value):
            spans.append(_Span(start, start + len(value), MASK, named[2]))
    return spans


def _is_no_word(value: str) -> bool:
    return len(value) >= 6 and not is_plain(value) and not value.isdecimal()


def _shown(url: str) -> str:
    """The address without its password, and without secret parameters; a name alone before `@` stays."""
    shown = url_without_secrets(url)
    changed = MASK in shown or re.match(r"[^/]*//[^/@]*:[^/@]*@", url)
    return shown if changed else url


def _kept_apart(spans: list[_Span]) -> Iterator[_Span]:
    """Those of them that count, in their order: of two that overlap the first."""
    at = 0
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if span.start >= at:
            yield span
            at = span.end


def _with(text: str, spans: list[_Span]) -> str:
    parts: list[str] = []
    at = 0
    for span in _kept_apart([one for one in spans if text[one.start : one.end] != MASK]):
        parts += (text[at : span.start], span.instead)
        at = span.end
    return "".join([*parts, text[at:]]) if parts else text
