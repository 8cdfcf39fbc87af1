"""The one place that knows how texts write a value: as it is, quoted, escaped, in an address, in a code."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import re
import unicodedata
from collections.abc import Iterator
from html.entities import codepoint2name
from itertools import product
from urllib.parse import quote, quote_plus

_SIGNIFICANT_BASE64 = 10
_LEFT_AS_IT_IS = re.compile(r"[0-9A-Za-z_.~-]*")
"""By all but who escapes every sign."""
_PERCENT = re.compile(r"%[0-9A-F]{2}")
_NO_WORD = re.compile(r"([^0-9A-Za-z_])")
_NO_LETTER = re.compile(r"([^\w]|_)")
_QUOTES_OF_HTML = {'"': ("&quot;", "&#34;", "&#x22;"), "'": ("&#x27;", "&#39;", "&#039;", "&apos;")}
"""Python, Go and Jinja, Django, PHP, XML; XML leaves them in texts."""
_QUOTED = [
    str.maketrans({"'": "''"}),  # SQL
    str.maketrans({'"': '""'}),  # CSV, names in SQL
    str.maketrans({"'": "'\"'\"'"}),  # `shlex.quote`
    str.maketrans({"'": "'\\''"}),  # shells
    str.maketrans({'"': '\\"', "\\": "\\\\", "$": "\\$", "`": "\\`"}),  # shells, in double quotes
    str.maketrans({"'": "\\'", "\\": "\\\\"}),
]
_IN_JSON = [
    str.maketrans({sign: f"\\u{ord(sign):04{form}}" for sign in signs})
    for signs, form in product(("<>&", "<>&'", "<>&'+`"), "xX")
]
"""What Go, PHP and .NET escape of the JSON that they write, so that it may stand in HTML."""


def spellings(value: str) -> set[str]:
    """The value in every way that is known."""
    if _LEFT_AS_IT_IS.fullmatch(value) is not None:
        return {value, _NO_WORD.sub(r"\\\1", value), *_coded(value)}
    alone = {value, value.strip(), " ".join(value.split())}
    if not value.isascii():
        alone |= {unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
        alone.add(value.encode("utf-8", "surrogatepass").decode("latin-1"))  # read as what it is not
    once = {form for each in alone for form in _escaped(each)}
    # In the text of an error in JSON, in a JSON text in JSON, in the `repr` of an error.
    again = {
        form for each in once if '"' in each or "\\" in each for form in (*_as_json(each), repr(each)[1:-1])
    }
    addresses = {form for each in alone for form in _in_addresses(each)}
    codes = {code for each in (value, *_as_json(value)) for code in _coded(each)}
    return {*alone, *once, *again, *addresses, *codes}


def _escaped(value: str) -> Iterator[str]:
    yield value
    for escaped in _as_json(value):
        yield escaped
        yield escaped.replace("/", "\\/")  # as PHP writes JSON
        quoted = escaped.replace('\\"', "\\u0022")
        for table in _IN_JSON:
            yield escaped.translate(table)
            yield quoted.translate(table)
    yield repr(value)[1:-1]
    yield repr(value.encode("utf-8", "surrogatepass"))[2:-1]
    yield value.encode("unicode_escape").decode()
    for table in _QUOTED:
        yield value.translate(table)
    for signs in (_NO_WORD, _NO_LETTER):
        yield signs.sub(r"\\\1", value)  # every sign by itself, as in patterns and by `printf %q`
    marked = html.escape(value, quote=False)
    for text in {value, marked}:
        for form in _with_quotes(text):
            yield form
            if not value.isascii():
                yield form.encode("ascii", "xmlcharrefreplace").decode()
    if not value.isascii():
        yield "".join(f"&{name};" if (name := codepoint2name.get(ord(sign))) else sign for sign in value)
        yield "".join(sign if sign.isascii() else f"&#x{ord(sign):x};" for sign in marked)
        yield "".join(sign if sign.isascii() else f"&#x{ord(sign):X};" for sign in marked)


def _with_quotes(text: str) -> Iterator[str]:
    """The text with its quotes as HTML and XML may write them."""
    kinds = [[sign, *forms] if sign in text else [sign] for sign, forms in _QUOTES_OF_HTML.items()]
    for double, single in product(*kinds):
        yield text.replace('"', double).replace("'", single)


def _as_json(value: str) -> tuple[str, str]:
    return json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]


def _in_addresses(value: str) -> Iterator[str]:
    written = [value.encode("utf-8", "surrogatepass")]
    if not value.isascii():
        with contextlib.suppress(UnicodeEncodeError):
            written.append(value.encode("latin-1"))
    for quoted in (form for raw in written for form in _quoted(raw)):
        yield quoted
        yield _PERCENT.sub(lambda found: found[0].lower(), quoted)
        yield quote(quoted, safe="")  # an address inside of another one


def _quoted(raw: bytes) -> Iterator[str]:
    yield quote(raw, safe="")
    yield quote(raw)
    yield quote_plus(raw)
    yield quote(raw, safe="!'()*")  # as JavaScript does


def _coded(value: str) -> Iterator[str]:
    raw = value.encode("utf-8", "surrogatepass")
    for text in (raw.hex(), raw.hex(":"), "".join([f"\\x{byte:02x}" for byte in raw])):
        yield text
        yield text.upper().replace("\\X", "\\x")
    # What comes after the value in the same group of five bytes decides the last sign too.
    yield base64.b32encode(raw).decode()[: len(raw) * 8 // 5]
    yield from _base64_cores(raw)
    # HTTP's basic authentication is written in latin-1 by many clients
    if not value.isascii():
        yield from _base64_cores(value.encode("latin-1", "replace"))


def _base64_cores(raw: bytes) -> Iterator[str]:
    """The part of any base64 text around the value that the value alone decides."""
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode()
        core = text[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
        if len(core) >= _SIGNIFICANT_BASE64:
            yield core
            if "+" in core or "/" in core:
                yield core.replace("+", "-").replace("/", "_")
