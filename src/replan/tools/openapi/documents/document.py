"""An OpenAPI document, and how the references in it are followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from replan.core.pointers import LeadsNowhere, pointed
from replan.core.types import JsonObject
from replan.errors import InputError
from replan.files import read_bounded
from replan.tools.openapi.documents.reading import MAX_DOCUMENT_BYTES, read_text

_LONGEST_CHAIN = 32


class Unusable(Exception):
    """Why one operation, or a part of it, cannot be used; in words."""


class Node(NamedTuple):
    """A part of a document: what it is, the file that it stands in ("": the document itself), and its place there."""

    value: Any
    file: str = ""
    pointer: str = ""


class Document:
    """The root of an OpenAPI 3.0 or 3.1 document.

    `url`: where it came from, for relative server URLs. `folder`: of a local file; references to other files may
    lead to what is inside of it. `InputError` for what is no OpenAPI document.
    """

    def __init__(self, root: Any, *, place: str, url: str | None = None, folder: Path | None = None) -> None:
        self.place = place
        self.url = url
        self._folder = folder.resolve() if folder is not None else None
        self.dialect = _version(root, place)
        self.root: JsonObject = root
        self._files: dict[str, Any] = {"": root}

    @property
    def is_30(self) -> bool:
        return self.dialect == "3.0"

    def follow(self, value: Any, file: str = "") -> Node:
        """The value, or what its `$ref` leads to, through every further `$ref`. Raises `Unusable`."""
        node = Node(value, file)
        for _ in range(_LONGEST_CHAIN):
            if not isinstance(node.value, dict) or not isinstance(node.value.get("$ref"), str):
                return node
            node = self.target(node.value["$ref"], node.file)
        raise Unusable(f"the reference {value.get('$ref')!r} leads to itself")

    def target(self, reference: str, file: str = "") -> Node:
        """What one reference leads to. Raises `Unusable`."""
        place, _, fragment = reference.partition("#")
        if place:
            file = self._file_of(place, file, reference)
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            raise Unusable(
                f"the reference {reference!r} names an anchor; only JSON pointers (#/…) are followed"
            )
        try:
            at = pointed(self._read(file, reference), pointer)
        except LeadsNowhere as error:
            raise Unusable(f"the reference {reference!r} leads nowhere: there is no {error.key!r}") from None
        return Node(at, file, pointer)

    def _file_of(self, place: str, file: str, reference: str) -> str:
        if urlsplit(place).scheme or place.startswith("//"):
            raise Unusable(
                f"the reference {reference!r} leads to another address; bundle it into the document"
            )
        if self._folder is None:
            raise Unusable(f"the reference {reference!r} leads to another file; bundle it into the document")
        base = self._folder if not file else (self._folder / file).parent
        found = (base / unquote(place)).resolve()
        if not found.is_relative_to(self._folder):
            raise Unusable(f"the reference {reference!r} leads out of the folder of the document")
        return found.relative_to(self._folder).as_posix()

    def _read(self, file: str, reference: str) -> Any:
        if file not in self._files:
            assert self._folder is not None
            path = self._folder / file
            try:
                self._files[file] = read_text(read_bounded(path, MAX_DOCUMENT_BYTES), file)
            except OSError as error:
                reason = error.strerror or type(error).__name__
                raise Unusable(f"the reference {reference!r} cannot be read: {reason}") from None
            except InputError as error:
                raise Unusable(f"the reference {reference!r} cannot be read: {error}") from None
        return self._files[file]


def _version(root: Any, place: str) -> str:
    if not isinstance(root, dict):
        kind = {list: "a list", str: "a text", type(None): "empty"}.get(type(root), type(root).__name__)
        raise InputError(
            f'{place} is not an OpenAPI document: it is {kind}, not an object with "openapi" and "paths"'
        )
    if "swagger" in root and "openapi" not in root:
        raise InputError(
            f"{place} is a Swagger {root['swagger']} document; convert it to OpenAPI 3 first, for instance with "
            "`npx swagger2openapi FILE -o openapi.json`"
        )
    if "openapi" not in root:
        known = ", ".join(list(map(str, root))[:8]) or "nothing"
        raise InputError(
            f'{place} is not an OpenAPI document: it has no "openapi" with a version; it has: {known}'
        )
    version = str(root["openapi"])
    if not version.startswith(("3.0", "3.1")):
        raise InputError(f"{place} is of OpenAPI {version[:20]!r}; 3.0 and 3.1 can be read")
    if not isinstance(root.get("paths"), dict):
        raise InputError(f'{place} has no "paths", so that there is nothing to call')
    return version[:3]
