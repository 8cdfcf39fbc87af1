"""Values that stand for one, in place of one: `<address>`, `TODO`, `your_id`, `[your name]`, `N/A`.

A value that a schema names is none, nor is one that stands in what the task has to go by; markup is none either. In a
text of many lines or words only brackets that address their reader ("[insert date]") count: it may be a template.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from replan.core.data import schemas
from replan.core.references.refs import Reference, parse
from replan.core.types import ToolSpec

Stands = Callable[[str], bool]
"""Whether a text stands in what the task has to go by: its words, its metadata, an output."""

_SHORT = 300
"""Characters up to which a text of one line is taken for a value, not for prose or code."""
_MOST_READ = 20_000
_NOUN = (
    r"(?:address|name|mail|email|id|key|token|phone|number|city|town|street|country|zip|postcode|company|password|secret|user|"
    r"username|account|url|link|domain|date|time|value|text|amount|iban|code|recipient|sender|file|path|project|message|data|"
    r"order|customer|host|region|bucket|repo|repository|channel|title|description)"
)
_TO_READER = r"(?:your|insert|enter|fill(?: in)?|add|put|replace|change|specify|provide|todo|tbd|placeholder)"
_BRACKETED = re.compile(
    rf"\[\s*(?:{_TO_READER}\b[\w '-]{{1,60}}|[\w '-]{{1,60}}[ _-]here)\s*\](?!\()"
    rf"|<\s*(?:{_TO_READER}\b[\w '-]{{1,60}}|[\w '-]{{1,60}}[ _-]here)\s*>"
    rf"|\{{\s*(?:{_TO_READER}\b[\w '-]{{1,60}}|[\w '-]{{1,60}}[ _-]here)\s*\}}",
    re.IGNORECASE,
)
_ANGLED = re.compile(r"(?<![\w#?])(?<!include )<[A-Za-z](?:[\w -]{0,40}\w)>")
_MARKUP = re.compile(
    r"</|/>|<[!?]|<(?:p|br|hr|li|td|tr|th|em|strong|h[1-6]|ul|ol|div|span|pre|html|body|head|img|b|i|u|a)\b[^>]{0,200}>",
    re.IGNORECASE,
)
_NAMED = re.compile(rf"\[(?:[A-Za-z]+[ _])?{_NOUN}\](?!\()", re.IGNORECASE)
_MARKS = re.compile(
    rf"(?<![\w-])(?:YOUR[_-][A-Z][A-Z0-9_-]*|your_(?:[a-z]+_)*{_NOUN}|your-(?:[a-z]+-)*{_NOUN}(?![\w-])"
    r"|(?:REPLACE|CHANGE)_(?:ME|THIS|WITH_\w+)|PLACEHOLDER|[A-Z]+(?:_[A-Z]+)*_(?:PLACEHOLDER|HERE))(?!\w)"
)
_OPENS = re.compile(r"^\s*(?:TODO|TBD|FIXME)\b(?=\s*[:(\u2013\u2014-])")
_WHOLE = re.compile(
    r"<(?![^<>]*(?:://|@))[A-Za-z][^<>\n]{1,80}>|\[[A-Z][A-Z_ ]{2,60}\]|\{[a-z_ ]{3,60}\}|\*{3,}|\.{3}|\u2026|todo|tbd|fixme|x{3,}|placeholder|undefined"
    rf"|your_\w{{1,60}}|your-(?:\w+-)*{_NOUN}|\w{{1,60}}_here|\w{{1,60}}_placeholder|placeholder_\w{{1,60}}"
    r"|(?:replace|change)[ _-]?(?:me|this)|(?:please[ _])?fill[ _](?:me[ _]|this[ _])?in"
    r"|to[ _]be[ _](?:filled[ _]in|determined|defined|provided)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    rf"your (?:\w+ ){{0,2}}{_NOUN}|(?:insert|enter|put|add|your)[ _-][\w -]{{0,60}}[ _-]?here"
    r"|fill[ _]in[ _].{1,60}|(?:replace|change)[ _-]with[ _-].{1,60}",
    re.IGNORECASE,
)
_NOT_THERE = re.compile(r"n/?\.?a\.?|not (?:available|applicable|provided|specified|given)", re.IGNORECASE)
_NA = re.compile(r"na", re.IGNORECASE)
_PROSE = frozenset(
    [
        "text",
        "message",
        "body",
        "content",
        "comment",
        "comments",
        "note",
        "notes",
        "subject",
        "title",
        "description",
        "summary",
        "question",
        "prompt",
        "query",
        "caption",
        "reason",
        "memo",
        "html",
        "markdown",
    ]
)
"""Names of parameters for people to read: "Your order" may be a subject, and "N/A" a remark."""
_WORDS = frozenset(
    [
        "status",
        "state",
        "list",
        "column",
        "label",
        "tag",
        "tags",
        "type",
        "stage",
        "category",
        "kind",
        "board",
    ]
)
"""Names of parameters in which `todo` is a word like any other."""


def placeholders(tool: ToolSpec, parameters: Mapping[str, Any], stands: Stands) -> Iterator[tuple[str, str]]:
    """Each place in the parameters that holds one, and the piece of its text that is one."""
    for path, text, schema in schemas.parameter_schemas(tool.parameters, dict(parameters)):
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        needed = len(path) == 1 and name in tool.parameters.get("required", ())
        piece = _piece(_without_references(text), name.lower(), needed=needed)
        if piece and not _is_offered(text, schema) and not stands(piece):
            yield schemas.place(path), piece


def _piece(text: str, name: str, *, needed: bool) -> str:
    """What of the text is a placeholder; empty if nothing is."""
    bare = text.strip().strip("\"'`").strip()
    if not bare:
        return ""
    prose = name in _PROSE or name.rpartition("_")[2] in _PROSE
    text = text[:_MOST_READ]
    markup = _MARKUP.search(text) is not None
    if (
        not markup
        and len(bare) <= _SHORT
        and (_WHOLE.fullmatch(bare.rstrip(".:;!")) or _WHOLE.fullmatch(bare))
    ):
        return "" if bare == "todo" and name in _WORDS else bare
    if not prose and (
        _ASKS.fullmatch(bare) or (needed and _NOT_THERE.fullmatch(bare) and not _NA.fullmatch(bare))
    ):
        return bare
    if found := _BRACKETED.search(text):
        return found.group()
    if len(text) > _SHORT or "\n" in text.strip():
        return ""
    patterns = [_MARKS, _OPENS, _NAMED] if markup else [_ANGLED, _MARKS, _OPENS, _NAMED]
    found = next((one for pattern in patterns if (one := pattern.search(text))), None)
    return found.group().strip() if found else ""


def _without_references(text: str) -> str:
    """The text with its references left out: what they give is no placeholder."""
    return "".join("\u0000" if isinstance(part, Reference) else part for part in parse(text))


def _is_offered(text: str, schema: Any) -> bool:
    """True if the schema itself names the value."""
    if not isinstance(schema, dict):
        return False
    named = [schema.get("const"), schema.get("default")]
    for field in ("enum", "examples"):
        if isinstance(found := schema.get(field), list):
            named += found
    inner: Sequence[Any] = [one for field in ("anyOf", "oneOf") for one in schema.get(field) or ()]
    return text in named or any(_is_offered(text, one) for one in inner)
