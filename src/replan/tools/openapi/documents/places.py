"""Where a document comes from: a file, an address, or the caller; and reading it there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from replan.beside import beside
from replan.core.json_reader import read_in_pieces
from replan.core.words import in_digits
from replan.errors import InputError, ToolCallError
from replan.files import read_bounded
from replan.tools.openapi.documents.reading import MAX_DOCUMENT_BYTES, read_text

if TYPE_CHECKING:
    import httpx2

_GENERIC = ("openapi", "swagger", "api", "spec", "index", "document", "www", "docs", "schema")


class Place(NamedTuple):
    """Exactly one of the three."""

    path: Path | None = None
    url: str | None = None
    root: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, document: str | Path | Mapping[str, Any]) -> Place:
        """`InputError` for what is none of them."""
        if isinstance(document, Mapping):
            return cls(root=document)
        if isinstance(document, str) and re.match(r"[a-z][a-z0-9+.-]+://", document, re.IGNORECASE):
            parts = urlsplit(document)
            if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
                raise InputError(
                    f"{parts.scheme}://… is not a place of an OpenAPI document; right are a file, or an http or https URL"
                )
            return cls(url=urlunsplit(parts._replace(fragment="")))
        if isinstance(document, str | Path) and str(document):
            return cls(path=Path(document).expanduser().absolute())
        raise InputError(f"{document!r} is not an OpenAPI document; give a file, a URL, or the document")

    @property
    def folder(self) -> Path | None:
        return self.path.parent if self.path is not None else None

    @property
    def name(self) -> str:
        """A short name for the source: of the file, of the host, or the title."""
        if self.root is not None:
            info = self.root.get("info")
            words = [str(info.get("title", ""))] if isinstance(info, Mapping) else []
        elif self.path is not None:
            words = [self.path.name.split(".")[0], self.path.absolute().parent.name]
        else:
            host = urlsplit(str(self.url)).hostname or ""
            is_address = ":" in host or not host.strip("0123456789.")
            words = [] if is_address or host == "localhost" else host.split(".")
        for word in words:
            slug = re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_")[:30].strip("_")
            if slug and slug not in _GENERIC:
                return slug
        return "openapi"


def shown_place(place: Place) -> str:
    """The place without credentials."""
    if place.url is not None:
        parts = urlsplit(place.url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
    return str(place.path) if place.path is not None else "the given document"


async def read_document(
    place: Place, client: Callable[[], httpx2.AsyncClient], version: object, *, secs: float
) -> tuple[Any, object, str | None] | None:
    """The document, what tells its version, and its URL; None if it still is of that `version`.

    `secs`: within which a document has to come from a server.

    Raises `InputError`, or `ToolCallError` of kind `unavailable` if its server is not there.
    """
    import asyncio

    if place.root is not None:
        return None if version else (await beside(_copied, place.root), True, None)
    if place.path is not None:
        return await asyncio.to_thread(_read_file, place.path, version)
    return await _fetch(str(place.url), client(), version, secs)


def _copied(root: Mapping[str, Any]) -> Any:
    """The document as JSON reads it back: whoever gave it may change theirs."""
    try:
        return read_in_pieces(json.dumps(root, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the given document cannot be written as JSON: {error}") from None


def _read_file(path: Path, version: object) -> tuple[Any, object, str | None] | None:
    try:
        said = path.stat()
        found = (said.st_mtime_ns, said.st_size)
        if found == version:
            return None
        data = read_bounded(path, MAX_DOCUMENT_BYTES)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; name a file in it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    return read_text(data, str(path)), found, None


async def _fetch(
    url: str, client: httpx2.AsyncClient, version: object, secs: float
) -> tuple[Any, object, str | None] | None:
    import asyncio

    import httpx2

    from replan.tools.network.body import read_limited

    shown = shown_place(Place(url=url))
    headers = {"Accept": "application/json, application/yaml, text/yaml, */*;q=0.5", "User-Agent": "replan"}
    try:
        async with asyncio.timeout(secs):
            async with client.stream("GET", url, headers=headers, follow_redirects=True) as answer:
                status, final = answer.status_code, str(answer.url)
                data = await read_limited(answer, MAX_DOCUMENT_BYTES, shown) if status < 300 else b""
    except TimeoutError:
        raise ToolCallError(f"{shown}: no answer within {in_digits(secs)} s", kind="unavailable") from None
    except httpx2.HTTPError as error:
        said = str(error) or type(error).__name__
        raise ToolCallError(f"{shown} cannot be read: {said}", kind="unavailable") from None
    if status >= 300:
        raise ToolCallError(
            f"{shown} cannot be read: the server answers {status}", kind="unavailable", status=status
        )
    found = hash(data)
    if found == version:
        return None
    return await asyncio.to_thread(read_text, data, shown), found, final
