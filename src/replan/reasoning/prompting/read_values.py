"""Truth values, texts, lists of texts and names as models write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from replan.core.data.answers import meant
from replan.core.data.nothing import says_there_is_none
from replan.core.data.read_json import Unreadable, read_alone
from replan.core.data.spellings import Spellings
from replan.core.types import JsonObject


def truth(value: Any) -> bool | None:
    """A truth value, also in words, or 1 and 0; None if it is none."""
    if type(value) in (bool, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, str):
        return _TRUTHS.get(value.strip(" \t\r\n.。").lower())
    return None


_TRUTHS = {
    **dict.fromkeys(("true", "yes", "ja", "是"), True),
    **dict.fromkeys(("false", "no", "nein", "否"), False),
}


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, however it was given."""
    if value is None or value == "":
        return ()
    items = value if isinstance(value, list) else [value]
    return tuple(
        item if isinstance(item, str) else said(item) for item in items if item not in (None, "", {})
    )


def spoken(value: Any) -> tuple[str, ...]:
    """`texts` without words such as "none" or "not needed", of a field that decides by holding anything at all."""
    items = [one for one in (value if isinstance(value, list) else [value]) if not _is_none(one)]
    return tuple(item for item in texts(items) if not says_there_is_none(item))


def _is_none(item: Any) -> bool:
    """True of an object that says so in each of its fields: `{"result": "none"}`."""
    return isinstance(item, dict) and all(
        one is None or (isinstance(one, str) and says_there_is_none(one)) for one in item.values()
    )


def text(value: Any) -> str:
    """One text, however it was given."""
    return "; ".join(texts(value)).strip()


def said(item: Any) -> str:
    """A value in words."""
    if isinstance(item, dict):
        return "; ".join(f"{key}: {value}" for key, value in item.items())
    return str(item)


def fold(name: Any) -> str:
    """A name without regard to case, spaces and hyphens: `Retry with-Params` is `retry_with_params`.

    Humps count as breaks between words too: `retryWithParams`.
    """
    if not isinstance(name, str):
        return ""
    humps = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    return re.sub(r"[\W_]+", "_", humps).strip("_").casefold()


def opened(value: Any) -> Any:
    """What a text says if it is a JSON object or list and nothing else; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return read_alone(value)
        except Unreadable:
            return value
    return value


def named(
    raw: Mapping[Any, Any], fields: Mapping[str, Collection[str]], once: Collection[str] = ()
) -> JsonObject:
    """The fields by their own names, whatever they are called in the answer; others are left out.

    `fields`: own name → other names, all folded. A field under its own name goes before one under another, and a filled one
    before an empty one. `once`: those of which two values would be two meanings: `TwoMeanings`.
    """
    found = Spellings(once)
    faults: list[str] = []
    for own, names in fields.items():
        for key, value in raw.items():
            if fold(key) == own and (fault := found.take(own, str(key), value)):
                faults.append(fault)
        for key, value in raw.items():
            if fold(key) in names and fold(key) not in fields and (fault := found.take(own, str(key), value)):
                faults.append(fault)
    if faults:
        raise TwoMeanings("; ".join(f"the answer has {fault}" for fault in faults))
    return found.fields


class TwoMeanings(ValueError):
    """One field stands there under two names, with two values."""


def inside(answer: Any, fields: Mapping[str, Collection[str]], needed: str) -> JsonObject:
    """The object itself, or the one that is only wrapped: `{"reflection": {…}}`, `{"name": …, "arguments": {…}}`."""
    if not isinstance(answer, dict):
        return {}
    if needed in named(answer, {needed: fields[needed]}):
        return answer
    found = meant(answer, (needed, *fields[needed]))
    return found if isinstance(found, dict) else answer
