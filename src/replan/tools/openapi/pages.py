"""Answers that come in pages: whether there is a next one, and where.

Known are, in this order: a `Link` header with rel=next (RFC 8288), a next URL in the answer, a token or cursor in the
answer for a parameter of the operation, `has_more` with the id of the last item, and page numbers and offsets.
Pages are followed on the same origin only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urljoin, urlsplit, urlunsplit

from replan.core.types import JsonObject
from replan.tools.openapi.documents.schemas import Schemas

_ITEMS = ("items", "data", "results", "values", "entries", "records", "list", "elements", "value")
_NEXT_URL = ("next", "next_url", "nextUrl", "next_page_url", "next_page_uri", "nextLink", "@odata.nextLink",
             "next_page")  # fmt: skip
_NEXT_HOLDS = ("href", "url", "uri", "path")
_TOKENS = {
    "next_page_token": ("page_token", "pageToken"), "nextPageToken": ("pageToken", "page_token"),
    "next_cursor": ("cursor", "after"), "nextCursor": ("cursor", "after"), "next_token": ("next_token",),
    "nextToken": ("nextToken",), "next_marker": ("marker",), "continue": ("continue",),
    "end_cursor": ("after", "cursor"), "endCursor": ("after", "cursor"), "after": ("after",),
    "next_page": ("page",), "nextPage": ("page",), "next_offset": ("offset",), "cursor": ("cursor",),
    "next": ("cursor", "page_token", "marker", "page", "offset"),
    "offset": ("offset",),
}  # fmt: skip
_ECHOED = ("offset", "cursor", "after")
_INSIDE = ("meta", "metadata", "pagination", "paging", "page_info", "pageInfo", "response_metadata", "links",
           "_links", "cursors", "next_page", "next")  # fmt: skip
_PAGE = ("page", "page_number", "pageNumber", "page_num")
_OFFSET = ("offset", "startAt", "start", "skip")
_SIZE = ("per_page", "perPage", "limit", "page_size", "pageSize", "maxResults", "size", "count")
_TOTAL = ("total", "total_count", "totalCount", "totalResults", "total_results")
_PAGES = ("total_pages", "totalPages", "page_count", "pageCount", "last_page", "num_pages")
PARAMETERS = frozenset(
    (*_PAGE, *_OFFSET, "starting_after", *(name for names in _TOKENS.values() for name in names))
)
"""Query parameters that tell that an operation has pages."""
_LINK = re.compile(r"<([^<>]*)>([^<]*)")


class Next(NamedTuple):
    """The URL of the next page, without credentials; None if this was the last one."""

    url: str | None
    by: str = ""
    """How it was found; pages after it are looked for in the same way."""
    foreign: bool = False
    """There is a next page, but on another origin."""


def output_schema(schemas: Schemas, declared: JsonObject | None) -> JsonObject:
    """What a tool gives that follows its pages."""
    each = _item_schema(schemas, declared) or {}
    items: JsonObject = {"type": "array", "items": each} if each else {"type": "array"}
    return {
        "type": "object",
        "properties": {
            "items": {**items, "description": "the items of all pages that were read, in order"},
            "pages": {"type": "integer", "description": "how many pages were read"},
            "complete": {"type": "boolean", "description": "false: there are more pages"},
        },
        "required": ["items", "pages", "complete"],
    }


def has_pages(schemas: Schemas, declared: JsonObject | None, names: Collection[str]) -> bool:
    """True if the answer is declared as a list, or has one, and a parameter says where to go on."""
    return bool(PARAMETERS & set(names)) and _item_schema(schemas, declared) is not None


def items_of(value: Any) -> list[Any] | None:
    """The list that an answer is, or has; None if there is none or several."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    lists = {name: each for name, each in value.items() if isinstance(each, list)}
    for name in _ITEMS:
        if name in lists:
            return lists[name]
    if len(lists) == 1:
        return next(iter(lists.values()))
    inside = [found for name, each in value.items() if isinstance(each, dict) and name not in _INSIDE
              for found in [items_of(each)] if found is not None]  # fmt: skip
    return inside[0] if not lists and len(inside) == 1 else None


def next_page(url: str, value: Any, headers: Mapping[str, str], names: Collection[str], by: str = "") -> Next:
    """Where the next page is. `url`: of this page; `names`: the query parameters of the operation."""
    holders = _holders(value) if isinstance(value, dict) else []
    if by in ("", "link") and (linked := _linked(headers.get("link", ""))):
        return _on_same_origin(url, linked, "link")
    if by in ("", "url") and (found := _named_url(holders)):
        return _on_same_origin(url, found, "url")
    if by in ("", "token") and (token := _token(url, holders, names)) is not None:
        return Next(_with(url, *token) if token[1] else None, "token")
    if by in ("", "count"):
        return Next(_counted(url, [holder for holder, _ in holders], items_of(value) or [], names), "count")
    return Next(None, by)


