"""Values that stand for one, in place of one: `<address>`, `TODO`, `your_id`, `[your name]`, `N/A`.

A value that a schema names is none, nor is one that stands in what the task has to go by; markup is none either. What counts
is a value that is a placeholder as a whole, or put together of parts of which one is (`<street>, Rome`); within other words
only brackets that address their reader ("[insert date]") do: the rest may be code, a template, or a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from replan.core.data import schemas
from replan.core.references.refs import parse
from replan.core.secrets import MASK
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
_MARKUP = re.compile(
    r"</|/>|<[!?]|<(?:p|br|hr|li|td|tr|th|em|strong|h[1-6]|ul|ol|div|span|pre|html|body|head|img|b|i|u|a|script|input|button|form|label|select|option|textarea|table|title|meta|link|style|nav|header|footer|main|section|article|svg|iframe|video|audio|canvas|code|no subject|none|unknown|nil|null|anonymous)\b[^>]{0,200}>",
    re.IGNORECASE,
)
_PART = re.compile(
    rf"<\s*(?:[\w-]+[ _-]){{0,3}}\w+\s*>|\[\s*(?:[A-Za-z]+[ _]){{0,2}}{_NOUN}\s*\]|\{{\s*(?:[A-Za-z]+[ _]){{0,2}}{_NOUN}\s*\}}",
    re.IGNORECASE,
)
"""A placeholder in brackets, as one part of a value: `<town>`, `[street]`."""
_BETWEEN_PARTS = re.compile(r"\s*[,;]\s*|\s+-\s+")
_MOST_IN_PARTS = 120
_MARKS = re.compile(
    rf"(?<![\w-])(?:YOUR[_-][A-Z][A-Z0-9_-]*|your_(?:[a-z]+_)*{_NOUN}|your-(?:[a-z]+-)*{_NOUN}(?![\w-])"
    r"|(?:REPLACE|CHANGE)_(?:ME|THIS|WITH_\w+)|PLACEHOLDER|[A-Z]+(?:_[A-Z]+)*_(?:PLACEHOLDER|HERE))(?!\w)"
)
_OPENS = re.compile(r"^\s*(?:TODO|TBD|FIXME)\b(?=\s*[:(\u2013\u2014-])")
_WHOLE = re.compile(
    r"<(?![^<>]*(?:://|@))[A-Za-z][^<>\n]{1,80}>|(?-i:\[[A-Z][A-Z_ ]{2,60}\])|\{[a-z_ ]{3,60}\}|\*{3,}|\.{3}|\u2026|todo|tbd|fixme|x{3,}|placeholder|undefined"
    rf"|\[\s*(?:[\w-]+[ _]){{0,3}}{_NOUN}\s*\]|your_\w{{1,60}}|your-(?:\w+-)*{_NOUN}|\w{{1,60}}_here|\w{{1,60}}_placeholder|placeholder_\w{{1,60}}"
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
        "instruction",
        "instructions",
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
_FORMS = ("schema", "choices")
"""Parameters of Replan's own tools that say what may be answered: words to choose from are no values."""


_MASK_AMONG = re.compile(rf"(?<![*\w])(?:{re.escape(MASK)})(?![*\w])")
"""A mask among other words: no bold text, and no longer row of stars."""
_BESIDE_MASK = 20
"""Characters on either side by which it is told whence it is."""
_MOST_MASKS = 50


def placeholders(tool: ToolSpec, parameters: Mapping[str, Any], stands: Stands) -> Iterator[tuple[str, str]]:
    """Each place in the parameters that holds one, and the piece of its text that is one."""
    for path, text, schema in schemas.parameter_schemas(tool.parameters, dict(parameters)):
        if tool.shaped_by_call and path[0] in _FORMS:
            continue
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        needed = len(path) == 1 and name in tool.parameters.get("required", ())
        bare = _without_references(text)
        piece = _piece(bare, name.lower(), needed=needed)
        if piece and not _is_offered(text, schema) and not stands(piece):
            yield schemas.place(path), piece
        elif masked := next(masks_among(bare, stands), ""):
            yield schemas.place(path), masked


def masks_among(text: str, stands: Stands) -> Iterator[str]:
    """What stands for a secret among the other words of the text, each with some of the words beside it; nothing where the text is nothing else."""
    if MASK not in text or text.strip() == MASK:
        return
    for found in islice(_MASK_AMONG.finditer(text), _MOST_MASKS):
        piece = text[max(0, found.start() - _BESIDE_MASK) : found.end() + _BESIDE_MASK]
        if not stands(piece):
            yield piece.strip()


def no_value(piece: str) -> str:
    """What is wrong with a value that has this piece."""
    if _MASK_AMONG.search(piece) is None:
        return f"{piece[:60]!r} is a placeholder, not a value"
    return f"{piece[:60]!r}: {MASK} stands for a secret that is not shown, and is no value"


def _piece(text: str, name: str, *, needed: bool) -> str:
    """What of the text is a placeholder; empty if nothing is."""
    bare = text.strip().strip("\"'`").strip()
    if not bare:
        return ""
    prose = name in _PROSE or name.rpartition("_")[2] in _PROSE
    text = text[:_MOST_READ]
    if _MARKUP.search(text) is None and len(bare) <= _SHORT:
        whole = next((one for one in (bare.rstrip(".:;!"), bare) if _WHOLE.fullmatch(one)), "")
        if (
            whole
            and not (bare.casefold() == "todo" and name in _WORDS)
            and not (prose and whole[:1] not in "<[{*.\u2026")
        ):
            return bare
        if not prose and (
            _ASKS.fullmatch(bare) or (needed and _NOT_THERE.fullmatch(bare) and not _NA.fullmatch(bare))
        ):
            return bare
    if found := _BRACKETED.search(text):
        return found.group()
    if prose or len(text) > _SHORT or "\n" in text.strip():
        return ""
    found = _MARKS.search(text) or _OPENS.search(text)
    return found.group().strip() if found else _part(bare)


def _part(bare: str) -> str:
    """A part of the value that is a placeholder, where all that stands beside it are other parts."""
    parts = _BETWEEN_PARTS.split(bare) if len(bare) <= _MOST_IN_PARTS else []
    return next((part for part in parts if len(parts) > 1 and _PART.fullmatch(part)), "")


def _without_references(text: str) -> str:
    """The text with its references left out: what they give is no placeholder."""
    return "".join(part if isinstance(part, str) else "\u0000" for part in parse(text))


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
