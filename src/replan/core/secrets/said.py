"""Secrets in what people say in their own words: a hint, a reason, an answer.

Only what can hardly be anything else: a key of a known kind, a password in an address, a value right behind the name of a secret that is
no plain word. A sentence about a password is a sentence.
"""

from __future__ import annotations

import re

from replan.core.masked import MASK
from replan.core.secrets.names import is_plain, is_secret_name, looks_secret, url_without_secrets

_LONGEST = 100_000
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_SCHEME = re.compile(r"(?i)\b(?:bearer|basic)\s+([^\s\"',;]{8,})")
_URL = re.compile(r"[A-Za-z][\w+.-]{1,20}://[^\s\"'<>]+")
_WORD = re.compile(r"[^\s\"'=:,;&@/()]{9,}")
_NAMED = re.compile(
    r"(?<![\w.-])([\"']?)([^\W\d][\w.-]{1,60})[\"']?\s{0,3}([=:：]|\bis\b)\s{0,3}(?:\"([^\"\n]+)\"|'([^'\n]+)'|([^\s\"',;]+))"
)
_ENDS = ".!?)"


def without_secrets_said(text: str) -> str:
    """The text as it may be kept."""
    if len(text) < 8 or len(text) > _LONGEST:
        return text
    spans: list[tuple[int, int, str]] = [(*one.span(), MASK) for one in _KEY.finditer(text)]
    spans += [(*url.span(), _shown(url[0])) for url in _URL.finditer(text) if "@" in url[0] or "?" in url[0]]
    spans += [(*one.span(1), MASK) for one in _SCHEME.finditer(text) if not is_plain(one[1])]
    spans += [(*one.span(), MASK) for one in _WORD.finditer(text) if looks_secret(one[0])]
    for named in _NAMED.finditer(text):
        if not is_secret_name(named[2]):
            continue
        at = next(group for group in (4, 5, 6) if named[group])
        value = named[at].rstrip(_ENDS) if at == 6 else named[at]
        start = named.start(at)
        if named[3] == "=" or (named[1] and at != 6) or _is_no_word(value):
            spans.append((start, start + len(value), MASK))
    return _with(text, spans)


def _is_no_word(value: str) -> bool:
    return len(value) >= 6 and not is_plain(value) and not value.isdecimal()


def _shown(url: str) -> str:
    """The address without its password, and without secret parameters; a name alone before `@` stays."""
    shown = url_without_secrets(url)
    changed = MASK in shown or re.match(r"[^/]*//[^/@]*:[^/@]*@", url)
    return shown if changed else url


def _with(text: str, spans: list[tuple[int, int, str]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end, instead in sorted(spans, key=lambda one: (one[0], -one[1])):
        if start >= at and text[start:end] != MASK:
            parts += (text[at:start], instead)
            at = end
    return "".join([*parts, text[at:]]) if parts else text