def _named_url(holders: list[tuple[JsonObject, bool]]) -> str | None:
    for holder, is_next in holders:
        for name in _NEXT_HOLDS if is_next else _NEXT_URL:
            text = holder.get(name)
            if isinstance(text, str) and text.startswith(("http://", "https://", "/", "?")):
                return text
    return None


def _token(
    url: str, holders: list[tuple[JsonObject, bool]], names: Collection[str]
) -> tuple[str, str] | None:
    """A parameter and its value; an empty value: the answer says that there is no next page."""
    query = _query_of(url)
    for holder, is_next in holders:
        for field, wanted in _TOKENS.items():
            parameter = next((name for name in wanted if name in names), None)
            token = holder.get(field)
            if parameter is None or isinstance(token, bool) or not isinstance(token, str | int):
                continue
            # What the request said may come back under the same name.
            if field in _ECHOED and not is_next and (field == "offset" or query.get(parameter) == str(token)):
                continue
            return parameter, str(token)
    return None


def _query_of(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def _counted(url: str, holders: list[JsonObject], items: list[Any], names: Collection[str]) -> str | None:
    query = _query_of(url)
    if "starting_after" in names and any("has_more" in holder for holder in holders):
        last = items[-1].get("id") if items and isinstance(items[-1], dict) else None
        more = any(holder.get("has_more") is True for holder in holders)
        return _with(url, "starting_after", str(last)) if more and last is not None else None
    if not items or any(holder.get(name) is False for holder in holders for name in ("has_more", "hasMore")):
        return None
    total, pages = _number(holders, _TOTAL), _number(holders, _PAGES)
    asked = next((size for name in _SIZE if (size := _whole(query.get(name, ""))) is not None), None)
    for name in _OFFSET:
        if name in names:
            done = (_whole(query.get(name, "")) or 0) + len(items)
            ended = done >= total if total is not None else asked is not None and len(items) < asked
            return None if ended else _with(url, name, str(done))
    for name in _PAGE:
        if name in names:
            page = _whole(query.get(name, "1"))
            page = 1 if page is None else page
            if pages is not None:
                ended = page >= pages
            else:
                ended = asked is not None and len(items) < asked
                ended = ended or (total is not None and asked is not None and page * asked >= total)
            return None if ended else _with(url, name, str(page + 1))
    return None


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _holders(value: JsonObject) -> list[tuple[JsonObject, bool]]:
    """The answer, and the objects in it that may speak of pages; True for one that stands under `next`."""
    found = [(value, False)]
    for depth in range(2):
        found += [
            (each, name in ("next", "next_page"))
            for holder, _ in found[depth:]
            for name in _INSIDE
            if isinstance(each := holder.get(name), dict) and not any(each is known for known, _ in found)
        ]
    return found


def _number(holders: list[JsonObject], names: Collection[str]) -> int | None:
    for holder in holders:
        for name in names:
            found = holder.get(name)
            if isinstance(found, int) and not isinstance(found, bool):
                return found
    return None


def _linked(header: str) -> str | None:
    for target, parameters in _LINK.findall(header):
        for rel in re.findall(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,]+))', parameters, re.IGNORECASE):
            if "next" in "".join(rel).lower().split():
                return str(target)
    return None


def _on_same_origin(url: str, target: str, by: str) -> Next:
    try:
        found = urljoin(url, target)
        same = origin(found) == origin(url)
    except ValueError:  # no URL: there is more, and nobody can say where
        same = False
    return Next(found, by) if same else Next(None, by, foreign=True)


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port (RFC 6454)."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


def _with(url: str, name: str, text: str) -> str:
    """The URL with one query parameter set; the others stay as they are written."""
    parts = urlsplit(url)
    key = quote(name, safe="")
    kept = [each for each in parts.query.split("&") if each and each.partition("=")[0] != key]
    return urlunsplit(parts._replace(query="&".join([*kept, f"{key}={quote(text, safe='')}"])))


def _item_schema(schemas: Schemas, declared: JsonObject | None) -> JsonObject | None:
    if declared is None:
        return None
    schema = schemas.resolved(declared)
    if schema.get("type") == "array":
        items = schema.get("items")
        return items if isinstance(items, dict) else {}
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    lists = {name: found for name, part in properties.items()
             if (found := schemas.resolved(part)).get("type") == "array"}  # fmt: skip
    for name in _ITEMS:
        if name in lists:
            return lists[name].get("items") or {}
    return (next(iter(lists.values())).get("items") or {}) if len(lists) == 1 else None
