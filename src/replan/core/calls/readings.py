"""What a reading says of itself: that it has failed, or is not the whole.

Then it shows nothing by what it lacks (specification §5): "no" takes a reading that had everything to look at. Only fields
of the answer around its records count; what stands in a record speaks for that record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from replan.core.data.nothing import is_nothing

_ERRORS = frozenset({"error", "errors", "fault", "exception", "errormessage", "errorcode"})
_GOOD = frozenset({"success", "successful", "succeeded", "ok", "complete", "iscomplete"})
_BAD = frozenset(
    {
        "partial", "ispartial", "truncated", "istruncated", "incomplete", "incompleteresults", "timedout", "stale",
        "hasmore", "more", "hasnext", "hasnextpage", "terminatedearly",
    }
)  # fmt: skip
_NEXT = frozenset(
    {
        "next", "nextcursor", "nextpage", "nextpagetoken", "nexttoken", "nextlink", "nexturl", "continuation",
        "continuationtoken", "warnings",
    }
)  # fmt: skip
_TOTAL = frozenset({"total", "totalcount", "totalresults", "totalitems"})
_PAGES = frozenset({"totalpages", "pagecount", "pages"})
_FAILED = frozenset({"error", "failed", "failure", "fail", "unavailable", "timeout", "partial"})
_ROOT_ONLY = frozenset({"status", "statuscode"})
MOST = 2_000
"""Fields that are looked at: what is around the records is small."""


def shortcoming(output: Any, looked_at: Collection[str] = ()) -> str:
    """The field by which a reading says that it has failed or is not the whole; empty if none does.

    `looked_at`: names that the declaration itself goes by, which say what it takes them to say.
    """
    known = {_plain(name) for name in looked_at}
    for at, (name, value, around) in enumerate(_fields(output)):
        if at >= MOST:
            return ""
        plain = _plain(name)
        if plain not in known and _speaks(plain, value, around, root=around is output):
            return name
    return ""


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace("@", "").replace(".", "").lower()


def _fields(output: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Every field outside of lists, with the object that it stands in."""
    nodes = [output]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            for name, value in node.items():
                yield str(name), value, node
                if isinstance(value, dict):
                    nodes.append(value)


def _speaks(plain: str, value: Any, around: dict[str, Any], *, root: bool) -> bool:
    if plain in _ERRORS or plain in _NEXT:
        return not is_nothing(value)
    if plain in _GOOD:
        return value is False or value == "false"
    if plain in _BAD:
        return value is True or value == "true"
    if plain == "shards" and isinstance(value, dict):
        return bool(value.get("failed"))
    if plain in _TOTAL and _is_count(value):
        listed = [one for one in around.values() if isinstance(one, list)]
        return bool(listed) and bool(value > max(map(len, listed)))
    if plain in _PAGES and _is_count(value):
        return bool(value > 1)
    if root and plain in _ROOT_ONLY:
        failed = isinstance(value, str) and value.lower() in _FAILED
        return failed or (_is_count(value) and value >= 400)
    return False


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
