"""Files of a task: bytes that are kept apart, and stand in values by their names. Tools that take files are given them piece by piece."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar

from replan.core.pointers import referred
from replan.core.types import Artifact, JsonObject

MOST_VALUE = 64 * 2**20
"""So many bytes can be a value, as outputs that are values from the beginning can."""
TAKES_FILE = "x-replan-file"
"""Says in a parameter's schema that its tool takes files."""
STREAMED = "bin_"
"""So begin the ids of artifacts that are bytes as they came, and no JSON."""
_PREFIX = "artifact:"
_NAME = re.compile(r"artifact:((?:bin|art)_\w{8,64})", re.ASCII)


class KeptBytes(str):
    """Stands for bytes that are not in memory: their name. It goes whole to a parameter, and into no text."""

    __slots__ = ()
    kind: ClassVar[str] = "a file, which goes whole to a parameter"

    @classmethod
    def of(cls, artifact_id: str) -> KeptBytes:
        return cls(name_of(artifact_id))


def name_of(artifact_id: str) -> str:
    """How a file stands in a value."""
    return _PREFIX + artifact_id


def id_of(digest: str) -> str:
    """The artifact of a content with this SHA-256."""
    return STREAMED + digest[:32]


def artifact_named(text: str) -> str | None:
    """The artifact that a text of that form names."""
    found = _NAME.fullmatch(text) if text.startswith(_PREFIX) else None
    return found[1] if found is not None else None


def value_of(data: bytes, media_type: str) -> str:
    """Bytes as a value: text if they are that, else a `data:` URL."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def with_names(value: Any, artifact_ids: Collection[str]) -> Any:
    """The value in which the names of these artifacts are known as such."""
    names = {name_of(artifact_id) for artifact_id in artifact_ids}
    return replaced(value, {name: KeptBytes(name) for name in names})


def named(value: Any) -> Any:
    """The value with the plain names of its files; the same where there is none."""
    if isinstance(value, KeptBytes):
        return str(value)
    if isinstance(value, dict):
        made = {key: named(item) for key, item in value.items()}
        return made if any(made[key] is not value[key] for key in made) else value
    if isinstance(value, list):
        items = [named(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def with_values(value: Any, values: Mapping[str, str]) -> Any:
    """The value with what these artifacts hold in place of their names."""
    return replaced(value, {name_of(artifact_id): held for artifact_id, held in values.items()})


def misplaced(
    parameters: JsonObject, schema: JsonObject, files: Mapping[str, Artifact]
) -> dict[str, list[str]]:
    """The artifacts that stand where the tool takes no file, and so are to be values there, by parameter."""
    found: dict[str, list[str]] = {}
    for name, value in parameters.items():
        fields = schema.get("properties")
        field = fields.get(name) if isinstance(fields, dict) else None
        if strays := [one for one in _strays(value, field, schema) if one in files]:
            found[name] = strays
    return found


def too_large(
    strays: Mapping[str, list[str]], files: Mapping[str, Artifact], most: int = MOST_VALUE
) -> list[str]:
    """The parameters in which files stand that are too large, each or together, for values."""
    size = sum(files[one].size for ids in strays.values() for one in set(ids))
    return list(strays) if size > most else []


def _strays(value: Any, schema: Any, root: JsonObject) -> Iterator[str]:
    if isinstance(value, str):
        artifact_id = artifact_named(value)
        if artifact_id is not None and not _takes_file(schema, root):
            yield artifact_id
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strays(item, _below(schema, root, key), root)
    elif isinstance(value, list | tuple):
        inner = schema if _takes_file(schema, root) else _below(schema, root, None)
        for item in value:
            yield from _strays(item, inner, root)


def without_files(schema: Any) -> Any:
    """The schema of a tool of somebody else, who has not the task's files: it is given what they hold, whatever it says of them."""
    if isinstance(schema, dict):
        return {
            key: without_files(value)
            for key, value in schema.items()
            if not (key == TAKES_FILE and value is True)
        }
    return [without_files(value) for value in schema] if isinstance(schema, list) else schema


def _takes_file(schema: Any, root: JsonObject) -> bool:
    return any(one.get(TAKES_FILE) is True for one in _forms(schema, root))


def _below(schema: Any, root: JsonObject, key: str | None) -> JsonObject | None:
    """The schema of a property, or of the items."""
    for one in _forms(schema, root):
        inner = one.get("items") if key is None else (one.get("properties") or {}).get(key)
        if isinstance(inner, dict):
            return inner
    return None


def _forms(schema: Any, root: JsonObject, depth: int = 8) -> Iterator[JsonObject]:
    """The schema and those that it chooses from or refers to."""
    if not isinstance(schema, dict) or depth == 0:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str):
        yield from _forms(referred(root, reference), root, depth - 1)
    for word in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(word)
        for choice in choices if isinstance(choices, list) else ():
            yield from _forms(choice, root, depth - 1)


def replaced(value: Any, by: Mapping[str, str]) -> Any:
    """The value with other texts in place of these."""
    if isinstance(value, str):
        return by.get(value, value)
    if isinstance(value, dict):
        return {key: replaced(item, by) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replaced(item, by) for item in value]
    return value
