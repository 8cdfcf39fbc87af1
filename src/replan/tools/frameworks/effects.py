"""Which effect a tool of another framework has: what was said of it, and `once` where nothing was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from replan.core.types import Effect
from replan.errors import InputError

KEY = "replan_effect"
"""The entry of a tool's metadata, and the prefix of a tag (`replan_effect:reads`)."""
_EFFECTS: tuple[str, ...] = get_args(Effect)


def checked(value: Any, where: str) -> Effect:
    """The value as an effect; `InputError` says where it stands and what it could be."""
    for effect in _EFFECTS:
        if value == effect:
            return effect  # type: ignore[return-value]
    raise InputError(f"{where}: {value!r} is not an effect; it has to be one of {', '.join(_EFFECTS)}")


def effect_of(
    name: str,
    given: Mapping[str, str],
    *,
    metadata: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    annotations: Any = None,
) -> Effect:
    """The effect given for the tool, else the one of its metadata or tags, else of its MCP annotations, else `once`.

    `annotations`: an object or mapping with `readOnlyHint` and `idempotentHint` (MCP, "ToolAnnotations"), in either
    spelling. A name never tells: `get_token` may well make one.
    """
    if name in given:
        return checked(given[name], f"effects[{name!r}]")
    if metadata and KEY in metadata:
        return checked(metadata[KEY], f"metadata[{KEY!r}] of tool {name!r}")
    for tag in tags:
        if tag.startswith(f"{KEY}:"):
            return checked(tag.removeprefix(f"{KEY}:"), f"tag {tag!r} of tool {name!r}")
    if _hint(annotations, "readOnlyHint", "read_only_hint"):
        return "reads"
    if _hint(annotations, "idempotentHint", "idempotent_hint"):
        return "repeatable"
    return "once"


def _hint(annotations: Any, *spellings: str) -> bool:
    for spelling in spellings:
        if isinstance(annotations, Mapping):
            found = annotations.get(spelling)
        else:
            found = getattr(annotations, spelling, None)
        if found is True:
            return True
    return False
