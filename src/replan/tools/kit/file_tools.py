"""Tools for the files under one folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import IO, Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from replan.core.references.binary import data_url
from replan.errors import ToolCallError
from replan.tools.bounds import FILE_BYTES, MOST_FILE_BYTES
from replan.tools.functions.context import current
from replan.tools.functions.decorator import tool
from replan.tools.functions.files import File
from replan.tools.kit.folders.file_writing import writing_tools
from replan.tools.kit.folders.globs import matcher
from replan.tools.kit.folders.rooted import Found, Root, kind_of
from replan.tools.kit.folders.searching import Hits, search
from replan.tools.kit.folders.text import encoding_of, media_type, read_lines
from replan.tools.kit.source import KitSource

MOST_TEXT = 1_000_000
MOST_BINARY = 20_000_000

Limit = Annotated[int, Field(ge=1, le=10_000)]


class Entry(TypedDict):
    """One file, folder or link."""

    path: str
    kind: str
    size: int
    modified: str


class Listing(TypedDict):
    entries: list[Entry]
    truncated: bool


class Paths(TypedDict):
    paths: list[str]
    truncated: bool


class Content(TypedDict):
    """A file's content: `text` with its `encoding`, `data_url` of one that is no text, or `file`: all of it, of any size."""

    path: str
    size: int
    text: NotRequired[str]
    encoding: NotRequired[str]
    first_line: NotRequired[int]
    last_line: NotRequired[int]
    total_lines: NotRequired[int | None]
    truncated: NotRequired[bool]
    data_url: NotRequired[str | File]
    file: NotRequired[File]


class Info(TypedDict):
    path: str
    kind: str
    size: int
    modified: str
    media_type: str
    hard_links: int


def files(
    root: str | os.PathLike[str] = ".",
    write: bool = False,
    *,
    name: str = "files",
    most_text_bytes: int = MOST_TEXT,
    most_binary_bytes: int = MOST_BINARY,
    most_file_bytes: int = MOST_FILE_BYTES,
) -> KitSource:
    """Files under `root`: listing, finding, searching and reading; with `write`, also changing them.

    Nothing outside of the root is reached: `..`, absolute paths elsewhere and symbolic links are refused (links are
    listed, and not followed). A hard link to a file elsewhere is that file: only who may write there can make one.
    In a task, a file of more than a megabyte that is no text, and any that is read as one, is stored as a file of the task
    (`replan.File`), up to `most_file_bytes`.
    Raises `InputError` for a root that is no folder.
    """
    folder = Root(root)

    @tool(effect="reads", timeout=60)
    def list_files(path: str = ".", limit: Limit = 1000) -> Listing:
        """List what is in a folder, by name; folders inside of it are not opened.

        Args:
            path: the folder, such as reports; "." is the top folder
            limit: how many entries at most
        """
        listed = [
            _entry(found)
            for found, _ in zip(folder.walk(path, deep=False, hidden=True), range(limit + 1), strict=False)
        ]
        return {"entries": listed[:limit], "truncated": len(listed) > limit}

    @tool(effect="reads", timeout=60)
    def find_files(pattern: str, path: str = ".", limit: Limit = 1000) -> Paths:
        """Find the files whose path fits a pattern, in a folder and all folders below it.

        Args:
            pattern: such as *.csv, or reports/*.txt, or **/2024-*.md
            path: the folder to look in
            limit: how many paths at most
        """
        fits, start = matcher(pattern), "/".join(folder.parts(path))
        hidden = "." in {part[:1] for part in pattern.split("/")}
        paths = []
        for found in folder.walk(path, hidden=hidden):
            if kind_of(found.status) == "file" and fits(found.path[len(start) :].lstrip("/")):
                paths.append(found.path)
                if len(paths) > limit:
                    break
        return {"paths": paths[:limit], "truncated": len(paths) > limit}

    @tool(effect="reads", timeout=60)
    async def search_files(
        query: Annotated[str, Field(min_length=1, max_length=1000)],
        path: str = ".",
        pattern: str = "*",
        regex: bool = False,
        ignore_case: bool = False,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> Hits:
        """Find the lines that contain a text, in all text files of a folder and below it.

        Args:
            query: the text to look for, or a regular expression if regex is true
            path: the folder to look in
            pattern: only files whose path fits, such as *.py
            regex: true if query is a regular expression
            ignore_case: true to take capital and small letters as the same
            limit: how many lines at most
        """
        return await search(folder, query, path, pattern, regex, ignore_case, limit)

    @tool(effect="reads", timeout=60)
    def file_info(path: str) -> Info:
        """Say what a path is: file or folder, its size in bytes, and when it was changed.

        Args:
            path: the file or folder
        """
        status = folder.status(path)
        entry = _entry(Found("/".join(folder.parts(path)) or ".", status))
        kind = media_type(path) if entry["kind"] == "file" else ""
        return {**entry, "media_type": kind, "hard_links": status.st_nlink}

    @tool(effect="reads", timeout=60)
    def read_file(
        path: str,
        first_line: Annotated[int, Field(ge=1)] = 1,
        last_line: Annotated[int, Field(ge=1)] | None = None,
        whole: bool = False,
    ) -> Content:
        """Read a file. Text comes as text; a picture or another binary file as a data: URL.

        Args:
            path: the file, such as notes/today.md
            first_line: the first line to read; lines count from 1
            last_line: the last line to read; nothing for all
            whole: true for all of it, of any size, as a file that other tools take
        """
        if last_line is not None and last_line < first_line:
            raise ToolCallError(
                f"last_line ({last_line}) is before first_line ({first_line})",
                kind="parameter",
                happened="no",
            )
        shown = "/".join(folder.parts(path))
        with os.fdopen(folder.open(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            encoding = encoding_of(file.read(65536))
            file.seek(0)
            as_file = whole or (encoding is None and size > FILE_BYTES and current().keeps)
            if as_file and size > most_file_bytes:
                text = f"path: {shown!r} has {size:,} bytes; at most {most_file_bytes:,} are taken"
                raise ToolCallError(text, happened="no")
            if as_file:
                own = os.fdopen(os.dup(file.fileno()), "rb")
                found = File(_pieces(own), media_type(path))
                if whole:
                    return {"path": shown, "size": size, "file": found}
                return {"path": shown, "size": size, "data_url": found}
            if encoding is None:
                if size > most_binary_bytes:
                    text = f"path: {shown!r} is not text and has {size:,} bytes; at most {most_binary_bytes:,} are read"
                    raise ToolCallError(text, happened="no")
                data = file.read(most_binary_bytes + 1)[:most_binary_bytes]
                return {"path": shown, "size": size, "data_url": data_url(data, media_type(path))}
            lines = read_lines(file, encoding, first_line, last_line, most_text_bytes)
        return {
            "path": shown,
            "size": size,
            "text": lines.text,
            "encoding": lines.encoding,
            "first_line": lines.first,
            "last_line": lines.last,
            "total_lines": lines.total,
            "truncated": lines.more,
        }

    made: list[Callable[..., Any]] = [list_files, find_files, search_files, file_info, read_file]
    return KitSource([*made, *(writing_tools(folder) if write else ())], name=name)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """What is in the file, which is closed with that."""
    with file:
        while piece := file.read(FILE_BYTES):
            yield piece


def _entry(found: Found) -> Entry:
    status = found.status
    modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    kind = kind_of(status)
    return {
        "path": found.path,
        "kind": kind,
        "size": status.st_size if kind == "file" else 0,
        "modified": modified,
    }
